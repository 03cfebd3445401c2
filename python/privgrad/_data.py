"""How records go to the privgrad program: tables as CSV with a schema, images as arrays.

Nothing here is computed from the records but the form that all of them have: the number of columns and their names, or the
shape and the type of an image. What a record becomes depends on that record alone, and none raises an error.
"""

from __future__ import annotations

import csv
import io
import json
import math
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

import numpy as np

from ._command import UsageError, Warned

Pair = tuple[float, float]
#: One pair for all columns; a pair for each; or pairs by the names of columns.
Bounds = Union[Pair, Sequence[Pair], Mapping[Any, Pair]]
#: The categories of columns, by the names of columns, or of an array by their numbers from 0. A list among them is one
#: category in several spellings.
Categories = Mapping[Any, Sequence[Any]]

_BLOCK = 4096  # records that are written at a time
_NO_CLASS = 255  # a label of images that is none; classes are below it


def pair(value: Any, what: str) -> Pair:
    """A pair of numbers (low, high)."""
    try:
        if isinstance(value, (str, set, frozenset)):
            raise TypeError
        low, high = (float(x) for x in value)
    except (TypeError, ValueError):
        raise UsageError(f"{what} {value!r}: give a pair (low, high) of numbers") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UsageError(f"{what} {value!r}: low must be below high, and both finite")
    return low, high


def listed(values: Any, what: str) -> list[Any]:
    """What was declared as a list, in its order."""
    if isinstance(values, (str, bytes)):
        raise UsageError(f"{what}: {values!r} is one text: give a list of names")
    if isinstance(values, (set, frozenset, Mapping)):
        raise UsageError(f"{what}: a {type(values).__name__} has no order that stays: give a list")
    try:
        items = list(values.tolist() if hasattr(values, "tolist") else values)
    except TypeError:
        raise UsageError(f"{what}: {values!r} is no list: give a list") from None
    if any(isinstance(v, float) and math.isnan(v) for v in items):
        raise UsageError(f'{what}: NaN equals nothing, not even itself: give missing values a name of their own, as by fillna("missing"), and list that')
    return items


def _key(value: Any, what: str) -> Any:
    """A value that others can be compared with."""
    try:
        hash(value)
    except TypeError:
        raise UsageError(f"{what}: {value!r} is no name: give texts or numbers") from None
    return value


def _none_matches(kind: str, values: Sequence[Any]) -> bool:
    """Whether no value of a NumPy type of this kind can equal one of these. What a type is, is no record's."""
    texts = [isinstance(v, str) for v in values]
    return kind in "biuf" and all(texts) or kind in "US" and not any(texts)


def _is_pair(value: Any) -> bool:
    return not isinstance(value, Mapping) and len(value) == 2 and all(np.ndim(x) == 0 for x in value)


def _distinct(values: Sequence[Any], what: str) -> list[str]:
    names = [str(v) for v in values]
    if len(names) < 1 or len(set(names)) != len(names):
        raise UsageError(f"{what}: name each once, and at least one")
    if any("\n" in n or "\r" in n for n in names):
        raise UsageError(f"{what}: a name must not have an end of a line")
    return names


def no_name(names: Sequence[str]) -> str:
    """A text that is none of the names."""
    none = ""
    while none in names:
        none += "-"
    return none


def sorted_places(values: Sequence[Any]) -> list[int]:
    """Where the values stand, from the least to the largest; in their own order where they have none."""
    try:
        return sorted(range(len(values)), key=lambda i: values[i])
    except TypeError:
        return list(range(len(values)))


class Labels:
    """The classes of a classifier, in the order in which they were declared."""

    def __init__(self, classes: Sequence[Any]) -> None:
        self.values = [_key(v, "classes") for v in listed(classes, "classes")]
        self.names = _distinct(self.values, "classes")
        if len(self.names) < 2:
            raise UsageError("1 class was declared: give two or more")
        self._number = {v: i for i, v in enumerate(self.values)}

    def check(self, y: np.ndarray) -> None:
        """Refuse labels of a type that no class has: what a type is, is no record's."""
        if _none_matches(y.dtype.kind, self.values):
            raise UsageError(f"y is of {_kind(y)}, and no class is: declare the classes as they stand in y")

    def numbers(self, y: np.ndarray) -> list[Optional[int]]:
        """The class of each label, from 0; None where it is none."""
        return [self._of(v) for v in y.tolist()]

    def _of(self, value: Any) -> Optional[int]:
        try:
            return self._number.get(value)
        except TypeError:  # of a value that cannot be a key
            return None


