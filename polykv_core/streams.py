"""The reference's random streams: ChaCha8 words, and normals, gammas and spherical-Beta samples made of them.

A draw takes a variable number of words, so a stream looks sequential. It is not: for *every* position of the stream we
compute at once what a draw starting there would give and where the next draw would start. What remains of the sequence
is a walk along those "next" links.

Sources: ChaCha (D. J. Bernstein, 2008), ziggurat normals (J. A. Doornik, ZIGNOR, 2005), gammas (Marsaglia and Tsang,
2000).
"""

import numpy as np

from polykv_core.arrays import U64_MASK, Array, Bool, Float64, Int64, UInt32, UInt64

_LAYERS = 256
_TAIL_START = 3.654152885361008796
_LAYER_AREA = 0.00492867323399


def _density(t: Float64[Array, "*shape"]) -> Float64[Array, "*shape"]:
    """The normal density, not normalised."""
    return np.exp(-t * t / 2.0)


def _ziggurat_edges() -> Float64[Array, "257"]:
    edges = np.zeros(_LAYERS + 1)
    edges[0], edges[1] = _LAYER_AREA / np.exp(-(_TAIL_START**2) / 2.0), _TAIL_START
    for layer in range(2, _LAYERS):
        above = edges[layer - 1]
        edges[layer] = np.sqrt(-2.0 * np.log(_LAYER_AREA / above + np.exp(-(above**2) / 2.0)))
    return edges


_EDGES = _ziggurat_edges()
_DENSITIES = _density(_EDGES)


def _key_words(seed: int) -> list[int]:
    """Expand a u64 seed to ChaCha's eight key words."""
    state = seed
    words = []
    for _ in range(8):
        state = (state * 6364136223846793005 + 11634580027462260723) & U64_MASK
        word = (((state >> 18) ^ state) >> 27) & 0xFFFFFFFF
        turn = state >> 59
        words.append(((word >> turn) | (word << (32 - turn))) & 0xFFFFFFFF)
    return words


def _quarter_rounds(
    a: UInt32[Array, "4 block"], b: UInt32[Array, "4 block"], c: UInt32[Array, "4 block"], d: UInt32[Array, "4 block"]
) -> None:
    """Four quarter rounds side by side, one in each row, in every block at once (in place)."""
    for turn_d, turn_b in ((16, 12), (8, 7)):
        a += b
        d ^= a
        _rotate_left(d, turn_d)
        c += d
        b ^= c
        _rotate_left(b, turn_b)


def _rotate_left(words: UInt32[Array, "4 block"], bits: int) -> None:
    carried = words >> np.uint32(32 - bits)
    words <<= np.uint32(bits)
    words |= carried


