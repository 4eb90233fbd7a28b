"""The map as a picture, with its routes."""

import numpy as np
import pytest
from grid_walks import greedy, walk
from pprjax_envs import GridWorld, gridworld

from pprjax.paths import Paths

SMALL = ("S.H", "L#$", "L.F")


def legend(figure):
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def drawn(figure):
    """The routes' lines, without the markers at their ends."""
    return [line.get_xydata() for line in figure.axes[0].get_lines() if line.get_linestyle() != "None"]


def test_a_picture_shows_the_map_and_every_route():
    from matplotlib import pyplot

    env = GridWorld()
    originals = gridworld.bad_paths(env, 2)
    routes = {driver: walk(env, greedy(env, gridworld.agent(env, driver)))[0] for driver in gridworld.LIKES}
    routes = {driver: [s % env.cells.size for s in states] for driver, states in routes.items()}
    figure = env.render(originals[0], recourse=routes, title="two drivers")
    assert legend(figure)[:3] == ["original", "experienced", "newbie"]
    assert legend(figure)[3:] == ["highway", "local road", "plain road", "obstacle"]
    assert len(drawn(figure)) == 3
    assert len(figure.axes[0].patches) == env.cells.size
    assert figure.axes[0].get_title() == "two drivers"
    for line, route in zip(drawn(figure), [originals[0].to_lists()[0], *routes.values()], strict=True):
        for corner in line:  # every corner lies in a cell of its route
            column, row = np.rint(corner).astype(int)
            assert row * 8 + column in route
    assert not pyplot.get_fignums()
    assert legend(env.render(recourse=routes["newbie"]))[0] == "recourse"


def test_there_and_back_are_two_lines():
    (line,) = drawn(GridWorld(["S.F"]).render([0, 1, 0]))
    valid, back = line[0, 1], line[-1, 1]
    assert valid == -back
    assert valid > 0.1  # to the right of a taxi that goes right is down


def test_a_route_of_one_cell_and_one_that_waits_are_drawn():
    env = GridWorld(["S.F"])
    assert len(drawn(env.render([0], recourse=[0, 0, 1, 1, 2]))) == 2


def test_a_world_is_its_own_picture_in_a_notebook(tmp_path):
    env = GridWorld(SMALL)
    assert env._repr_png_().startswith(b"\x89PNG")
    env.render([0, 1]).savefig(tmp_path / "route.svg")
    assert (tmp_path / "route.svg").stat().st_size > 1000


def test_a_picture_goes_into_given_axes():
    from matplotlib.figure import Figure

    figure = Figure()
    ax = figure.subplots()
    assert GridWorld(SMALL).render([0, 1], ax=ax) is figure
    assert len(drawn(figure)) == 1


@pytest.mark.parametrize(
    ("routes", "message"),
    [
        (dict(path=[0, 9]), r"original\[1\]: expected a cell in \[0, 8\], got 9"),
        (dict(path=[0, -1]), r"original\[1\]: .*got -1"),
        (dict(path=[]), "original: expected symbols"),
        (dict(path=[0.5]), "original: expected symbols"),
        (dict(recourse={"newbie": [[0]]}), r"newbie: expected symbols int\[T\], got int64 of shape \(1, 1\)"),
        (dict(path=Paths.from_lists([[0], [0]])), "original: expected one path, got 2"),
    ],
)
def test_a_route_that_is_none_is_refused(routes, message):
    with pytest.raises(ValueError, match=message):
        GridWorld(SMALL).render(**routes)
