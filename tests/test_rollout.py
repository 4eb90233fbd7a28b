"""Rollouts and traces against worlds walked, and edit distances filled in, by hand."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pprjax import TabularMDP
from pprjax.config import Config
from pprjax.goals import improved, reached
from pprjax.paths import PAD
from pprjax.policy import TablePolicy
from pprjax.rollout import Behaviour, Original, rollout, trace
from pprjax.task import Task

S, A, T, N = 6, 3, 6, 8
DEAD_END, TERMINAL = 4, 5
NEXT_STATE = np.array([[1, 0, 2], [3, 1, 0], [4, -1, 0], [5, 3, 2], [-1, -1, -1], [0, 0, 0]])
REWARD = np.array([[0.5, -1, 1], [2, 0, -0.5], [1, 9, -2], [3, -1, 0], [9, 9, 9], [9, 9, 9]])
SYMBOLS = np.array([7, 8, 9, 8, 3, 4])  # states 1 and 3 look the same
PROBS = np.array([[0.6, 0.1, 0.3], [0.2, 0.7, 0.1], [1, 0, 0], [0.25, 0.5, 0.25], [0.4, 0.3, 0.3], [0.4, 0.3, 0.3]])
TASK = Task(
    TabularMDP(NEXT_STATE, REWARD, np.arange(S) == TERMINAL, 0, T, SYMBOLS),
    TablePolicy(jnp.asarray(PROBS, jnp.float32)),
)
CONFIG = Config(lambda_path=3.0, lambda_policy=0.25)
UNEVEN = dict(w_ins=2.0, w_del=1.5, w_sub=2.5)
KEY = jax.random.key(0)
TABLE = jnp.asarray(np.random.default_rng(0).normal(size=(S, N + 1, T, A)), jnp.float32)


def from_table(observation, position, time, row):
    """A Q that reads everything it is shown; `row` is the state's id, too."""
    return TABLE[observation, position, time] + TABLE[row, 0, 0]


@partial(jax.jit, static_argnames="tracks")
def run_all(task, originals, lanes, config, keys, tracks=True):
    def one(original, lane, key):
        values = from_table if tracks else None
        return rollout(task, original, lane, config, key, values=values, bucket=task.state_id)

    return jax.vmap(one)(originals, lanes, keys)


def run(originals, lanes, config=CONFIG, task=TASK, keys=None, tracks=True):
    """One rollout a lane, as numpy arrays."""
    keys = jax.random.split(KEY, len(lanes.from_policy)) if keys is None else keys
    return jax.tree.map(np.asarray, run_all(task, originals, lanes, config, keys, tracks=tracks))


def padded(rows, width):
    return np.array([[*row, *[PAD] * (width - len(row))] for row in rows], np.int32)


def lanes_of(forced, explore=False, from_policy=False, uniform=0.5):
    b = len(forced)
    return Behaviour(
        forced=jnp.asarray(padded(forced, T)),
        explore=jnp.full((b, T), explore),
        from_policy=jnp.full(b, from_policy),
        uniform=jnp.broadcast_to(jnp.asarray(uniform, jnp.float32), (b, T)),
    )


def originals_of(rows):
    b = len(rows)
    return Original(
        symbols=jnp.asarray(padded(rows, N)),
        length=jnp.array([len(row) for row in rows], jnp.int32),
        actions=jnp.full((b, T), PAD, jnp.int32),
        followed=jnp.ones(b, bool),
        r_goal=jnp.zeros(b),
        goal=None,
    )


def ends(state, taken):
    return state in (DEAD_END, TERMINAL) or taken == T


def random_walks(count, seed=1):
    """Actions from the start to a terminal state, a dead end or the horizon."""
    rng, walks = np.random.default_rng(seed), []
    for _ in range(count):
        state, actions = 0, []
        while not ends(state, len(actions)):
            actions.append(int(rng.choice(np.flatnonzero(NEXT_STATE[state] >= 0))))
            state = NEXT_STATE[state, actions[-1]]
        walks.append(actions)
    return walks


def states_of(actions):
    states = [0]
    for action in actions:
        states.append(int(NEXT_STATE[states[-1], action]))
    return states