def chacha8_words(seed: int, count: int) -> UInt32[Array, "word"]:
    """The first `count` 32-bit words of the ChaCha8 stream of a u64 seed."""
    blocks = -(-count // 16)
    state = np.empty((16, blocks), dtype=np.uint32)
    state[0:4] = np.frombuffer(b"expand 32-byte k", dtype="<u4")[:, None]
    state[4:12] = np.array(_key_words(seed), dtype=np.uint32)[:, None]
    counter = np.arange(blocks, dtype=np.uint64)
    state[12] = counter & np.uint64(0xFFFFFFFF)
    state[13] = counter >> np.uint64(32)
    state[14:] = 0
    a, b, c, d = (state[row : row + 4].copy() for row in (0, 4, 8, 12))
    for _ in range(4):
        _quarter_rounds(a, b, c, d)
        # Turning the rows lines the diagonals up as columns.
        b, c, d = b[[1, 2, 3, 0]], c[[2, 3, 0, 1]], d[[3, 0, 1, 2]]
        _quarter_rounds(a, b, c, d)
        b, c, d = b[[3, 0, 1, 2]], c[[2, 3, 0, 1]], d[[1, 2, 3, 0]]
    stream = np.concatenate([a, b, c, d]) + state
    return stream.T.reshape(-1)[:count]


def uint64_words(seed: int, count: int) -> UInt64[Array, "word"]:
    """The first `count` 64-bit words: two successive 32-bit words each, the low one first."""
    pairs = chacha8_words(seed, 2 * count).astype(np.uint64).reshape(count, 2)
    return pairs[:, 0] | (pairs[:, 1] << np.uint64(32))


def booleans(seed: int, count: int) -> Bool[Array, "draw"]:
    """Coin flips: the top bit of one 32-bit word each."""
    return chacha8_words(seed, count) >> np.uint32(31) == 1


def _uniform(words: UInt64[Array, "word"]) -> Float64[Array, "word"]:
    """From 0 (included) to 1."""
    return (words >> np.uint64(11)) * 2.0**-53


def _from_mantissa(words: UInt64[Array, "word"], exponent: int) -> Float64[Array, "word"]:
    """The doubles with this exponent and the words' top 52 bits as mantissa."""
    return ((words >> np.uint64(12)) | np.uint64((1023 + exponent) << 52)).view(np.float64)


def _open01(words: UInt64[Array, "word"]) -> Float64[Array, "word"]:
    """From 0 to 1, both excluded."""
    return _from_mantissa(words, 0) - (1.0 - 2.0**-53)


class _Draws:
    """What a draw would give at every position of a stream, and where the next draw would start.

    Both arrays have one entry more than the stream: position `end` stands for "the stream is used up".
    """

    def __init__(self, value: Float64[Array, "word"], after: Int64[Array, "word"], retry: dict[int, int]) -> None:
        """Take the draws that succeed; `retry` maps each position that fails to where its draw tries again."""
        end = len(value)
        self.value = np.append(value, np.nan)
        self.after = np.append(np.minimum(after, end), end)
        # A retry starts further on, so going from the end to the front it is already settled.
        for position in sorted(retry, reverse=True):
            again = min(retry[position], end)
            self.value[position] = self.value[again]
            self.after[position] = self.after[again]


def _normals(words: UInt64[Array, "word"]) -> _Draws:
    """A standard normal at every position."""
    layer = (words & np.uint64(_LAYERS - 1)).astype(np.int64)
    side = _from_mantissa(words, 1) - 3.0
    value = side * _EDGES[layer]
    after = np.arange(1, len(words) + 1)
    retry: dict[int, int] = {}

    slow = np.flatnonzero(np.abs(value) >= _EDGES[layer + 1])
    wedge = slow[layer[slow] > 0]
    low, high = _DENSITIES[layer[wedge]], _DENSITIES[layer[wedge] + 1]
    height = high + (low - high) * _uniform(words.take(wedge + 1, mode="clip"))
    under = height < _density(value[wedge])
    after[wedge] += 1
    retry.update({int(p): int(p) + 2 for p in wedge[~under]})

    for start in slow[layer[slow] == 0].tolist():
        at = start + 1
        while at + 1 < len(words):
            over, height_log = np.log(_open01(words[at : at + 2]))
            over /= _TAIL_START
            at += 2
            if -2.0 * height_log >= over * over:
                value[start] = over - _TAIL_START if side[start] < 0 else _TAIL_START - over
                after[start] = at
                break
        else:
            retry[start] = len(words)
    return _Draws(value, after, retry)


def _gammas(shape: float, words: UInt64[Array, "word"], normals: _Draws) -> _Draws:
    """A Gamma(shape, 1) at every position; shape > 1."""
    d = shape - 1.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    x = normals.value[:-1]
    uniform_at = normals.after[:-1]
    root = 1.0 + c * x
    positive = root > 0.0
    root = np.where(positive, root, 1.0)
    v = root * root * root
    x_squared = x * x
    u = _open01(words.take(uniform_at, mode="clip"))
    accepted = u < 1.0 - 0.0331 * x_squared * x_squared
    doubtful = np.flatnonzero(~accepted)
    bound = x_squared[doubtful] / 2.0 + d * (1.0 - v[doubtful] + np.log(v[doubtful]))
    accepted[doubtful] = np.log(u[doubtful]) < bound
    # The uniform is drawn only where the cube root is positive.
    again = np.where(positive, uniform_at + 1, uniform_at)
    failed = np.flatnonzero(~(accepted & positive))
    retry = dict(zip(failed.tolist(), again[failed].tolist(), strict=True))
    return _Draws(d * v, uniform_at + 1, retry)


def _walk(after: Int64[Array, "word"], count: int) -> Int64[Array, "draw"] | None:
    """Where the first `count` draws of a stream start; None where the stream is too short for them."""
    links = after.tolist()
    end = len(links) - 1
    position = 0
    starts = []
    for _ in range(count):
        starts.append(position)
        position = links[position]
    return np.array(starts, dtype=np.int64) if position < end else None


def standard_normals(seed: int, count: int) -> Float64[Array, "draw"]:
    """The first `count` standard normals of a seed's stream."""
    length = int(count * 1.05) + 64
    while True:
        draws = _normals(uint64_words(seed, length))
        starts = _walk(draws.after, count)
        if starts is not None:
            return draws.value[starts]
        length *= 2


def spherical_beta_samples(seed: int, count: int, ambient_dim: int, block_dim: int) -> Float64[Array, "s kdim"]:
    """Blocks of `block_dim` coordinates of a uniform direction in `ambient_dim` dimensions.

    A radius sqrt(a / (a + b)) from two gammas, then a direction from normals (FibQuant's training source).
    """
    length = int(count * (4 + block_dim) * 1.06) + 256
    while True:
        words = uint64_words(seed, length)
        normals = _normals(words)
        inner = _gammas(block_dim / 2.0, words, normals)
        outer = _gammas((ambient_dim - block_dim) / 2.0, words, normals)
        after = outer.after[inner.after]
        for _ in range(block_dim):
            after = normals.after[after]
        starts = _walk(after, count)
        if starts is not None:
            break
        length *= 2

    outer_at = inner.after[starts]
    a, b = inner.value[starts], outer.value[outer_at]
    at = outer.after[outer_at]
    directions = np.empty((count, block_dim))
    for component in range(block_dim):
        directions[:, component] = normals.value[at]
        at = normals.after[at]
    length_of = np.sqrt(np.cumsum(directions**2, axis=1)[:, -1])
    radius = np.sqrt(a / (a + b))
    return radius[:, None] * (directions / length_of[:, None])
