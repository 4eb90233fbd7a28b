import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brute_force import GOALS, HORIZON, UNEVEN, A, Mdp, S, edit, lambdas
from hypothesis import given, settings
from hypothesis import strategies as st
from pprjax_envs import gridworld

from pprjax import TabularMDP, limits
from pprjax.certify import best
from pprjax.certify.optimum import exact
from pprjax.config import Config
from pprjax.finite_world import UNAVAILABLE, tabulate
from pprjax.goals import at_least, improved, reached
from pprjax.paths import Paths
from pprjax.policy import TablePolicy
from pprjax.reward import link
from pprjax.task import Task

pytestmark = pytest.mark.usefixtures("optimized")


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    goal=st.sampled_from(sorted(GOALS)),
    costs=st.sampled_from([{}, UNEVEN]),
    lambda_path=st.tuples(*[lambdas] * 3),
    lambda_policy=st.tuples(*[lambdas] * 3),
)
def test_no_path_is_better_and_the_returned_one_is_as_good(seed, goal, costs, lambda_path, lambda_policy):
    mdp = Mdp(seed)
    config = Config(lambda_path=np.array(lambda_path), lambda_policy=np.array(lambda_policy), habit=mdp.habit, **costs)
    best = exact(mdp.task(GOALS[goal]), Paths.from_lists(mdp.originals), config)

    all_paths = {states: rest for states, *rest in mdp.paths}
    actions = best.paths.actions_to_lists()
    for b, original in enumerate(mdp.originals):
        truth = mdp.best(goal, original, lambda_path[b], lambda_policy[b], costs)
        if truth == -np.inf:
            assert best.status[b] == "infeasible"
            assert best.reward[b] == -np.inf
            assert best.scores.distance[b] == -1
            assert best.paths.to_lists()[b] == [mdp.symbols[0]]
            continue
        np.testing.assert_allclose(best.reward[b], truth, rtol=1e-5, atol=1e-5)

        states = [0]
        for a in actions[b]:
            assert a in mdp.usable(states[-1])
            states.append(int(mdp.next_state[states[-1], a]))
        assert tuple(states) in all_paths  # it neither stops early nor goes on too long
        assert best.paths.to_lists()[b] == mdp.symbols[states].tolist()
        earned = sum(mdp.reward[s, a] for s, a in zip(states, actions[b], strict=False))
        assert mdp.meets(goal, states[-1], earned, original)
        distance = edit(original, mdp.symbols[states], costs)
        habit = sum(mdp.habits[s, a] for s, a in zip(states, actions[b], strict=False))
        with np.errstate(divide="ignore"):
            log_prob = sum(np.log(mdp.probs[s, a]) for s, a in zip(states, actions[b], strict=False))
        assert best.scores.distance[b] == distance
        assert best.scores.path[b] == pytest.approx(1 / (distance + 1))
        assert best.scores.goal[b] == pytest.approx(earned)
        assert best.scores.r_policy[b] == pytest.approx(habit, rel=1e-5, abs=1e-5)
        assert best.scores.policy[b] == pytest.approx(log_prob / max(len(actions[b]), 1), rel=1e-4, abs=1e-5)
        scored = earned + lambda_policy[b] * habit + lambda_path[b] / (distance + 1)
        np.testing.assert_allclose(best.reward[b], scored, rtol=1e-5, atol=1e-5)

        met = mdp.terminal[states[-1]] if goal == "none" else True
        expected = "unchanged" if distance == 0 else "reached_goal" if met else "cut"
        assert best.status[b] == expected


@pytest.mark.parametrize("case", range(10))
def test_agrees_with_the_oracle(oracle, case):
    oracle = oracle("optimum")[case]
    env = TabularMDP(
        np.array(oracle["next"]),
        np.array(oracle["R"]),
        np.array(oracle["terminal"]),
        oracle["s0"],
        oracle["max_states"] - 1,
    )
    task = Task(env, TablePolicy(np.array(oracle["P_A"], np.float32)))
    config = Config(lambda_path=oracle["lambda_path"], lambda_policy=oracle["lambda_policy"], habit="link")
    best = exact(task, Paths.from_lists([oracle["ref"]]), config)
    np.testing.assert_allclose(best.reward, oracle["optimum"], rtol=1e-4, atol=1e-4)


