"""What the estimators promise: nothing is taken from X or y, a record is one record whatever is in it, errors have the program's words."""

import copy
import io
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import warnings
from pathlib import Path
from unittest import mock

import numpy as np

import privgrad
from privgrad import _command, _data, _estimator

try:
    import pandas
except ImportError:
    pandas = None

FAST = {"delta": 1e-6, "noise_multiplier": 0.1, "steps": 20, "batch": 50, "lr": 1.0, "progress": "off", "count_records": False, "threads": 1}


def two_sides(n=200, seed=1):
    """Records of two classes that a line parts by a wide gap."""
    r = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = r.uniform(0, 1, (n, 3))
    X[:, 0] = np.where(y == 1, X[:, 0] * 0.3 + 0.7, X[:, 0] * 0.3)
    return X, y


def csv_of(table, columns, labels=None):
    out = io.BytesIO()
    table.write(out, columns, labels)
    return out.getvalue().decode()



class TestLists(unittest.TestCase):
    """Values of a list are what they are, whatever one record holds: else a record would change all others."""

    def lines(self, X, y):
        names, columns = _data.columns_of(X)
        table = _data.Table.declared(names, len(columns), [(0, 10), None], {1: ["a", 7]})
        out = io.BytesIO()
        labels = _data.Labels([0, 1]).numbers(_data.labels_of(y, len(columns[0])))
        table.write(out, columns, ["-" if n is None else str(n) for n in labels])
        return out.getvalue().split(b"\n")

    def test_one_record(self):
        X, y = [[1, "a"], [2, 7], [3, "a"]], [0, 1, 0]
        want = self.lines(X, y)
        for record, label in ([["?", "a"], 0], [[2**53 + 1, 7.5], "?"], [[None, None], None], [[1.5, 7], 0.5]):
            got = self.lines(X[:2] + [record], y[:2] + [label])
            self.assertEqual(got[:3], want[:3], f"{record} and {label} change other records")
            self.assertEqual(len(got), len(want))

    def test_images(self):
        images = _data.Images((1, 1, 2), False, (0, 4))
        X = _data.array_of([[[1, 2]], [["?", 4]]])
        self.assertEqual(np.frombuffer(b"".join(images.blocks(X)), "<f4")[:2].tolist(), [0.25, 0.5])

    def test_form(self):
        with self.assertRaisesRegex(privgrad.UsageError, "one shape|axes"):
            _data.columns_of([[1, 2], [3]])

