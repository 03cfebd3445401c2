"""Estimators that train by the privgrad program, in the manner of scikit-learn, which they do not need."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

from . import _command
from ._command import Error, UsageError
from ._data import Bounds, Categories, Images, Labels, Pair, Table, array_of, columns_of, floats, is_frame, labels_of, no_name, pair

if TYPE_CHECKING:

    class _Base:
        pass

    class _ClassifierMixin:
        pass

    class _RegressorMixin:
        pass

    class _NotFitted(ValueError, AttributeError):
        pass

else:
    try:
        from sklearn.base import BaseEstimator as _Base
        from sklearn.base import ClassifierMixin as _ClassifierMixin
        from sklearn.base import RegressorMixin as _RegressorMixin
        from sklearn.exceptions import NotFittedError as _NotFitted
    except ImportError:

        class _Base:
            pass

        class _ClassifierMixin:
            _estimator_type = "classifier"

        class _RegressorMixin:
            _estimator_type = "regressor"

        class _NotFitted(ValueError, AttributeError):
            pass


class _Temporary:
    """A folder that goes away with whoever holds this."""

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="privgrad-")
        self.run = Path(folder) / "run"
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)


class NotFittedError(Error, _NotFitted):
    """The estimator has no model yet: call fit first."""


#: Flags of `privgrad train` that follow from X, y and what was declared.
_OURS = {
    "out": "give run_dir",
    "data": "give X, or a path in its place",
    "class_names": "give classes",
    "json": "leave it out",
    "log_format": "leave it out",
    "dry_run": "use `privgrad train --dry-run`, which needs no records",
}
_PATHS = ("csv:", "npz:", "dir:", "shards:")


class _Estimator(_Base):
    _declared: tuple[str, ...] = ()  # parameters that are no flags

    epsilon: Optional[float]
    delta: Optional[float]
    public_n: Optional[int]
    bounds: Optional[Bounds]
    categories: Optional[Categories]
    run_dir: Union[str, os.PathLike[str], None]

    #: The run: config.yaml, ledger.db, model.safetensors, result.json, report.html and others. Where run_dir is not
    #: given, it is a temporary one that goes away with the estimator.
    run_dir_: str
    #: The keys of result.json.
    result_: dict[str, Any]
    _temporary: Optional[_Temporary]
    n_features_in_: int

    def _take(self, flags: dict[str, Any]) -> None:
        for name, value in flags.items():
            if name in _OURS:
                raise UsageError(f"{name} is no parameter: {_OURS[name]}")
            if hasattr(type(self), name) or name.startswith("_") or name.endswith("_"):
                raise UsageError(f"{name} is no flag of `privgrad train`")
            setattr(self, name, value)

    def _flags(self) -> dict[str, Any]:
        return {k: v for k, v in sorted(vars(self).items()) if k not in self._declared and not k.startswith("_") and not k.endswith("_")}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, and flags of `privgrad train` that were given."""
        return {**{name: getattr(self, name) for name in self._declared}, **self._flags()}

    def set_params(self, **parameters: Any) -> Any:
        """Set parameters or flags of `privgrad train`."""
        for name, value in parameters.items():
            if name in self._declared:
                setattr(self, name, value)
            else:
                self._take({name: value})
        return self

    def __repr__(self) -> str:
        given = ", ".join(f"{k}={v!r}" for k, v in self.get_params().items() if v is not None)
        return f"{type(self).__name__}({given})"

    def __getstate__(self) -> dict[str, Any]:
        """The run goes along, but for its checkpoint: a copy predicts, and the ledger is the original's."""
        state = {k: None if k == "_temporary" else v for k, v in vars(self).items()}
        if "run_dir_" in state:
            files = sorted(p for p in Path(self.run_dir_).iterdir() if p.is_file())
            state["_files"] = {p.name: p.read_bytes() for p in files}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        files = state.pop("_files", None)
        vars(self).update(state)
        if files is not None:
            self._temporary = _Temporary()
            run = self._temporary.run
            run.mkdir()
            for name, content in files.items():
                (run / name).write_bytes(content)
            self.run_dir_ = str(run)

    def _check_declared(self, need: Sequence[tuple[str, str]]) -> None:
        missing = [f"{name} ({what})" for name, what in need if getattr(self, name) is None]
        if missing:
            raise UsageError("not declared: " + ", ".join(missing) + ". Take them from what you know, and not from X or y, which are private")

    def _need(self) -> list[tuple[str, str]]:
        """What must be declared of any data that are private and not published."""
        need = [("public_n", "the public number of records, and at least that of X, such as 5000"), ("delta", "about 1 / (10 × public_n), such as 1e-5")]
        flags = self._flags()
        return [] if flags.get("published_set") or flags.get("data_is_public") else need

    def _table(self, X: Any) -> tuple[Optional[list[Any]], list[np.ndarray]]:
        if "schema" in self._flags():
            raise UsageError("schema is for data at a path: of an array or a DataFrame, declare bounds and categories")
        return columns_of(X)

    def _train(self, data: Sequence[str], feed: Optional[_command.Feed], schema: Optional[str]) -> None:
        """Train in the run directory, and keep what came of it."""
        temporary = None
        if self.run_dir is None:
            temporary = _Temporary()
            run = temporary.run
        else:
            run = Path(self.run_dir)
        arguments = ["train", *data, f"--out={run}", "--log-format=json"]
        for name in ("epsilon", "delta", "public_n"):
            arguments += _command.flag(name, getattr(self, name))
        for name, value in self._flags().items():
            arguments += _command.flag(name, value)
        if schema is not None:
            arguments.append(f"--schema={_write_schema(run, schema)}")
        quiet = str(vars(self).get("progress", "auto")) == "off"
        result = _command.run(arguments, feed, None if quiet else _command.Line())
        if "epsilon" not in result:
            raise Error(str(result.get("message", "the run is not complete")))
        self.result_, self.run_dir_ = result, str(run)
        self._temporary = temporary

    def _check_fitted(self) -> None:
        if not hasattr(self, "run_dir_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit before predicting")

    def _predict(self, X: Any) -> list[dict[str, Any]]:
        self._check_fitted()
        flags = _command.flag("threads", vars(self).get("threads"))
        if _is_path(X):
            predicted = _command.run(["predict", self.run_dir_, os.fspath(X), *flags])
        else:
            form = self._form
            if form is None:
                raise UsageError("the model was trained on a path: give the path of other data, of the same form")
            if isinstance(form, Images):
                images = array_of(X)
                form.check(images)
                predicted = _command.run(["predict", self.run_dir_, "-", *flags], lambda out: form.write(out, images))
            else:
                columns = self._same_columns(X, len(form.columns))
                predicted = _command.run(["predict", self.run_dir_, "-", *flags], lambda out: form.write(out, columns, None))
        rows: list[dict[str, Any]] = predicted
        return rows

    def _same_columns(self, X: Any, width: int) -> list[np.ndarray]:
        names, columns = columns_of(X)
        trained = getattr(self, "feature_names_in_", None)
        if names is not None and trained is not None:
            if sorted(map(str, names)) != sorted(map(str, trained)):
                raise UsageError("The feature names should match those that were passed during fit: give a DataFrame with the same columns")
            columns = [columns[names.index(name)] for name in trained]
        if len(columns) != width:
            raise UsageError(f"X has {len(columns)} features, but {type(self).__name__} is expecting {width} features as input")
        return columns

    _form: Union[Table, Images, None]

    def _remember(self, form: Union[Table, Images, None], X: Any, width: Optional[int]) -> None:
        self._form = form
        for name in ("feature_names_in_", "n_features_in_"):
            self.__dict__.pop(name, None)
        if width is not None:
            self.n_features_in_ = width
        if is_frame(X):
            self.feature_names_in_ = np.asarray(list(X.columns), dtype=object)

    def _fit_path(self, path: Any, y: Any, more: Sequence[str]) -> None:
        if y is not None:
            raise UsageError("y was given beside a path: the labels are in the data there; leave out y")
        if self.bounds is not None or self.categories is not None:
            raise UsageError("bounds and categories were given beside a path: a table's schema declares them (schema=FILE), and images in files need none")
        self._train([f"--data={_data_set(os.fspath(path))}", *more], None, None)
        self._remember(None, None, None)


