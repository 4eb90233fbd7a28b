"""Search against every path there is: its points are paths, its bounds hold, and what it calls proved is."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import text_fake
from brute_force import GOALS, HORIZON, UNEVEN, Mdp, edit
from flax import struct
from hypothesis import given, settings
from hypothesis import strategies as st
from pprjax_envs import SequenceEnv
from search_worlds import ALL, Chain, L, V, Votes, searched, sequences

import pprjax
from pprjax import TabularMDP, edit_distance, ladder
from pprjax.goals import class_is
from pprjax.ladder import Wanted
from pprjax.limits import TooLargeError
from pprjax.objective import Objective
from pprjax.rollout import trace
from pprjax.search import beam, points
from pprjax.search.nodes import Children, Search, needed, needed_beside, root
from pprjax.search.points import search_points

EVERY = Objective(lambda_path=None)
ROOMY = 21  # for each of 12 distances: room for all paths of a small world, at most 3^5


def truth_of(task, original, config, *, among=True):
    """F(e) of exactly e edits, by looking at every sequence, or at some of them."""
    paths = task.env.paths(ALL)
    scores = pprjax.score(task, task.env.paths([original] * len(ALL)), paths, config)
    value = np.where((scores.goal > 0.5) & among, scores.goal + config.lambda_policy * scores.r_policy, -np.inf)
    return np.array([value[scores.distance == e].max(initial=-np.inf) for e in range(L + 1)])


@pytest.mark.parametrize(
    ("width", "lambda_policy"),
    [(1, 0.3), (40, 0.02), (40, 0.3), pytest.param(1, 0.02, marks=pytest.mark.slow)],
)
def test_sequences_are_proved_and_right(width, lambda_policy):
    config = pprjax.Config(lambda_policy=lambda_policy)
    for seed in range(3):
        task = sequences(seed)
        originals = ALL[np.random.default_rng(seed).integers(0, len(ALL), 3)]
        found = searched(task, originals, config, calls=10_000, width=width)
        for i, original in enumerate(originals):
            expected = np.maximum.accumulate(truth_of(task, original, config))
            np.testing.assert_allclose(found.limit[i], expected, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(np.maximum.accumulate(found.best.value[i]), expected, rtol=1e-4, atol=1e-4)


def test_an_agent_with_a_memory_takes_no_step_that_costs_too_much():
    """Of 256 sequences those are left that keep to what P_A, a chain of second order, would do."""
    config, binds = pprjax.Config(lambda_policy=0.1), 0
    for seed in range(3):
        free = sequences(seed)
        originals = ALL[np.random.default_rng(seed).integers(0, len(ALL), 3)]
        task = free.replace(constraints=pprjax.Constraints(max_regret=1.5))
        logits = np.asarray(free.policy.logits)
        before = np.concatenate([np.full((len(ALL), 2), V), ALL], axis=1)
        seen = logits[before[:, :-2], before[:, 1:-1]]
        kept = (seen.max(-1) - np.take_along_axis(seen, ALL[..., None], -1)[..., 0] <= 1.5).all(1)
        found = searched(task, originals, config, calls=10_000, width=1)
        for i, original in enumerate(originals):
            expected = np.maximum.accumulate(truth_of(free, original, config, among=kept))
            np.testing.assert_allclose(found.limit[i], expected, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(np.maximum.accumulate(found.best.value[i]), expected, rtol=1e-4, atol=1e-4)
            binds += (expected < np.maximum.accumulate(truth_of(free, original, config)) - 1e-3).any()
    assert binds


def test_a_beam_that_takes_too_much_is_an_error_before_it_is_begun(monkeypatch):
    monkeypatch.setattr(points, "MAX_BYTES", 1000)
    task = sequences(0)
    originals = task.env.paths(ALL[:1])
    for solve in (pprjax.recourse, pprjax.frontier):
        with pytest.raises(TooLargeError, match=f"the beam of an original of {L + 1} symbols takes .* GiB"):
            solve(task, originals, method="search")
        with pytest.raises(ValueError, match='key: method "learn" needs one'):  # what else there is
            solve(task, originals)


def test_a_bound_holds_where_the_proof_is_given_no_steps():
    config = pprjax.Config(lambda_policy=0.3)
    task = sequences(7)
    originals = ALL[[5, 77, 200]]
    found = searched(task, originals, config, calls=0, width=1)
    is_open = False
    for i, original in enumerate(originals):
        expected = np.maximum.accumulate(truth_of(task, original, config))
        at_most = np.maximum.accumulate(found.best.value[i])
        assert (at_most <= expected + 1e-4).all() and (found.limit[i] >= expected - 1e-4).all()
        is_open |= bool((found.limit[i] > at_most).any())
    assert is_open


@pytest.mark.parametrize("lambda_path", [0.1, 1.0, 10.0])
def test_one_answer_is_proved_and_right_with_fewer_steps_than_the_frontier(lambda_path):
    config, e = pprjax.Config(lambda_policy=0.3), np.arange(L + 1)
    task = sequences(4)
    originals = ALL[[5, 77, 200]]
    paths, options = task.env.paths(originals), dict(wanted=Wanted(num_distances=L + 1), calls=10_000, width=1)
    weights = np.array([lambda_path, 0.5, 2.0])
    found = search_points(task, paths, config.objective.replace(lambda_path=weights), **options)
    for i, original in enumerate(originals):
        best = (truth_of(task, original, config) + weights[i] / (e + 1)).max()
        assert (found.best.value[i] + weights[i] / (e + 1)).max() == pytest.approx(best, abs=1e-4)
        assert (found.limit[i] + weights[i] / (e + 1)).max() == pytest.approx(best, abs=1e-4)
    assert (found.calls < search_points(task, paths, config.objective.for_frontier, **options).calls).all()


def test_few_edits_are_proved_before_many():
    """With too few steps for all, the frontier is proved up to some number of edits, and open from there."""
    config, task = pprjax.Config(lambda_policy=0.02), sequences(1)
    originals = ALL[[0, 90, 255]]
    found = searched(task, originals, config, calls=60, width=1)
    for i, original in enumerate(originals):
        truth = np.maximum.accumulate(truth_of(task, original, config))
        proved = found.limit[i] <= truth + 1e-4
        assert (np.diff(proved.astype(int)) <= 0).all()
        assert proved[0] and not proved[-1]


@pytest.mark.parametrize(
    ("goal", "costs", "habit", "width"),
    [("reached", {}, "regret", ROOMY), ("none", UNEVEN, "link", ROOMY), ("at_least", {}, "link", 2)],
)
@settings(max_examples=10, deadline=None)
@given(half=st.integers(0, 2**31 - 1), lambda_policy=st.sampled_from([0.0, 0.5, 3.0]))
def test_in_a_small_world_every_point_is_a_path_and_no_limit_is_too_low(goal, costs, habit, width, half, lambda_policy):
    mdp = Mdp(2 * half + (habit == "link"))
    task, num_distances = mdp.task(GOALS[goal]), 12
    config = pprjax.Config(lambda_policy=lambda_policy, habit=mdp.habit, **costs)
    originals = pprjax.Paths.from_lists(mdp.originals).padded_to(HORIZON + 3)
    found = search_points(
        task, originals, config.objective.for_frontier, wanted=Wanted(num_distances=num_distances), calls=0, width=width
    )
    for b, original in enumerate(mdp.originals):
        truth = np.full(num_distances, -np.inf)
        for states, earned, habits, _ in mdp.paths:
            distance = int(edit(original, mdp.symbols[list(states)], costs))
            if mdp.meets(goal, states[-1], earned, original) and distance < num_distances:
                truth[distance] = max(truth[distance], earned + lambda_policy * habits)
        value, size = np.asarray(found.best.value)[b], 1e-4 + 1e-5 * np.abs(np.where(np.isfinite(truth), truth, 0))
        assert (value <= truth + size).all()
        expected = np.maximum.accumulate(truth)
        assert (found.limit[b] >= expected - 1e-4 - 1e-5 * np.abs(np.where(np.isfinite(expected), expected, 0))).all()
        if width == ROOMY:  # nothing is dropped: all is proved, under either habit
            np.testing.assert_allclose(found.limit[b], expected, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(np.maximum.accumulate(value), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_beam_that_steps_more_than_it_keeps_finds_what_another_misses(monkeypatch):
    """What a judge thinks of a prefix is known only after the step: here it wants the symbol that the agent likes
    least, and at the first place."""
    size, least = 12, 11
    wants = np.zeros((2, size + 1, size, 2), np.float32)
    wants[0, :, :, 0], wants[0, :, least] = 4.0, (0.0, 4.0)
    logits = np.broadcast_to(-np.arange(size, dtype=np.float32), (size + 1, size + 1, size))
    env = SequenceEnv(Votes(jnp.asarray(wants)), 1, num_symbols=size, length=2)
    task = pprjax.Task(env, Chain(jnp.asarray(logits)), goal=class_is(1))
    config = pprjax.Config(habit="link", lambda_policy=0.1)
    original, every = env.paths([[0, 0]]), list(itertools.product(range(size), repeat=2))
    scores = pprjax.score(task, original[[0] * len(every)], env.paths(every), config)
    worth = np.where(scores.goal > 0.5, scores.goal + 0.1 * scores.r_policy, -np.inf)
    truth = worth[scores.distance == 1].max()
    for breadth in (points.BREADTH, 1):
        monkeypatch.setattr(points, "BREADTH", breadth)
        found = search_points(
            task, original, config.objective.for_frontier, wanted=Wanted(num_distances=2), calls=0, width=2
        )
        assert found.best.value[0, 1] == (pytest.approx(truth, abs=1e-4) if breadth > 1 else -np.inf)


def test_a_wider_beam_finds_better_paths():
    task, config = sequences(3), pprjax.Config(lambda_policy=0.3, lambda_path=1.0)
    originals = task.env.paths(ALL[[0, 16, 192]])
    narrow, wide = (pprjax.recourse(task, originals, config, calls=0, beam_width=width) for width in (1, 40))
    assert (wide.reward >= narrow.reward - 1e-6).all() and (wide.reward > narrow.reward + 1e-3).any()
    options = dict(max_edits=L, calls=0)
    rungs = [len(pprjax.frontier(task, originals, config, beam_width=width, **options).value) for width in (1, 40)]
    assert rungs[0] < rungs[1]
    with pytest.raises(ValueError, match="beam_width: expected at least 1, got 0"):
        pprjax.recourse(task, originals, beam_width=0)


def test_what_no_proof_can_use_makes_the_beam_wider():
    task = sequences(0)

    def shape(habit, calls):
        return points._shape(task, EVERY.replace(habit=habit), L + 1, 2, calls)

    assert shape("regret", 10**9) == points.Shape(L + 1, 2, weights=points.WEIGHTS)
    assert shape("link", 0) == points.Shape(L + 1, 2, breadth=task.num_actions, weights=points.WIDE_WEIGHTS)
    wide = shape("link", 800)
    assert wide.width == 800 // (task.horizon * (L + 1) * task.num_actions)
    assert shape("link", 10**9).width == task.num_actions ** (L - 1)  # room for every prefix, in each stratum


def test_where_a_world_guesses_before_the_step_none_is_taken_to_find_out():
    task = text_fake.world()
    for alone in (False, True):  # one λ_path, without a proof: all that there may be room for is ranked
        for habit, expected in (
            ("link", points.Shape(4, 16, weights=points.GUESSED_WEIGHTS, thorough=alone)),
            ("regret", points.Shape(4, 16, weights=points.WEIGHTS)),
        ):
            objective = Objective(habit=habit, lambda_path=0.1 if alone else None)
            assert points._shape(task, objective, 4, 16, calls=0) == expected


def test_who_goes_on_where_one_answer_is_wanted():
    """Half of the places are for the best by v + λ_path / (m + 1), with the promise and without, and every number of
    edits has some."""
    rng, size, room = np.random.default_rng(3), 60, 16
    task = sequences(0)
    original = trace(task, jnp.array([4, 3, 1, 3, 0]), jnp.int32(5), jax.random.key(0))
    search = Search(task, original, Objective(habit="link", lambda_path=jnp.float32(10.0)))
    smallest, promise = rng.integers(0, 4, size), rng.random(size)
    value = rng.normal(size=size) - 3.0 * smallest  # so that the best are those of no edit
    ranked = beam.Ranked(*map(jnp.asarray, (value, promise, smallest, np.full(size, np.inf), np.ones(size, bool))))
    best = ladder.empty(task, Wanted(num_distances=4))
    order, kept, _ = beam._strata(search, best, ranked, (0.0, 2.0), room)
    worth = value + 10.0 / (smallest + 1)
    first = {*np.argsort(-worth)[: room // 4].tolist(), *np.argsort(-worth - 2.0 * promise)[: room // 4].tolist()}
    assert kept.all() and first <= {*np.asarray(order).tolist()}
    assert {*smallest[order].tolist()} == {0, 1, 2, 3}


def test_a_thorough_beam_ranks_as_many_children_as_there_is_room_for():
    """One node with many children fills the layer."""
    size = 60
    task = sequences(0, num_symbols=size)
    search = Search(
        task, trace(task, jnp.array([size, 3, 1, 3, 0]), jnp.int32(5), jax.random.key(0)), EVERY.replace(habit="link")
    )
    best, alive = ladder.empty(task, Wanted(num_distances=L + 1)), []
    layer = jax.jit(beam._layer, static_argnames="shape")
    for thorough in (False, True):
        shape = beam.Shape(L + 1, 8, thorough=thorough)
        start = beam.Beam(best=best, dropped=jnp.full(L + 1, -jnp.inf), calls=jnp.int32(0))
        nodes, _ = layer(search, root(search, shape.room), start, jnp.int32(0), shape=shape)
        alive.append(int(nodes.alive.sum()))
    assert alive[0] < alive[1] == shape.room


@pytest.mark.parametrize("lambda_path", [0.0, 1.0, 10.0])
def test_what_a_path_must_exceed_is_what_eq_5_says(lambda_path):
    value = np.array([-np.inf, 0.2, -1.0, 0.7, 0.65])
    best = max(value[k] + lambda_path / (k + 1) for k in range(5))
    np.testing.assert_allclose(needed(value, lambda_path), [best - lambda_path / (e + 1) for e in range(5)])
    np.testing.assert_allclose(
        needed(jnp.asarray(value), jnp.float32(lambda_path)), needed(value, lambda_path), atol=1e-5
    )
    np.testing.assert_array_equal(needed(value), [-np.inf, 0.2, 0.2, 0.7, 0.7])


def test_what_a_path_must_exceed_to_be_among_the_n_best():
    value = np.array([[0.5, 0.4, 0.1, -np.inf], [0.9, 0.2, -np.inf, -np.inf], [0.7, 0.6, 0.3, 0.0]])
    np.testing.assert_array_equal(needed_beside(value), [0.2, 0.2, 0.6])  # the second best of e edits, or of more
    worth = sorted((value + 1.0 / np.array([[1], [2], [3]])).ravel())[-2]
    np.testing.assert_allclose(needed_beside(value, 1.0), [worth - 1, worth - 1 / 2, worth - 1 / 3])
    np.testing.assert_allclose(
        needed_beside(jnp.asarray(value), jnp.float32(1.0)), needed_beside(value, 1.0), atol=1e-6
    )
    np.testing.assert_allclose(needed_beside(jnp.asarray(value)), needed_beside(value), atol=1e-6)


def test_a_path_may_end_where_nothing_follows():
    """State 1 pays most and leads nowhere; no state ends a path."""
    env = TabularMDP([[1, 2], [-1, -1], [0, -1]], [[5.0, 1.0], [0.0, 0.0], [1.0, 0.0]], [False] * 3, 0, 4)
    task = pprjax.Task(env, pprjax.TablePolicy(jnp.full((3, 2), 0.5)))
    originals = pprjax.Paths.from_lists([[0, 2, 0, 2, 0]])
    searched, certified = (pprjax.frontier(task, originals, method=m) for m in ("search", "exact"))
    np.testing.assert_allclose(searched.value, certified.value)
    assert searched.paths.to_lists()[-1][-1] == 1


@struct.dataclass
class Optimist(Votes):
    """Says what it likes of its prefixes and of the R_goal to come."""

    opinion: float = 0.0
    most: float = 1.0


class Opinions(SequenceEnv):
    def promise(self, state, params):
        return params.classifier.opinion + super().promise(state, params)

    def goal_bound(self, params):
        return jnp.float32(params.classifier.most)


def optimist(**says):
    task = sequences(3)
    judge = Optimist(task.params.classifier.weights, **says)
    env = Opinions(judge, 1, num_symbols=task.num_actions, length=L)
    return task.replace(env=env, params=env.default_params)


def test_a_world_that_contradicts_itself_is_told():
    originals, config = ALL[[9, 200]], pprjax.Config(lambda_policy=0.3)
    task = optimist()
    found = pprjax.frontier(task, task.env.paths(originals), config)
    for i, original in enumerate(originals):
        truth = np.maximum.accumulate(truth_of(task, original, config))
        rows = found.index == i
        np.testing.assert_allclose(found.value[rows], truth[found.distance[rows]], rtol=1e-4, atol=1e-4)
    for says, message in [
        ({"opinion": np.nan}, r"env.promise, policy.step: .*got NaN after a prefix of an edit of originals\[0\]"),
        ({"most": 0.25}, "env.goal_bound: 0.25 is not the most R_goal that may still come"),
    ]:
        task = optimist(**says)
        with pytest.raises(ValueError, match=message):
            pprjax.frontier(task, task.env.paths(originals), config)


def test_of_a_large_alphabet_the_children_that_may_be_kept_are_candidates():
    """Of each node the first by each order of each number of edits, since places go by numbers of edits; the rest is
    lost with its bound."""
    rng, room, num_actions = np.random.default_rng(0), 6, 40
    task = sequences(0, num_symbols=num_actions)
    search = Search(task, trace(task, jnp.array([40, 3, 1, 3, 0]), jnp.int32(5), jax.random.key(0)), EVERY)
    charged = -rng.exponential(size=(3, num_actions)).astype(np.float32)
    smallest = np.full((3, num_actions), [[1], [2], [3]])
    smallest[:, [0, 1, 3]] -= [[0, 1, 1], [1, 2, 0], [2, 1, 1]]
    available = rng.random((3, num_actions)) < 0.9
    children = Children((), *map(jnp.asarray, (available, charged, charged, smallest, 1.0 + charged)))
    best = ladder.empty(task, Wanted(num_distances=L + 1))
    edges, lost = beam._foremost(search, best, children, (children.r_policy, -children.r_policy), room)
    chosen = np.zeros_like(available)
    chosen[np.asarray(edges.parent)[edges.valid], np.asarray(edges.action)[edges.valid]] = True
    assert chosen.sum() == edges.valid.sum() <= 3 * (2 * room + L + 1) and not (chosen & ~available).any()
    for node in range(3):
        for m in range(L + 1):
            own = np.flatnonzero(available[node] & (smallest[node] == m))
            ranked = own[np.argsort(-charged[node, own])]
            assert chosen[node, ranked[:room]].all() and chosen[node, ranked[-room:]].all()
    left = available & ~chosen
    expected = [max(1.0 + charged[left & (smallest == m)], default=-np.inf) for m in range(L + 1)]
    np.testing.assert_allclose(lost, expected)


def test_a_large_alphabet_is_not_sorted():
    """XLA takes the first of a row without sorting it only where nothing else than the first is used."""
    task = sequences(0, num_symbols=60)
    original = trace(task, jnp.array([60, 3, 1, 3, 0]), jnp.int32(5), jax.random.key(0))
    best = ladder.empty(task, Wanted(num_distances=L + 1))
    search = Search(task, original, EVERY)

    def foremost(children):
        return beam._foremost(search, best, children, (children.r_policy, -children.r_policy), 4)

    shape = jax.ShapeDtypeStruct((1, 3, 60), jnp.float32)
    whole, yes = jax.ShapeDtypeStruct(shape.shape, jnp.int32), jax.ShapeDtypeStruct(shape.shape, jnp.bool_)
    children = Children((), yes, shape, shape, whole, shape)
    program = jax.jit(jax.vmap(foremost)).lower(children).compile().as_text()
    assert program is not None and "top_k" in program and " sort(" not in program


def test_the_symbols_that_the_original_lacks_are_counted_once():
    rng = np.random.default_rng(0)
    task = sequences(0, num_symbols=40)
    original = trace(task, jnp.array([40, 3, 1, 3, -1]), jnp.int32(4), jax.random.key(0))
    search = Search(task, original, EVERY)
    for size in range(4):
        column = edit_distance.start(original.symbols)
        for symbol in rng.integers(0, 6, size):
            column = search.longer(column, jnp.int32(symbol))
        symbols = jnp.arange(40)
        each = [int(search.smallest(search.longer(column, symbol))) for symbol in symbols]
        assert search.smallest_after(column, symbols).tolist() == each