class Declarations(unittest.TestCase):
    def test_each_is_asked_for(self):
        X, y = two_sides(20)
        whole = {"delta": 1e-6, "public_n": 20, "classes": [0, 1], "bounds": (0, 1)}
        for name in whole:
            given = {k: v for k, v in whole.items() if k != name}
            with self.assertRaisesRegex(privgrad.UsageError, f"declared.*{name}|{name}.*declared"):
                privgrad.Classifier(epsilon=1, **given).fit(X, y)
        for name in ("target_bounds", "bounds"):
            given = {"delta": 1e-6, "public_n": 20, "target_bounds": (0, 1), "bounds": (0, 1)}
            given.pop(name)
            with self.assertRaisesRegex(privgrad.UsageError, f"declared.*{name}|{name}.*declared"):
                privgrad.Regressor(epsilon=1, **given).fit(X, y)
        with self.assertRaisesRegex(privgrad.UsageError, "bounds.*images of uint8 need none"):
            privgrad.Classifier(epsilon=1, delta=1e-6, public_n=20, classes=[0, 1]).fit(np.zeros((20, 8, 8)), y)

    def test_what_contradicts(self):
        X, y = two_sides(20)
        for message, more in {
            "3 columns": {"bounds": [(0, 1), (0, 1)]},
            "no bounds and no categories": {"bounds": {0: (0, 1)}},
            "no column 7": {"bounds": {0: (0, 1), 1: (0, 1), 2: (0, 1), 7: (0, 1)}},
            "low must be below high": {"bounds": (1, 0)},
            "pair": {"bounds": ("a", "b")},
            "two or more": {"classes": [1]},
            "each once": {"classes": [1, 1]},
            "no class is": {"classes": ["0", "1"]},
            "classes: a set has no order": {"classes": {0, 1}},
            "one text": {"classes": "01"},
            "is no list": {"classes": 2},
            "NaN equals nothing": {"classes": [0, np.nan]},
            "is no name": {"classes": [[0], [1]]},
            "bounds 5: give a pair": {"bounds": 5},
            "bounds {0, 1}: give a pair": {"bounds": {0, 1}},
            "1 has bounds and categories": {"bounds": {0: (0, 1), 1: (0, 1), 2: (0, 1)}, "categories": {1: [1, 2]}},
            "2 has bounds and categories": {"bounds": [(0, 1), (0, 1), (0, 1)], "categories": {2: [1, 2]}},
            "column x1: 'north' is one text: give a list of names": {"bounds": [(0, 1), None, (0, 1)], "categories": {1: "north"}},
            "column x2: a set": {"bounds": [(0, 1), (0, 1), None], "categories": {2: {1, 2}}},
            "several spellings": {"bounds": [(0, 1), (0, 1), None], "categories": {2: [1, []]}},
            "is no name: give texts": {"bounds": [(0, 1), (0, 1), None], "categories": {2: [1, [2, [3]]]}},
            "x2 is of numbers, and no category": {"bounds": [(0, 1), (0, 1), None], "categories": {2: list("01234")}},
            "by the names of columns": {"bounds": [(0, 1), (0, 1), None], "categories": ["north"]},
            "give the path of a new folder": {"run_dir": "/"},
            "run_dir 5": {"run_dir": 5},
            "here it is seed": {"random_state": 1},
            "target_bounds is no parameter of Classifier: give classes": {"target_bounds": (0, 1)},
            "config was given, and beta1": {"config": "a.yaml", "beta1": 0.8},
            "give numbers, texts": {"beta1": object()},
            "give run_dir": {"out": "runs/a"},
            "is for data at a path": {"schema": "s.yaml"},
        }.items():
            with self.subTest(message), self.assertRaisesRegex(privgrad.UsageError, message):
                privgrad.Classifier(**{"epsilon": 1, "delta": 1e-6, "public_n": 20, "classes": [0, 1], "bounds": (0, 1), **more}).fit(X, y)

    def test_what_a_regressor_does_not_take(self):
        X, y = two_sides(20)
        given = {"delta": 1e-6, "public_n": 20, "target_bounds": (0, 1), "bounds": (0, 1)}
        for message, x, labels, more in (
            ("classes is no parameter of Regressor: give target_bounds", X, y, {"classes": [0, 1]}),
            ("takes tables only", X.reshape(20, 3, 1), y, {}),
            ("y is of no numbers", X, np.array(["a"] * 20), {}),
            ("target_bounds 5: give a pair", X, y, {"target_bounds": 5}),
        ):
            with self.subTest(message), self.assertRaisesRegex(privgrad.UsageError, message):
                privgrad.Regressor(**{"epsilon": 1, **given, **more}).fit(x, labels)

    def test_images_have_few_classes(self):
        with self.assertRaisesRegex(privgrad.UsageError, "255 at most"):
            privgrad.Classifier(epsilon=1, delta=1e-6, public_n=20, classes=range(256)).fit(np.zeros((20, 8, 8), np.uint8), np.zeros(20))

    def test_spellings(self):
        table = _data.Table.declared(None, 1, None, {0: ["north", ["south", "s."], 7]})
        self.assertEqual(json.loads(table.schema({}))["columns"], [{"name": "x0", "categories": ["north", "south", "7"]}])
        values = np.array(["s.", "south", 7, "7", "north"], dtype=object)
        self.assertEqual(csv_of(table, [values]).split("\n")[1:-1], ["south", "south", "7", '""', "north"])

    def test_settings_without_a_flag(self):
        """Those of the module are the ones of the reference."""
        page = (Path(__file__).parents[2] / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
        keys = {key.split(".")[0] for key in re.findall(r"^\| `([a-z0-9_.]+)` \| in a file alone", page, re.MULTILINE)}
        self.assertEqual(set(_estimator._IN_FILE), keys)

    def test_folder(self):
        with mock.patch.dict(os.environ, {"HOME": "/home/of", "USERPROFILE": "/home/of"}):
            self.assertEqual(_estimator._folder("~/x"), Path("/home/of/x"))
        self.assertEqual(_estimator._folder("."), Path.cwd())
        self.assertEqual(_estimator._folder("runs/a"), Path("runs/a"))

    def test_version(self):
        self.assertRegex(privgrad.__version__, "^[0-9]")

    def test_schema_has_what_was_declared_alone(self):
        table = _data.Table.declared(["a,b", "ward"], 2, {"a,b": (0, 2)}, {"ward": ["north", "s\"outh"]})
        self.assertEqual(
            json.loads(table.schema({"classes": ["0", "1"]})),
            {
                "columns": [{"name": "a,b", "bounds": [0, 2]}, {"name": "ward", "categories": ["north", "s\"outh"]}],
                "label": {"column": "y", "classes": ["0", "1"]},
            },
        )


class Records(unittest.TestCase):
    def test_one_record_is_one_line(self):
        """Texts that would end a line, or a field, of a file reach none."""
        table = _data.Table.declared(None, 2, (0, 1), {1: ["a", ""]})
        evil = ["a", "a\n0.5,a,1", "b\r", '"', None, ["list"], "", 7]
        columns = [np.array([0.5] * len(evil)), np.array(evil, dtype=object)]
        self.assertEqual(csv_of(table, columns, ["0"] * len(evil)).split("\n"), ["x0,x1,y"] + ["0.5,a,0"] + ["0.5,-,0"] * 5 + ["0.5,,0", "0.5,-,0", ""])

    def test_no_value_raises(self):
        table = _data.Table.declared(None, 1, (0, 1), None)
        odd = np.array([1, "x\ny", None, {}, 10**400, "0.5", float("inf")], dtype=object)
        self.assertEqual(csv_of(table, [odd]).split(), ["x0", "1.0", "nan", "nan", "nan", "nan", "0.5", "inf"])

    def test_a_record_moves_no_other(self):
        X, _ = two_sides(10)
        table = _data.Table.declared(None, 3, (0, 1), None)
        whole = csv_of(table, list(X.T)).split()
        for i in range(10):
            other = X.copy()
            other[i] = [np.nan, 1e300, -1]
            got = csv_of(table, list(other.T)).split()
            self.assertEqual(got[: i + 1] + got[i + 2 :], whole[: i + 1] + whole[i + 2 :])

    def test_images(self):
        X = np.arange(2 * 5 * 6 * 3).reshape(2, 5, 6, 3)
        images = _data.Images.declared(X, (10, 100))
        self.assertEqual((images.size, images.last), ("3x5x6", True))
        out = io.BytesIO()
        images.write(out, X)
        got = np.load(io.BytesIO(out.getvalue()))
        np.testing.assert_array_equal(got, np.clip((np.moveaxis(X, -1, 1) - 10) / 90, 0, 1).astype("f4"))
        raw = X.astype(np.uint8)
        whole = _data.Images.declared(raw, None)
        out = io.BytesIO()
        whole.write_labelled(out, raw, [1, None])
        got = np.load(io.BytesIO(out.getvalue()))
        np.testing.assert_array_equal(got["x_train"], np.moveaxis(raw, -1, 1))
        np.testing.assert_array_equal(got["y_train"], [1, 255])
        with self.assertRaisesRegex(privgrad.UsageError, "not plain which axis"):
            _data.Images.declared(np.zeros((2, 3, 3, 3), np.uint8), None)


class Training(unittest.TestCase):
    def fitted(self, **more):
        X, y = two_sides()
        return privgrad.Classifier(**{**FAST, "public_n": 200, "classes": [0, 1], "bounds": (0, 1), **more}).fit(X, y), X, y

    def test_learns_and_sorts_classes(self):
        """Classes of any type, declared in any order, are sorted as scikit-learn takes them to be. The gap is wide and the noise small: a line that is wrong for
        one record in ten would be a fault."""
        X, y = two_sides()
        for classes in ([0, 1], [1, 0], ["yes", "no"], [True, False], [2.0, 1.0]):
            with self.subTest(classes=classes):
                truth = np.array(sorted(classes))[y]
                m = privgrad.Classifier(**FAST, public_n=200, classes=classes, bounds=(0, 1)).fit(X, truth)
                np.testing.assert_array_equal(m.classes_, np.unique(truth))
                self.assertGreater(m.score(X, truth), 0.9)
                p = m.predict_proba(X)
                np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-9)
                np.testing.assert_array_equal(m.classes_[p.argmax(axis=1)], m.predict(X))
                self.assertEqual(m.predict(X).dtype, truth.dtype)
                self.assertGreater(p[truth == m.classes_[1], 1].mean(), 0.55, "the columns are not those of classes_")

    def test_result_and_run(self):
        with tempfile.TemporaryDirectory() as dir:
            run = Path(dir) / "runs" / "a"
            m, X, y = self.fitted(run_dir=run)
            self.assertEqual(m.result_, json.loads((run / "result.json").read_text()))
            self.assertEqual((m.result_["steps"], m.result_["public_n"], m.result_["dataset"]), (20, 200, "csv:-"))
            self.assertEqual(Path(m.run_dir_), run)
            self.assertEqual(m.n_features_in_, 3)
            with self.assertRaisesRegex(privgrad.UsageError, 'is not empty: give another run_dir, or resume="auto" with the same data$'):
                m.fit(X, y)
            again = privgrad.Classifier(**{**m.get_params(), "resume": "auto"}).fit(X, y)
            self.assertEqual(again.result_["epsilon"], m.result_["epsilon"])

    def test_temporary_run_goes_away(self):
        m, X, _ = self.fitted()
        run, predicted = m.run_dir_, m.predict_proba(X)
        copies = [copy.deepcopy(m), pickle.loads(pickle.dumps(m))]
        del m
        self.assertFalse(os.path.exists(run), "the run of an estimator that is gone is there")
        for other in copies:
            np.testing.assert_array_equal(other.predict_proba(X), predicted)

    def test_a_run_that_is_gone(self):
        with tempfile.TemporaryDirectory() as dir:
            m, _, _ = self.fitted(run_dir=Path(dir) / "a")
        with self.assertRaisesRegex(privgrad.UsageError, "put it back"):
            pickle.dumps(m)

    def test_class_weights(self):
        """A setting that has no flag is a keyword. It leaves the recipe alone, as other keywords do that are none of its settings."""
        X, y = two_sides()
        given = {"epsilon": 5, "delta": 1e-6, "public_n": 200, "classes": [0, 1], "bounds": (0, 1), "progress": "off"}
        plain = privgrad.Classifier(**given).fit(X, y)
        with tempfile.TemporaryDirectory() as dir:
            m = privgrad.Classifier(**given, class_weights=np.array([1, 3]), run_dir=Path(dir) / "a").fit(X, y)
            self.assertRegex((Path(m.run_dir_) / "config.yaml").read_text(), r"class_weights: \[1.0, 3.0\]")
            self.assertIn("class_weights_are_public", m.result_["assumptions"])
            self.assertEqual(m.result_["steps"], plain.result_["steps"], "no recipe was taken")

    def test_verify(self):
        """The owner sees what training is silent of, by rows of X."""
        X, y = two_sides(20)
        y[7:] = 5
        X[4, 1] = np.nan
        m = privgrad.Classifier(classes=[0, 1], bounds=(0, 1))
        said = m.verify(X, y)
        self.assertRegex(said, "column x1, values that are missing: 1, first in row 4\n")
        self.assertRegex(said, "no class: 13, first in row 7 ")
        self.assertIn("most labels are none", said, "a verdict that is bad is said, too")
        zero = r"count as zero +13 "
        self.assertRegex(privgrad.Classifier(classes=[0, 1]).verify(np.zeros((20, 8, 8), np.uint8), y), zero)
        with self.assertRaisesRegex(privgrad.UsageError, "y is None"):
            m.verify(X)
        with tempfile.TemporaryDirectory() as dir:
            path = os.path.join(dir, "a.npz")
            np.savez(path, x_train=np.zeros((20, 8, 8), np.uint8), y_train=y)
            self.assertRegex(privgrad.Classifier(classes=["a", "b"], image_size="8x8").verify(path), zero)
            with self.assertRaisesRegex(privgrad.UsageError, "leave out y"):
                m.verify(path, y)
            with self.assertRaisesRegex(privgrad.UsageError, "none.npz"):
                m.verify(os.path.join(dir, "none.npz"))

    def test_data_are_in_no_file(self):
        """A value that stands nowhere else is in no file of the run."""
        X, y = two_sides()
        X[:, 1] = 0.123456789012345
        m = privgrad.Classifier(**FAST, public_n=200, classes=[0, 1], bounds=(0, 1)).fit(X, y)
        for path in Path(m.run_dir_).parent.rglob("*"):
            if path.is_file():
                self.assertNotIn(b"0.1234567890", path.read_bytes(), path)

    def test_out_of_bounds_is_the_bound(self):
        m, X, _ = self.fitted()
        beyond = X.copy()
        beyond[:, 1] = 7
        at = X.copy()
        at[:, 1] = 1
        np.testing.assert_array_equal(m.predict_proba(beyond), m.predict_proba(at))

    def test_missing_values_warn_in_predict_alone(self):
        X, y = two_sides()
        X[3, 1] = np.nan
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            m = privgrad.Classifier(**FAST, public_n=200, classes=[0, 1], bounds=(0, 1)).fit(X, y)
        self.assertFalse([w for w in said if "value" in str(w.message)])
        self.assertEqual({w.filename for w in said}, {__file__}, "a warning points into the module")
        X[4:6, 2] = np.nan
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            m.predict(X)
        self.assertEqual(len(said), 1, "a call warns once")
        self.assertRegex(
            str(said[0].message), '^X: column "x1": 1 of 200 values is missing, first in row 3; .*\nX: column "x2": 2 of 200 values are missing, first in row 4; '
        )

    def test_regression(self):
        X, _ = two_sides()
        y = 10 + 80 * X[:, 0]
        m = privgrad.Regressor(delta=1e-6, public_n=200, target_bounds=(0, 100), bounds=(0, 1), epsilon=1000, progress="off", count_records=False).fit(X, y)
        self.assertGreater(m.score(X, y), 0.9, "of a line, at hardly any noise")
        self.assertTrue(-50 < m.predict(X).min() and m.predict(X).max() < 150, "not in the units of y")

    @unittest.skipIf(pandas is None, "pandas is not installed")
    def test_frames(self):
        X, y = two_sides()
        frame = pandas.DataFrame({"age": X[:, 0] * 100, "ward": np.where(y == 1, "north", "east"), "dose": X[:, 2]})
        m = privgrad.Classifier(**FAST, public_n=200, classes=["no", "yes"], bounds={"age": (0, 100), "dose": (0, 1)}, categories={"ward": ["north", "east", "south"]})
        m.fit(frame, pandas.Series(np.where(y == 1, "yes", "no")))
        self.assertEqual(m.feature_names_in_.tolist(), ["age", "ward", "dose"])
        self.assertGreater(m.score(frame, np.where(y == 1, "yes", "no")), 0.9)
        np.testing.assert_array_equal(m.predict_proba(frame[["dose", "age", "ward"]]), m.predict_proba(frame))
        with self.assertRaisesRegex(privgrad.UsageError, "feature names should match"):
            m.predict(frame[["dose", "age"]])

    def test_bytes_and_paths(self):
        r = np.random.default_rng(1)
        y = np.arange(60) % 2
        X = (r.integers(0, 40, (60, 8, 8)) + 200 * y[:, None, None]).astype(np.uint8)
        flags = {**FAST, "model": "logistic", "public_n": 60, "classes": ["dark", "light"]}
        m = privgrad.Classifier(**flags).fit(X, np.array(["dark", "light"])[y])
        self.assertGreater(m.score(X, np.array(["dark", "light"])[y]), 0.9)
        with self.assertRaisesRegex(privgrad.UsageError, "were trained on"):
            m.predict(X[:, :7])
        with self.assertRaisesRegex(privgrad.UsageError, "uint8 were trained on"):
            m.predict(X.astype(float))
        with tempfile.TemporaryDirectory() as dir:
            np.savez(os.path.join(dir, "a.npz"), x_train=X, y_train=y)
            np.save(os.path.join(dir, "b.npy"), X)
            other = privgrad.Classifier(**flags, image_size="8x8").fit(os.path.join(dir, "a.npz"))
            np.testing.assert_array_equal(other.predict(Path(dir) / "b.npy"), other.classes_[y])
            with self.assertRaisesRegex(privgrad.UsageError, "trained on a path"):
                other.predict(X)
            with self.assertRaisesRegex(privgrad.UsageError, "leave out y"):
                other.fit(os.path.join(dir, "a.npz"), y)


