"""Estimators that train by the privgrad program, in the manner of scikit-learn, which they do not need."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

from . import _command
from ._command import Error, UsageError
from ._data import Bounds, Categories, Images, Labels, Pair, Table, array_of, columns_of, floats, is_frame, labels_of, no_name, pair, sorted_places
from ._words import rows

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
    "random_state": "here it is seed",
}
#: Settings of `privgrad train` that have no flag: they go to it in a file.
_IN_FILE = frozenset(
    """adam_epsilon beta1 beta2 class_weights clip_ceiling clip_floor clip_quantile deskew drop_first local_noise
    model_version network_sha256 norm_noise objpert_form outpert_average outpert_form protector_sha256 pur_k
    rrpsgd_form search smoothness step_decay subtract_noise_variance""".split()
)
_PATHS = ("csv:", "npz:", "dir:", "shards:")


@dataclass(frozen=True)
class _Given:
    """Records as the program takes them from standard input."""

    data: str
    flags: Sequence[str]
    schema: Optional[str]
    feed: _command.Feed
    form: Union[Table, Images]
    width: int


class _Estimator(_Base):
    _declared: tuple[str, ...] = ()  # parameters that are no flags
    _elsewhere: Mapping[str, str] = {}  # parameters that another estimator has, and what this one has in their place

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
            if name in self._elsewhere:
                raise UsageError(f"{name} is no parameter of {type(self).__name__}: {self._elsewhere[name]}")
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
            try:
                files = sorted(p for p in Path(self.run_dir_).iterdir() if p.is_file())
                state["_files"] = {p.name: p.read_bytes() for p in files}
            except OSError as error:
                raise UsageError(f"the run {self.run_dir_} has the model, and cannot be read ({error.strerror}): put it back, then copy or pickle the estimator") from None
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
            run = _folder(self.run_dir)
        arguments = ["train", *data, f"--out={run}", "--log-format=json"]
        for name in ("epsilon", "delta", "public_n"):
            arguments += _command.flag(name, getattr(self, name))
        flags = self._flags()
        for name, value in flags.items():
            if name not in _IN_FILE:
                arguments += _command.flag(name, value)
        settings = {name: value for name, value in flags.items() if name in _IN_FILE and value is not None}
        if settings:
            if "config" in flags:
                raise UsageError(f"config was given, and {', '.join(settings)}, which has no flag: write it into that file")
            arguments.append(f"--config={_write_beside(run, 'settings', _file(settings))}")
            arguments += [] if "recipe" in flags else ["--recipe=auto"]  # as without a file
        if schema is not None:
            arguments.append(f"--schema={_write_beside(run, 'schema', schema)}")
        quiet = str(vars(self).get("progress", "auto")) == "off"
        result = _command.run(arguments, feed, None if quiet else _command.Line())
        if "epsilon" not in result:
            raise Error(str(result.get("message", "the run is not complete")))
        self.result_, self.run_dir_ = result, os.path.abspath(run)
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
        _check_no_labels(y)
        if self.bounds is not None or self.categories is not None:
            raise UsageError("bounds and categories were given beside a path: a table's schema declares them (schema=FILE), and images in files need none")
        self._train([f"--data={_data_set(os.fspath(path))}", *more], None, None)
        self._remember(None, None, None)


    def _given(self, X: Any, y: Any, need: Sequence[tuple[str, str]]) -> _Given:
        raise NotImplementedError

    def _fit_given(self, X: Any, y: Any) -> None:
        given = self._given(X, y, self._need())
        self._train([f"--data={given.data}", *given.flags], given.feed, given.schema)
        self._remember(given.form, X, given.width)

    def verify(self, X: Any, y: Any = None) -> str:
        """What training would make of X and y, as a text for the owner of the records, and nobody else.

        It counts, without noise, values that are missing, out of bounds or no category, and labels that are no class, and says
        where the first stands. Training never says so. Do not fit bounds or categories to it. It needs what is declared of X and
        y, and no budget; of data at a path, leave out y. It trains nothing. Raises UsageError where training would refuse them.
        """
        if not _is_path(X):
            given = self._given(X, y, [])
            with tempfile.TemporaryDirectory(prefix="privgrad-") as folder:
                schema = [] if given.schema is None else [f"--schema={_write_beside(Path(folder) / 'data', 'schema', given.schema)}"]
                return rows(_command.text(["data", "verify", given.data, *given.flags, *schema], given.feed))
        _check_no_labels(y)
        flags = self._flags()
        arguments = ["data", "verify", _data_set(os.fspath(X)), *self._names()]
        for name in ("schema", "image_size", "data_dir"):
            arguments += _command.flag(name, flags.get(name))
        return _command.text(arguments)

    def _names(self) -> list[str]:
        """The flag that names the classes of data at a path."""
        return []


def _folder(run_dir: Any) -> Path:
    """The folder of a run. ~ is the user's home, and . the folder itself, which has a name."""
    try:
        run = Path(os.path.expanduser(run_dir))
    except (TypeError, ValueError):
        raise UsageError(f"run_dir {run_dir!r}: give the path of a new folder") from None
    if run.name in ("", ".."):
        run = Path(os.path.abspath(run))
    if run.name == "":
        raise UsageError(f"run_dir {run_dir!r}: give the path of a new folder")
    return run


