"""The bytes of a cache: counted from what is really packed."""

import numpy as np
import pytest
from support import encoded, fixture_fields

from polykv_core import CODECS, CodecError, ExactCodec, FibQuant, ReplayOptions, TurboQuant, load_fixture
from polykv_core.footprint import footprint

EXACT = ReplayOptions(pool_codec="exact", shell_codec="exact")


def fixture(**changes):
    """A small fixture."""
    return load_fixture(encoded(fixture_fields(**changes)))


@pytest.mark.parametrize(
    ("codec", "head_dim", "row", "tables"),
    [
        # 16 indices of 5 bits, and a length in fp16; 32 codewords of 4 numbers, and a seed.
        (FibQuant(), 64, 10 + 2, 32 * 4 * 4 + 8),
        # 3 indices of 6 bits end within their third byte.
        (FibQuant(4, 33), 12, 3 + 2, 33 * 4 * 4 + 8),
        (FibQuant(8, 64), 16, 2 + 2, 64 * 8 * 4 + 8),
        # 32 radii of 4 bytes, 32 angles of 7 bits, 32 signs.
        (TurboQuant(), 64, 128 + 28 + 4, 8),
        (TurboQuant(4, 5), 6, 12 + 2 + 1, 8),
        (ExactCodec(), 64, 256, 0),
    ],
    ids=lambda value: getattr(value, "id", str(value)),
)
def test_a_row_takes_the_bytes_that_its_codes_need(codec, head_dim, row, tables):
    """Of keys and values, as many for every row; tables are counted apart."""
    options = ReplayOptions(pool_codec=codec, shell_codec=codec)
    found = footprint(fixture(head_dim=head_dim, rows=7, shared=5), options)
    assert (found.pool.tokens, found.shell.tokens, found.tokens) == (5, 2, 7)
    assert found.pool.bytes_per_token == found.shell.bytes_per_token == found.bytes_per_token == 2 * row
    assert found.code_bytes == 7 * 2 * row
    assert (found.pool.table_bytes, found.table_bytes) == (tables, 2 * tables)
    assert (found.fp32_bytes_per_token, found.fp16_bytes_per_token) == (8 * head_dim, 4 * head_dim)


def test_exact_rows_take_what_float32_takes():
    """Uncompressed is the baseline."""
    found = footprint(fixture(), EXACT)
    assert found.bytes_per_token == found.fp32_bytes_per_token


def test_the_longest_query_s_rows_are_counted():
    """The rows of a head are those of the query that sees most of them."""
    fields = fixture_fields(rows=6, queries=1)
    fields["queries"] += fixture_fields(rows=9, queries=1)["queries"]
    found = footprint(load_fixture(encoded(fields)))
    assert (found.pool.tokens, found.shell.tokens) == (4, 5)


def test_over_both_tiers_it_is_what_their_tokens_take_together():
    """The mean is weighted by the tokens."""
    found = footprint(fixture(rows=9, shared=6))
    assert found.bytes_per_token == pytest.approx(
        (6 * found.pool.bytes_per_token + 3 * found.shell.bytes_per_token) / 9
    )


def test_the_seed_does_not_matter():
    """Another codebook has as many bytes."""
    assert footprint(fixture(seed=1)) == footprint(fixture(seed=2))


def test_a_head_size_that_a_codec_cannot_hold_is_refused():
    """As a replay refuses it."""
    with pytest.raises(CodecError, match="head_dim is 6"):
        footprint(fixture(head_dim=6))


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.id)
def test_the_bytes_of_a_row_do_not_depend_on_how_many_there_are(codec):
    """No row pays for another."""
    counts = [footprint(fixture(rows=rows), ReplayOptions(pool_codec=codec)).pool.bytes_per_token for rows in (5, 9)]
    assert counts[0] == counts[1]
    assert np.isfinite(counts).all()
