"""What the program says of its flags and of standard input, in the words of this module."""

from __future__ import annotations

import re

_CHECK = r"… \| privgrad data verify (?:csv|npz):-"

#: What the program says, and what is said here in its place. Data at a path have the program's own words.
_WORDS = (
    (rf"check the files by `{_CHECK}[^`]*`, then begin anew with another --out", "check X and y by `verify(X, y)`, then begin anew with another run_dir"),
    (rf"to check the files first: {_CHECK}.*", "to check X and y first: verify(X, y)"),
    (r"choose another --out, or continue the run that is there by .*", 'give another run_dir, or resume="auto" with the same data'),
    (
        r"(no network is made for images of size .*)",
        r'\1. If you gave a setting such as steps, no recipe was taken: add recipe="best", or model="logistic"',
    ),
)
#: How a text on records from standard input begins.
PIPED = "-: "


def translated(text: str) -> str:
    """A text of the program, as a caller of the module understands it."""
    for pattern, said in _WORDS:
        text = re.sub(pattern, said, text)
    return rows("X: " + text[len(PIPED) :]) if text.startswith(PIPED + "column ") else text


def rows(text: str) -> str:
    """Lines of a table as rows of X, which count from 0: the first line has the names of the columns."""
    return re.sub(r"\bfirst in line (\d+)", lambda found: f"first in row {int(found[1]) - 2}", text)
