"""The ladder keeps the best path for each distance of all that it was given, and the older of equals."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from ring_road import ring

from pprjax import ladder
from pprjax.objective import Objective
from pprjax.paths import Paths

E, N = 5, 6
ONE = ladder.Wanted(num_distances=E)
extend = jax.jit(ladder.extend)
rows = st.lists(
    st.tuples(st.integers(0, E + 1), st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0])), min_size=N, max_size=N
)


def paths_of(values, first):
    """N paths, each with its number in all of its fields."""
    number = np.arange(first, first + N)
    task = ring()
    return ladder.Ladder(
        value=jnp.asarray(values, jnp.float32), goal=jnp.asarray(number, jnp.float32),
        r_policy=jnp.asarray(-number, jnp.float32), log_prob=jnp.asarray(-2.0 * number, jnp.float32),
        reached=jnp.asarray(number % 2 == 0), terminated=jnp.asarray(number % 3 == 0),
        symbols=jnp.asarray(np.repeat(number[:, None], task.horizon + 1, 1), jnp.int32),
        actions=jnp.asarray(np.repeat(number[:, None], task.horizon, 1), jnp.int32),
    )  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(st.lists(rows, min_size=1, max_size=4))
def test_the_best_for_each_distance_stays(batches):
    kept, best = ladder.empty(ring(), ONE), {}
    for b, batch in enumerate(batches):
        distance, value = zip(*batch, strict=True)
        kept = extend(kept, paths_of(value, b * N), jnp.asarray(distance, jnp.int32))
        for i, (d, v) in enumerate(batch):
            if d < E and v > best.get(d, (-np.inf, None))[0]:
                best[d] = v, b * N + i
    for d in range(E):
        value, number = best.get(d, (-np.inf, None))
        assert kept.value[d] == value
        if number is not None:
            assert kept.goal[d] == number == -kept.r_policy[d] and kept.log_prob[d] == -2 * number
            assert (kept.symbols[d] == number).all() and (kept.actions[d] == number).all()
            assert (kept.reached[d], kept.terminated[d]) == (number % 2 == 0, number % 3 == 0)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, E), st.integers(0, 3), st.integers(-9, 9)), min_size=N, max_size=N)),
    st.sampled_from([1, 2]),
)
def test_the_best_that_differ_stay_of_each_distance(batches, min_distance):
    """Paths 0 x x x x … of one symbol each, which are the same, or as far apart as they are long."""
    kept = ladder.empty(ring(), ladder.Wanted(2, min_distance, E))
    best = [{} for _ in range(E + 1)]
    for b, batch in enumerate(batches):
        distance, symbol, value = map(np.array, zip(*batch, strict=True))
        paths = paths_of(value, b * N).replace(symbols=jnp.asarray(np.repeat(symbol[:, None], 8, 1), jnp.int32))
        kept = extend(kept, paths, jnp.asarray(distance, jnp.int32))
        for d, s, v in batch:
            best[d][s] = max(v, best[d].get(s, -np.inf))
    for d in range(E):
        expected = sorted(best[d].values(), reverse=True)
        assert kept.value[d].tolist() == [*expected, *[-np.inf] * 4][:4]
        assert [best[d][s] for s in kept.symbols[d, : len(expected), 0].tolist()] == expected


def test_a_frontier_has_the_rungs_that_rise():
    values, unknown = (
        np.array([[-np.inf, 1.0, 0.5, 1.0, 2.0], [3.0, 1.0, -np.inf, 3.0, 3.5], [-np.inf] * 5]),
        np.full((3, E), np.inf),
    )
    kept = jax.tree.map(lambda x: np.stack([np.asarray(x)] * 3), ladder.empty(ring(), ONE)).replace(value=values)
    points = ladder.Points(kept, np.full((3, E), 4.0), unknown, np.zeros(3, int), np.zeros(3))
    front = ladder.frontier(points, Paths.from_lists([[0]] * 3), Objective(), goal=None, answered_by="search")
    assert list(zip(front.index.tolist(), front.distance.tolist(), strict=True)) == [(0, 1), (0, 4), (1, 0), (1, 4)]
    assert front.value.tolist() == [1.0, 2.0, 3.0, 3.5] and front.bound.tolist() == [4.0] * 4
