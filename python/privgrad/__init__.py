"""Neural networks and linear models trained with differential privacy, by the privgrad program."""

from ._command import BudgetError, Error, UsageError, Warned
from ._estimator import Classifier, NotFittedError, Regressor
from ._version import __version__

__all__ = ["BudgetError", "Classifier", "Error", "NotFittedError", "Regressor", "UsageError", "Warned", "__version__"]
