"""The inputs of the model replay: a case made of a shape, sizes and seeds, the sample, or an uploaded one."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import streamlit as st

from polykv_core import (
    KvTensorShape,
    ModelReplayCase,
    ModelReplayConfig,
    PolyKvError,
    load_model_case,
)
from polykv_core.synthetic import LIMITS, synthetic_case

KIND = "case_kind"
SAMPLE = Path(__file__).resolve().parents[2] / "sample_fixtures" / "model_case_one_layer_two_heads.json"

_MADE, _SAMPLE, _UPLOADED = "made", "sample", "upload"
_KINDS = {_MADE: "Make one up", _SAMPLE: "Sample", _UPLOADED: "Upload one"}
_HELD = "held_case"
_LARGEST_SEED = 2**53 - 1  # beyond it a browser's numbers are no longer exact


@dataclass(frozen=True)
class Asked:
    """A case that is asked for: `key` tells it from others of the session; `load` may raise PolyKvError."""

    key: str
    name: str
    load: Callable[[], ModelReplayCase]


@dataclass(frozen=True)
class _Field:
    name: str
    label: str
    value: int
    low: int
    high: int
    meaning: str
    step: int = 1

    @property
    def key(self) -> str:
        """What the widget is called, also in the URL."""
        return f"model_{self.name}"


# A row each of what belongs together.
_FIELDS = (
    (
        _Field("layers", "Layers", 2, 1, LIMITS["layers"], "Layers of the made-up model."),
        _Field("kv_heads", "KV heads", 2, 1, LIMITS["KV heads"], "Key-value heads a layer."),
        _Field("head_dim", "Dimensions", 16, 8, LIMITS["head_dim"], "head_dim of a key or value; a multiple of 4.", 4),
        _Field("layer", "Layer", 0, 0, LIMITS["layers"] - 1, "Which layer is replayed, counted from 0."),
        _Field("head", "Head", 0, 0, LIMITS["KV heads"] - 1, "Which KV head is replayed, counted from 0."),
    ),
    (
        _Field("shared", "Shared tokens", 96, 1, LIMITS["tokens a tier"], "Rows in the pool, which all agents read."),
        _Field("hot", "Hot tokens", 32, 1, LIMITS["tokens a tier"], "Rows in the agent's own shell."),
        _Field("queries", "Queries", 8, 1, LIMITS["queries"], "Query vectors; metrics are means over them."),
        _Field("vocab", "Vocabulary", 64, 1, LIMITS["vocab_size"], "Tokens that the synthetic projection knows."),
    ),
    (
        _Field("data_seed", "Data seed", 7, 0, _LARGEST_SEED, "Draws rows, queries and labels."),
        _Field("pool_seed", "Pool seed", 0, 0, _LARGEST_SEED, "Draws rotation and codebook of the pool."),
        _Field("shell_seed", "Shell seed", 1, 0, _LARGEST_SEED, "Draws rotation and sketch of the shell."),
        _Field("projection_seed", "Projection seed", 0, 0, _LARGEST_SEED, "Shifts the synthetic projection to tokens."),
    ),
)
_FIELD_WIDTH = 160
_MOST_DIGITS = 20  # more are no seed


def draw() -> Asked | None:
    """The inputs, and the case they ask for; None as long as an upload is asked for and not there."""
    kind = st.segmented_control(
        "Case",
        list(_KINDS),
        format_func=_KINDS.__getitem__,
        default=_MADE,
        required=True,
        key=KIND,
        persist_state="session",
        label_visibility="collapsed",
    )
    if kind == _MADE:
        return _draw_fields()
    if kind == _SAMPLE:
        return Asked("sample", "sample with one layer and two heads", lambda: load_model_case(SAMPLE))
    return _draw_upload()


def from_url(texts: Mapping[str, str]) -> dict[str, object]:
    """The inputs that a URL gives, by their widgets' keys; what makes no sense is left out."""
    taken: dict[str, object] = {}
    if texts.get(KIND) in (_SAMPLE, _UPLOADED):
        taken[KIND] = texts[KIND]
    for field in _all_fields():
        text = texts.get(field.key, "")
        if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and field.low <= int(text) <= field.high:
            taken[field.key] = int(text)
    return taken


def in_url() -> dict[str, str]:
    """The inputs that are not as they were at first, as a URL has them."""
    first = {KIND: _MADE} | {field.key: field.value for field in _all_fields()}
    now = {key: st.session_state.get(key, value) for key, value in first.items()}
    return {key: str(value) for key, value in now.items() if value != first[key]}


def _all_fields() -> Iterator[_Field]:
    return chain.from_iterable(_FIELDS)


def _draw_fields() -> Asked:
    values: dict[str, int] = {}
    for row in _FIELDS:
        with st.container(horizontal=True, gap="small"):  # as many side by side as there is room for
            values |= {field.name: _draw_field(field) for field in row}
    name = f"made-up case with data seed {values['data_seed']}"
    return Asked(f"made {values}", name, lambda: _made(values))


def _draw_field(field: _Field) -> int:
    bounds = "" if field.high == _LARGEST_SEED else f" From {field.low} to {field.high}."
    return st.number_input(
        field.label,
        min_value=field.low,
        max_value=field.high,
        value=field.value,
        step=field.step,
        key=field.key,
        help=f"{field.meaning}{bounds}",
        width=_FIELD_WIDTH,
        persist_state="session",
    )


def _made(values: dict[str, int]) -> ModelReplayCase:
    heads, dim = values["kv_heads"], values["head_dim"]
    return synthetic_case(
        KvTensorShape(values["layers"], heads, dim, num_heads=heads, hidden_size=heads * dim),
        values["shared"],
        values["hot"],
        values["queries"],
        values["data_seed"],
        ModelReplayConfig(
            layer=values["layer"],
            head=values["head"],
            vocab_size=values["vocab"],
            projection_seed=values["projection_seed"],
        ),
        values["pool_seed"],
        values["shell_seed"],
    )


def _draw_upload() -> Asked | None:
    count = st.session_state.get("case_count", 0)
    st.file_uploader(
        "A model-replay case",
        type=["json", "gz"],
        key=f"case_upload_{count}",
        on_change=_take,
        help="Shape, rows of pool and shell, seeds, queries and config in one JSON file, plain or gzipped: what the "
        "button for the case downloads. It stays in this browser session and is not shared.",
    )
    held: tuple[str, ModelReplayCase | PolyKvError] | None = st.session_state.get(_HELD)
    if held is None:
        return None
    name, content = held
    with st.container(horizontal=True, vertical_alignment="center"):
        st.text(f"Uploaded: {name}")
        st.button("Clear", key="clear_case", on_click=_clear, icon=":material/delete:")
    return Asked(f"upload {count}", name, lambda: _loaded(content))


def _take() -> None:
    """Read a file out of the uploader, which then waits for the next one."""
    count = st.session_state.get("case_count", 0)
    file = st.session_state[f"case_upload_{count}"]
    if file is None:
        return
    try:
        content: ModelReplayCase | PolyKvError = load_model_case(file.getvalue())
    except PolyKvError as bad:
        content = bad
    st.session_state[_HELD] = (file.name, content)
    st.session_state["case_count"] = count + 1


def _clear() -> None:
    st.session_state.pop(_HELD, None)


def _loaded(content: ModelReplayCase | PolyKvError) -> ModelReplayCase:
    if isinstance(content, PolyKvError):
        raise content.with_traceback(None)
    return content
