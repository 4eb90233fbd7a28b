"""Replay: what is stored, how often it comes back, and with which weight, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from trajectories import trajectories

from pprjax.learn import replay
from pprjax.paths import PAD

T, A, K, MEMORY = 4, 2, 3, 2
LENGTHS = np.array([[4, 2, 3], [1, 4, 2], [3, 3, 1]])  # actions of the K paths of three iterations


def paths(iteration, lengths=None):
    """K paths whose entries tell iteration, path and step: 100·iteration + 10·path + step."""
    lengths = LENGTHS[iteration] if lengths is None else np.asarray(lengths)
    k = len(lengths)
    code = 100 * iteration + 10 * np.arange(k)[:, None] + np.arange(T + 1)
    taken = np.arange(T) < lengths[:, None]
    return trajectories(
        symbols=code,
        actions=np.where(taken, code[:, :T] % A, PAD),
        observations=1000 + code,
        available=(code[..., None] + np.arange(A)) % 2 == 0,
        positions=2000 + code,
        rewards=np.where(taken, code[:, :T], 0.0).astype(np.float32),
        num_actions=lengths,
        met=np.arange(k) != 1,
    )


def ring(iterations, prioritized=False):
    one = jax.tree.map(lambda x: x[0], paths(0))
    filled = replay.empty(one, MEMORY * K, prioritized=prioritized)
    for i in iterations:
        filled = replay.store(filled, paths(i), jnp.int32(i))
    return filled


def stored(iterations):
    """The codes of the tuples of these iterations."""
    return [100 * i + 10 * p + s for i in iterations for p in range(K) for s in range(LENGTHS[i, p])]


def grid(m):
    return jnp.asarray((np.arange(m) + 0.5) / m, jnp.float32)


@pytest.mark.parametrize("iterations, kept", [([0], [0]), ([0, 1], [0, 1]), ([0, 1, 2], [2, 1])])
def test_every_stored_tuple_is_drawn_equally_often_and_the_oldest_are_gone(iterations, kept):
    codes = stored(kept)
    drawn = replay.sample(ring(iterations), grid(5 * len(codes)), 1.0)
    values, counts = np.unique(np.asarray(drawn.reward_t).astype(int), return_counts=True)
    assert values.tolist() == sorted(codes)
    assert (counts == 5).all()
    assert (np.asarray(drawn.weight) == 1).all()


@pytest.mark.parametrize("prioritized", [False, True])
def test_no_empty_place_is_drawn_at_the_ends_of_the_unit_interval(prioritized):
    """The last path is short and the ring half empty."""
    edges = jnp.asarray([0.0, np.nextafter(np.float32(1), np.float32(0)), 1 - 2.0**-23], jnp.float32)
    drawn = replay.sample(ring([0], prioritized), edges, 1.0)
    assert np.asarray(drawn.reward_t).tolist() == [0.0, 22.0, 22.0]


def test_a_tuple_is_what_the_path_says():
    lanes, gamma = paths(1), 0.9
    drawn = jax.tree.map(np.asarray, replay.sample(ring([0, 1]), grid(64), gamma))
    for i, code in enumerate(drawn.reward_t.astype(int)):
        iteration, p, s = code // 100, code // 10 % 10, code % 10
        n = LENGTHS[iteration, p]
        lanes = paths(iteration)
        assert drawn.observation_tm1[i] == lanes.observations[p, s]
        assert drawn.observation_t[i] == lanes.observations[p, s + 1]
        assert drawn.position_tm1[i] == lanes.positions[p, s]
        assert drawn.position_t[i] == lanes.positions[p, s + 1]
        assert (drawn.available_t[i] == lanes.available[p, s + 1]).all()
        assert drawn.time_tm1[i] == s
        assert drawn.action_tm1[i] == lanes.actions[p, s]
        assert drawn.to_go[i] == n - s - 1
        assert drawn.missed[i] == (p == 1)
        assert drawn.return_t[i] == pytest.approx(sum(gamma**j * (code + j) for j in range(n - s)), rel=1e-6)
        assert drawn.place[i] == (iteration * K + p) * T + s
    assert len(np.unique(drawn.place)) == len(stored([0, 1]))


def test_gamma_zero_and_one_are_the_reward_and_the_sum():
    now = replay.sample(ring([0, 1]), grid(64), 0.0)
    assert (np.asarray(now.return_t) == np.asarray(now.reward_t)).all()
    summed = replay.sample(ring([1]), grid(7), 1.0)
    assert np.asarray(summed.return_t)[1:5].tolist() == [446.0, 336.0, 225.0, 113.0]  # 110 + 111 + 112 + 113, …


def test_prioritized_tuples_are_drawn_by_priority_and_weighed_back():
    """P(i) ∝ p_i^α, and w_i = (N·P(i))^-β over the largest of them (Schaul et al. 2016)."""
    filled, rng = ring([0, 1], prioritized=True), np.random.default_rng(0)
    errors = rng.uniform(0.1, 5, MEMORY * K * T) * rng.choice([-1, 1], MEMORY * K * T)
    real = np.asarray(filled.priorities).ravel() > 0
    places = np.flatnonzero(real)
    assert len(places) == len(stored([0, 1]))
    filled = replay.reprioritize(filled, jnp.asarray(places), jnp.asarray(errors[places], jnp.float32))
    m = 20_000
    drawn = jax.tree.map(np.asarray, replay.sample(filled, grid(m), 1.0))
    p = np.abs(errors[places]) ** replay.PRIORITY_EXPONENT
    p /= p.sum()
    seen = np.bincount(drawn.place, minlength=real.size)
    assert (seen[~real] == 0).all()
    assert seen[places] / m == pytest.approx(p, rel=1e-2)
    weights = (len(places) * p) ** -replay.IMPORTANCE_EXPONENT
    expected = dict(zip(places, weights / weights.max(), strict=True))
    assert drawn.weight == pytest.approx([expected[place] for place in drawn.place], rel=1e-2)


def test_priorities_change_where_they_should():
    filled = ring([0], prioritized=True)
    changed = replay.reprioritize(filled, jnp.array([0, 5]), jnp.array([-7.0, 0.0]))
    before, after = np.asarray(filled.priorities).ravel(), np.asarray(changed.priorities).ravel()
    assert after[0] == pytest.approx(7, abs=0.01)
    assert 0 < after[5] < 0.01  # a tuple that fits stays in the game
    others = np.delete(np.arange(after.size), [0, 5])
    assert (after[others] == before[others]).all()

    fresh = np.asarray(replay.store(changed, paths(1), jnp.int32(1)).priorities)[K:]
    taken = np.arange(T) < LENGTHS[1][:, None]
    assert (fresh[taken] == after.max()).all()  # the new are drawn at least as often as any
    assert (fresh[~taken] == 0).all()
    plain = ring([0])
    assert replay.reprioritize(plain, jnp.array([0]), jnp.array([1.0])) is plain