def h(p):
    p = np.clip(p, 1e-6, 1 - 1e-6)
    return np.log((p - 2 / A + 1) / (1 - p)) if p >= 1 / A else np.log(A * p)


def regrets(s):
    """log P_A less that of the likeliest action that there is."""
    valid = (NEXT_STATE[s] >= 0) & (s != TERMINAL)
    logs = np.log(np.maximum(PROBS[s], 1e-30))
    return logs - logs[valid].max()


def columns(original, path, w_ins=1.0, w_del=1.0, w_sub=1.0):
    """D[:, t] for t = 1 … len(path): the textbook's dynamic programme."""
    d = np.zeros((len(original) + 1, len(path) + 1))
    d[:, 0], d[0] = w_del * np.arange(len(original) + 1), w_ins * np.arange(len(path) + 1)
    for i, a in enumerate(original):
        for j, b in enumerate(path):
            d[i + 1, j + 1] = min(d[i, j] + w_sub * (a != b), d[i, j + 1] + w_del, d[i + 1, j] + w_ins)
    return d.T[1:]


def last_argmin(column):
    return len(column) - 1 - int(np.argmin(column[::-1]))


WALKS = random_walks(48)
TAU0 = [[7, *np.random.default_rng(i).choice(SYMBOLS, i % N)] for i in range(len(WALKS))]


@pytest.mark.parametrize("habit", ["link", "regret"])
@pytest.mark.parametrize("telescoped", [True, False])
@pytest.mark.parametrize("costs", [{}, UNEVEN], ids=["unit", "uneven"])
def test_a_forced_path_is_what_eq_1_to_5_say_by_hand(costs, telescoped, habit):
    config = CONFIG.replace(telescoped=telescoped, habit=habit, **costs)
    out = run(originals_of(TAU0), lanes_of(WALKS), config)
    for i, (actions, original) in enumerate(zip(WALKS, TAU0, strict=True)):
        states, n = states_of(actions), len(actions)
        path = SYMBOLS[states]
        charge = {"link": lambda s, a: h(PROBS[s, a]), "regret": lambda s, a: regrets(s)[a]}[habit]
        habits = np.array([charge(s, a) for s, a in zip(states, actions, strict=False)])
        earned = np.array([REWARD[s, a] for s, a in zip(states, actions, strict=False)])
        d = columns(original, path, **costs)
        assert out.num_actions[i] == n
        assert out.symbols[i].tolist() == [*path, *[PAD] * (T - n)]
        assert out.actions[i].tolist() == [*actions, *[PAD] * (T - n)]
        assert out.rows[i, :n].tolist() == states[:-1]
        assert out.observations[i, : n + 1].tolist() == states
        stops = (np.array(states) == TERMINAL)[:, None]
        assert (out.available[i, : n + 1] == (NEXT_STATE[states] >= 0) & ~stops).all()
        assert out.positions[i, : n + 1].tolist() == [last_argmin(column) for column in d]
        assert out.distance[i] == pytest.approx(d[-1, -1])
        assert out.r_goal[i] == pytest.approx(earned.sum(), abs=1e-5)
        assert out.r_policy[i] == pytest.approx(habits.sum(), rel=1e-4, abs=1e-4)
        logs = sum(np.log(PROBS[s, a]) if PROBS[s, a] > 0 else -np.inf for s, a in zip(states, actions, strict=False))
        assert out.log_prob[i] == pytest.approx(logs, rel=1e-5)
        reward = earned.sum() + 3.0 / (d[-1, -1] + 1) + 0.25 * habits.sum()
        assert out.reward[i] == pytest.approx(reward, rel=1e-4, abs=1e-4)

        smallest = d.min(1)
        after = np.append(smallest[1:-1], d[-1, -1])
        path_pay = 1 / (after + 1) - 1 / (smallest[:-1] + 1) if telescoped else np.eye(n)[-1] / (d[-1, -1] + 1)
        assert out.rewards[i, :n] == pytest.approx(earned + 0.25 * habits + 3.0 * path_pay, rel=1e-4, abs=1e-4)
        assert (out.rewards[i, n:] == 0).all()
        assert out.rewards[i].sum() == pytest.approx(reward - (3.0 if telescoped else 0.0), rel=1e-4, abs=1e-4)


