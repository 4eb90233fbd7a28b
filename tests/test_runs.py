"""How likely a recourse is to work, against closed forms."""

import jax
import numpy as np
import pytest

import pprjax
from pprjax import TabularMDP
from pprjax.runs import RUNS

LEFT = 0.3  # the chance to slip on ice
TERMINAL = np.array([False, False, False, True, True])


def ice(start=0, max_steps=4, **options):
    """0 → 1 → 2 → 3, the goal. Action 0 goes on and slips with chance 0.3 into 4, where all ends; action 1 goes on
    surely or, in state 1, back to 0; action 2 is there in state 0 alone and stays."""
    transition = np.zeros((5, 3, 5))
    for state in range(3):
        transition[state, 0, [state + 1, 4]] = 1 - LEFT, LEFT
        transition[state, 1, state + 1 if state != 1 else 0] = 1
    transition[0, 2, 0] = 1
    env = TabularMDP(
        reward=np.ones((5, 3)), terminal=TERMINAL, start=start, max_steps=max_steps, transition=transition, **options
    )
    return pprjax.Task(
        env, pprjax.TablePolicy(np.full((5, 3), 1 / 3, np.float32)), goal=pprjax.goals.ends_in(np.arange(5) == 3)
    )


def paths(*plans):
    """Paths of these actions; the symbols are not looked at."""
    return pprjax.Paths.from_lists([[0] * (len(plan) + 1) for plan in plans], [list(plan) for plan in plans])


PLANS = {(0, 0, 0): 0.7**3, (1, 0, 1): 0.7, (1, 1, 1): 0.0, (2, 1, 0, 1): 0.7, (1, 0): 0.0, (1, 2, 1): 0.0}


def test_a_share_is_as_near_to_the_closed_form_as_chance_has_it():
    found = pprjax.reliability(ice(), paths(*PLANS), key=jax.random.key(0))
    expected = np.array(list(PLANS.values()))
    assert found.runs == RUNS
    assert (np.abs(found.share - expected) <= 4 * found.error).all()
    np.testing.assert_allclose(found.error[:2], np.sqrt(expected * (1 - expected) / RUNS)[:2], rtol=0.05)
    assert (found.error > 0).all()  # of plans that never work as well
    more = pprjax.reliability(ice(), paths((1, 0, 1)), key=jax.random.key(0), runs=20_000)
    assert more.error[0] < found.error[1] / 4
    assert abs(more.share[0] - 0.7) <= 4 * more.error[0]


def test_a_policy_reacts_where_a_plan_can_not():
    """A slip of the floor, action 0 in 0, leads to 1 or to 2; what is right then depends on which."""
    transition = np.zeros((5, 2, 5))
    transition[0, :, 1], transition[0, :, 2] = 0.4, 0.6
    transition[1, 0, 3] = transition[2, 1, 3] = transition[1, 1, 4] = transition[2, 0, 4] = 1
    env = TabularMDP(reward=np.zeros((5, 2)), terminal=TERMINAL, max_steps=2, transition=transition)
    half = pprjax.TablePolicy(np.full((5, 2), 0.5, np.float32))
    task = pprjax.Task(env, half, goal=pprjax.goals.ends_in(np.arange(5) == 3))
    plans = pprjax.reliability(task, paths((0, 0), (0, 1)), key=jax.random.key(1))
    assert (np.abs(plans.share - [0.4, 0.6]) <= 4 * plans.error).all()
    knows = np.array([[1, 0], [1, 0], [0, 1], [1, 0], [1, 0]], np.float32)
    for probs, expected in ((knows, 1.0), (half.probs, 0.5)):
        found = pprjax.reliability(task, policy=pprjax.TablePolicy(probs), key=jax.random.key(2))
        assert found.share.shape == (1,)
        assert abs(found.share[0] - expected) <= 4 * found.error[0]


