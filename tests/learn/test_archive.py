"""The archive against the words: the best is kept, what is too near it is dropped, and so on with the rest."""

import jax
import numpy as np
import pytest
from brute_force import edit
from trajectories import trajectories

from pprjax.learn import archive

SIZE, B, T = 4, 12, 5


def batch(seed):
    """B random paths over three symbols. Few values of R, so that many are equally good; some miss the goal."""
    rng = np.random.default_rng(seed)
    return trajectories(
        symbols=rng.integers(0, 3, (B, T + 1)),
        num_actions=rng.integers(1, T + 1, B),
        reward=rng.integers(0, 4, B).astype(np.float32),
        met=rng.random(B) < 0.7,
    )


def listed(paths):
    """(R, symbols) of each path."""
    rows = zip(paths.reward, paths.symbols, paths.num_actions, strict=True)
    return [(float(reward), np.asarray(symbols)[: int(n) + 1].tolist()) for reward, symbols, n in rows]


@pytest.mark.parametrize("min_distance", [1, 2, 4])
def test_the_archive_is_what_the_words_say(min_distance):
    extend = jax.jit(archive.extend)
    lanes = [batch(seed) for seed in range(4)]
    kept = archive.empty(jax.tree.map(lambda x: x[0], lanes[0]), SIZE, min_distance)
    expected = []
    for new in lanes:
        kept = extend(kept, new)
        left = expected + [path for path, met in zip(listed(new), new.met, strict=True) if met]
        left.sort(key=lambda path: -path[0])  # of equally good ones the older first: the sort is stable
        expected = []
        for reward, symbols in left:
            if len(expected) < SIZE and all(edit(symbols, other, {}) >= min_distance for _, other in expected):
                expected.append((reward, symbols))
        assert kept.filled.tolist() == [i < len(expected) for i in range(SIZE)]
        assert listed(kept.paths)[: len(expected)] == expected
    assert len({reward for reward, _ in expected}) < len(expected)  # there were ties