class TheProgramsWords(unittest.TestCase):
    def refused(self, **more):
        X, y = two_sides(50)
        return privgrad.Classifier(**{"epsilon": 1, "delta": 1e-6, "public_n": 50, "classes": [0, 1], "bounds": (0, 1), "progress": "off", **more}).fit(X, y)

    def test_usage(self):
        with self.assertRaisesRegex(ValueError, "unknown flag: --stepz") as caught:
            self.refused(stepz=4)
        self.assertEqual(caught.exception.exit_code, 2)
        with self.assertRaisesRegex(privgrad.UsageError, "no privacy budget given"):
            self.refused(epsilon=None)

    def test_budget(self):
        with self.assertRaisesRegex(privgrad.BudgetError, "out of reach") as caught:
            self.refused(epsilon=1e-13, public_n=2000)  # less than the noisy count costs
        self.assertEqual(caught.exception.exit_code, 3)

    def test_count(self):
        """Records of no class are far too few by the noisy count, which stops the run. Its noise has a deviation of about
        5% of public_n, and 0 of 2000 stands five deviations below a quarter: it passes once in a million runs."""
        X, y = two_sides(2000)
        with self.assertRaisesRegex(privgrad.Error, r"usable.*check X and y by `verify\(X, y\)`, then begin anew with another run_dir"):
            privgrad.Classifier(epsilon=1, delta=1e-6, public_n=2000, classes=[5, 6], bounds=(0, 1), progress="off").fit(X, y)

    def test_images_without_a_recipe(self):
        with self.assertRaisesRegex(privgrad.UsageError, 'no network is made .*add recipe="best", or model="logistic"$'):
            privgrad.Classifier(epsilon=1, delta=1e-6, public_n=20, classes=[0, 1], steps=5).fit(np.zeros((20, 8, 8), np.uint8), np.arange(20) % 2)

    def test_not_fitted(self):
        with self.assertRaisesRegex(privgrad.NotFittedError, "fit"):
            privgrad.Classifier().predict([[1]])

    def test_missing_program(self):
        old = os.environ.get(_command.VARIABLE)
        os.environ[_command.VARIABLE] = "/nowhere/privgrad"
        try:
            with self.assertRaisesRegex(privgrad.UsageError, "no such program"):
                self.refused()
        finally:
            os.environ.pop(_command.VARIABLE)
            if old is not None:
                os.environ[_command.VARIABLE] = old

    def test_flags(self):
        for value, want in {None: [], True: ["--a-b=true"], False: ["--a-b=false"], 1e-5: ["--a-b=1e-05"], "x": ["--a-b=x"]}.items():
            self.assertEqual(_command.flag("a_b", value), want)
        self.assertEqual(_command.flag("a", ["flip", "crop"]), ["--a=flip,crop"])
        self.assertEqual(_command.flag("init", Path("m.safetensors")), ["--init=m.safetensors"])

    def test_parameters(self):
        m = privgrad.Classifier(epsilon=1, steps=3)
        self.assertEqual(m.get_params()["steps"], 3)
        m.set_params(steps=4, public_n=5)
        self.assertEqual((m.get_params()["steps"], m.public_n), (4, 5))
        self.assertEqual(repr(m), "Classifier(epsilon=1, public_n=5, steps=4)")
        for wrong in ("fit", "_form", "classes_"):
            with self.assertRaises(privgrad.UsageError):
                m.set_params(**{wrong: 1})

    def test_progress_is_shown_and_errors_are_not(self):
        code = """
            import numpy as np, privgrad
            X, y = np.random.default_rng(1).uniform(0, 1, (100, 2)), np.arange(100) % 2
            m = privgrad.Classifier(epsilon=5, delta=1e-6, public_n=100, classes=[0, 1], bounds=(0, 1), steps=5).fit(X, y)
            try:
                privgrad.Classifier(epsilon=5, delta=1e-6, public_n=100, classes=[0, 1], bounds=(0, 1), optimizer="none").fit(X, y)
            except privgrad.UsageError as error:
                print(error)
        """
        got = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertRegex(got.stderr, r"privgrad: epoch .*, ε 5 so far")
        self.assertRegex(got.stderr, r"to check X and y first: verify\(X, y\)\n")
        self.assertIn("optimizer", got.stdout)
        self.assertNotIn("optimizer", got.stderr)

    def test_a_line_that_is_written_anew(self):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        for stream, want in ((Terminal(), "\ra longer text\rshort        \n"), (io.StringIO(), "a longer text\nshort\n")):
            with mock.patch.object(sys, "stderr", stream):
                line = _command.Line()
                line.say("a longer text")
                line.say("short")
                line.end()
            self.assertEqual(stream.getvalue(), want)

    def test_a_line_that_is_too_long_is_whole(self):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        with mock.patch.object(sys, "stderr", Terminal()) as stream, mock.patch.dict(os.environ, {"COLUMNS": "10"}):
            line = _command.Line()
            for text in ("short", "a text of 22 characters", "end"):
                line.say(text)
            line.end()
        self.assertEqual(stream.getvalue(), "\rshort\ra text of 22 characters\n\rend\n")

    def test_a_part_of_the_data_is_not_trained_on(self):
        """Where the data end with an error, nothing is trained: a table that is cut looks whole."""
        with tempfile.TemporaryDirectory() as dir:
            schema = Path(dir) / "s.yaml"
            schema.write_text("{columns: [{name: x, bounds: [0, 1]}], label: {column: y, classes: [a, b]}}")
            arguments = ["train", "--data=csv:-", f"--schema={schema}", f"--out={dir}/run", "--public-n=100", "--delta=1e-6", "--epsilon=1"]

            def cut(out):
                out.write(b"x,y\n" + b"0.5,a\n" * 100)
                raise RuntimeError("lost")

            # not by an interrupt that may come too late
            with mock.patch.object(_command, "_stop", lambda child: child.wait()), self.assertRaisesRegex(RuntimeError, "lost"):
                _command.run(arguments, cut)
            self.assertFalse((Path(dir) / "run").exists())
            _command.run(arguments, lambda out: out.write(b"x,y\n" + b"0.5,a\n" * 100))
            self.assertTrue((Path(dir) / "run" / "result.json").exists())

    @unittest.skipIf(os.name == "nt", "signals are those of POSIX")
    def test_interrupt_saves(self):
        """An interrupt ends the run in good order: it can be resumed."""
        X, y = two_sides()
        with tempfile.TemporaryDirectory() as dir:
            run = Path(dir) / "a"
            m = privgrad.Classifier(**{**FAST, "steps": 900_000, "noise_multiplier": 100}, public_n=200, classes=[0, 1], bounds=(0, 1), run_dir=run)

            def interrupt():
                for _ in range(600):
                    if (run / "metrics.jsonl").exists():
                        break
                    time.sleep(0.1)
                os.kill(os.getpid(), signal.SIGINT)

            threading.Thread(target=interrupt).start()
            with self.assertRaises(KeyboardInterrupt):
                m.fit(X, y)
            self.assertTrue((run / "checkpoint" / "state.safetensors").exists())
            self.assertFalse((run / "result.json").exists())
            self.assertFalse(hasattr(m, "run_dir_"))


if __name__ == "__main__":
    unittest.main()
