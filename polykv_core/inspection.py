"""What is left of a head with every row read and nothing compressed: no codec is to blame for that.

It is no bound on a replay: where unscaled scores are too sharp, the codecs' noise may even help.
"""

from dataclasses import dataclass

import numpy as np

from polykv_core.attention import exact_output, project, softmax
from polykv_core.fixture import CapturedReplayFixture
from polykv_core.metrics import cosine, kl_divergence


@dataclass(frozen=True)
class Uncompressed:
    """Means over the queries when keys and values are used as captured.

    `cosine_unscaled` and `cosine_scaled` compare exact attention, with scores as they are and divided by sqrt(d), with
    the captured output. `kl` is the KL divergence (nats) of the captured output's own logits from the captured logits:
    not 0 where those come from more than this head.
    """

    cosine_unscaled: float
    cosine_scaled: float
    kl: float


def uncompressed(fixture: CapturedReplayFixture) -> Uncompressed:
    """Replay a fixture without the compressed cache."""
    factors = np.array([1.0, 1.0 / np.sqrt(fixture.head_dim)], dtype=np.float32)
    found = []
    with np.errstate(invalid="ignore", over="ignore"):
        for query in fixture.queries:
            exact = query.exact_attention_output
            outputs = np.stack([exact_output(query.keys, query.values, query.query * factor) for factor in factors])
            p, q = softmax(query.exact_logits[None]), softmax(project(exact[None], fixture.output_projection))
            found.append([*cosine(exact, outputs), *kl_divergence(p[0], q)])
    return Uncompressed(*np.mean(found, axis=0).tolist())
