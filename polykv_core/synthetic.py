"""Made-up model-replay cases: Gaussian rows and queries from a seed, the same on every machine."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from polykv_core.arrays import U64_MASK, Array, Float32
from polykv_core.checks import Checks
from polykv_core.config import ModelReplayConfig
from polykv_core.errors import CaseError
from polykv_core.model_case import ModelReplayCase, ModelReplayQuery
from polykv_core.streams import standard_normals, uint64_words
from polykv_core.tier import KvTensorShape

# So that a case takes seconds, not minutes: numbers in the rows of all tokens, and products to project every k.
MOST_ROW_NUMBERS = 2**20
MOST_PROJECTION_PRODUCTS = 2**31
LIMITS: Mapping[str, int] = MappingProxyType(
    {"layers": 64, "KV heads": 64, "head_dim": 256, "tokens a tier": 2048, "queries": 64, "vocab_size": 4096}
)
SCORE_SPREAD = 2.0

_STREAM_STEP = 0x9E3779B97F4A7C15
# Keeps the streams apart from those that the codecs draw from the same small seeds: "SYNTHETI" in ASCII.
_STREAM_START = 0x53594E5448455449

_check = Checks(CaseError)


def synthetic_case(
    shape: KvTensorShape,
    shared_tokens: int,
    hot_tokens: int,
    query_count: int,
    seed: int,
    config: ModelReplayConfig,
    pool_seed: int = 0,
    shell_seed: int = 1,
) -> ModelReplayCase:
    """A case of standard normal rows and queries; labels are drawn evenly from the vocabulary.

    Queries are scaled to scores with a standard deviation of about SCORE_SPREAD, so that attention is spread over many
    rows. Each part has a ChaCha8 stream of its own: more tokens or queries leave the first ones as they were.
    Raises CaseError for sizes that are too large, or for a layer or head that the shape does not have.
    """
    _check_sizes(shape, shared_tokens, hot_tokens, query_count, config)
    dim, width = shape.head_dim, shape.row_width
    vectors = _normals(seed, 2, query_count, dim) * np.float32(SCORE_SPREAD / dim**0.5)
    labels = (uint64_words(_stream(seed, 3), query_count) % np.uint64(config.vocab_size)).tolist()
    return ModelReplayCase(
        shape=shape,
        shared=_normals(seed, 0, shared_tokens, width),
        hot=_normals(seed, 1, hot_tokens, width),
        pool_seed=pool_seed,
        shell_seed=shell_seed,
        queries=tuple(ModelReplayQuery(vector, label) for vector, label in zip(vectors, labels, strict=True)),
        config=config,
    )


def _stream(seed: int, part: int) -> int:
    """The seed of a part's own stream."""
    return ((seed ^ _STREAM_START) + part * _STREAM_STEP) & U64_MASK


def _normals(seed: int, part: int, rows: int, width: int) -> Float32[Array, "t width"]:
    return standard_normals(_stream(seed, part), rows * width).reshape(rows, width).astype(np.float32)


def _check_sizes(
    shape: KvTensorShape, shared_tokens: int, hot_tokens: int, query_count: int, config: ModelReplayConfig
) -> None:
    sizes = {"layers": shape.num_layers, "KV heads": shape.num_kv_heads, "head_dim": shape.head_dim}
    sizes |= {"queries": query_count, "vocab_size": config.vocab_size}
    for name, size in sizes.items():
        _check.integer(size, name, low=1, high=LIMITS[name])
    for name, size in (("shared tokens", shared_tokens), ("hot tokens", hot_tokens)):
        _check.integer(size, name, low=1, high=LIMITS["tokens a tier"])
    _check.integer(config.layer, "layer", high=shape.num_layers - 1)
    _check.integer(config.head, "head", high=shape.num_kv_heads - 1)
    tokens = shared_tokens + hot_tokens
    numbers = tokens * shape.row_width
    if numbers > MOST_ROW_NUMBERS:
        raise CaseError(
            f"the rows would hold {numbers:,} numbers (tokens x layers x KV heads x 2 x head_dim); at most "
            f"{MOST_ROW_NUMBERS:,} are made here. Ask for fewer tokens, layers or heads"
        )
    products = tokens * query_count * config.vocab_size * shape.head_dim
    if products > MOST_PROJECTION_PRODUCTS:
        raise CaseError(
            f"every k would take {products:,} products (tokens x queries x vocab_size x head_dim); at most "
            f"{MOST_PROJECTION_PRODUCTS:,} are done here. Ask for fewer queries, tokens, or a smaller vocab_size"
        )