def _conversion() -> type[Warning]:
    """The warning that scikit-learn has for this, where it is installed."""
    kind: type[Warning] = getattr(sys.modules.get("sklearn.exceptions"), "DataConversionWarning", Warned)
    return kind


def _array(values: Any, what: str) -> np.ndarray:
    """An array of what has a type, and of a list one of its very values: a value of one record must not change what the others become."""
    if hasattr(values, "dtype") or hasattr(values, "__array__"):
        return np.asarray(values)
    try:
        return np.array(values, dtype=object)
    except ValueError:
        raise UsageError(f"{what} is a list of records of different lengths: give an array of one shape") from None


def _kind(values: np.ndarray) -> str:
    """What a type is, in words that say nothing of a value."""
    return {"b": "truth values", "i": "whole numbers", "u": "whole numbers", "f": "numbers", "U": "text", "S": "bytes"}.get(values.dtype.kind, "other values")


def labels_of(y: Any, records: int) -> np.ndarray:
    """y as an array of one axis, a label a record."""
    if y is None:
        raise UsageError("requires y to be passed, but the target y is None: give the labels")
    values = _array(y, "y")
    if values.dtype.kind == "c":
        raise UsageError("Complex data not supported: y has complex numbers")
    if values.ndim == 2 and values.shape[1] == 1:
        warnings.warn("A column-vector y was passed when a 1d array was expected: its one column is taken", _conversion(), stacklevel=4)
        values = values[:, 0]
    if values.ndim != 1:
        raise UsageError("y must have one label a record: give an array of one axis")
    if len(values) != records:
        raise UsageError("X and y have different numbers of records: give the label of each record")
    return values


def array_of(X: Any) -> np.ndarray:
    """X as an array of numbers or objects."""
    if hasattr(X, "tocsr"):
        raise UsageError("X is a sparse matrix, which is not supported: give X.toarray()")
    values = _array(X, "X")
    if values.dtype.kind == "c":
        raise UsageError("Complex data not supported: X has complex numbers")
    if values.dtype.kind == "M":
        raise UsageError("X has dates: a CSV file with a schema can have them (fit(\"visits.csv\"), docs/guides/own-table.md)")
    return values


def is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and not isinstance(X, np.ndarray)


def columns_of(X: Any) -> tuple[Optional[list[Any]], list[np.ndarray]]:
    """The columns of a table, and their names where it is a DataFrame."""
    if is_frame(X):
        names = list(X.columns)
        _distinct(names, "columns of X")
        return names, [array_of(X[name]) for name in names]
    values = array_of(X)
    if values.ndim != 2:
        raise UsageError(
            f"Expected 2D array, got {values.ndim} axes. Reshape your data, records first: a table has two axes, images have three or four"
        )
    if values.shape[1] == 0:
        raise UsageError(f"0 feature(s) (shape={values.shape}) while a minimum of 1 is required.")
    return None, [values[:, i] for i in range(values.shape[1])]


@dataclass(frozen=True)
class Column:
    """A column of a table, as it was declared: it has bounds or categories, each in its spellings."""

    name: str
    bounds: Optional[Pair]
    categories: Optional[tuple[tuple[Any, ...], ...]]

    @staticmethod
    def categorical(name: str, categories: Any) -> Column:
        what = f"categories of column {name}"
        spelled = [tuple(listed(c, what)) if isinstance(c, (list, tuple)) else (c,) for c in listed(categories, what)]
        _distinct([_key(v, what) for spellings in spelled for v in spellings], what)
        if not all(spelled):
            raise UsageError(f"{what}: a list is one category in several spellings: give one at least")
        return Column(name, None, tuple(spelled))

    def schema(self) -> dict[str, Any]:
        if self.categories is not None:
            return {"name": self.name, "categories": [str(spellings[0]) for spellings in self.categories]}
        return {"name": self.name, "bounds": self.bounds}

    def check(self, values: np.ndarray) -> None:
        """Refuse values of a type that no category has."""
        if self.categories is not None and _none_matches(values.dtype.kind, [v for spellings in self.categories for v in spellings]):
            raise UsageError(f"column {self.name} is of {_kind(values)}, and no category is: declare the categories as they stand in X")

    def texts(self, values: np.ndarray) -> list[str]:
        """What stands in the file. A value that is none of the categories gets a text that is none, whatever is in it."""
        if self.categories is None:
            return [repr(x) for x in floats(values)]
        known = {v: str(spellings[0]) for spellings in self.categories for v in spellings}
        none = no_name(list(known.values()))
        return [_known(known, v, none) for v in values.tolist()]


