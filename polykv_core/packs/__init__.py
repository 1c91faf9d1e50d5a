"""Compact fixtures: many queries that share their rows, and many heads, in one .safetensors or .npz file."""

from polykv_core.packs.containers import MAX_PACK_BYTES
from polykv_core.packs.pack import PACK_FORMAT, Head, Pack, is_pack, open_pack
from polykv_core.packs.write import Kind, Precision, fixture_json, pack_bytes

__all__ = [
    "MAX_PACK_BYTES",
    "PACK_FORMAT",
    "Head",
    "Kind",
    "Pack",
    "Precision",
    "fixture_json",
    "is_pack",
    "open_pack",
    "pack_bytes",
]
