"""Goals that ask what a path has visited: the world that remembers it, and when it is worth remembering."""

import dataclasses
import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_walks import CONFIG, NAMED, WALKS, walks

import pprjax
from pprjax.logs import marks
from pprjax.logs.fit import fit_log
from pprjax.logs.frames import recourse_frame
from pprjax.logs.read import read_log
from pprjax.successors import Successors

LABELLED = dataclasses.replace(NAMED, good="good")


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(0, 2))
def test_the_world_that_remembers_is_the_world_and_what_was_visited(seed, num_marks):
    rng = np.random.default_rng(seed)
    size, num_actions = 5, 2
    next_state = rng.integers(-1, size, (size, num_actions))
    marked = rng.choice(size, num_marks, replace=False)
    table = marks.following(next_state, marked)
    chances, certain = (
        marks.chances(Successors.of(probs), marked).table()
        for probs in (
            rng.dirichlet(np.ones(size), (size, num_actions)),
            np.eye(size)[next_state] * (next_state >= 0)[..., None],
        )
    )
    np.testing.assert_allclose(chances.sum(-1), 1.0)
    path = [int(rng.integers(size))]
    bits = marks.visited(np.array(path), marked)[0]
    here = bits * size + path[0]
    for _ in range(8):
        action = int(rng.integers(num_actions))
        moved = table[here, action]
        assert (moved < 0) == (next_state[path[-1], action] < 0)
        assert certain[here, action].sum() == (moved >= 0)
        if moved < 0:
            break
        assert certain[here, action, moved] == 1
        here = moved
        path.append(int(next_state[path[-1], action]))
        assert here % size == path[-1]
        assert [bool(here // size >> j & 1) for j in range(num_marks)] == [m in path for m in marked]
    assert (marks.visited(np.array(path), marked)[-1]) == here // size


def labelled(log, good):
    """The log with a label for each path, by its states."""
    paths = log.sort("step").group_by("agent", "path", maintain_order=True).agg("state").sort("agent", "path")
    label = paths.select("agent", "path", good=pl.Series([good(states) for states in paths["state"].to_list()]))
    return log.join(label, on=["agent", "path"])


def test_a_state_on_the_way_is_marked_where_that_tells_better(monkeypatch):
    log = read_log(labelled(walks(400, 2), lambda states: "cellar" in states[:-1]), LABELLED)
    fitted = fit_log(log, "good")
    assert fitted.states[fitted.marks].tolist() == ["cellar"]
    assert fitted.goal_accuracy > 0.9  # but for paths that end in the cellar, having come from there or not

    noise = np.random.default_rng(0)
    random = read_log(labelled(walks(400, 2), lambda states: bool(noise.random() < 0.6)), LABELLED)
    assert fit_log(random, "good").marks.size == 0
    by_end = read_log(labelled(WALKS, lambda states: states[-1] == "garden"), LABELLED)
    assert fit_log(by_end, "good").marks.size == 0

    monkeypatch.setattr(marks, "MAX_MARKS", 0)
    assert fit_log(log, "good").goal_accuracy < fitted.goal_accuracy - 0.05


def test_a_recourse_passes_through_what_good_paths_passed_through_and_is_the_best_that_does():
    frame = labelled(walks(400, 2), lambda states: "cellar" in states[:-1])
    log = read_log(frame, LABELLED)
    fitted = fit_log(log, "good", deterministic=True)
    paths = pl.concat(list(log.frames()))
    found = recourse_frame(fitted, paths, CONFIG)
    todo = found.filter(pl.col("status") != "met")
    assert 20 < todo.height < 400
    assert set(todo["method"]) == {"exact"}
    assert all("cellar" in row for row in todo["recourse"])
    number = {name: i for i, name in enumerate(fitted.states.tolist())}
    walked = every_path(fitted, number["attic"])
    for row in todo.unique("original").head(5).iter_rows(named=True):
        assert row["reward"] == pytest.approx(
            max(
                worth(fitted, fitted.agents.tolist().index(row["agent"]), [number[s] for s in row["original"]], *walk)
                for walk in walked
            ),
            abs=1e-4,
        )


def every_path(fitted, start):
    """States and actions of every path that ends good: on arrival, or at the horizon."""
    cellar, size, next_state = int(fitted.marks[0]), len(fitted.states), fitted.steps.next_state()
    found = []
    for length in range(1, fitted.max_steps + 1):
        for actions in itertools.product(range(len(fitted.actions)), repeat=length):
            states = [start]
            for a in actions:
                states.append(int(next_state[states[-1], a]) if states[-1] >= 0 else -1)
            if states[-1] < 0:
                continue
            good = [fitted.ends[(cellar in states[: t + 1]) * size + s] for t, s in enumerate(states)]
            if good[-1] and not any(good[:-1]):
                found.append((states, actions))
    return found


def worth(fitted, agent, original, states, actions):
    """Eq. 5."""
    habit = np.asarray(pprjax.link(fitted.world_probs(agent)[states[:-1], actions], len(fitted.actions))).sum()
    distance = int(pprjax.levenshtein(np.array(original), np.array(states)))
    paid = fitted.steps.table(fitted.steps.reward, 0.0)[states[:-1], actions].sum()
    return paid + CONFIG.lambda_policy * habit + CONFIG.lambda_path / (distance + 1)


def test_where_as_many_were_good_as_bad_a_path_is_bad():
    votes = marks.Votes(*map(np.array, ([2, 3], [2, 1], [5, 4], [1, 6])))
    told, held = votes.right()
    assert told.tolist() == [2, 3]
    assert held.tolist() == [1, 4]