@functools.cache
def grid():
    task = gridworld.task("newbie", goal=None)
    return task, gridworld.bad_paths(task.env, 24)


@pytest.mark.parametrize(("lambda_path", "lambda_policy"), [(0.1, 0.1), (100.0, 0.1), (10.0, 1.0), (1.0, 10.0)])
def test_an_answer_does_not_depend_on_the_batch(lambda_path, lambda_policy):
    task, originals = grid()
    config = Config(lambda_path=lambda_path, lambda_policy=lambda_policy)
    together = exact(task, originals, config)
    for b in (0, 11, 23):
        alone = exact(task, originals[b], config)
        assert alone.reward[0] == together.reward[b]
        assert alone.paths.to_lists()[0] == together.paths.to_lists()[b]
        assert alone.status[0] == together.status[b]


def test_an_answer_does_not_depend_on_blocks_or_on_memory(monkeypatch):
    task, originals = grid()
    config = Config(lambda_path=10.0, lambda_policy=0.1)
    together = exact(task, originals, config)
    monkeypatch.setattr(limits, "BLOCK_FLOATS", 5 * 41 * 48)
    monkeypatch.setattr(limits, "MAX_BYTES", 2**23)
    in_blocks = exact(task, originals, config)
    for one, other in zip(jax.tree.leaves(in_blocks), jax.tree.leaves(together), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_pruning_does_not_change_the_optimum(monkeypatch):
    task, originals = grid()
    originals = originals[list(range(10))]
    config = Config(lambda_path=np.tile([1.0, 20.0], 5), lambda_policy=0.1)
    pruned = exact(task, originals, config)

    def keep_all(unrolled, ending, alive, lambda_policy, prune=best.prune):
        return prune(unrolled, ending, np.ones_like(alive), lambda_policy)

    monkeypatch.setattr(best, "prune", keep_all)
    monkeypatch.setattr(best, "open_budgets", lambda *args: np.full(len(args[0]), 40))
    whole = exact(task, originals, config)
    np.testing.assert_allclose(pruned.reward, whole.reward, rtol=1e-6)


def test_a_goal_never_pays_and_binds():
    task, originals = grid()
    config = Config(lambda_path=100.0, lambda_policy=0.1)
    free = exact(task, originals, config)
    assert (exact(task.replace(goal=reached), originals, config).reward <= free.reward).all()
    bettered = exact(task.replace(goal=improved), originals, config)
    assert (bettered.reward <= free.reward).all()
    assert (free.status == "unchanged").any()
    assert (bettered.status == "reached_goal").all()
    impossible = exact(task.replace(goal=at_least(1e6)), originals, config)
    assert (impossible.status == "infeasible").all()
    assert (impossible.reward == -np.inf).all()


def test_lambda_zero_switches_a_term_off():
    task, originals = grid()
    neither = exact(task, originals, Config(lambda_path=0.0, lambda_policy=0.0))
    assert set(neither.reward) == {neither.scores.goal[0]} == {max(neither.scores.goal)}  # one best trip for everyone
    no_path = exact(task, originals, Config(lambda_path=0.0, lambda_policy=1.0))
    np.testing.assert_array_equal(no_path.reward, no_path.scores.goal + no_path.scores.r_policy)
    no_policy = exact(task, originals, Config(lambda_path=5.0, lambda_policy=0.0))
    other = exact(gridworld.task("experienced", goal=None), originals, Config(lambda_path=5.0, lambda_policy=0.0))
    np.testing.assert_array_equal(no_policy.reward, other.reward)  # with either driver


def test_a_large_lambda_path_keeps_the_path_and_a_goal_does_not():
    task, originals = grid()
    whole = [b for b in range(24) if originals.to_lists()[b][-1] == originals.to_lists()[0][-1]]
    best = exact(task, originals[whole], Config(lambda_path=1e4, lambda_policy=0.1))
    assert (best.status == "unchanged").all()
    assert best.paths.to_lists() == originals[whole].to_lists()


def test_actions_tell_which_way_an_original_went():
    """Two actions look the same and pay differently: `improved` depends on which one was taken."""
    next_state = np.array([[1, 1, 2], [-1] * 3, [-1] * 3])
    env = TabularMDP(next_state, [[1.0, 5.0, 3.0], [0.0] * 3, [0.0] * 3], [False, True, True], 0, 3)
    task = Task(env, TablePolicy(np.full((3, 3), 1 / 3, np.float32)), goal=improved)
    config = Config(lambda_path=100.0)
    best = exact(task, Paths.from_lists([[0, 1], [0, 1]], [[0], [1]]), config)
    assert best.status.tolist() == ["unchanged", "infeasible"]
    assert best.paths.actions_to_lists()[0] == [1]
    assert exact(task, Paths.from_lists([[0, 1]]), config).status.tolist() == ["infeasible"]  # the best-rewarded way


def test_a_start_without_a_way_out():
    task = Task(TabularMDP([[-1, -1]], [[0.0, 0.0]], [False], 0, 4), TablePolicy(np.full((1, 2), 0.5, np.float32)))
    best = exact(task, Paths.from_lists([[0], [0, 7]]), Config(lambda_path=6.0))
    assert best.reward.tolist() == [6.0, 3.0]
    assert best.status.tolist() == ["unchanged", "cut"]
    assert best.scores.policy.tolist() == [0.0, 0.0]


def test_tables_hold_what_the_world_does():
    mdp = Mdp(7)
    tables = tabulate(mdp.task(None), habit="link")
    ids = tables.state_id
    assert ids[0] == 0 and len(set(zip(ids, tables.ended, strict=True))) == len(ids)
    for row, s in enumerate(ids):
        assert tables.ended[row] == mdp.terminal[s]
        assert tables.symbol[row] == mdp.symbols[s]
        for a in range(A):
            if a in mdp.usable(s):
                assert ids[tables.next_state[row, a]] == mdp.next_state[s, a]
                assert tables.reward[row, a] == mdp.reward[s, a]
            else:
                assert tables.next_state[row, a] == UNAVAILABLE
    np.testing.assert_allclose(tables.habit, np.asarray(link(mdp.probs[ids], A)), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(tables.states.id, ids)


def test_more_states_than_one_frontier_holds():
    size = 700  # a star, then a rim
    next_state = np.full((size, 2), -1)
    next_state[0] = [1, 2]
    next_state[1:, 0] = np.minimum(2 * np.arange(1, size) + 1, size - 1)
    next_state[1:, 1] = np.minimum(2 * np.arange(1, size) + 2, size - 1)
    env = TabularMDP(next_state, np.zeros((size, 2)), np.arange(size) == size - 1, 0, 20)
    tables = tabulate(Task(env, TablePolicy(np.full((size, 2), 0.5, np.float32))))
    assert sorted(tables.state_id) == list(range(size))
    followed = tables.state_id[tables.next_state]
    np.testing.assert_array_equal(followed[~tables.ended], next_state[tables.state_id[~tables.ended]])


class Remembering:
    """A P_A with a carry."""

    def init(self):
        return jnp.zeros(3)

    def step(self, carry, state):
        return carry + 1, jnp.log(jnp.full(A, 1 / A))


jax.tree_util.register_static(Remembering)


def small_task(**changes):
    return Mdp(3).task(None).replace(**changes)


ORIGINAL = Paths.from_lists([[int(Mdp(3).symbols[0])]])


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (Config(lambda_path=-1.0), "lambda_path: .* got -1"),
        (Config(lambda_policy=float("nan")), "lambda_policy: .* got nan"),
        (Config(lambda_path=np.ones(2)), "lambda_path: .* each of 1 originals"),
        (Config(w_sub=1.5), "w_sub: .* whole numbers, got 1.5"),
        (Config(w_del=0.0), "w_del: .* got 0"),
    ],
)
def test_a_bad_config_is_named(config, message):
    with pytest.raises(ValueError, match=message):
        exact(small_task(), ORIGINAL, config)


