"""A task for each original gives what each would give alone, and compiles once."""

import jax.numpy as jnp
import numpy as np
import pytest
from ring_road import CONFIG, KEY, ORIGINALS, PROBS, ring

import pprjax
from pprjax.learn import batches


def homeward():
    """The ring road with an agent that likes to go home, and one corner that pays more."""
    task = ring()
    probs = np.float32(np.where(PROBS > 0, [0.1, 0.2, 0.7, 0.0], 0.0) + 1e-9)
    reward = task.params.reward.at[3, 2].set(5.0)
    return task.replace(
        policy=pprjax.TablePolicy(probs / probs.sum(1, keepdims=True)), params=task.params.replace(reward=reward)
    )


ROWS = pprjax.Paths.from_lists([*ORIGINALS, ORIGINALS[1]])
RING, HOMEWARD = ring(), homeward()
TASKS = [RING, HOMEWARD, RING, HOMEWARD]
MINE = np.array([0, 2]), np.array([1, 3])
CONFIGS = CONFIG.replace(lambda_path=np.array([0.5, 3.0, 10.0, 1.0]))


def alone(function, **options):
    """Of each task's originals by themselves: which of all these are, and their result."""
    for members in MINE:
        own = CONFIGS.replace(lambda_path=CONFIGS.lambda_path[members])
        yield members, function(TASKS[members[0]], ROWS[members], own, ids=members, **options)


@pytest.mark.parametrize("options", [{}, {"method": "search"}, {"n_recourses": 2}], ids=str)
def test_each_has_the_answer_of_its_own_task(options):
    found = pprjax.recourse(pprjax.stack(TASKS), ROWS, CONFIGS, **options)
    assert (np.diff(found.index) >= 0).all() and found.paths.to_lists()[0][0] == 0
    np.testing.assert_array_equal(found.lambda_path, CONFIGS.lambda_path)
    for members, own in alone(pprjax.recourse, **options):
        rows = np.isin(found.index, members)
        np.testing.assert_array_equal(found.index[rows], members[own.index])
        np.testing.assert_array_equal(found.reward[rows], own.reward)
        np.testing.assert_array_equal(found.rank[rows], own.rank)
        np.testing.assert_array_equal(found.original_goal[members], own.original_goal)
        np.testing.assert_array_equal(found.diversity[members], own.diversity)
        assert [p for p, m in zip(found.paths.to_lists(), rows, strict=True) if m] == own.paths.to_lists()
    swapped = pprjax.recourse(pprjax.stack(TASKS[::-1]), ROWS, CONFIGS, **options)
    assert len(swapped.reward) != len(found.reward) or (swapped.reward != found.reward).any()


def test_the_learner_compiles_once_and_draws_as_ever():
    pprjax.recourse(RING, ROWS, CONFIG, method="learn", key=KEY, progress=False)
    programs = batches._train._cache_size()
    found = pprjax.recourse(pprjax.stack(TASKS), ROWS, CONFIGS, method="learn", key=KEY, progress=False)
    assert batches._train._cache_size() == programs
    for members, own in alone(pprjax.recourse, method="learn", key=KEY, progress=False):
        np.testing.assert_array_equal(found.reward[members], own.reward)
        np.testing.assert_array_equal(found.curve[members], own.curve)


@pytest.mark.parametrize("method", ["exact", pytest.param("search", marks=pytest.mark.slow)])
def test_a_frontier_of_each(method):
    front = pprjax.frontier(pprjax.stack(TASKS), ROWS, CONFIGS, method=method)
    assert set(front.method) == {method}
    best = front.at(CONFIGS.lambda_path)
    for members, own in alone(pprjax.frontier, method=method):
        rows = np.isin(front.index, members)
        np.testing.assert_array_equal(front.value[rows], own.value)
        np.testing.assert_array_equal(front.distance[rows], own.distance)
        chosen = own.at(CONFIGS.lambda_path[members])
        np.testing.assert_array_equal(best.reward[members], chosen.reward)
        np.testing.assert_array_equal(best.bound[members], chosen.bound)


def test_what_does_not_fit_is_named():
    wider = RING.replace(policy=pprjax.TablePolicy(jnp.full((7, 4), 0.25)), goal=pprjax.at_least(1.0))
    other = RING.replace(params=RING.params.replace(symbols=jnp.arange(8)))
    for tasks, message in [
        ([], "tasks: expected at least one, got none"),
        ([RING, RING, wider], r"tasks\[2\]: expected a task like tasks\[0\]"),
        ([RING, RING.replace(horizon=3)], r"tasks\[1\].horizon: expected a task like tasks\[0\]"),
        ([RING, other], r"tasks\[1\].params.symbols: expected shape \(7,\) as in tasks\[0\], got \(8,\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            pprjax.stack(tasks)
    with pytest.raises(ValueError, match="originals: expected one for each of 4 tasks, got 2"):
        pprjax.recourse(pprjax.stack(TASKS), ROWS[[0, 1]], CONFIG)


def test_a_stack_with_chance_in_a_later_task_is_not_searched():
    transition = np.zeros((3, 2, 3), np.float32)
    transition[0, :, 1:] = [[0.5, 0.5], [0.0, 1.0]]
    env = pprjax.TabularMDP(
        transition=transition, reward=np.zeros((3, 2)), terminal=[False, True, True], start=0, max_steps=3
    )
    chance = pprjax.Task(env, pprjax.TablePolicy(jnp.full((3, 2), 0.5)))
    sure = chance.params.successors.replace(probs=jnp.array([1.0, 0.0, 1.0]))
    tasks = pprjax.stack([chance.replace(params=chance.params.replace(successors=sure)), chance])
    rows = pprjax.Paths.from_lists([[0, 1], [0, 1]], [[0], [0]])
    with pytest.raises(ValueError, match='method: "search" needs a deterministic world, got one where chance decides'):
        pprjax.recourse(tasks, rows, method="search")


def test_steps_that_stay_are_those_of_each_original():
    """Where a task stands several times, and each original has a list of its own."""
    kept = RING.replace(constraints=pprjax.Constraints(keep=[[1], [2]]))
    pairs, rows = pprjax.stack([kept, kept]), ROWS[[0, 2]]
    found, proved = (pprjax.recourse(pairs, rows, CONFIG, method=method) for method in ("search", "exact"))
    assert found.paths.to_lists() == proved.paths.to_lists()
    assert (found.scores.violations == 0).all()
