"""Checks of values that come from outside: each names the place and the value, and says what was expected."""

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from typing import Any

import numpy as np

from polykv_core.arrays import U64_MASK, Array, Float, Float32, Float64, as_float32, frozen
from polykv_core.errors import PolyKvError


def shown(value: object) -> str:
    """A value as it may stand in a message: one line, printable, short."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of about {int(value.bit_length() * math.log10(2)) + 1} digits"
    if isinstance(value, list | tuple | dict):
        return f"a {'list' if isinstance(value, list | tuple) else 'JSON object'} of {len(value)}"
    if isinstance(value, Array):
        return f"an array of {value.dtype} with shape {value.shape}"
    text = "null" if value is None else repr(value)
    text = " ".join({"True": "true", "False": "false"}.get(text, text).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True)
class Checks:
    """The checks, raising one kind of error."""

    error: type[PolyKvError]

    def integer(self, value: object, place: str, low: int = 0, high: int = U64_MASK) -> int:
        """A whole number from low to high; booleans and floats are no whole numbers."""
        expected = f"expected a whole number from {low} to {high if high < U64_MASK else '2^64 - 1'}"
        try:
            number = operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            number = -1
        if isinstance(value, bool | np.bool_ | Array) or number < 0:
            raise self.error(f"{place} is {shown(value)}; {expected}")
        if not low <= number <= high:
            raise self.error(f"{place} is {shown(number)}; {expected}")
        return number

    def number(self, value: object, place: str) -> float:
        """A finite number; NaN would slip through every comparison."""
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
            raise self.error(f"{place} is {shown(value)}; expected a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.error(f"{place} is {shown(value)}; expected a finite number")
        return number

    def text(self, value: object, place: str) -> str:
        """A string that can be written as UTF-8 (a lone surrogate cannot)."""
        if not isinstance(value, str):
            raise self.error(f"{place} is {shown(value)}; expected a string")
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise self.error(f"{place} is {shown(value)}; it holds half of a surrogate pair, which is no text")
        return value

    def flag(self, value: object, place: str) -> bool:
        """True or false."""
        if not isinstance(value, bool):
            raise self.error(f"{place} is {shown(value)}; expected true or false")
        return value

    def items(self, value: object, place: str) -> list[Any] | tuple[Any, ...]:
        """A list; an array of numbers is one as well."""
        if isinstance(value, Array) and value.ndim:
            return list(value.tolist())
        if not isinstance(value, list | tuple):
            raise self.error(f"{place} is {shown(value)}; expected a list")
        return value

    def record(self, value: object, place: str, required: Iterable[str] = ()) -> Mapping[str, Any]:
        """A JSON object that has all the required fields."""
        if not isinstance(value, Mapping):
            raise self.error(f"{place} is {shown(value)}; expected a JSON object")
        for name in required:
            if name not in value:
                raise self.error(f"{place} has no field {name!r}; add it")
        return value

    def no_near_miss(self, given: Iterable[str], known: Iterable[str], place: str) -> None:
        """Unknown fields are fine, as in the reference, unless one looks like a known name typed wrong."""
        known = tuple(known)
        for name in given:
            if (
                isinstance(name, str)
                and name not in known
                and (near := get_close_matches(name, known, n=1, cutoff=0.8))
            ):
                raise self.error(f"{place} has an unknown field {shown(name)}; did you mean {near[0]!r}?")

    def vector(self, value: object, place: str, length: int, length_name: str) -> Float32[Array, " length"]:
        """One row of finite float32 numbers, as a read-only copy."""
        if not isinstance(value, Array):
            value = self.items(value, place)
        if isinstance(value, Array) and value.ndim == 1 and value.dtype.kind == "f" and len(value) == length:
            return self._finite_rows(value[None], lambda _: place, length, length_name)[0]
        return self._finite_rows([value], lambda _: place, length, length_name)[0]

    def rows(self, value: object, place: str, width: int, width_name: str) -> Float32[Array, "t width"]:
        """Rows of `width` finite float32 numbers, as a read-only copy."""
        rows = value if isinstance(value, Array) and value.ndim else self.items(value, place)
        return self._finite_rows(rows, lambda row: f"{place} row {row}", width, width_name)

    def _finite_rows(
        self, rows: Sequence[Any] | Array, name: Callable[[int], str], width: int, width_name: str
    ) -> Float32[Array, "t width"]:
        numbers = plain_rows(rows, width)
        if numbers is None:
            numbers = self._one_by_one(rows, name, width, width_name)
        finite = numbers if _is_fixed(numbers) else as_float32(numbers)
        wrong = np.argwhere(~np.isfinite(finite))
        if len(wrong):
            row, column = wrong[0].tolist()
            value = shown(float(numbers[row, column]))
            raise self.error(f"{name(row)}, column {column} is {value}; expected a number that is finite in float32")
        return frozen(finite)

    def _one_by_one(
        self, rows: Sequence[Any] | Array, name: Callable[[int], str], width: int, width_name: str
    ) -> Float64[Array, "t width"]:
        """The slow way, for inputs that are faulty or of an unusual type: names the first fault."""
        for index, row in enumerate(rows):
            entries = self.items(row.tolist() if isinstance(row, Array) else row, name(index))
            if len(entries) != width:
                raise self.error(f"{name(index)} has {len(entries)} numbers; expected {width_name} = {width}")
            for column, entry in enumerate(entries):
                self.number(entry, f"{name(index)}, column {column}")
        return np.array([[float(entry) for entry in row] for row in rows], dtype=np.float64).reshape(-1, width)


def _is_fixed(array: Array) -> bool:
    """Whether an array is float32 that nobody can change any more: then it need not be copied."""
    if array.dtype != np.float32:
        return False
    owner: object = array
    while isinstance(owner, Array):
        if owner.flags.writeable:
            return False
        owner = owner.base
    return owner is None or isinstance(owner, bytes)


def plain_rows(rows: Sequence[Any] | Array, width: int) -> Float[Array, "t width"] | None:
    """The rows as an array where they are plainly rows of `width` numbers; None where somebody must look closer."""
    if isinstance(rows, Array):
        rows = np.asarray(rows)  # a subclass brings arithmetic of its own
        return rows if rows.ndim == 2 and rows.shape[1] == width and rows.dtype.kind == "f" else None
    if not all(isinstance(row, list) and len(row) == width for row in rows):
        return None
    flat = list(chain.from_iterable(rows))
    if not set(map(type, flat)) <= {float, int}:
        return None
    try:
        return np.array(flat, dtype=np.float64).reshape(len(rows), width)
    except OverflowError:
        return None
