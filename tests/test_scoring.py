"""Scores of given paths: by hand, and as `recourse` and `exact` report them for their own."""

import jax
import numpy as np
import pytest
from pprjax_envs import gridworld

from pprjax import Config, Paths, exact, link, score

TASK = gridworld.task()
ORIGINALS = gridworld.bad_paths(TASK.env, 6)


def test_as_the_certificate_says():
    best = exact(TASK, ORIGINALS, Config(lambda_path=10.0))
    for paths in (best.paths, Paths(best.paths.symbols, best.paths.lengths)):  # with actions, and without
        again = score(TASK, ORIGINALS, paths)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), best.scores, again)


def test_by_hand():
    task = TASK
    symbols, actions = ORIGINALS.to_lists()[0], ORIGINALS.actions_to_lists()[0]
    cut = Paths.from_lists([symbols[:4]], [actions[:3]])
    got = score(task, ORIGINALS[[0]], cut, Config(habit="link", w_del=0.5))
    probs, params = np.asarray(task.policy.probs), task.params
    state, chances, goal = int(params.start), [], 0.0
    for action in actions[:3]:
        chances.append(probs[state, action])
        goal += float(params.reward[state, action])
        state = int(params.next_state[state, action])
    assert got.goal == pytest.approx([goal])
    assert got.policy == pytest.approx([np.log(chances).mean()], rel=1e-5)
    assert got.r_policy == pytest.approx([float(link(np.array(chances), 4).sum())], rel=1e-4)
    assert got.distance == pytest.approx([0.5 * (len(symbols) - 4)])
    assert got.path == pytest.approx(1 / (got.distance + 1))


def test_the_start_alone_is_worth_its_distance():
    got = score(TASK, ORIGINALS[[0]], Paths.from_lists([[ORIGINALS.to_lists()[0][0]]]))
    assert (got.goal, got.r_policy, got.policy) == (0, 0, 0)
    assert got.distance == len(ORIGINALS.to_lists()[0]) - 1


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (ORIGINALS[[0, 1]], "paths: expected one for each of 6 originals, got 2"),
        (Paths.from_lists([*ORIGINALS.to_lists()[:5], [0, 47]]), r"paths\[5\]: the world can't follow it"),
    ],
)
def test_errors_name_the_path(paths, message):
    with pytest.raises(ValueError, match=message):
        score(TASK, ORIGINALS, paths)