def test_each_path_has_its_own_runs_and_each_task_its_own_world():
    plans = paths((0, 0, 0), (0, 0, 0))
    both = pprjax.reliability(ice(), plans, key=jax.random.key(0))
    assert both.share[0] != both.share[1]
    assert pprjax.reliability(ice(), plans[[0]], key=jax.random.key(0)).share[0] == both.share[0]
    world = ice()
    further = world.replace(params=world.params.replace(start=np.int32(2)))
    stacked = pprjax.stack([world, further])
    found = pprjax.reliability(stacked, plans, key=jax.random.key(0))
    assert found.share[0] == both.share[0]
    assert abs(found.share[1] - 0.7) <= 4 * found.error[1]
    reacting = pprjax.reliability(stacked, policy=world.policy, key=jax.random.key(0))
    assert reacting.share[1] > reacting.share[0] + 4 * reacting.error.max()


def test_without_chance_one_run_tells_all():
    env = TabularMDP([[1, -1], [2, 0], [2, 2]], np.zeros((3, 2)), [False, False, True], max_steps=3)
    task = pprjax.Task(env, pprjax.TablePolicy(np.full((3, 2), 0.5, np.float32)), goal=pprjax.reached)
    found = pprjax.reliability(task, paths((0, 0), (0, 1)), key=jax.random.key(0))
    assert (found.share.tolist(), found.error.tolist(), found.runs) == ([1.0, 0.0], [0.0, 0.0], 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(policy=pprjax.TablePolicy(np.full((5, 3), 1 / 3))), "paths, policy: expected exactly one"),
        (dict(paths=None), "paths, policy: expected exactly one"),
        (dict(runs=0), "runs: expected at least 1, got 0"),
        (dict(paths=pprjax.Paths.from_lists([[0, 1]])), "paths: expected actions"),
        (dict(task=ice().replace(goal=None)), r"task\.goal: expected a goal"),
        (dict(task=pprjax.stack([ice()] * 2)), "paths: expected one for each of 2 tasks, got 1"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(changes, message):
    arguments = dict(task=ice(), paths=paths((0, 0, 0)), key=jax.random.key(0)) | changes
    task, plans = arguments.pop("task"), arguments.pop("paths")
    with pytest.raises(ValueError, match=message):
        pprjax.reliability(task, plans, **arguments)


CONFIG = pprjax.Config(lambda_path=0.1, lambda_policy=0.0, iterations=30, num_paths=32, num_best=8, width=16)


@pytest.fixture(scope="module")
def learned():
    originals = pprjax.Paths.from_lists([[0, 0, 1, 4], [0, 1, 4]], [[2, 0, 0], [0, 0]])
    return ice(), pprjax.recourse(ice(), originals, CONFIG, key=jax.random.key(3), progress=False)


@pytest.mark.slow
def test_a_recourse_says_how_likely_it_is_to_work(learned):
    task, found = learned
    expected = np.array([plan_works(actions) for actions in found.paths.actions_to_lists()])
    assert (found.reliability_error > 0).all()
    assert (np.abs(found.reliability - expected) <= 4 * found.reliability_error).all()
    again = pprjax.reliability(task, found, key=jax.random.key(9))
    assert (np.abs(again.share - expected) <= 4 * again.error).all()
    assert found.to_frame()["reliability"].to_list() == found.reliability.tolist()
    best = 0.7  # of any policy: one step over ice there is
    assert (found.policy_reliability <= best + 4 * found.policy_reliability_error).all()
    assert (found.policy_reliability > 0.3).all()


def plan_works(actions):
    """How likely a plan is to work on the ice."""
    state, likely = 0, 1.0
    for action in actions:
        if state == 3:
            break
        if action == 0:
            state, likely = state + 1, likely * (1 - LEFT)
        elif action == 1:
            state = state + 1 if state != 1 else 0
        elif state:
            return 0.0
    return likely if state == 3 else 0.0


@pytest.mark.slow
def test_reliability_is_measured_where_there_is_a_goal_and_runs(learned):
    task, found = learned
    one = dict(key=jax.random.key(3), progress=False)
    none = pprjax.recourse(task, found.originals[:1], CONFIG, runs=0, **one)
    assert np.isnan([none.reliability, none.reliability_error, none.policy_reliability]).all()
    assert none.paths.to_lists() == found.paths.to_lists()[:1]
    front = pprjax.frontier(task, found.originals[:1], CONFIG, **one)
    assert np.isnan(front.at(0.1).reliability).all()  # of a frontier it is not measured


def test_fewer_than_no_runs_are_refused():
    with pytest.raises(ValueError, match="runs: expected at least 0, got -1"):
        pprjax.recourse(ice(), paths((0,)), CONFIG, runs=-1)


def test_without_chance_a_recourse_is_reliable_by_construction():
    env = TabularMDP([[1, -1], [2, 0], [2, 2]], np.zeros((3, 2)), [False, False, True], max_steps=3)
    task = pprjax.Task(env, pprjax.TablePolicy(np.full((3, 2), 0.5, np.float32)), goal=pprjax.reached)
    found = pprjax.recourse(task, pprjax.Paths.from_lists([[0, 1, 0]]))
    assert (found.reliability.tolist(), found.reliability_error.tolist()) == ([1.0], [0.0])
    assert np.isnan(found.policy_reliability).all()
    front = pprjax.frontier(task, pprjax.Paths.from_lists([[0, 1, 0]]))
    assert front.at(0.1).reliability.tolist() == [1.0]


@pytest.mark.slow
def test_a_least_reliability_changes_the_answer_and_no_answer_falls_below_it(learned):
    """Close to the original is the way over the ice twice, 0.49; the sure step first makes 0.7."""
    task, _ = learned
    originals = pprjax.Paths.from_lists([[0, 1, 2, 4]], [[0, 0, 0]])
    config = CONFIG.replace(lambda_path=10.0, iterations=60)
    found = {}
    for least in (None, 0.45, 0.6, 0.8):
        asks = task.replace(constraints=pprjax.Constraints(min_reliability=least))
        found[least] = pprjax.recourse(asks, originals, config, key=jax.random.key(3), progress=False)
    expected = {x: plan_works(f.paths.actions_to_lists()[0]) for x, f in found.items()}
    assert found[None].status.tolist() == ["reached_goal"]
    assert expected[None] < 0.45 <= expected[0.45] <= 0.7
    assert expected[0.6] == 0.7
    assert found[0.6].reliability[0] >= 0.6
    assert found[0.8].status.tolist() == ["infeasible"]  # nothing is so sure
    assert np.isnan(found[0.8].reliability[0])
    asks = task.replace(constraints=pprjax.Constraints(min_reliability=0.6))
    several = pprjax.recourse(asks, originals, config, key=jax.random.key(3), n_recourses=3, progress=False)
    assert len(several) > 1
    assert all(plan_works(actions) >= 0.6 for actions in several.paths.actions_to_lists())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: pprjax.Constraints(min_reliability=1.5), r"min_reliability: expected a share in \(0, 0\.99\], got 1"),
        (lambda: pprjax.Constraints(min_reliability=0), r"min_reliability: expected a share in \(0, 0\.99\], got 0"),
        (
            lambda: ice().replace(goal=None, constraints=pprjax.Constraints(min_reliability=0.5)),
            r"constraints\.min_reliability: expected a goal",
        ),
    ],
)  # fmt: skip
def test_a_least_reliability_that_can_not_be_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_without_chance_a_least_reliability_asks_for_nothing():
    env = TabularMDP([[1, -1], [2, 0], [2, 2]], np.zeros((3, 2)), [False, False, True], max_steps=3)
    policy = pprjax.TablePolicy(np.full((3, 2), 0.5, np.float32))
    task = pprjax.Task(env, policy, goal=pprjax.reached, constraints=pprjax.Constraints(min_reliability=0.9), horizon=3)
    found = pprjax.recourse(task, pprjax.Paths.from_lists([[0, 1, 0]]))
    assert (found.method.tolist(), found.reliability.tolist()) == (["exact"], [1.0])
