"""What each metric is, as a formula and in plain words. A metric of the core without an entry here is shown without."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Definition:
    """A formula for KaTeX, how it is taken over the queries, and what it tells."""

    formula: str
    averaged: str
    meaning: str


_MEAN = "Mean over the queries."

DEFINITIONS = {
    "output_cosine_mean": Definition(
        r"\cos = \frac{a \cdot b}{\lVert a \rVert \, \lVert b \rVert}",
        _MEAN,
        "Does the replayed output b point where the exact output a points? 1 is the same direction, 0 none in common. "
        "Blind to length. Counts as 0 where a or b has no length.",
    ),
    "output_mse_mean": Definition(
        r"\mathrm{MSE} = \frac{1}{d} \sum_{i=1}^{d} (a_i - b_i)^2",
        _MEAN,
        "How far the replayed output is from the exact one, number by number. Its scale is that of the values, so a "
        "threshold for one head means little for another.",
    ),
    "kl_divergence_mean": Definition(
        r"\mathrm{KL} = \sum_{v:\, p_v > 0} p_v \ln \frac{p_v}{\max(q_v,\, 10^{-12})}",
        _MEAN,
        "How much the token probabilities after the replay, q, miss of the exact ones, p. 0 is nothing; a hair below "
        "0 is rounding.",
    ),
    "top1_agreement": Definition(
        r"\frac{1}{Q} \sum_{i=1}^{Q} \left[\, \operatorname{arg\,max} p^{(i)} = \operatorname{arg\,max} q^{(i)} "
        r"\,\right]",
        "Share of the queries; with Q queries it moves in steps of 1/Q.",
        "How often the most likely token stays the same. The last of equal maxima counts.",
    ),
    "ppl_proxy_exact": Definition(
        r"\exp\!\left( \frac{1}{Q} \sum_{i=1}^{Q} -\ln \max(p^{(i)}_{\text{label}},\, 10^{-12}) \right)",
        "Exponential of the mean over the queries.",
        "How surprised the exact logits are by the labels, as a number of equally likely tokens. A yardstick: it does "
        "not depend on k.",
    ),
    "ppl_proxy_compressed": Definition(
        r"\exp\!\left( \frac{1}{Q} \sum_{i=1}^{Q} -\ln \max(q^{(i)}_{\text{label}},\, 10^{-12}) \right)",
        "Exponential of the mean over the queries.",
        "The same with the replayed logits. A proxy: a few captured labels are no test set.",
    ),
    "ppl_proxy_delta": Definition(
        # The space at the end keeps the last subscript inside its box, which would scroll otherwise.
        r"\Delta = \mathrm{PPL}_{\text{compressed}} - \mathrm{PPL}_{\text{exact}}\;",
        "Difference of the two numbers above.",
        "What compression does to the proxy. Below 0 the replay happens to like the labels better, which is a change "
        "too: the gate, and the chart, take the absolute value.",
    ),
    "decode_reduction": Definition(
        r"\frac{\sum_i \text{rows}^{(i)}}{\max\left(\sum_i \min(k, \text{rows}^{(i)}),\, 1\right)}",
        "Ratio of sums over the queries.",
        "How many times fewer value rows are decoded than there are. It has no gate: it is what a small k buys. It "
        "counts rows, not bytes and not time.",
    ),
}