def _known(known: dict[Any, str], value: Any, none: str) -> str:
    try:
        return known.get(value, none)
    except TypeError:
        return none


def floats(values: np.ndarray) -> list[float]:
    """The numbers of an array; NaN of what is none."""
    if values.dtype.kind in "biuf":
        numbers: list[float] = values.astype(np.float64).tolist()
        return numbers
    return [_float(v) for v in values.tolist()]


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan  # which counts as the lower bound


@dataclass(frozen=True)
class Table:
    """Records of two axes."""

    columns: tuple[Column, ...]
    label: str

    @staticmethod
    def declared(names: Optional[list[Any]], width: int, bounds: Optional[Bounds], categories: Optional[Categories]) -> Table:
        keys = list(range(width)) if names is None else names
        categories = categories or {}
        if not isinstance(categories, Mapping):
            raise UsageError('categories: give lists by the names of columns, such as {"ward": ["north", "south"]}')
        unknown = [k for k in categories if k not in keys]
        if isinstance(bounds, Mapping):
            unknown += [k for k in bounds if k not in keys]
        if unknown:
            raise UsageError(f"X has no column {unknown[0]!r}, of which bounds or categories were declared: declare those of its columns alone")
        columns = []
        for i, key in enumerate(keys):
            name = f"x{i}" if names is None else str(key)
            if "\n" in name or "\r" in name:
                raise UsageError(f"column {name!r}: a name must not have an end of a line")
            if key in categories:
                if _has_bounds(bounds, key, i, width):
                    raise UsageError(f"column {key!r} has bounds and categories: leave out its bounds, or give None for them in a list")
                columns.append(Column.categorical(name, categories[key]))
            else:
                columns.append(Column(name, _bounds(bounds, key, i, width), None))
        label = "y"
        while label in {c.name for c in columns}:
            label += "_"
        return Table(tuple(columns), label)

    def check(self, columns: Sequence[np.ndarray]) -> None:
        """Refuse columns of a type that none of their categories has."""
        for column, values in zip(self.columns, columns):
            column.check(values)

    def schema(self, label: dict[str, Any]) -> str:
        """The schema of the table as the program reads it: all that was declared, and nothing else."""
        return json.dumps({"columns": [c.schema() for c in self.columns], "label": {"column": self.label, **label}}, ensure_ascii=False, indent=1)

    def write(self, out: Any, columns: list[np.ndarray], labels: Optional[list[str]]) -> None:
        """Write records as CSV, with their labels where there are some. A record is one line, whatever is in it."""
        names = [c.name for c in self.columns]
        out.write(_lines([names if labels is None else [*names, self.label]]))
        for first in range(0, len(columns[0]), _BLOCK):
            texts = [c.texts(values[first : first + _BLOCK]) for c, values in zip(self.columns, columns)]
            if labels is not None:
                texts.append(labels[first : first + _BLOCK])
            out.write(_lines(zip(*texts)))


def _has_bounds(bounds: Optional[Bounds], key: Any, number: int, width: int) -> bool:
    """Whether bounds were declared for this very column."""
    if isinstance(bounds, Mapping):
        return key in bounds
    return bounds is not None and _is_list(bounds) and not _is_pair(bounds) and len(bounds) == width and bounds[number] is not None


def _is_list(bounds: Any) -> bool:
    return hasattr(bounds, "__len__") and hasattr(bounds, "__getitem__") and not isinstance(bounds, (str, bytes))