def _file(settings: Mapping[str, Any]) -> str:
    """Settings as a file of the program has them."""
    try:
        return json.dumps(settings, default=lambda v: v.tolist() if hasattr(v, "tolist") else list(v), ensure_ascii=False, indent=1)
    except TypeError:
        raise UsageError(f"{', '.join(settings)}: give numbers, texts and lists of them") from None


def _check_no_labels(y: Any) -> None:
    if y is not None:
        raise UsageError("y was given beside a path: the labels are in the data there; leave out y")


def _is_path(X: Any) -> bool:
    return isinstance(X, (str, os.PathLike))


def _data_set(path: str) -> str:
    """The name by which `privgrad train` knows data at a path."""
    if path.startswith(_PATHS):
        return path
    if os.path.isdir(path):
        return "dir:" + path
    return ("npz:" if path.endswith(".npz") else "csv:") + path


def _write_beside(run: Path, what: str, text: str) -> Path:
    """Write a schema or settings beside the run, where a run that is resumed finds them. Those of another run stay."""
    path = run.with_name(f"{run.name}.{what}.yaml")
    if run.exists() and any(run.iterdir()) and path.exists():
        return path  # the program refuses the run, or resumes it by what it began with
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.read_text(encoding="utf-8") != text:
            raise UsageError(f"run_dir {run}: {path} is there already, and is of something else: move it, or give another run_dir")
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"run_dir {run}: {path} cannot be written ({error.strerror}): give another run_dir") from None
    return path


