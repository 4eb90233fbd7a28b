"""What is left out of the dynamic programme can't hold the best path: budgets and states, by hand."""

import numpy as np
import pytest

from pprjax import TabularMDP
from pprjax.certify import best, bounds, edits
from pprjax.certify.optimum import exact
from pprjax.certify.problem import Block, Problem, blocks
from pprjax.config import Config
from pprjax.goals import at_least
from pprjax.objective import Objective
from pprjax.paths import Paths
from pprjax.policy import TablePolicy
from pprjax.task import Task


def opened(reward, bound, distance, lambda_path, *, cheapest=1, limit=np.inf):
    """`open_budgets` of one original."""
    block = Block(*np.zeros((4, 1)), np.array([lambda_path]), np.zeros(1))
    problem = Problem(None, None, edits.WholeCosts(cheapest, cheapest, cheapest), limit, np.zeros(1))
    return int(best.open_budgets(np.array([reward]), np.array([bound]), np.array([distance]), problem, block)[0])


def budgets_that_may_hold_better(reward, bound, distance, lambda_path, cheapest, limit):
    """Straight from the bound: e edits, up to the limit and below d∞ where that is allowed, earn more than `reward`."""
    most = limit if distance > limit else distance - 1
    return [e for e in range(cheapest, int(most) + 1) if bound + lambda_path / (e + 1) > reward]


def test_the_largest_open_budget_is_the_last_whose_bound_is_above_the_reward():
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(2000):
        lambda_path, bound, distance = rng.uniform(0.1, 20), rng.normal(), int(rng.integers(0, 14))
        reward = bound + lambda_path * rng.uniform(0.02, 1.2)
        cheapest, limit = int(rng.integers(1, 4)), float(rng.choice([np.inf, 3, 6]))
        expected = max(budgets_that_may_hold_better(reward, bound, distance, lambda_path, cheapest, limit), default=0)
        assert opened(reward, bound, distance, lambda_path, cheapest=cheapest, limit=limit) == expected
        seen.add(expected)
    assert {0, 1, 2, 5, 10} <= seen


def test_all_budgets_are_open_where_there_is_no_path_yet():
    assert opened(-np.inf, 1.0, 9, 5.0) == 8
    assert opened(-np.inf, 1.0, 9, 5.0, limit=4) == 4
    assert opened(-np.inf, -np.inf, 9, 5.0) == 0  # and none where there is no path at all
    assert opened(3.0, 1.0, 9, 0.0) == 0  # nor where closeness pays nothing


@pytest.mark.parametrize("dear", [9, 20])
def test_states_of_the_cheapest_edit_are_kept(dear):
    """The original earns 10, an insertion of cost 1 earns 6 + 10 / 2, and the best of all, far away, 9 and a little."""
    next_state = [[1, 3, 4], [2, -1, -1], [-1] * 3, [1, -1, -1], [5, -1, -1], [-1] * 3]
    reward = np.zeros((6, 3))
    reward[0] = 0.0, 6.0, 9.0
    env = TabularMDP(next_state, reward, [False, False, True, False, False, True], 0, 4)
    task = Task(env, TablePolicy(np.full((6, 3), 1 / 3, np.float32)))
    config = Config(lambda_path=10.0, lambda_policy=0.0, w_ins=1.0, w_del=float(dear), w_sub=float(dear))
    found = exact(task, Paths.from_lists([[0, 1, 2]]), config)
    assert found.paths.to_lists() == [[0, 3, 1, 2]]
    assert found.reward.tolist() == [11.0]


def two_ways():
    """From 0 by way of 1 or of 2 to 3 or 4, the ends; action 0 pays 1, action 1 pays 2."""
    next_state = [[1, 2], [3, 4], [3, 4], [-1, -1], [-1, -1]]
    env = TabularMDP(next_state, [[1.0, 2.0]] * 3 + [[0.0, 0.0]] * 2, [False] * 3 + [True] * 2, 0, 3)
    return Task(env, TablePolicy(np.array([[0.9, 0.1]] * 5, np.float32)))


def block_of(task, originals, **weights):
    """The only block, its problem and its bounds."""
    ((_, problem, block),) = blocks(task, Paths.from_lists(originals), Objective(**weights))
    return problem, block, bounds.bounds(problem, block)


def test_a_bound_is_attained_by_the_best_path_through_a_node():
    problem, _, bound = block_of(two_ways(), [[0, 1, 3]], lambda_policy=0.0)
    row = problem.tables.symbol[problem.unrolled.row]
    through = bound.through(0)
    expected = {(0, 0): 4, (1, 1): 3, (1, 2): 4, (2, 3): 3, (2, 4): 4}
    for (t, symbol), value in expected.items():
        (rows,) = np.flatnonzero((row[t] == symbol) & (through[t] > -np.inf))
        assert through[t, rows] == value
    assert np.isfinite(through).sum() == len(expected)


def test_originals_of_one_weight_and_one_goal_share_their_bounds():
    _, _, bound = block_of(two_ways(), [[0, 1, 3], [0, 2], [0]], lambda_policy=np.array([1.0, 2.0, 1.0]))
    assert bound.kind.tolist() == [0, 1, 0]
    assert bound.weights.lambda_policy.tolist() == [1.0, 2.0]


def test_what_meets_no_goal_has_no_bound():
    _, _, bound = block_of(two_ways().replace(goal=at_least(4.5)), [[0, 1, 3]])
    assert bound.best().tolist() == [-np.inf]
    _, _, bound = block_of(two_ways().replace(goal=at_least(4.0)), [[0, 1, 3]], lambda_policy=0.0)
    assert bound.best().tolist() == [4.0]
