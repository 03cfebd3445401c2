"""scikit-learn's own checks of estimators, on subclasses that declare from the data, as no one may who wants privacy.

The noise is seeded, since several checks compare two fits of the same records.
"""

import unittest
import warnings

import numpy as np

import privgrad

try:
    from sklearn.utils.estimator_checks import check_estimator
except ImportError:
    check_estimator = None

QUIET = "a fault of a record is private: it counts as the documentation says, and raises nothing"

#: The checks that cannot hold, each with its reason.
CANNOT = {
    "check_dtype_object": QUIET,
    "check_estimators_nan_inf": QUIET,
}
CLASSIFIER = {
    "check_classifiers_regression_target": "a label that is none of the declared classes counts as zero; " + QUIET,
}
REGRESSOR = {
    "check_estimators_empty_data_messages": "no records are a data set as others are: an error would tell it from one of a single record",
}


def declared(estimator, X, y, **more):
    """What fit of an estimator leaves behind that declares all from the data."""
    values = np.asarray(X)
    try:
        values = values.astype(float)
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
    except (TypeError, ValueError):
        low, high = 0.0, 1.0
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        low, high = 0.0, 1.0
    given = {**estimator.get_params(), **more, "bounds": (low, high), "public_n": max(len(values) if values.ndim else 1, 10), "delta": 1e-6}
    flags = {"noise": "seeded", "progress": "off", "count_records": False, "threads": 1}
    fitted = type(estimator).__mro__[1](**given, **flags).fit(X, y)
    vars(estimator).update({k: v for k, v in vars(fitted).items() if k.endswith("_") or k.startswith("_")})
    return estimator


class FromData(privgrad.Classifier):
    def fit(self, X, y=None):
        labels = np.asarray(y if y is not None else [0, 1])
        return declared(self, X, y, classes=np.unique(labels.astype(str) if labels.dtype.kind == "O" else labels).tolist())


class NumberFromData(privgrad.Regressor):
    def fit(self, X, y=None):
        values = np.asarray([0, 1] if y is None else y)
        if values.size == 0:
            values = np.array([0, 1])
        if values.dtype.kind == "c":
            values = values.real
        values = values.astype(float)
        return declared(self, X, y, target_bounds=(values.min() - 1e-3, values.max() + 1e-3))


@unittest.skipIf(check_estimator is None, "scikit-learn is not installed")
class EstimatorChecks(unittest.TestCase):
    def check(self, estimator, cannot):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcomes = check_estimator(estimator, expected_failed_checks=cannot, on_fail=None)
        failed = {o["check_name"]: str(o["exception"])[:500] for o in outcomes if o["status"] == "failed"}
        self.assertEqual(failed, {})
        held = {o["check_name"] for o in outcomes if o["status"] == "passed"}
        self.assertGreater(len(held), 40, "most checks were left out")
        self.assertEqual(held & set(cannot), set(), "a check that is said not to hold does")

    def test_classifier(self):
        self.check(FromData(epsilon=1000.0), {**CANNOT, **CLASSIFIER})

    def test_flags_are_parameters(self):
        from sklearn.base import clone, is_classifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import FunctionTransformer

        m = privgrad.Classifier(epsilon=1, classes=[0, 1], steps=3)
        self.assertEqual(clone(m).get_params(), m.get_params())
        self.assertTrue(is_classifier(m))
        line = make_pipeline(FunctionTransformer(np.sqrt), m)
        line.set_params(classifier__steps=4)
        self.assertEqual(clone(line).get_params()["classifier__steps"], 4)

    def test_scores_of_classes_in_any_order(self):
        """AUC is that of the probabilities of "yes", whatever stands first. The classes are parted by a wide gap."""
        from sklearn.metrics import get_scorer

        X = np.linspace(0, 1, 200).reshape(-1, 1)
        y = np.where(X[:, 0] > 0.5, "yes", "no")
        for classes in (["yes", "no"], ["no", "yes"]):
            m = privgrad.Classifier(
                delta=1e-6, noise_multiplier=0.1, steps=20, batch=50, lr=1.0, progress="off", count_records=False, public_n=200, classes=classes, bounds=(0, 1)
            ).fit(X, y)
            self.assertGreater(get_scorer("roc_auc")(m, X, y), 0.9)
            self.assertGreater(get_scorer("neg_log_loss")(m, X, y), -0.7, "worse than without a model, which has ln 2")

    def test_regressor(self):
        self.check(NumberFromData(epsilon=1000.0), {**CANNOT, **REGRESSOR})


if __name__ == "__main__":
    unittest.main()
