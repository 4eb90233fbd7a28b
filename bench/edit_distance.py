"""How much faster is `levenshtein` than rapidfuzz: one original of 24 symbols against 65,536 paths of at most 32?

python bench/edit_distance.py

Both get their best input, made before the clock starts: here a byte a symbol on the device, there text of one
character a symbol, in each of rapidfuzz's three ways: `cdist` of the original with the paths (which it does on one
core), of the paths with the original, and `cpdist` of pairs. `ratio` is against the fastest of them on all cores.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist, cpdist
from report import beside_floor, finish, median_seconds, table

from pprjax.edit_distance import levenshtein

PATHS, ROOM, ORIGINAL, SYMBOLS = 65_536, 32, 24, 48
CALLS = 100  # in a row: what each sustains, not what waking its threads costs
TRACED, WORDS, NUMPY, CHOSEN = (
    "levenshtein, inside jit",
    "levenshtein, int32 in",
    "levenshtein, NumPy in",
    "levenshtein",
)
DISTANCE = {"scorer": Levenshtein.distance, "workers": -1, "dtype": np.int32}


def text(symbols: np.ndarray) -> str:
    return "".join(chr(ord("0") + s) for s in symbols)


def main() -> None:
    rng = np.random.default_rng(0)
    original = rng.integers(0, SYMBOLS, ORIGINAL, np.int32)
    paths = rng.integers(0, SYMBOLS, (PATHS, ROOM), np.int32)
    lengths = rng.integers(1, ROOM + 1, PATHS, np.int32)
    on_device = jnp.asarray(original), jnp.asarray(paths, jnp.uint8), jnp.asarray(lengths)
    words = jnp.asarray(original), jnp.asarray(paths), jnp.asarray(lengths)
    traced = jax.jit(levenshtein)
    query, choices = text(original), [text(path[:k]) for path, k in zip(paths, lengths, strict=True)]
    queries = [query] * PATHS
    ways = {
        CHOSEN: lambda: levenshtein(*on_device),
        WORDS: lambda: levenshtein(*words),
        NUMPY: lambda: levenshtein(original, paths, lengths),
        TRACED: lambda: traced(*on_device),
        "rapidfuzz cdist, 1 × 65,536, text": lambda: cdist([query], choices, **DISTANCE)[0],
        "rapidfuzz cdist, 65,536 × 1, text": lambda: cdist(choices, [query], **DISTANCE)[:, 0],
        "rapidfuzz cpdist, text": lambda: cpdist(queries, choices, **DISTANCE),
    }
    expected = np.asarray(ways["rapidfuzz cpdist, text"]())
    for name, way in ways.items():
        np.testing.assert_array_equal(way(), expected, err_msg=name)

    def repeated(way):
        return lambda: [jax.block_until_ready(way()) for _ in range(CALLS)]

    medians = median_seconds(*map(repeated, ways.values()), rounds=7)
    seconds = {name: s / CALLS for name, s in zip(ways, medians, strict=True)}
    best = min(s for name, s in seconds.items() if name.startswith("rapidfuzz"))
    rows = [
        {"way": name, "ms": 1e3 * s, "million pairs/s": PATHS / s / 1e6, "times the best rapidfuzz": best / s}
        for name, s in seconds.items()
    ]
    table(f"{PATHS:,} paths of at most {ROOM} symbols against one of {ORIGINAL}", rows)
    cdist_seconds = seconds["rapidfuzz cdist, 1 × 65,536, text"]
    finish(
        "edit_distance",
        {
            "pairs_per_second": {name: PATHS / s for name, s in seconds.items()},
            "ratio": best / seconds[CHOSEN],
            "ratio_to_cdist": cdist_seconds / seconds[CHOSEN],
            **beside_floor(seconds[CHOSEN], PATHS * (ROOM + 4 + 4)),  # symbols and lengths in, distances out
        },
    )


if __name__ == "__main__":
    main()