class Classifier(_ClassifierMixin, _Estimator):
    """Trains a classifier with differential privacy by `privgrad train`.

    epsilon, delta: the budget of the run. public_n: the public number of records, at least that of X; never give too few.
    classes: a list of the labels that y may have. classes_ and the columns of predict_proba are sorted, as scikit-learn has
    them; labels that cannot be sorted stay in the order of classes. bounds: (low, high) of all values, or for a table a pair for
    each column, or pairs by name; images of uint8 need none. categories: by the names of columns, a list of those of each;
    columns of an array have the names 0, 1, …. run_dir: a new folder for the run; without it, a temporary one that goes away
    with the estimator. flags: every other setting of `privgrad train`, with _ for -, such as steps=100 or model="cnn-mnist".
    class_weights has a number for each class, in the order of classes.

    Raises UsageError where something is not declared or is refused, BudgetError where the budget does not allow it, and
    Error where the run fails.
    """

    _declared = ("epsilon", "delta", "public_n", "classes", "bounds", "categories", "run_dir")
    _elsewhere = {"target_bounds": "give classes, or use a Regressor"}

    #: The classes, sorted where they can be.
    classes_: np.ndarray
    _places: list[int]  # of classes_ among the classes of the program

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

        X: numbers; NaN, None and what is no number count as the lower bound in a table, and make an image that adds zero. y: a label
        a record, of the types of classes; one that is none of them, or NaN, makes a record that adds zero. Every call is a run
        of its own: the ε of several on the same records add up.
        """
        if _is_path(X):
            self._check_declared(self._need())
            self._fit_path(X, y, self._names())
        else:
            self._fit_given(X, y)
        self._take_classes()
        return self

    def _names(self) -> list[str]:
        return [] if self.classes is None else [_class_names(Labels(self.classes).names)]

    def _given(self, X: Any, y: Any, need: Sequence[tuple[str, str]]) -> _Given:
        if is_frame(X) or array_of(X).ndim not in (3, 4):
            return self._given_table(X, y, need)
        return self._given_images(array_of(X), y, need)

    def _labels(self, y: Any, records: int) -> tuple[Labels, list[Optional[int]]]:
        values = labels_of(y, records)
        assert self.classes is not None
        labels = Labels(self.classes)
        labels.check(values)
        return labels, labels.numbers(values)

    def _given_table(self, X: Any, y: Any, need: Sequence[tuple[str, str]]) -> _Given:
        names, columns = self._table(X)
        self._check_declared([*need, ("classes", "the labels that y may have, such as [0, 1]")])
        table = Table.declared(names, len(columns), self.bounds, self.categories)
        table.check(columns)
        labels, numbers = self._labels(y, len(columns[0]))
        none = no_name(labels.names)
        texts = [none if n is None else labels.names[n] for n in numbers]
        schema = table.schema({"classes": labels.names})
        return _Given("csv:-", [], schema, lambda out: table.write(out, columns, texts), table, len(columns))

    def _given_images(self, X: np.ndarray, y: Any, need: Sequence[tuple[str, str]]) -> _Given:
        self._check_declared([*need, ("classes", "the labels that y may have, such as range(10)")])
        if self.categories is not None:
            raise UsageError("categories were given, and X has images: leave them out")
        images = Images.declared(X, self.bounds)
        labels, numbers = self._labels(y, len(X))
        images.check_classes(labels)
        flags = [_class_names(labels.names), f"--image-size={images.size}"]
        return _Given("npz:-", flags, None, lambda out: images.write_labelled(out, X, numbers), images, int(np.prod(images.shape)))

    def _take_classes(self) -> None:
        """Sort the classes, as scikit-learn's scores take those of any classifier to be."""
        values: Sequence[Any] = self.result_["classes"]
        if self.classes is not None:
            labels = Labels(self.classes)
            if labels.names == values:
                values = labels.values
        self._places = sorted_places(values)
        self.classes_ = np.asarray([values[i] for i in self._places])

    def predict(self, X: Any) -> np.ndarray:
        """The most likely class of each record."""
        rows = self._predict(X)
        names = {self.result_["classes"][place]: i for i, place in enumerate(self._places)}
        classes: np.ndarray = self.classes_[np.array([names[r["class"]] for r in rows], dtype=int)]
        return classes

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, in the order of classes_: an array of records × classes."""
        rows = self._predict(X)
        if rows and rows[0]["probabilities"] is None:
            raise Error(f"the model {self.result_['model']} gives no probabilities: use predict, or another model")
        return np.array([r["probabilities"] for r in rows], dtype=np.float64).reshape(len(rows), len(self.classes_))[:, self._places]

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
    _elsewhere = {"classes": "give target_bounds, or use a Classifier", "class_weights": "only classes have weights"}

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
        """Train on a table: an array of two axes, a DataFrame, or a file.

        X: numbers; NaN, None and what is no number count as the lower bound. y: a number a record; NaN, or an object that is no
        number, makes a record that adds zero. Every call is a run of its own: the ε of several on the same records add up.
        """
        if _is_path(X):
            self._check_declared(self._need())
            self._fit_path(X, y, [])
        else:
            self._fit_given(X, y)
        return self

    def _given(self, X: Any, y: Any, need: Sequence[tuple[str, str]]) -> _Given:
        if not is_frame(X) and array_of(X).ndim in (3, 4):
            raise UsageError(f"X has {array_of(X).ndim} axes. Reshape your data: a Regressor takes tables only, of two axes")
        names, columns = self._table(X)
        self._check_declared([*need, ("target_bounds", "the least and the largest value of y, such as (0, 100)")])
        table = Table.declared(names, len(columns), self.bounds, self.categories)
        table.check(columns)
        values = labels_of(y, len(columns[0]))
        if values.dtype.kind not in "biufO":
            raise UsageError("y is of no numbers: give numbers")
        texts = [repr(v) for v in floats(values)]
        assert self.target_bounds is not None
        schema = table.schema({"bounds": pair(self.target_bounds, "target_bounds")})
        return _Given("csv:-", [], schema, lambda out: table.write(out, columns, texts), table, len(columns))

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
