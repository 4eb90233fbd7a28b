"""Algorithm 1's parts by hand: targets, what is kept, what each switch changes, what a miss costs."""

from dataclasses import replace
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pprjax import TabularMDP
from pprjax.config import Config
from pprjax.goals import reached
from pprjax.learn import exploration, learner, ranking
from pprjax.learn.networks import QNetwork
from pprjax.learn.replay import Tuples
from pprjax.paths import PAD
from pprjax.policy import TablePolicy
from pprjax.rollout import trace
from pprjax.task import Task

S, A, T, N = 6, 3, 5, 5
NEXT_STATE = np.array([[1, 2, 0], [2, 3, -1], [3, 0, 4], [4, 1, 5], [5, 2, 0], [5, 5, 5]])
REWARD = np.array([[1, 0, 0.5], [0, 2, 9], [-1, 1, 0], [0.5, 0, 1], [2, 0, 1], [0, 0, 0]])
PROBS = np.random.default_rng(1).dirichlet(np.ones(A), S) * (NEXT_STATE >= 0)
TASK = Task(
    TabularMDP(NEXT_STATE, REWARD, np.arange(S) == 5, 0, T),
    TablePolicy(jnp.asarray(PROBS / PROBS.sum(1, keepdims=True), jnp.float32)),
    goal=reached,
)
SMALL = Config(
    lambda_path=2.0, iterations=20, num_paths=32, num_best=8, updates=2, batch_size=16, width=16, memory=4,
    target_period=3,
)  # fmt: skip
PLAIN = SMALL.replace(
    alignment_aware=False, telescoped=False, mixed_lanes=False, mixed_replay=False,
    prioritized=True, double=True, dueling=True,
)  # fmt: skip
ORIGINAL = jax.jit(trace)(TASK, jnp.array([0, 1, 2, 3, -1]), jnp.int32(4), jax.random.key(0))
CONFIGS = {"mended": SMALL, "plain": PLAIN}  # two, since each takes seconds to compile


def steps(name, count=1):
    """The states after 0 … count iterations, and the lanes that each one sampled."""
    while len(_history(name)[0]) <= count:
        states, lanes = _history(name)
        i = len(states) - 1
        new, sampled = _iterate(CONFIGS[name], states[-1], jnp.int32(i), jax.random.key(i))
        states.append(new), lanes.append(sampled)
    return _history(name)


@lru_cache
def _history(name):
    return [jax.jit(learner.init)(TASK, ORIGINAL, CONFIGS[name], jax.random.key(7))], []


@jax.jit
def _iterate(config, state, iteration, key):
    key_lanes, key_tuples = jax.random.split(key)
    sampled = learner.explore(TASK, ORIGINAL, config, state, iteration, key_lanes)
    drawn = jax.tree.map(lambda x: x[:-1], sampled)
    return learner.learn_from(TASK, ORIGINAL, config, state, drawn, iteration, key_tuples), drawn


def ranked(lanes):
    return sorted(range(len(lanes.reward)), key=lambda i: (not lanes.met[i], -lanes.reward[i]))


def random_net(seed=0, **changes):
    """A small Q-network with weights none of which is 0."""
    net = QNetwork(num_actions=A, num_states=S, num_positions=N + 1, num_times=T + 1, width=4, depth=0, **changes)
    shapes = net.init(jax.random.key(0), jnp.int32(0), jnp.int32(0), jnp.int32(0))
    rng = np.random.default_rng(seed)
    return net, jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape), jnp.float32), shapes)


def q_by_hand(params, state, position, time):
    """(W + W_t)·relu(E_s + E_j + E_t) + b, and V + A - mean A where there is a value head."""
    p = jax.tree.map(np.asarray, params["params"])
    tables = {"state": state, "position": position, "time": time}
    x = np.maximum(sum(p[name]["embedding"][i] for name, i in tables.items() if name in p), 0)
    q = x @ p["advantage"]["kernel"] + p["advantage"]["bias"]
    if "advantage_at" in p:
        q = q + p["advantage_at"]["embedding"].reshape(-1, A, x.size)[time] @ x
    if "value" in p:
        q = q - q.mean() + (x @ p["value"]["kernel"] + p["value"]["bias"])
    return q


