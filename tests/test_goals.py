"""Goals mean the same everywhere: decimal thresholds, and what an original earned whose actions are not known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brute_force import HORIZON, Mdp
from hypothesis import given, settings
from hypothesis import strategies as st

from pprjax import TabularMDP
from pprjax.certify.optimum import exact
from pprjax.config import Config
from pprjax.goals import TOLERANCE, Outcome, at_least, improved
from pprjax.paths import PAD, Paths
from pprjax.policy import TablePolicy
from pprjax.rollout import Behaviour, rollout, trace
from pprjax.task import Task

CONFIG = Config(lambda_path=100.0, lambda_policy=0.1)
SMALL = Config(iterations=2, num_paths=4, num_best=2, updates=1, batch_size=4, width=4)
KEY = jax.random.key(0)
STEPS = 40  # of every chain, so that one program serves all
trace_one = jax.jit(trace)
roll = jax.jit(lambda task, original, lane: rollout(task, original, lane, SMALL, KEY))


def chain(*rewards, goal):
    """States in a row, of which the last ends a path; until the last step action 1 ends it at once, for nothing. Steps
    that earn nothing fill the row up."""
    rewards = (*rewards, *[0.0] * (STEPS - len(rewards)))
    size = len(rewards) + 1
    next_state = [[s + 1, size - 1] for s in range(size - 2)] + [[size - 1, -1], [-1, -1]]
    paid = [[r, 0.0] for r in rewards] + [[0.0, 0.0]]
    env = TabularMDP(next_state, paid, np.arange(size) == size - 1, 0, size)
    return Task(env, TablePolicy(jnp.full((size, 2), 0.5)), goal=goal)


def walked(task, original):
    """Whether the learner says that going all the way along the chain meets the goal."""
    length = task.num_states
    path = trace_one(task, jnp.asarray(original), jnp.int32(len(original)), KEY)
    lane = Behaviour(
        forced=jnp.zeros(task.horizon, jnp.int32),
        explore=jnp.ones(task.horizon, bool),
        from_policy=jnp.bool_(True),
        uniform=jnp.zeros(task.horizon),
    )
    found = roll(task, path, lane)
    assert found.num_actions == length - 1
    return bool(found.met)


CHAINS = [
    ((-0.3, 0.1, 0.3, -0.3), at_least(-0.2), True),
    ((-0.3, 0.1, 0.3, -0.3), at_least(-0.1999), False),
    ((0.35,) * 12, at_least(4.2), True),
    ((0.35,) * 12, at_least(4.2001), False),
    ((0.1,) * 40, at_least(4.0), True),
    ((100.0, -99.9, 1e-3), at_least(0.101), True),
    ((100.0, -99.9, 1e-3), at_least(0.102), False),
]


@pytest.mark.parametrize(("rewards", "goal", "met"), CHAINS)
def test_a_decimal_threshold_is_met_by_the_decimals_that_sum_to_it(rewards, goal, met):
    """In the learner, which goes along the chain, and in the certificate."""
    task = chain(*rewards, goal=goal)
    whole = list(range(task.num_states))
    assert walked(task, whole) == met
    best = exact(task, Paths.from_lists([whole]), CONFIG.replace(lambda_path=1e4))  # no edit is worth it
    assert (best.status[0] == "unchanged") == met


def test_the_same_sum_in_another_order_improves_nothing():
    """.1 + .2 + .6 and .9, which float64 tells apart once they are rounded to float32."""
    next_state = [[1, 3], [2, 2], [3, 3], [-1, -1]]
    env = TabularMDP(next_state, [[0.1, 0.9], [0.2, 0.2], [0.6, 0.6], [0.0, 0.0]], [False] * 3 + [True], 0, 4)
    task = Task(env, TablePolicy(jnp.full((4, 2), 0.5)), goal=improved)
    assert np.float32([0.1, 0.2, 0.6]).sum(dtype=float) != float(np.float32(0.9))
    for original in ([0, 3], [0, 1, 2, 3]):
        assert exact(task, Paths.from_lists([original]), CONFIG).status.tolist() == ["infeasible"]
        assert not walked(task, original)
    better = task.replace(params=env.default_params.replace(reward=env.default_params.reward.at[0, 0].add(1e-4)))
    assert exact(better, Paths.from_lists([[0, 3]]), CONFIG).status.tolist() == ["reached_goal"]
    assert walked(better, [0, 3])


def test_a_threshold_is_relative_to_what_was_paid():
    def earned(total, magnitude):
        return Outcome(state=0, reached=jnp.bool_(True), r_goal=jnp.float32(total), magnitude=jnp.float32(magnitude))

    assert at_least(0.0)(earned(-0.9 * TOLERANCE, 1.0))
    assert not at_least(0.0)(earned(-1.1 * TOLERANCE, 1.0))
    assert at_least(0.0)(earned(-1.1 * TOLERANCE, 2.0))
    own = improved.of(jnp.float32(0.0), jnp.float32(1.0))
    assert not own(earned(1.9 * TOLERANCE, 1.0))
    assert own(earned(2.1 * TOLERANCE, 1.0))


def both(task, symbols):
    """R_goal of an original without actions: as the learner has it, and as the certificate has it."""
    padded = jnp.asarray(np.append(symbols, [PAD] * 2))
    traced = trace_one(task, padded, jnp.int32(len(symbols)), KEY)
    return traced, exact(task, Paths.from_lists([symbols]), CONFIG)


def test_improved_asks_for_more_than_the_likeliest_way_earned():
    """Actions 0 and 1 look the same; the agent takes 0, which pays 1, and action 1 would have paid 5."""
    next_state = [[1, 1, 2], [-1] * 3, [-1] * 3]
    env = TabularMDP(next_state, [[1.0, 5.0, 3.0], [0.0] * 3, [0.0] * 3], [False, True, True], 0, 3)
    task = Task(env, TablePolicy(np.array([[0.8, 0.1, 0.1]] * 3, np.float32)), goal=improved)
    traced, best = both(task, [0, 1])
    assert traced.r_goal == best.original_goal[0] == 1.0
    assert best.status.tolist() == ["unchanged"]
    assert best.paths.actions_to_lists() == [[1]]


def test_the_way_is_found_by_looking_ahead():
    """Symbols 7 8 4: the likelier first step ends in a room that looks like the other and leads nowhere."""
    next_state = [[1, 3], [2, 2], [-1, -1], [4, 4], [-1, -1]]
    env = TabularMDP(next_state, np.ones((5, 2)), [False] * 5, 0, 4, symbols=[7, 8, 5, 8, 4])
    probs = np.full((5, 2), 0.5, np.float32)
    probs[0] = 0.9, 0.1
    traced, best = both(Task(env, TablePolicy(probs), goal=improved), [7, 8, 4])
    assert traced.followed
    assert traced.actions[:2].tolist() == [1, 0]
    assert traced.r_goal == best.original_goal[0] == 2.0


def test_an_original_that_no_way_spells_is_followed_as_far_as_one_does():
    next_state = [[1, 3], [2, 2], [-1, -1], [4, 4], [-1, -1]]
    env = TabularMDP(next_state, np.ones((5, 2)), [False] * 5, 0, 4, symbols=[7, 8, 5, 8, 4])
    probs = np.full((5, 2), 0.5, np.float32)
    probs[0] = 0.9, 0.1
    traced, best = both(Task(env, TablePolicy(probs), goal=improved), [7, 8, 4, 99])
    assert not traced.followed
    assert traced.actions[:3].tolist() == [1, 0, PAD]
    assert traced.r_goal == best.original_goal[0] == -np.inf


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_learner_and_certificate_agree_on_what_an_original_earned(seed):
    mdp = Mdp(seed)
    task = mdp.task(improved).replace(horizon=HORIZON)
    best = exact(task, Paths.from_lists(mdp.originals), CONFIG)
    for b, original in enumerate(mdp.originals):
        padded = np.full(HORIZON + 4, PAD)
        padded[: len(original)] = original
        traced = trace_one(task, jnp.asarray(padded), jnp.int32(len(original)), KEY)
        assert traced.r_goal == best.original_goal[b] == mdp.own_reward(original)
        assert traced.goal.above >= traced.r_goal


def test_a_world_without_a_table_is_followed_by_the_likeliest_step():
    class Nameless(TabularMDP):
        state_from_id = property()

    next_state = [[1, 3], [2, 2], [-1, -1], [4, 4], [-1, -1]]
    env = Nameless(next_state, np.ones((5, 2)), [False] * 5, 0, 4, symbols=[7, 8, 5, 8, 4])
    probs = np.full((5, 2), 0.5, np.float32)
    probs[0] = 0.9, 0.1
    traced, best = both(Task(env, TablePolicy(probs), goal=improved), [7, 8, 4])
    assert not traced.followed
    assert best.original_goal.tolist() == [-np.inf]
