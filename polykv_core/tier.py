"""One tier of the compressed cache: rows in, codes kept, scores and values out. Pool and shell are one each."""

from dataclasses import dataclass, fields
from functools import partial
from typing import no_type_check

import numpy as np

from polykv_core.arrays import Array, Float32, Int64, sum_in_order
from polykv_core.checks import Checks
from polykv_core.codecs import Codec, take
from polykv_core.codecs.base import Coder, Codes
from polykv_core.errors import CacheError

_ROWS_AT_A_TIME = 2048

_check = Checks(CacheError)


@no_type_check  # takes what comes, and checks it itself
@dataclass(frozen=True)
class KvTensorShape:
    """The shape of a model's KV tensors. Raises CacheError for a size below 1."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    attention_type: str = "mha"
    num_heads: int | None = None
    hidden_size: int | None = None

    @classmethod
    def from_dict(cls, data: object) -> "KvTensorShape":
        """A shape from the crate's JSON fields."""
        record = _check.record(data, "shape", ("num_layers", "num_kv_heads", "head_dim"))
        return cls(**{field.name: record[field.name] for field in fields(cls) if field.name in record})

    def __post_init__(self) -> None:
        """Check the sizes; query heads and hidden size are only recorded."""
        for name in ("num_layers", "num_kv_heads", "head_dim"):
            _check.integer(getattr(self, name), f"shape, {name}", low=1)

    @property
    def row_width(self) -> int:
        """Numbers of one token's row: key and value for each layer and KV head."""
        return self.num_layers * self.num_kv_heads * 2 * self.head_dim


class CompressedTier:
    """The encoded keys and values of some tokens, for every layer and KV head.

    A token's row holds, layer by layer and head by head, the key and then the value. Keys and values of a layer are one
    batch each: block token * heads + head.
    """

    def __init__(
        self, name: str, rows: Float32[Array, "t width"], shape: KvTensorShape, seed: int, codec: Codec
    ) -> None:
        """Encode rows. Raises CacheError for rows of another width, CodecError for rows the codec cannot hold."""
        codec.check_head_dim(shape.head_dim)
        if not len(rows):
            raise CacheError(f"the {name} has no rows; a replay needs rows in both tiers")
        rows = _check.rows(rows, f"{name} rows", shape.row_width, "layers x KV heads x 2 x head_dim")
        self.name = name
        self.shape = shape
        self.token_count = len(rows)
        self.coder = codec.coder(shape.head_dim, _check.integer(seed, f"{name} seed"))
        blocks = rows.reshape(self.token_count, shape.num_layers, shape.num_kv_heads, 2, shape.head_dim)
        self._codes: list[tuple[Codes, Codes]] = []
        for layer in range(shape.num_layers):
            keys, values = (blocks[:, layer, :, part].reshape(-1, shape.head_dim) for part in (0, 1))
            codec.check_rows(keys, partial(self._block_name, layer, "key"))
            codec.check_rows(values, partial(self._block_name, layer, "value"))
            self._codes.append((_encoded(self.coder, keys), _encoded(self.coder, values)))

    def scores(
        self, layer: int, head: int, query: Float32[Array, " d"], *, exact_query: bool = False
    ) -> Float32[Array, " t"]:
        """Compressed score of every token's key for a query; with `exact_query` the query is not compressed."""
        keys, _ = self._head(layer, head)
        if exact_query and self.coder.codes_query:
            with np.errstate(over="ignore", invalid="ignore"):
                return sum_in_order(self.coder.decode(keys) * query)
        return self.coder.score(keys, query)

    def keys(self, layer: int, head: int) -> Float32[Array, "t d"]:
        """Every token's key, decoded."""
        keys, _ = self._head(layer, head)
        return self.coder.decode(keys)

    def values(self, layer: int, head: int, tokens: Int64[Array, " m"] | slice = slice(None)) -> Float32[Array, "m d"]:
        """The values of some tokens (all by default), decoded; only these are decoded."""
        _, values = self._head(layer, head)
        return self.coder.decode(take(values, tokens))

    def _head(self, layer: int, head: int) -> tuple[Codes, Codes]:
        for what, index, count in (("layer", layer, self.shape.num_layers), ("head", head, self.shape.num_kv_heads)):
            if not 0 <= index < count:
                raise CacheError(f"{what} is {index}; the {self.name} has {count}, counted from 0")
        keys, values = self._codes[layer]
        tokens = np.s_[head :: self.shape.num_kv_heads]
        return take(keys, tokens), take(values, tokens)

    def _block_name(self, layer: int, kind: str, block: int) -> str:
        token, head = divmod(block, self.shape.num_kv_heads)
        return f"{self.name} row {token}, layer {layer}, head {head}, {kind}"


def _encoded(coder: Coder, rows: Float32[Array, "t d"]) -> Codes:
    """Codes of rows, some thousands at a time: what is worked out on the way then stays in the processor's cache."""
    parts = [coder.encode(part) for part in np.array_split(rows, max(1, len(rows) // _ROWS_AT_A_TIME))]
    return parts[0] if len(parts) == 1 else type(parts[0])(*map(np.concatenate, zip(*parts, strict=True)))