def test_how_a_path_ended():
    finals = [states_of(walk)[-1] for walk in WALKS]
    assert {DEAD_END, TERMINAL} < set(finals)  # all three endings are among the walks
    out = run(originals_of(TAU0), lanes_of(WALKS))
    assert out.terminated.tolist() == [final == TERMINAL for final in finals]
    assert (out.reached == out.terminated).all()
    assert out.met.all()  # no goal, nothing to miss
    assert ((out.num_actions == T) | np.isin(finals, [DEAD_END, TERMINAL])).all()

    goals = originals_of(TAU0).replace(goal=reached)
    assert (run(goals, lanes_of(WALKS)).met == out.reached).all()


def test_values_see_state_position_time_and_row_and_choose_among_what_there_is():
    out = run(originals_of(TAU0), lanes_of([[]] * len(TAU0)))
    table = np.asarray(TABLE)
    for i, original in enumerate(TAU0):
        states, taken = [0], []
        while not ends(states[-1], len(taken)):
            s = states[-1]
            j = last_argmin(columns(original, SYMBOLS[states])[-1])
            q = table[s, j, len(taken)] + table[s, 0, 0]
            taken.append(int(np.argmax(np.where(NEXT_STATE[s] >= 0, q, -np.inf))))
            states.append(int(NEXT_STATE[s, taken[-1]]))
        assert out.actions[i, : len(taken)].tolist() == taken
        assert out.num_actions[i] == len(taken)


def test_a_forced_action_that_is_not_there_gives_way():
    """Action 1 is missing in state 2: the rest of the behaviour decides, with and without a Q."""
    forced, originals = [[2, 1]], originals_of([[7]])
    greedy = run(originals, lanes_of(forced))
    q = np.where(NEXT_STATE[2] >= 0, np.asarray(TABLE)[2, 1, 1] + np.asarray(TABLE)[2, 0, 0], -np.inf)
    assert greedy.actions[0, :2].tolist() == [2, int(np.argmax(q))]
    even = run(originals, lanes_of(forced, explore=True, uniform=0.51), tracks=False)
    assert even.actions[0, :2].tolist() == [2, 2]  # two actions are left: the second half is action 2
    habit = run(originals, lanes_of(forced, explore=True, from_policy=True, uniform=0.99), tracks=False)
    assert habit.actions[0, :2].tolist() == [2, 0]  # P_A takes action 0 for certain


def test_lambda_zero_is_exactly_no_term():
    """Even where the agent never acts so: P_A = 0, whose h is far from 0."""
    originals, lanes = originals_of(TAU0), lanes_of(WALKS)
    neither = run(originals, lanes, CONFIG.replace(lambda_path=0.0, lambda_policy=0.0))
    assert (neither.reward == neither.r_goal).all()
    earned = [[*(REWARD[s, a] for s, a in zip(states_of(w), w, strict=False)), *[0] * (T - len(w))] for w in WALKS]
    assert (neither.rewards == np.array(earned, np.float32)).all()
    no_path = run(originals, lanes, CONFIG.replace(lambda_path=0.0))
    assert no_path.reward == pytest.approx(no_path.r_goal + 0.25 * no_path.r_policy, abs=1e-5)


def test_without_a_q_the_path_is_graded_the_same():
    """The position is then not tracked, and nothing else changes."""
    tracked = run(originals_of(TAU0), lanes_of(WALKS))
    graded = run(originals_of(TAU0), lanes_of(WALKS), tracks=False)
    assert (graded.positions == 0).all()
    for name in ("symbols", "distance", "reward", "r_goal", "log_prob"):
        assert (getattr(graded, name) == getattr(tracked, name)).all()


