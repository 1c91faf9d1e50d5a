"""About the numbers: what is measured and how, what it means, what is not claimed. Facts are from the core's lists."""

import streamlit as st

from pages.ui import style
from pages.ui.definitions import DEFINITIONS
from polykv_core import DEFAULT_CANDIDATE_KS, GATES, METRICS, CapturedReplayConfig, Gate, Metric, words
from polykv_core.receipt import CAPTURED_CLAIM_BOUNDARY, MODEL_CLAIM_BOUNDARY

_CARDS_A_ROW = 2

_WAY = "rows → **pool + shell** → scores → ranking → **top k** → output → logits → **metrics** → gates → **receipt**"
_REPLAY = """
An attention head reads a **cache** of rows, each a key and a value. PolyKV replays one head with that cache compressed
in two tiers, and with only the best **k** rows read:

1. **Pool**: the first rows, shared by many agents. FibQuant keeps a row's length and, for each block of 4 numbers, the
   nearest of 32 codewords.
2. **Shell**: the rows that one agent adds. TurboQuant keeps a radius and one of 128 angles for each pair of numbers,
   and 32 signs that sketch what is left over.
3. Every row of both tiers is **scored** against the query in compressed form and **ranked**, largest score first.
4. The values of the top k are **decoded** and mixed by the softmax of their scores. That is the output, b; a projection
   turns it into logits and probabilities, q.
5. b and q are held against the **exact** ones, a and p. The differences are the metrics below; thresholds on them are
   the **gates**.
"""

_TERMS = {
    "k": "Number of rows read for each query. A k larger than the rows there are reads all of them.",
    "Candidate ks": "The ks that a receipt judges, in your order of preference.",
    "Selected k": "The first candidate in the list that passes every gate; if none does, the last one. The order "
    "decides, not the size: of `16, 8` with both passing, 16 is selected.",
    "Smallest passing k": "The smallest of all ks, candidate or not, that passes every gate. It is no part of the "
    "receipt. Where a curve turns back, a larger k may fail again.",
    "Blockers": "The gates that fail at the selected k, each with its value and threshold. Without any, it passed.",
    "Margin and tightest gate": "A margin is how far a value is inside its threshold. The tightest gate is the one "
    "whose margin is the smallest share of its threshold: metrics have different units.",
    "95 % interval": "Where a metric would lie with other queries, by resampling those there are (bootstrap). A gate "
    "inside the interval could as well have gone the other way.",
    "Loss ladder": "On the Explain page: the replay with one step after the other made as it makes it. The loss is the "
    "distance from a metric's best value; what a stage adds is what its step costs.",
    "Reference": "The Rust crate poly-kv, which this replay agrees with. Replay options depart from it, and a receipt "
    "made with any of them says so.",
    "Receipt": "The verdict as JSON: thresholds, every candidate with its metrics, the selected k, the blockers, and "
    "what is not claimed. Whoever has the same file gets the same receipt.",
    "Decode reduction": "Value rows there are, divided by value rows read. All keys are still scored.",
    "Exact": "In a replay, the output and logits that were captured with the head. In a model replay, unscaled "
    "attention over all rows of the decoded cache: there only the reading of few rows is judged.",
}

_NO_SCALE = r"""
Most models divide scores by $\sqrt{d}$ before the softmax. The replay, like its reference, does not:
"""
_NO_SCALE_MEANS = r"""
So its attention is sharper than the model's, and a few rows get nearly all the weight. On a head that was captured with
$1/\sqrt{d}$ the replay cannot reach cosine 1, not even with nothing compressed. The Explain page says what that costs,
and the replay option "Attention scale" divides. Or capture $q/\sqrt{d}$ as the query: the scores are then the model's
own, and the receipt judges compression alone.
"""

_SEEDS = """
Rotations, codebooks and sketches are drawn from seeds, never from the rows. In a **replay**, the fixture brings one
seed: query number i, counted from 0, has pool seed `seed + i` and shell seed `seed + 10000 + i`. In a **model replay**
you set them: pool and shell for the codecs, data for rows, queries and labels, projection for the synthetic logits. The
same seeds give the same numbers on every machine.
"""