@pytest.mark.parametrize(
    ("symbols", "lengths", "message"),
    [
        ([[2**31 - 1]], [1], r"originals\[0\]: expected a path from the start, symbol \d+, got 2147483647"),
        ([[-1]], [0], r"originals\[0\]: a path needs at least its start"),
        ([[3, -1]], [2], r"originals\[0\]: expected symbols of at least 0, got -1 at position 1"),
        (np.zeros((0, 3)), [], "originals: expected at least one path"),
    ],
)
def test_a_bad_original_is_named(symbols, lengths, message):
    with pytest.raises(ValueError, match=message):
        exact(small_task(), Paths(np.array(symbols, np.int32), np.array(lengths, np.int32)), Config())


def test_a_world_that_cannot_be_certified_says_why(monkeypatch):
    stochastic = TabularMDP(
        reward=np.zeros((S, A)),
        terminal=np.zeros(S, bool),
        start=0,
        max_steps=HORIZON,
        transition=np.full((S, A, S), 1 / S),
    )
    uniform = TablePolicy(np.full((S, A), 1 / A, np.float32))
    with pytest.raises(ValueError, match=r"task.env: expected a deterministic world.*action 0 in state 0"):
        exact(Task(stochastic, uniform), ORIGINAL, Config())
    with pytest.raises(ValueError, match=r"task.policy: .* carries a memory"):
        exact(small_task(policy=Remembering()), ORIGINAL, Config())

    class Endless(TabularMDP):
        state_id = property()  # a world that can't number its states

    tables = dict(next_state=np.zeros((S, A), int), reward=np.zeros((S, A)), terminal=np.zeros(S, bool))
    with pytest.raises(ValueError, match=r"task.env: expected a finite world"):
        exact(Task(Endless(**tables), Remembering()), ORIGINAL, Config())

    rng = np.random.default_rng(0)
    varied = TabularMDP(rng.integers(0, S, (S, A)), rng.normal(size=(S, A)), np.zeros(S, bool), 0, 10)
    monkeypatch.setattr(limits, "MAX_LAYER", 50)
    with pytest.raises(ValueError, match=r"more than 50 pairs of state and R_goal"):
        exact(Task(varied, uniform, goal=at_least(1.0)), Paths.from_lists([[0]]), Config())
    exact(Task(varied, uniform), Paths.from_lists([[0]]), Config(lambda_path=0.0))  # without the goal it is small
    monkeypatch.setattr(limits, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match=r"an original of 3 symbols would need .* GiB"):
        exact(Task(varied, uniform), Paths.from_lists([[0, 0, 0]]), Config(lambda_path=100.0))


def test_a_certificate_has_a_frame_with_one_row_an_original():
    env = TabularMDP([[1, -1], [2, 0], [-1, -1]], np.ones((3, 2)), [False, False, True], 0, 4)
    task = Task(env, TablePolicy(np.full((3, 2), 0.5)))
    originals = Paths.from_lists([[0, 1, 2], [0, 1, 0, 1]])
    best = exact(task, originals, Config(lambda_path=0.0, lambda_policy=0.0))
    frame = best.to_frame()
    assert frame["recourse"].to_list() == best.paths.to_lists() == [[0, 1, 0, 1, 2]] * 2
    assert frame["reward"].to_list() == [4.0, 4.0]
    assert frame["distance"].to_list() == [2, 1]
