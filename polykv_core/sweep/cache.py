"""The bytes of a model's cache, put together from its heads: query heads that share a KV head share its cache."""

from collections.abc import Mapping
from dataclasses import dataclass

from polykv_core.footprint import Footprint
from polykv_core.sweep.items import SweepItem


@dataclass(frozen=True)
class CacheBytes:
    """Bytes of a token's keys and values over `kv_heads` KV heads of all swept layers.

    In the pool, in the shell, and over the tokens of both as the heads were captured; uncompressed, in float32 and in
    float16. `table_bytes` stand beside that once, however many tokens there are: all heads of a model share its tables.
    """

    kv_heads: int
    pool_bytes_per_token: float
    shell_bytes_per_token: float
    bytes_per_token: float
    fp32_bytes_per_token: int
    fp16_bytes_per_token: int
    table_bytes: int

    @property
    def ratio_to_fp32(self) -> float:
        """How many times smaller than in float32."""
        return self.fp32_bytes_per_token / self.bytes_per_token

    @property
    def ratio_to_fp16(self) -> float:
        """How many times smaller than in float16; below 1 it is larger."""
        return self.fp16_bytes_per_token / self.bytes_per_token


def cache_bytes(footprints: Mapping[SweepItem, Footprint]) -> CacheBytes | None:
    """Each KV head of each layer of each model once. None where there is no head."""
    once: dict[object, Footprint] = {}
    tables: dict[str, int] = {}
    # A head may come from two files, of which one tells its KV head.
    told = {_place(item): item.kv_head for item in footprints if item.kv_head is not None}
    for item, footprint in footprints.items():
        once.setdefault(_cache_of(item, told.get(_place(item))), footprint)
        tables[item.model] = max(tables.get(item.model, 0), footprint.table_bytes)
    counted = once.values()
    if not counted:
        return None
    return CacheBytes(
        kv_heads=len(counted),
        pool_bytes_per_token=sum(footprint.pool.bytes_per_token for footprint in counted),
        shell_bytes_per_token=sum(footprint.shell.bytes_per_token for footprint in counted),
        bytes_per_token=sum(footprint.bytes_per_token for footprint in counted),
        fp32_bytes_per_token=sum(footprint.fp32_bytes_per_token for footprint in counted),
        fp16_bytes_per_token=sum(footprint.fp16_bytes_per_token for footprint in counted),
        table_bytes=sum(tables.values()),
    )


def _place(item: SweepItem) -> tuple[object, ...]:
    return item.model, item.layer, item.head_index


def _cache_of(item: SweepItem, kv_head: int | None) -> object:
    """What has one cache: the KV head where a file tells it, else the head, else whatever the item is."""
    if item.layer is None or (kv_head is None and item.head_index is None):
        return item.name
    shared = kv_head is not None
    return item.model, item.layer, shared, kv_head if shared else item.head_index
