"""What a sweep goes over: the heads of some files, each with its place in the model where that is known."""

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from polykv_core.errors import PolyKvError, SweepError
from polykv_core.loading import heads_in, load_fixture
from polykv_core.packs import Head
from polykv_core.sweep.faults import told

_PLACE = re.compile(r"layer[_-]?(\d{1,6})\W*head[_-]?(\d{1,6})|(?<![A-Za-z0-9])L(\d{1,6})_?H(\d{1,6})(?![0-9])")
_FEW_NAMED = 8


@dataclass(frozen=True)
class SweepItem:
    """One head of a sweep.

    `file` is an absolute path, `head` the name in it, or None for a fixture in JSON. `layer` and `head_index` are None
    where the file does not tell. Heads of one layer with the same `kv_head` read the same cache; None where that is not
    known. `name` is for people, and no other item of the sweep has it. `fault` says why a file cannot be opened: its
    work then has no more to say.
    """

    file: str
    head: str | None
    name: str
    model_id: str = ""
    layer: int | None = None
    head_index: int | None = None
    kv_head: int | None = None
    fault: str | None = None

    @property
    def model(self) -> str:
        """The model's part of model_id, which all its heads share; the file where there is none."""
        return _PLACE.sub("", self.model_id).strip(" :/_-#.") or self.file


def sweep_items(
    files: Iterable[str | os.PathLike[str]],
    layers: Collection[int] | None = None,
    heads: Collection[int] | None = None,
) -> tuple[SweepItem, ...]:
    """The heads of files, in their order; of compact files only the layout is read. A file given twice is taken once.

    `layers` and `heads` keep only those. A file that cannot be opened is an item with a fault, whatever is kept.
    Raises SweepError if nothing is left.
    """
    paths = list(dict.fromkeys(map(absolute, files)))
    if not paths:
        raise SweepError("there is no file to sweep; give at least one fixture")
    labels = _labels(paths)
    found = [item for path in paths for item in _items(path, labels[path])]
    kept = tuple(
        item for item in found if item.fault or (_asked(item.layer, layers) and _asked(item.head_index, heads))
    )
    if not kept:
        raise SweepError(_nothing_left(found, layers, heads))
    return kept


def absolute(file: str | os.PathLike[str]) -> str:
    """A path that means the same in another process: there /dev/stdin would be another file."""
    path = os.path.abspath(file)
    return os.path.realpath(path) if path.startswith(("/dev/", "/proc/")) else path


def _items(path: str, label: str) -> list[SweepItem]:
    """The heads of one file."""
    try:
        _check_file(path)
        found = heads_in(path)
        if found:
            return [_of_pack(path, label, head) for head in found]
        model_id = load_fixture(path).model_id
    except (PolyKvError, OSError, MemoryError) as bad:
        return [SweepItem(path, None, label, fault=told(bad))]
    layer, head = _place(model_id)
    return [SweepItem(path, None, label, model_id, layer, head)]


def _check_file(path: str) -> None:
    """Raise OSError or SweepError for what cannot be opened again for each head, maybe by another process."""
    if not os.path.exists(path) or os.path.isfile(path) or os.path.isdir(path):
        Path(path).open("rb").close()
    else:
        raise SweepError("it is a pipe or a device, and a sweep reads its files again and again; give a file")


def _of_pack(path: str, label: str, head: Head) -> SweepItem:
    layer, index = _place(head.name)
    if layer is None:
        layer, index = _place(head.model_id)
    about = _whole_numbers(head.about)
    item = SweepItem(path, head.name, f"{label}#{head.name}", head.model_id, layer, index, about.get("kv_head"))
    return replace(item, layer=about.get("layer", item.layer), head_index=about.get("head", item.head_index))


def _place(name: str) -> tuple[int | None, int | None]:
    """Layer and head that a name tells: `L15_H2`, `...:layer15:head2`."""
    found = _PLACE.search(name)
    if not found:
        return None, None
    layer, head = (int(number) for number in found.groups() if number is not None)
    return layer, head


def _whole_numbers(about: Mapping[str, Any]) -> dict[str, int]:
    """What a layout says beside the fixture, as far as it is a number of a layer or head; it is anybody's data."""
    return {name: value for name, value in about.items() if type(value) is int and 0 <= value < 10**6}


def _labels(paths: Sequence[str]) -> dict[str, str]:
    """For each path its file name, or as many of its folders as it takes to tell it from the others."""
    labels: dict[str, str] = {}
    for path in paths:
        parts, others = Path(path).parts, [Path(other).parts for other in paths if other != path]
        count = next((n for n in range(1, len(parts)) if all(parts[-n:] != other[-n:] for other in others)), len(parts))
        labels[path] = str(Path(*parts[-count:]))
    return labels


def _asked(place: int | None, wanted: Collection[int] | None) -> bool:
    return wanted is None or place in wanted


def _nothing_left(found: Sequence[SweepItem], layers: Collection[int] | None, heads: Collection[int] | None) -> str:
    asked = [f"{what} {_few(wanted)}" for what, wanted in (("layer", layers), ("head", heads)) if wanted is not None]
    places = {(item.layer, item.head_index) for item in found if item.layer is not None}
    if not places:
        return f"no head is in {' and '.join(asked)}: none of the {len(found)} heads says which layer and head it is"
    there_are = f"layers {_few({layer for layer, _ in places})} and heads {_few({head for _, head in places})}"
    return f"no head is in {' and '.join(asked)}; there are {there_are}"


def _few(numbers: Collection[int | None]) -> str:
    listed = sorted(number for number in numbers if number is not None)
    return ", ".join(map(str, listed[:_FEW_NAMED])) + (", ..." if len(listed) > _FEW_NAMED else "")