def _lines(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8")


def _bounds(bounds: Optional[Bounds], key: Any, number: int, width: int) -> Pair:
    what = f"bounds of column {key!r}"
    if bounds is None:
        raise UsageError(
            "bounds are not declared: give bounds=(low, high), a pair for each column, or pairs by name, and categories={…} of columns that are no numbers. "
            "Take them from what you know, and not from X"
        )
    if isinstance(bounds, Mapping):
        if key not in bounds:
            raise UsageError(f"column {key!r} has no bounds and no categories: declare them, or leave it out of X")
        return pair(bounds[key], what)
    if not _is_list(bounds):
        raise UsageError(f"bounds {bounds!r}: give a pair (low, high) of numbers, a pair for each column, or pairs by name")
    if _is_pair(bounds):
        return pair(bounds, "bounds")
    if len(bounds) != width:
        raise UsageError(f"bounds has {len(bounds)} pairs, and X {width} columns: give one for all, or a pair for each")
    return pair(bounds[number], what)


@dataclass(frozen=True)
class Images:
    """Records of three or four axes: gray images, or images with channels."""

    shape: tuple[int, int, int]  # channels, height, width
    last: bool  # the channels stand last in X
    bounds: Optional[Pair]  # None: bytes

    @staticmethod
    def declared(X: np.ndarray, bounds: Optional[Bounds]) -> Images:
        if X.dtype.kind not in "biuf":
            raise UsageError(f"X has the type {X.dtype}: give images as uint8, or as numbers with bounds=(low, high)")
        if bounds is None and X.dtype != np.uint8:
            raise UsageError(f"bounds are not declared: give bounds=(low, high), the least and the largest value of a pixel of the type {X.dtype}; images of uint8 need none")
        if bounds is not None and (isinstance(bounds, Mapping) or not _is_list(bounds) or not _is_pair(bounds)):
            raise UsageError("bounds: give one pair (low, high) for all pixels of images")
        limits = None if bounds is None else pair(bounds, "bounds")
        if X.ndim == 3:
            return Images((1, X.shape[1], X.shape[2]), False, limits)
        few = (1, 2, 3, 4)
        first, last = X.shape[1] in few, X.shape[3] in few
        if first == last:
            raise UsageError(f"X has images of {X.shape[1:]}, and it is not plain which axis is the channels': give images with one to four channels, first or last, and larger sides")
        if last:
            return Images((X.shape[3], X.shape[1], X.shape[2]), True, limits)
        return Images((X.shape[1], X.shape[2], X.shape[3]), False, limits)

    @staticmethod
    def check_classes(labels: Labels) -> None:
        """Refuse more classes than the format of images has."""
        if len(labels.names) > _NO_CLASS:
            raise UsageError(f"{len(labels.names)} classes were declared: images may have {_NO_CLASS} at most")

    @property
    def size(self) -> str:
        return "x".join(map(str, self.shape))

    def check(self, X: np.ndarray) -> None:
        """Refuse images of another form than those that were trained on."""
        channels, height, width = self.shape
        gray = (height, width)
        form = (height, width, channels) if self.last else self.shape
        if X.shape[1:] != form and not (channels == 1 and X.shape[1:] == gray):
            raise UsageError(f"X has images of {X.shape[1:]}, but {form} were trained on: give such images")
        if self.bounds is None and X.dtype != np.uint8:
            raise UsageError(f"X has the type {X.dtype}, and images of uint8 were trained on: give such images")

    def blocks(self, X: np.ndarray) -> Iterator[bytes]:
        """The records as the program reads them, channels first: bytes, or numbers from 0 to 1."""
        for first in range(0, len(X), _BLOCK):
            block = X[first : first + _BLOCK]
            if self.last and block.ndim == 4:
                block = np.moveaxis(block, -1, 1)
            if self.bounds is not None:
                low, high = self.bounds
                block = np.clip((np.array(floats(block.reshape(-1))).reshape(block.shape) - low) / (high - low), 0, 1).astype("<f4")
            yield np.ascontiguousarray(block).tobytes()

    def header(self, records: int) -> bytes:
        """What stands before the values in NumPy's format."""
        out = io.BytesIO()
        kind = "|u1" if self.bounds is None else "<f4"
        np.lib.format.write_array_header_1_0(out, {"descr": kind, "fortran_order": False, "shape": (records, *self.shape)})
        return out.getvalue()

    def write(self, out: Any, X: np.ndarray) -> None:
        """Write the records as numpy.save does."""
        out.write(self.header(len(X)))
        for block in self.blocks(X):
            out.write(block)

    def write_labelled(self, out: Any, X: np.ndarray, numbers: list[Optional[int]]) -> None:
        """Write the records with their labels as numpy.savez does."""
        import zipfile

        with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
            with archive.open("x_train.npy", "w", force_zip64=True) as entry:
                self.write(entry, X)
            with archive.open("y_train.npy", "w", force_zip64=True) as entry:
                labels = np.array([_NO_CLASS if n is None else n for n in numbers], dtype=np.uint8)
                np.lib.format.write_array(entry, labels, allow_pickle=False)