def _is_path(X: Any) -> bool:
    return isinstance(X, (str, os.PathLike))


def _data_set(path: str) -> str:
    """The name by which `privgrad train` knows data at a path."""
    if path.startswith(_PATHS):
        return path
    if os.path.isdir(path):
        return "dir:" + path
    return ("npz:" if path.endswith(".npz") else "csv:") + path


def _write_schema(run: Path, schema: str) -> Path:
    """Write the schema beside the run, where a run that is resumed finds it. That of another run stays."""
    path = run.with_name(run.name + ".schema.yaml")
    if run.exists() and any(run.iterdir()) and path.exists():
        return path  # the program refuses the run, or resumes it by the schema that it began with
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(schema, encoding="utf-8")
    return path


class Classifier(_ClassifierMixin, _Estimator):
    """Trains a classifier with differential privacy by `privgrad train`.

    epsilon, delta: the budget of the run. public_n: the public number of records, at least that of X. classes: the labels
    that y may have, in the order of the columns of predict_proba. bounds: (low, high) of all values, or for a table a pair
    for each column, or pairs by name; images of uint8 need none. categories: by the names of columns, those of each.
    run_dir: a new folder for the run; without it, a temporary one that goes away with the estimator. flags: every other
    flag of `privgrad train`, with _ for -, such as steps=100 or model="cnn-mnist".

    Raises UsageError where something is not declared or is refused, BudgetError where the budget does not allow it, and
    Error where the run fails.
    """

    _declared = ("epsilon", "delta", "public_n", "classes", "bounds", "categories", "run_dir")

    classes_: np.ndarray

    def __init__(
        self,
        epsilon: Optional[float] = None,
        *,
        delta: Optional[float] = None,
        public_n: Optional[int] = None,
        classes: Optional[Sequence[Any]] = None,
        bounds: Optional[Bounds] = None,
        categories: Optional[Categories] = None,
        run_dir: Union[str, os.PathLike[str], None] = None,
        **flags: Any,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.public_n = public_n
        self.classes = classes
        self.bounds = bounds
        self.categories = categories
        self.run_dir = run_dir
        self._take(flags)

    def fit(self, X: Any, y: Any = None) -> Classifier:
        """Train on a table (an array of two axes, or a DataFrame), on images (three or four axes), or on data at a path.

        Every call is a run of its own: the ε of several on the same records add up.
        """
        if _is_path(X):
            self._check_declared(self._need())
            names = None if self.classes is None else Labels(self.classes).names
            self._fit_path(X, y, [] if names is None else [_class_names(names)])
        elif is_frame(X) or array_of(X).ndim not in (3, 4):
            self._fit_table(X, y)
        else:
            self._fit_images(array_of(X), y)
        self.classes_ = self._classes_of_result()
        return self

    def _labels(self, y: Any, records: int) -> tuple[Labels, list[Optional[int]]]:
        values = labels_of(y, records)
        assert self.classes is not None
        labels = Labels(self.classes)
        labels.check(values)
        return labels, labels.numbers(values)

    def _fit_table(self, X: Any, y: Any) -> None:
        names, columns = self._table(X)
        self._check_declared([*self._need(), ("classes", "the labels that y may have, such as [0, 1]")])
        table = Table.declared(names, len(columns), self.bounds, self.categories)
        labels, numbers = self._labels(y, len(columns[0]))
        none = no_name(labels.names)
        texts = [none if n is None else labels.names[n] for n in numbers]
        self._train(["--data=csv:-"], lambda out: table.write(out, columns, texts), table.schema({"classes": labels.names}))
        self._remember(table, X, len(columns))

    def _fit_images(self, X: np.ndarray, y: Any) -> None:
        self._check_declared([*self._need(), ("classes", "the labels that y may have, such as range(10)")])
        if self.categories is not None:
            raise UsageError("categories were given, and X has images: leave them out")
        images = Images.declared(X, self.bounds)
        labels, numbers = self._labels(y, len(X))
        arguments = ["--data=npz:-", _class_names(labels.names), f"--image-size={images.size}"]
        self._train(arguments, lambda out: images.write_labelled(out, X, numbers), None)
        self._remember(images, X, int(np.prod(images.shape)))

    def _classes_of_result(self) -> np.ndarray:
        names = self.result_["classes"]
        if self.classes is not None:
            labels = Labels(self.classes)
            if labels.names == names:
                return np.asarray(labels.values)
        return np.asarray(names)

    def predict(self, X: Any) -> np.ndarray:
        """The most likely class of each record."""
        rows = self._predict(X)
        names = {name: i for i, name in enumerate(self.result_["classes"])}
        classes: np.ndarray = self.classes_[np.array([names[r["class"]] for r in rows], dtype=int)]
        return classes

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, in the order of classes_: an array of records × classes."""
        rows = self._predict(X)
        if rows and rows[0]["probabilities"] is None:
            raise Error(f"the model {self.result_['model']} gives no probabilities: use predict, or another model")
        return np.array([r["probabilities"] for r in rows], dtype=np.float64).reshape(len(rows), len(self.classes_))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of records whose class is right. It is computed without noise: show it only if X and y are public."""
        right = self.predict(X) == np.asarray(y).reshape(-1)
        return float(np.average(right, weights=sample_weight))


def _class_names(names: Sequence[str]) -> str:
    if any("," in n or n != n.strip() for n in names):
        raise UsageError("classes: of images, a name must have no comma, and no blank at its ends")
    return "--class-names=" + ",".join(names)


class Regressor(_RegressorMixin, _Estimator):
    """Trains a regression on a table with differential privacy by `privgrad train`.

    target_bounds: the least and the largest value of y that are public; what lies outside counts as the nearest of them. The
    other parameters are those of Classifier.
    """

    _declared = ("epsilon", "delta", "public_n", "target_bounds", "bounds", "categories", "run_dir")

    def __init__(
        self,
        epsilon: Optional[float] = None,
        *,
        delta: Optional[float] = None,
        public_n: Optional[int] = None,
        target_bounds: Optional[Pair] = None,
        bounds: Optional[Bounds] = None,
        categories: Optional[Categories] = None,
        run_dir: Union[str, os.PathLike[str], None] = None,
        **flags: Any,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.public_n = public_n
        self.target_bounds = target_bounds
        self.bounds = bounds
        self.categories = categories
        self.run_dir = run_dir
        self._take(flags)

    def fit(self, X: Any, y: Any = None) -> Regressor:
        """Train on a table: an array of two axes, a DataFrame, or a file. Every call is a run of its own."""
        if _is_path(X):
            self._check_declared(self._need())
            self._fit_path(X, y, [])
            return self
        names, columns = self._table(X)
        self._check_declared([*self._need(), ("target_bounds", "the least and the largest value of y, such as (0, 100)")])
        table = Table.declared(names, len(columns), self.bounds, self.categories)
        values = labels_of(y, len(columns[0]))
        texts = [repr(v) for v in floats(values)]
        assert self.target_bounds is not None
        schema = table.schema({"bounds": pair(self.target_bounds, "target_bounds")})
        self._train(["--data=csv:-"], lambda out: table.write(out, columns, texts), schema)
        self._remember(table, X, len(columns))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The predicted value of each record, in the units of y."""
        return np.array([r["value"] for r in self._predict(X)], dtype=np.float64)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R²: 1 if all predictions are right. It is computed without noise: show it only if X and y are public."""
        truth, predicted = np.asarray(y, dtype=np.float64).reshape(-1), self.predict(X)
        weights = np.ones(len(truth)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        mean = np.average(truth, weights=weights)
        total = float(np.sum(weights * (truth - mean) ** 2))
        left = float(np.sum(weights * (truth - predicted) ** 2))
        if total == 0:
            return 1.0 if left == 0 else 0.0
        return 1 - left / total