def every_input():
    s, j, t = np.meshgrid(np.arange(S), np.arange(N + 1), np.arange(T + 1), indexing="ij")
    return [x.ravel() for x in (s, j, t)]


@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("alignment_aware", [False, True])
def test_the_network_is_what_its_docstring_says(alignment_aware, dueling):
    net, params = random_net(alignment_aware=alignment_aware, dueling=dueling)
    inputs = every_input()
    q = np.asarray(jax.vmap(partial(net.apply, params))(*map(jnp.asarray, inputs)))
    by_hand = np.array([q_by_hand(params, *x) for x in zip(*inputs, strict=True)])
    assert q == pytest.approx(by_hand, rel=1e-4, abs=1e-5)
    actions = jnp.arange(len(q)) % A
    one = jax.vmap(partial(net.apply, params))(*map(jnp.asarray, inputs), actions)
    assert np.asarray(one) == pytest.approx(q[np.arange(len(q)), actions], abs=1e-5)
    same = np.ptp(q.reshape(S, -1, A), axis=1).max() == 0  # over j and t
    assert same != alignment_aware


def test_dueling_advantages_have_mean_zero():
    """Shifting all advantages alike changes nothing; the mean of Q is V."""
    net, params = random_net(dueling=True)
    shifted = jax.tree.map(lambda x: x, params)
    shifted["params"]["advantage"]["bias"] = params["params"]["advantage"]["bias"] + 5.0
    q, again = (np.asarray(net.apply(p, jnp.int32(1), jnp.int32(2), jnp.int32(3))) for p in (params, shifted))
    assert again == pytest.approx(q, abs=1e-4)
    p = jax.tree.map(np.asarray, params["params"])
    x = np.maximum(sum(p[name]["embedding"][i] for name, i in (("state", 1), ("position", 2), ("time", 3))), 0)
    assert q.mean() == pytest.approx((x @ p["value"]["kernel"] + p["value"]["bias"]).item(), abs=1e-4)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("target", ["td", "return", "published"])
