"""The snippets of docs/guides/python.md, in their order, in one program."""

import contextlib
import io
import re
import unittest
import warnings
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "python.md"

try:
    import pandas
    import sklearn
except ImportError:
    sklearn = None


@unittest.skipIf(sklearn is None, "scikit-learn or pandas is not installed")
class Guide(unittest.TestCase):
    def test_snippets(self):
        snippets = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        self.assertGreaterEqual(len(snippets), 3)
        self.assertLess(len([line for line in snippets[0].splitlines() if line]), 10, "the first snippet is long")
        names, out = {}, io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for snippet in snippets:
                exec(compile(snippet, str(GUIDE), "exec"), names)
        said = re.fullmatch(r"accuracy ([0-9.]+) at ε = 3\.00\nR² (-?[0-9.]+)\n", out.getvalue())
        self.assertTrue(said, out.getvalue())
        # Of 450 test records. Runs differ by their noise, with a deviation of about 0.01 around 0.96: below 0.9 something is broken.
        self.assertGreater(float(said[1]), 0.9)
        self.assertGreater(float(said[2]), -1)


if __name__ == "__main__":
    unittest.main()
