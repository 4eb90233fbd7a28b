"""The dynamic programme over edits in a graph: against all paths that there are, within a budget, in any company."""

import dataclasses
import itertools
import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pprjax
from pprjax.certify import layers
from pprjax.certify.edits import WholeCosts, largest_distance, levenshtein
from pprjax.certify.edits_to_go import NEVER, edits_to_go
from pprjax.certify.graph import Graph, weigh
from pprjax.certify.near import merged, near
from pprjax.edit_distance import EditCosts
from pprjax.objective import Objective

UNIT = WholeCosts(1, 1, 1)
every = partial(Objective, lambda_path=None, lambda_policy=0.7)


def world(rng, size, horizon, *, gains=False, cut=False, hub=False, own_steps="charged"):
    """A random graph of `size` states, the last of which is the goal and the one before it a dead end."""
    valid = rng.random((size, size)) < 0.45
    if hub:  # many states, of which most lead back to the first one alone
        valid[0], valid[4:] = True, False
        valid[4:, 0] = True
    valid[-2:] = False
    row, target = np.nonzero(valid)
    if own_steps == "free":  # some in two ways, which differ
        row, target = (np.repeat(x, 1 + (row % 3 == 0)) for x in (row, target))
    pays = gains and own_steps == "charged"
    habit = rng.normal(0.3, 1, len(row)) if pays else -rng.exponential(1, len(row)) * (rng.random(len(row)) < 0.7)
    return Graph(
        first=np.searchsorted(row, np.arange(size + 1)),
        target=target.astype(np.int32),
        reward=rng.integers(-1, 2, len(row)).astype(float) if gains else np.zeros(len(row)),
        habit=habit,
        log_prob=-rng.random(len(row)),
        action=np.arange(len(row), dtype=np.int32),
        symbol=np.arange(size, dtype=np.int32),
        ends=np.arange(size) == size - 1,
        cut=np.arange(size) < (size - 2 if cut else 0),
        horizon=horizon,
    )


def every_path(graph, start):
    """All paths that count: their symbols and actions."""
    found, waiting = [], [([start], [])]
    while waiting:
        states, steps = waiting.pop()
        if graph.ends[states[-1]] or (graph.cut[states[-1]] and len(steps) == graph.horizon):
            found.append((states, steps))
        if len(steps) < graph.horizon:
            for step in range(graph.first[states[-1]], graph.first[states[-1] + 1]):
                waiting.append(([*states, int(graph.target[step])], [*steps, step]))
    return found


def twice(graph, special):
    """The same with a memory of whether `special` was visited, after which alone a path may end in the last state."""
    size, steps = graph.num_rows, len(graph.target)
    after = graph.target == special
    return dataclasses.replace(
        graph,
        first=np.concatenate([graph.first, graph.first[1:] + steps]),
        target=np.concatenate([graph.target + size * after, graph.target + size]).astype(np.int32),
        symbol=np.tile(graph.symbol, 2),
        ends=np.concatenate([np.zeros(size, bool), graph.ends]),
        **{name: np.tile(getattr(graph, name), 2) for name in ("reward", "habit", "log_prob", "action", "cut")},
    )


def truth(graph, original, lambda_policy, costs, own_steps="charged"):
    """F(e), the best of all paths of at most e edits."""
    best: dict[int, float] = {}
    own = set(itertools.pairwise(original.tolist())) if own_steps == "free" else ()
    for rows, steps in every_path(graph, int(original[0])):
        states = graph.symbol[rows].tolist()
        charged = [move not in own for move in itertools.pairwise(states)]
        value = (graph.reward[steps] + lambda_policy * graph.habit[steps] * charged).sum()
        d = levenshtein(original, states, costs)
        best[d] = max(best.get(d, -np.inf), float(value))
    rising, most = [], -np.inf
    for d in sorted(best):
        if best[d] > most + 1e-6 * (1 + abs(most) if most > -np.inf else 1):
            rising.append((d, best[d]))
            most = best[d]
    return rising


