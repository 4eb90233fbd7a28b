"""The words for how a path ended, and the gap to the optimum."""

import itertools

import numpy as np
import pytest

from pprjax.metrics import relative_gap, status


@pytest.mark.parametrize(
    ("distance", "reached", "terminated", "met", "word"),
    [
        (0, True, True, None, "unchanged"),
        (0, False, False, None, "unchanged"),  # Eq. 5 as printed asks for nothing else
        (0, True, True, True, "unchanged"),
        (0, True, True, False, "ended"),  # the world's own goal is not the one that was asked for
        (0, False, False, False, "cut"),
        (2, True, True, None, "reached_goal"),
        (2, False, True, None, "ended"),
        (2, False, False, None, "cut"),
        (2, False, False, True, "reached_goal"),  # a condition may hold where the world has not ended
        (2, True, True, False, "ended"),
        (2, True, False, False, "cut"),
        (0.5, True, True, True, "reached_goal"),  # weighted edits
    ],
)
def test_status_of_one(distance, reached, terminated, met, word):
    met = None if met is None else [met]
    assert status(distance=[distance], reached=[reached], terminated=[terminated], met=met).tolist() == [word]


@pytest.mark.parametrize("with_goal", [True, False])
def test_status_of_many_is_that_of_each(with_goal):
    table = np.array(list(itertools.product([0, 1], [0, 1], [0, 1], [0, 1])))
    columns = dict(zip(("distance", "reached", "terminated", "met"), table.T, strict=True))
    columns |= {name: columns[name].astype(bool) for name in ("reached", "terminated", "met")}
    if not with_goal:
        columns["met"] = None
    each = [
        status(**{k: None if v is None else v[i : i + 1] for k, v in columns.items()})[0] for i in range(len(table))
    ]
    assert status(**columns).tolist() == each
    assert set(each) == {"unchanged", "reached_goal", "ended", "cut"}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("reward", "optimum", "gap"),
    [
        (99.0, 100.0, 0.01),
        (100.0, 100.0, 0.0),
        (-6.0, -4.0, 0.5),  # the share of |R*|: a shortfall is positive though R* is not
        (-1.0, 1.0, 2.0),
        (101.0, 100.0, -0.01),
        (-np.inf, 100.0, np.inf),  # missed the goal that can be met
        (5.0, -np.inf, 0.0),  # infeasible: nobody falls short
        (-np.inf, -np.inf, 0.0),
        (0.0, 0.0, 0.0),
    ],
)
def test_relative_gap(reward, optimum, gap):
    assert relative_gap([reward], [optimum])[0] == pytest.approx(gap)
    assert relative_gap(np.array([reward, 1.0]), np.array([optimum, 2.0]))[1] == 0.5