def test_only_a_stochastic_world_depends_on_the_key():
    b = len(WALKS)
    originals, lanes = originals_of([[7, 8]] * b), lanes_of([[0, 0, 0]] * b)
    same = run(originals, lanes)
    assert (same.symbols == same.symbols[0]).all()

    transition = np.zeros((S, A, S))
    transition[..., 0], transition[..., 1] = 0.25, 0.75
    env = TabularMDP(None, REWARD, np.arange(S) == TERMINAL, 0, T, SYMBOLS, transition=transition)
    keys = jax.random.split(KEY, b)
    stochastic = TASK.replace(env=env, params=env.default_params)
    out = run(originals, lanes, task=stochastic, keys=keys)
    assert (out.symbols == run(originals, lanes, task=stochastic, keys=keys).symbols).all()
    share = np.mean(out.symbols[:, 1:] == 8)
    assert abs(share - 0.75) < 4 * np.sqrt(0.25 * 0.75 / (b * T))
    assert len(np.unique(out.symbols[:, 1:], axis=0)) > b / 4  # steps and lanes draw apart


trace_one = jax.jit(trace)


def traced(symbols, actions=None, task=TASK):
    row = jnp.asarray(padded([symbols], N)[0])
    given = None if actions is None else jnp.asarray(padded([actions], N - 1)[0])
    return jax.tree.map(np.asarray, trace_one(task, row, jnp.int32(len(symbols)), KEY, given))


def test_trace_finds_the_actions_and_what_they_earn():
    for walk in WALKS:
        states = states_of(walk)
        path = SYMBOLS[states]
        recorded = traced(path, walk)
        assert recorded.followed
        assert recorded.actions.tolist() == [*walk, *[PAD] * (T - len(walk))]
        assert recorded.r_goal == pytest.approx(sum(REWARD[s, a] for s, a in zip(states, walk, strict=False)))

        found = traced(path)
        if found.followed:  # it isn't where a look-alike was taken that leads elsewhere
            taken = found.actions[found.actions != PAD].tolist()
            assert SYMBOLS[states_of(taken)].tolist() == path.tolist()


def test_trace_takes_the_likeliest_of_the_actions_that_lead_there():
    """From state 1 both 0 (to state 3) and 1 (to itself) show symbol 8; P_A prefers 1, even at odds of nothing."""
    assert traced([7, 8, 8]).actions[:2].tolist() == [0, 1]
    turned = PROBS.copy()
    turned[1] = [0.7, 0.2, 0.1]
    task = TASK.replace(policy=TablePolicy(jnp.asarray(turned, jnp.float32)))
    assert traced([7, 8, 8], task=task).actions[:2].tolist() == [0, 0]
    assert traced([7, 9, 7]).actions[:2].tolist() == [2, 2]  # the only way, though P_A = 0
    assert traced([7, 8, 8], actions=[0, 0]).actions[:2].tolist() == [0, 0]  # what was done stands


@pytest.mark.parametrize(
    "symbols, actions",
    [
        ([7, 4], None),  # nothing leads there
        ([9, 7], None),  # not from the start
        ([7, 9, 3, 7], None),  # on from a dead end
        ([7, 8, 8, 4, 7], [0, 0, 0, 0]),  # on from a terminal state
        ([7, 9, 9], [2, 1]),  # by an action that is not there
        ([7, 8], [2]),  # by an action that leads elsewhere
    ],
)
def test_a_path_that_cannot_be_followed_is_told(symbols, actions):
    out = traced(symbols, actions)
    assert not out.followed
    assert out.r_goal == -np.inf
    assert (out.actions[len(symbols) - 2 :] == PAD).all()


def test_improved_is_bound_to_each_original():
    task = TASK.replace(goal=improved)
    low, high = traced([7, 8, 8, 4], [0, 0, 0], task), traced([7, 7, 8, 8, 4], [1, 0, 0, 0], task)
    bounds = float(low.goal.above), float(high.goal.above)  # and the tolerance, a millionth of what was paid
    assert bounds == pytest.approx((5.5, 4.5), rel=2e-6)
    assert traced([7, 4], task=task).goal.above == -np.inf  # any path that reaches the goal improves on it
    lanes, rows = lanes_of([[0, 0, 0]] * 3), originals_of([[7]] * 3)
    goals = jax.tree.map(lambda *x: jnp.stack(x), low.goal, high.goal, traced([7, 4], task=task).goal)
    assert run(rows.replace(goal=goals), lanes).met.tolist() == [False, True, True]  # 5.5 is not above 5.5
