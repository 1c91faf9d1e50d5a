"""Receipts' dataclasses from JSON, every field checked against its annotation."""

from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from polykv_core.checks import Checks
from polykv_core.errors import ConfigError, ReceiptError

# Fields that do not stand in the JSON under their own name.
BESIDE = ("options", "evidence")

_check = Checks(ReceiptError)


def names_of(cls: type[Any]) -> list[str]:
    """A dataclass's fields as the JSON has them, in order."""
    return [field.name for field in fields(cls) if field.name not in BESIDE]


def record_of(cls: type[Any], data: Any, place: str) -> Any:
    """A dataclass from JSON fields; unknown ones are ignored, as the crate does. Raises ReceiptError with the place."""
    record = _check.record(data, place, names_of(cls))
    kinds = get_type_hints(cls)
    return cls(**{name: _value(kinds[name], record[name], f"{place}, {name}") for name in names_of(cls)})


def _value(kind: Any, value: Any, place: str) -> Any:
    if kind is int:
        return _check.integer(value, place)
    if kind is float:
        return _check.number(value, place)
    if kind is bool:
        return _check.flag(value, place)
    if kind is str:
        return _check.text(value, place)
    if get_origin(kind) is UnionType:  # a text or null
        return None if value is None else _value(get_args(kind)[0], value, place)
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        return tuple(_value(item, entry, f"{place}[{index}]") for index, entry in enumerate(_check.items(value, place)))
    if hasattr(kind, "from_dict"):
        try:
            return kind.from_dict(_check.record(value, place))
        except ConfigError as bad:
            raise ReceiptError(f"{place}: {bad}") from None
    if isinstance(kind, type) and is_dataclass(kind):
        return record_of(kind, value, place)
    raise TypeError(f"{place} has a field of {kind}, which no receipt holds")