def draw_metrics() -> None:
    """A card a metric."""
    with st.container(key=f"{style.SIDE_BY_SIDE}_metrics"):
        for start in range(0, len(METRICS), _CARDS_A_ROW):
            for column, metric in zip(st.columns(_CARDS_A_ROW), METRICS[start:], strict=False):
                with column.container(border=True, height="stretch", gap="small"):
                    draw_metric(metric)


def draw_metric(metric: Metric) -> None:
    """Name, facts, formula, meaning."""
    st.subheader(words.named(metric.name, metric.label), anchor=False)
    best = "no end" if metric.best == float("inf") else f"best {words.number(metric.best)}"
    facts = [
        metric.direction,
        best,
        f"in {metric.unit}" if metric.unit.isalpha() and len(metric.unit) > 1 else "no unit",
    ]
    gated = "it has a gate" if any(gate.metric == metric.name for gate in GATES) else "it has no gate"
    st.caption(f"{', '.join([*facts, gated]).capitalize()}.")
    definition = DEFINITIONS.get(metric.name)
    if definition:
        st.latex(definition.formula)
        st.markdown(definition.meaning)
    # Not as a caption, whose code is too pale to read.
    st.markdown(f"{definition.averaged if definition else ''} In a receipt: `{metric.name}`.")


def gate_row(gate: Gate, defaults: CapturedReplayConfig) -> dict[str, str]:
    """A gate as a row of a table."""
    value = "|value|" if gate.absolute else "value"
    return {
        "Gate": words.named(gate.metric, gate.label),
        "Passes when": f"{value} is {words.at_bound(gate)} the threshold",
        "Seed default": words.number(getattr(defaults, gate.threshold)),
        "Threshold when off": words.number(gate.off),
        "In a receipt": gate.threshold,
    }


st.title("About the numbers", anchor=False)
st.markdown(_REPLAY)
st.markdown(_WAY)

st.header("Metrics", anchor=False)
st.markdown("a is the exact output and b the replayed one, d numbers each; p and q are the softmax of their logits.")
draw_metrics()

st.header("Gates", anchor=False)
st.markdown(
    "A candidate passes when no gate fails. **Equality passes. A number that is not finite fails**, even where the "
    "gate is switched off. Moving a gate judges anew what was measured once; nothing is computed again."
)
st.table(
    [gate_row(gate, CapturedReplayConfig(DEFAULT_CANDIDATE_KS)) for gate in GATES], border="horizontal", hide_index=True
)

st.header("Words", anchor=False)
st.markdown("\n".join(f"- **{term}**: {meaning}" for term, meaning in _TERMS.items()))

st.header("No division by √d", anchor=False)
st.markdown(_NO_SCALE)
st.latex(
    r"\operatorname{softmax}(q \cdot k_1, \dots, q \cdot k_n) \qquad\text{not}\qquad "
    r"\operatorname{softmax}\!\left(\tfrac{q \cdot k_1}{\sqrt{d}}, \dots, \tfrac{q \cdot k_n}{\sqrt{d}}\right)"
)
st.markdown(_NO_SCALE_MEANS)

st.header("Where seeds come from", anchor=False)
st.markdown(_SEEDS)

st.header("What is not claimed", anchor=False)
st.markdown("Every receipt carries its claim boundary, word for word:")
for title, boundary in (("Replay", CAPTURED_CLAIM_BOUNDARY), ("Model replay", MODEL_CLAIM_BOUNDARY)):
    with st.container(border=True, gap="xsmall"):
        st.markdown(f"**{title}**")
        st.text(boundary)
st.markdown(
    "Nor is a KL divergence near that of the *uncompressed* captured output a fault of compression: logits of a whole "
    "model held against one head differ by themselves. The Explain page names that floor."
)