def test_the_td_error_is_its_formula(target, double):
    m, gamma, scale, penalty, rng = 40, 0.8, 1.7, 3.0, np.random.default_rng(5)
    net, params = random_net(1)
    _, target_params = random_net(2)
    to_go = rng.integers(0, 4, m)
    available = rng.random((m, A)) < 0.6
    available[np.arange(m), rng.integers(0, A, m)] = True
    available[to_go == 0] = rng.random(A) < 0.5  # after the last action nothing needs to be there
    available[np.flatnonzero(to_go == 0)[0]] = False
    t = Tuples(
        observation_tm1=rng.integers(0, S, m), position_tm1=rng.integers(0, N, m), time_tm1=rng.integers(0, T, m),
        action_tm1=rng.integers(0, A, m), reward_t=rng.normal(size=m).astype(np.float32),
        return_t=rng.normal(size=m).astype(np.float32), observation_t=rng.integers(0, S, m),
        position_t=rng.integers(0, N, m), available_t=available, to_go=to_go, missed=rng.random(m) < 0.5,
        weight=np.ones(m, np.float32), place=np.arange(m),
    )  # fmt: skip
    config = Config(target=target, double=double, gamma=gamma)
    tuples = jax.tree.map(jnp.asarray, t)
    error = learner.td_error(net, params, target_params, tuples, config, scale=scale, penalty=penalty)
    for i in range(m):
        next_state = (t.observation_t[i], t.position_t[i], t.time_tm1[i] + 1)
        q, q_target = q_by_hand(params, *next_state), q_by_hand(target_params, *next_state)
        chosen = np.argmax(np.where(available[i], q if double else q_target, -np.inf))
        bootstrap = 0.0 if to_go[i] == 0 else gamma * q_target[chosen]
        fine = penalty * t.missed[i]
        y = {
            "td": scale * (t.reward_t[i] - fine * (to_go[i] == 0)) + bootstrap,
            "return": scale * (t.return_t[i] - fine * gamma ** to_go[i]),
            "published": scale * (t.return_t[i] - fine * gamma ** to_go[i]) + bootstrap,
        }[target]
        now = q_by_hand(params, t.observation_tm1[i], t.position_tm1[i], t.time_tm1[i])[t.action_tm1[i]]
        assert error[i] == pytest.approx(y - now, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("name", CONFIGS)
def test_an_iteration_keeps_the_k_best_and_counts_all(name):
    states, lanes = steps(name, 2)
    rank = ranked(lanes[0])
    assert 0 < lanes[0].met.sum() < 32  # both kinds are among them
    for i in range(2):
        order = ranked(lanes[i])[:8]
        rows = slice(8 * i, 8 * (i + 1))
        ring = states[i + 1].best_replay
        assert (ring.num_actions[rows] == lanes[i].num_actions[np.array(order)]).all()
        assert (ring.observations[rows] == lanes[i].observations[np.array(order)]).all()
        assert (ring.rewards[rows] == lanes[i].rewards[np.array(order)]).all()
    assert (states[2].best_replay.num_actions[16:] == 0).all()
    assert states[1].best.reward == lanes[0].reward[rank[0]]
    assert states[2].counts.sum() == lanes[0].num_actions.sum() + lanes[1].num_actions.sum()
    missed = [lane.reward[~lane.met] for lane in lanes[:2]]
    assert states[2].best_missed == np.concatenate(missed).max()


def test_the_best_is_never_lost():
    states, lanes = steps("mended", 4)
    for i in range(4):
        everything = [
            (bool(m), float(r)) for lane in lanes[: i + 1] for m, r in zip(lane.met, lane.reward, strict=True)
        ]
        best = states[i + 1].best
        assert (bool(best.met), float(best.reward)) == max(everything)
        assert states[i + 1].curve[i] == best.reward


def test_mixed_replay_holds_lanes_of_every_kind_and_plain_only_the_best():
    states, lanes = steps("mended", 2)
    for i in range(2):  # every fourth lane, another one each time
        ring = states[i + 1].other_replay
        rows = slice(8 * i, 8 * (i + 1))
        assert (ring.rewards[rows] == lanes[i].rewards[i::4]).all()
        assert (ring.met[rows] == lanes[i].met[i::4]).all()
    assert steps("plain")[0][1].other_replay is None


def leaves_equal(a, b):
    return all((x == y).all() for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


@pytest.mark.parametrize("name", CONFIGS)
def test_the_target_network_is_synced_every_c_iterations(name):
    states = steps(name, 4)[0]
    for i in (1, 2):
        assert leaves_equal(states[i].target_params, states[0].params)
        assert not leaves_equal(states[i].params, states[i - 1].params)  # while Q learns
    assert leaves_equal(states[3].target_params, states[3].params)
    assert leaves_equal(states[4].target_params, states[3].params)


def test_prioritized_replay_learns_its_priorities():
    ring = steps("plain")[0][1].best_replay
    taken = np.arange(T) < np.asarray(ring.num_actions)[:, None]
    assert (np.asarray(ring.priorities)[~taken] == 0).all()
    assert len(np.unique(np.asarray(ring.priorities)[taken])) > 2  # more than the 1 of what was never drawn


def test_plain_pays_for_the_path_at_the_end_and_tracks_no_position():
    plain, mended = steps("plain")[1][0], steps("mended")[1][0]
    assert (plain.positions == 0).all()
    assert (mended.positions[:, :3] > 0).any()
    for lanes, offset in ((plain, 0.0), (mended, 2.0)):
        assert np.asarray(lanes.rewards.sum(1)) == pytest.approx(np.asarray(lanes.reward) - offset, abs=1e-4)


@pytest.mark.parametrize("met_reward, missed_reward", [(1.0, 50.0), (-30.0, -2.0), (5.0, 1.0), (0.0, 0.0), (-1e4, 1e4)])
def test_a_miss_costs_more_than_it_can_earn(met_reward, missed_reward):
    best = replace(steps("mended")[0][0].best, met=jnp.bool_(True), reward=jnp.float32(met_reward))
    state = replace(steps("mended")[0][0], best=best, best_missed=jnp.float32(missed_reward))
    assert missed_reward - learner.miss_penalty(state) < met_reward
    assert learner.miss_penalty(state) >= 0


def test_a_miss_costs_nothing_before_a_path_met_the_goal_or_missed_it():
    first = steps("mended")[0][0]
    met = replace(first, best=replace(first.best, met=jnp.bool_(True), reward=jnp.float32(1.0)))
    unmet = replace(first, best=replace(first.best, reward=jnp.float32(1.0)), best_missed=jnp.float32(1.0))
    assert [float(learner.miss_penalty(state)) for state in (first, met, unmet)] == [0.0, 0.0, 0.0]


def test_the_better_path_meets_the_goal_and_then_earns_more():
    blank = steps("mended")[0][0].best

    def path(met, reward, mark=0):
        return replace(blank, met=jnp.bool_(met), reward=jnp.float32(reward), num_actions=jnp.int32(mark))

    for one, other, wins in (
        (path(True, -9), path(False, 9), 0),
        (path(False, 9), path(True, -9), 1),
        (path(True, 1), path(True, 2), 1),
        (path(False, 2), path(False, 1), 0),
    ):
        assert leaves_equal(ranking.better(one, other), (one, other)[wins])
        both = jax.tree.map(lambda *x: jnp.stack(x), one, other)
        assert leaves_equal(ranking.best_of(both), (one, other)[wins])
    assert ranking.better(path(True, 1, mark=1), path(True, 1, mark=2)).num_actions == 1


def test_of_two_that_miss_the_one_that_breaks_less_is_better():
    blank = replace(steps("mended")[0][0].best, violations=jnp.int32(0))

    def path(violations, reward, met=False):
        return replace(
            blank, met=jnp.bool_(met), reward=jnp.float32(reward), violations=jnp.int32(violations)
        )  # fmt: skip

    for one, other, wins in (
        (path(2, 9), path(1, -9), 1),
        (path(1, -9), path(2, 9), 0),
        (path(1, 1), path(1, 2), 1),
        (path(0, -9, met=True), path(0, 9), 0),
    ):
        assert leaves_equal(ranking.better(one, other), (one, other)[wins])
        both = jax.tree.map(lambda *x: jnp.stack(x), one, other)
        assert leaves_equal(ranking.best_of(both), (one, other)[wins])


@pytest.mark.parametrize("name", CONFIGS)
def test_rewards_are_scaled_by_the_first_iteration_and_by_no_other(name):
    states, lanes = steps(name, 2)
    assert states[1].scale == pytest.approx(learner.RETURN_SCALE / np.abs(lanes[0].reward).mean(), rel=1e-5)
    assert np.abs(lanes[1].reward).mean() != pytest.approx(np.abs(lanes[0].reward).mean(), rel=1e-3)
    assert states[2].scale == states[1].scale


def test_the_step_size_falls_over_the_second_half_to_a_twentieth():
    config = SMALL.replace(iterations=40, learning_rate=0.2)
    sizes = [float(learner.learning_rate(config)(jnp.int32(i * config.updates))) for i in (0, 10, 20, 30, 39, 60)]
    assert sizes == pytest.approx([0.2, 0.2, 0.2, 0.1, 0.01, 0.01])


def test_the_greedy_path_takes_the_best_action_everywhere():
    state = steps("mended")[0][1]
    lanes = jax.jit(partial(learner.explore, TASK, ORIGINAL))(SMALL, state, SMALL.iterations, jax.random.key(3))
    greedy = jax.tree.map(lambda x: x[-1], lanes)
    net = learner.network(TASK, SMALL, ORIGINAL)
    assert greedy.num_actions > 1
    for t in range(int(greedy.num_actions)):
        q = np.asarray(net.apply(state.params, *map(jnp.int32, (greedy.observations[t], greedy.positions[t], t))))
        assert greedy.actions[t] == np.argmax(np.where(greedy.available[t], q, -np.inf))


@pytest.mark.parametrize("action", range(2))
def test_a_greedy_lane_takes_the_action_with_the_largest_bonus(action):
    state = steps("mended")[0][1]
    bonus = jnp.zeros(state.counts.shape).at[:, action].set(1e9)
    lanes = _greedy(state, bonus)
    taken = np.asarray(lanes.actions)
    able = np.asarray(lanes.available)[:, :-1, action] & (taken >= 0)
    assert able.any()
    assert (taken[able] == action).all()


@jax.jit
def _greedy(state, bonus):
    lanes = exploration.behaviours(SMALL, jax.random.key(0), *[jnp.full(T, PAD)] * 2, 0.0, 0)
    lanes = replace(lanes, forced=jnp.full_like(lanes.forced, PAD), explore=jnp.zeros_like(lanes.explore))
    return learner.sample_paths(TASK, ORIGINAL, SMALL, state, lanes, jax.random.split(jax.random.key(1), 32), bonus)