def originals(rng, size, count, longest):
    rows = [rng.integers(0, size, rng.integers(1, longest + 1)) for _ in range(count)]
    for row in rows:
        row[0] = rng.integers(0, size - 2)
    return pprjax.Paths.from_lists(rows)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**31),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([UNIT, WholeCosts(2, 1, 3), WholeCosts(5, 1, 2)]),  # the last: short originals are the farthest
)
def test_the_frontier_and_the_best_path_are_those_of_all_paths_there_are(seed, gains, cut, hub, costs):
    """With habits that are charged and with some that pay; originals need be no paths of the graph."""
    rng = np.random.default_rng(seed)
    size, horizon = (13, 4) if hub else (6, 5)
    graph = world(rng, size, horizon, gains=gains, cut=cut, hub=hub)
    if hub and not gains:
        graph.habit[graph.target == 0] = 0.0  # so that they are alike
    paths, lambda_path = originals(rng, size, 6, 7), float(rng.choice([0.0, 0.5, 3.0, 10.0]))
    weighed, start = weigh(graph, 0.7), np.asarray(paths.symbols)[:, 0]
    objective = every(costs=EditCosts(*costs))
    front = near(weighed, paths, start, objective)
    best = near(weighed, paths, start, objective.replace(lambda_path=lambda_path)).at(lambda_path)
    for b, original in enumerate(paths.to_lists()):
        rising = truth(graph, np.array(original), 0.7, costs)
        rows = front.index == b
        assert front.distance[rows].tolist() == [d for d, _ in rising]
        np.testing.assert_allclose(front.value[rows], [v for _, v in rising], atol=1e-9)
        most = max((v + lambda_path / (d + 1) for d, v in rising), default=-np.inf)
        assert best.reward[b] == pytest.approx(most)
        assert best.status[b] == "infeasible" if not rising else best.gap[b] == 0
    assert set(front.method) <= {"exact"}
    for k in range(len(front)):  # and the paths are worth what is said
        states, n = front.paths.symbols[k], front.paths.lengths[k]
        steps = front.paths.actions[k, : n - 1]
        assert (graph.target[steps] == states[1:n]).all()
        assert front.distance[k] == levenshtein(paths.to_lists()[front.index[k]], states[:n], costs)


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    gains=st.booleans(),
    shape=st.sampled_from(["plain", "cut", "hub", "memory"]),
    costs=st.sampled_from([UNIT, WholeCosts(2, 1, 3)]),
)
def test_with_own_steps_free_too(seed, gains, shape, costs):
    """Among them steps that can be taken in two ways, of which the better paid one is rarer, and rows of one symbol."""
    rng = np.random.default_rng(seed)
    size, horizon = (13, 4) if shape == "hub" else (6, 5)
    graph = world(rng, size, horizon, gains=gains, cut=shape == "cut", hub=shape == "hub", own_steps="free")
    if shape == "hub" and not gains:
        graph.habit[graph.target == 0] = 0.0
    walks = [states for states, _ in every_path(graph, 0) if len(states) > 3]
    rows = [*originals(rng, size, 4, 7).to_lists(), *walks[:: max(1, len(walks) // 3)][:3]]
    paths, lambda_path = pprjax.Paths.from_lists(rows), float(rng.choice([0.0, 0.5, 3.0, 10.0]))
    graph = twice(graph, 2) if shape == "memory" else graph
    weighed = weigh(graph, 0.7, endless=bool(seed % 2))
    start = np.asarray(paths.symbols)[:, 0].astype(np.int64)
    objective = every(costs=EditCosts(*costs), own_steps="free")
    front = near(weighed, paths, start, objective)
    one = objective.replace(lambda_path=lambda_path)
    best, few = (near(weighed, paths, start, one, calls=n) for n in (None, 20))
    best, few = best.at(lambda_path), few.at(lambda_path)
    for b, original in enumerate(rows):
        rising = truth(graph, np.array(original), 0.7, costs, "free")
        members = front.index == b
        assert front.distance[members].tolist() == [d for d, _ in rising]
        np.testing.assert_allclose(front.value[members], [v for _, v in rising], atol=1e-9)
        most = max((v + lambda_path / (d + 1) for d, v in rising), default=-np.inf)
        assert best.reward[b] == pytest.approx(most)
        assert few.reward[b] <= most + 1e-9 and few.bound[b] >= most - 1e-9
    assert set(front.method) <= {"exact"}
    for k in range(len(front)):  # the actions lead along the symbols and earn what is said
        states, row = front.paths.symbols[k, : front.paths.lengths[k]].tolist(), rows[front.index[k]][0]
        own, goal, charged = set(itertools.pairwise(rows[front.index[k]])), 0.0, 0.0
        actions = np.asarray(front.paths.actions)[k, : len(states) - 1]
        for action, move in zip(actions, itertools.pairwise(states), strict=True):
            step = graph.first[row] + np.flatnonzero(graph.action[graph.first[row] : graph.first[row + 1]] == action)[0]
            goal, row = goal + graph.reward[step], int(graph.target[step])
            charged += 0.0 if move in own else graph.habit[step]
            assert graph.symbol[row] == move[1]
        assert (front.scores.goal[k], front.scores.r_policy[k]) == (pytest.approx(goal), pytest.approx(charged))


def test_what_may_come_on_paths_of_any_length_is_no_less():
    """A chain to the goal that costs nothing and is too long, beside a step to it that costs 1."""
    graph = Graph(
        first=np.array([0, 2, 3, 4, 4]),
        target=np.array([1, 3, 2, 3], np.int32),
        reward=np.zeros(4),
        habit=np.array([0.0, -1.0, 0.0, 0.0]),
        log_prob=np.zeros(4),
        action=np.arange(4, dtype=np.int32),
        symbol=np.arange(4, dtype=np.int32),
        ends=np.arange(4) == 3,
        cut=np.zeros(4, bool),
        horizon=2,
    )
    within, endless = weigh(graph, 1.0), weigh(graph, 1.0, endless=True)
    assert (within.to_come[0], within.converged) == (-1.0, False)
    assert (endless.to_come[0], endless.converged) == (0.0, True)
    for weighed in (within, endless):
        found = near(weighed, pprjax.Paths.from_lists([[0, 1]]), np.zeros(1, np.int64), every(lambda_policy=1.0))
        best = found.at(10.0)
        assert (best.paths.to_lists(), best.reward[0], best.gap[0]) == ([[0, 3]], 4.0, 0.0)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.integers(0, 60))
def test_a_search_that_ends_early_says_how_much_better_a_path_may_be(seed, calls):
    rng = np.random.default_rng(seed)
    graph = world(rng, 7, 5)
    paths = originals(rng, 7, 5, 7)
    weighed, start = weigh(graph, 0.7), np.asarray(paths.symbols)[:, 0]
    found = near(weighed, paths, start, every(lambda_path=3.0), calls=calls).at(3.0)
    front = near(weighed, paths, start, every(), calls=calls)
    both = merged(front, found)
    unknown = dataclasses.replace(front, limit=np.full_like(front.limit, np.inf)).at(3.0)
    assert np.isposinf(unknown.gap).all()
    for b, original in enumerate(paths.to_lists()):
        rising = truth(graph, np.array(original), 0.7, UNIT)
        most = max((v + 3.0 / (d + 1) for d, v in rising), default=-np.inf)
        assert found.reward[b] <= most + 1e-9
        assert found.bound[b] >= most - 1e-9
        assert (found.method[b] == "exact") == (
            found.gap[b] == 0 or (found.status[b] == "infeasible" and most == -np.inf)
        )
        for e in range(front.limit.shape[1]):
            assert front.limit[b, e] >= max((v for d, v in rising if d <= e), default=-np.inf) - 1e-9
        rows = both.index == b
        worth = both.value[rows] + 3.0 / (both.distance[rows] + 1)
        assert max(worth, default=-np.inf) >= found.reward[b] - 1e-9
        assert (np.diff(both.value[rows]) > 0).all() and (np.diff(both.distance[rows]) > 0).all()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([UNIT, WholeCosts(2, 1, 3)]))
def test_the_edits_to_go_are_the_fewest_of_all_paths(seed, costs):
    rng = np.random.default_rng(seed)
    graph = world(rng, 5, 7)  # longer than a path of the fewest edits is ever
    weighed = weigh(graph, 0.7)
    for original in originals(rng, 5, 4, 4):
        rising = truth(graph, np.array(original), 0.0, costs)  # of equal value, so that the first has the fewest edits
        to_go = edits_to_go(weighed, np.array(original), costs)
        assert to_go[1, original[0]] == (rising[0][0] if rising else NEVER)


@pytest.mark.parametrize("name", ["MAX_CELLS", "MAX_NODES"])
def test_a_batch_that_does_not_fit_is_halved_and_the_answers_are_the_same(monkeypatch, name):
    rng = np.random.default_rng(0)
    graph = world(rng, 12, 8)
    paths = originals(rng, 12, 30, 8)
    weighed, start = weigh(graph, 0.7), np.asarray(paths.symbols)[:, 0]
    whole = near(weighed, paths, start, every())
    sizes, begin = [], layers.Layers.begin.__func__

    def counted(cls, weighed, batch, *rest):
        sizes.append(len(batch.lengths))
        return begin(cls, weighed, batch, *rest)

    monkeypatch.setattr(layers.Layers, "begin", classmethod(counted))
    monkeypatch.setattr(layers, name, 400)
    again = near(weighed, paths, start, every())
    assert min(sizes) < max(sizes) == 30
    np.testing.assert_array_equal(again.value, whole.value)
    np.testing.assert_array_equal(again.paths.symbols, whole.paths.symbols)


def test_a_long_path_through_a_hub_takes_memory_for_what_is_near_it():
    """A hub of 5,000 pages and a visit of 100 states: a table of states × positions × edits has 5·10⁷ entries."""
    pages = 5_000
    row = np.concatenate([np.zeros(pages + 1, int), np.arange(1, pages + 1)])
    target = np.concatenate([np.arange(1, pages + 2), np.zeros(pages, int)])
    rng = np.random.default_rng(0)
    habit = np.concatenate([-rng.exponential(3, pages), [-2.0], np.zeros(pages)])
    graph = Graph(
        first=np.searchsorted(row, np.arange(pages + 3)),
        target=target.astype(np.int32),
        reward=np.zeros(len(row)),
        habit=habit - habit.max(),
        log_prob=habit,
        action=target.astype(np.int32),
        symbol=np.arange(pages + 2, dtype=np.int32),
        ends=np.arange(pages + 2) == pages + 1,
        cut=np.zeros(pages + 2, bool),
        horizon=101,
    )
    original = np.zeros(100, int)
    original[1::2] = rng.integers(1, pages + 1, 50)
    paths = pprjax.Paths.from_lists([original])
    tracemalloc.start()
    found = near(weigh(graph, 0.3), paths, np.zeros(1, int), every(lambda_path=10.0, lambda_policy=0.3)).at(10.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.gap[0] == 0
    assert peak < 10_000 * len(row)


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=3),
    shortest=st.integers(1, 4),
    more=st.integers(0, 4),
    costs=st.builds(WholeCosts, st.integers(1, 6), st.integers(1, 6), st.integers(1, 6)),
)
def test_the_largest_distance_is_that_of_paths_with_nothing_in_common(lengths, shortest, more, costs):
    far = [
        levenshtein(np.zeros(n, int), np.ones(m, int), costs)
        for n in lengths
        for m in range(shortest, shortest + more + 1)
    ]
    assert largest_distance(np.array(lengths), shortest + more, costs, shortest=shortest) == max(far)
