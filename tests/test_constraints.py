"""Constraints hold always: certificates against every path there is, and recourse that never breaks one."""

import itertools

import jax
import numpy as np
import pytest
from brute_force import GOALS, HORIZON, UNEVEN, A, Mdp, count, feasible, lambdas
from hypothesis import given, settings
from hypothesis import strategies as st
from ring_road import CONFIG, KEY, NEXT_STATE, ORIGINALS, ring

from pprjax import TabularMDP
from pprjax.certify.optimum import exact
from pprjax.config import Config
from pprjax.constraints import Constraints
from pprjax.goals import improved
from pprjax.paths import Paths
from pprjax.policy import TablePolicy
from pprjax.scoring import score
from pprjax.solve import frontier, recourse
from pprjax.task import Task


@st.composite
def rules_of(draw, mdp):
    symbols = st.sampled_from(sorted(set(mdp.symbols.tolist())))
    rules = {}
    if draw(st.booleans()):
        rules["forbidden_states"] = tuple(draw(st.lists(symbols, max_size=1)))
    if draw(st.booleans()):
        rules["forbidden_transitions"] = tuple(draw(st.lists(st.tuples(symbols, symbols), max_size=3)))
    if draw(st.integers(0, 3)) == 0:
        rules["forbidden_actions"] = (draw(st.integers(0, A - 1)),)
    if draw(st.booleans()):
        rules["max_distance"] = draw(st.integers(0, 6))
    if draw(st.integers(0, 2)) == 0:
        rules["max_regret"] = draw(st.sampled_from([0.0, 0.5, 1.0, 2.0]))
    if draw(st.integers(0, 3)) == 0:
        rules["max_length"] = draw(st.integers(2, HORIZON + 3))
    keep = [draw(st.lists(st.integers(0, len(o) - 1), max_size=2, unique=True).map(sorted)) for o in mdp.originals]
    return rules, keep if draw(st.booleans()) else [[]] * len(mdp.originals)


@settings(max_examples=20, deadline=None)
@given(
    data=st.data(),
    seed=st.integers(0, 2**32 - 1),
    goal=st.sampled_from(sorted(GOALS)),
    costs=st.sampled_from([{}, UNEVEN]),
    lambda_path=st.tuples(*[lambdas] * 3),
    lambda_policy=st.tuples(*[lambdas] * 3),
)
def test_no_feasible_path_is_better_than_the_certificate(data, seed, goal, costs, lambda_path, lambda_policy):
    mdp = Mdp(seed)
    rules, keep = data.draw(rules_of(mdp))
    task = mdp.task(GOALS[goal]).replace(constraints=Constraints(**rules, keep=keep))
    config = Config(lambda_path=np.array(lambda_path), lambda_policy=np.array(lambda_policy), habit=mdp.habit, **costs)
    best = exact(task, Paths.from_lists(mdp.originals), config)
    for b, original in enumerate(mdp.originals):
        all_paths = feasible(mdp, goal, rules, keep[b], original, lambda_path[b], lambda_policy[b], costs)
        if not all_paths:
            assert best.status[b] == "infeasible"
            assert best.reward[b] == -np.inf
            assert best.scores.violations[b] == -1
            continue
        np.testing.assert_allclose(best.reward[b], all_paths[0][0], rtol=1e-5, atol=1e-5)
        symbols, actions = best.paths.to_lists()[b], best.paths.actions_to_lists()[b]
        assert tuple(symbols) in {path for _, path in all_paths}
        assert count(rules, symbols, actions, original, keep[b], costs) == best.scores.violations[b] == 0


LOOSE = {
    "forbidden_states": (77,),
    "forbidden_actions": (3,),
    "forbidden_transitions": ((6, 0),),
    "max_distance": 99,
    "keep": (0,),
}


def padded(rules):
    """These rules, and others that forbid nothing: all of one shape, so that they share a compilation."""
    full = LOOSE | rules
    for name in ("forbidden_states", "forbidden_actions", "forbidden_transitions"):
        full[name] = (full[name] * 3)[:3]
    return full


def solve(task, iterations=CONFIG.iterations):
    config = CONFIG.replace(iterations=iterations)
    return recourse(task, Paths.from_lists(ORIGINALS), config, method="learn", key=KEY, progress=False)


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param({"forbidden_states": (4,), "max_distance": 3}, marks=pytest.mark.slow),
        {"forbidden_actions": (1,), "forbidden_transitions": ((3, 6),)},
        pytest.param({"max_length": 5, "forbidden_transitions": ((1, 3), (0, 5))}, marks=pytest.mark.slow),
        pytest.param({"keep": ((1, 4), (1, 3), (2, 3)), "max_distance": 4}, marks=pytest.mark.slow),
    ],
    ids=lambda rules: "+".join(rules),
)
def test_recourse_breaks_nothing_and_finds_the_best_that_does_not(rules):
    task = ring(**padded(rules))
    iterations = 60 if "keep" in rules else CONFIG.iterations  # few paths keep steps and stay near
    rec, best = solve(task, iterations), exact(task, Paths.from_lists(ORIGINALS), CONFIG)
    keep = rules.get("keep", [()] * 3)
    for i, original in enumerate(ORIGINALS):
        assert rec.reward[i] == pytest.approx(best.reward[i], abs=1e-4)
        symbols, actions = rec.paths.to_lists()[i], rec.paths.actions_to_lists()[i]
        assert count(rules, symbols, actions, original, keep[i], {}) == rec.scores.violations[i] == 0
        assert rec.status[i] == "reached_goal"
    unbound = exact(ring(), Paths.from_lists(ORIGINALS), CONFIG)
    assert (best.reward <= unbound.reward + 1e-6).all()
    assert (best.reward < unbound.reward - 1e-3).any()  # these constraints bind


RARELY_ON = np.where(NEXT_STATE >= 0, [0.1, 0.3, 0.6, 0], 0.0)
RARELY_ON[6] = 1 / 4


@pytest.mark.parametrize("method", ["exact", "search", pytest.param("learn", marks=pytest.mark.slow)])
def test_no_step_costs_more_than_the_most_it_may(method):
    """From 3, 4 and 5 "on" is a sixth as likely as "home": with 1.2 nats it is not taken, with 1.8 it is."""
    policy = TablePolicy(np.float32(RARELY_ON / RARELY_ON.sum(1, keepdims=True)))
    task, originals = ring().replace(policy=policy), Paths.from_lists([[0, 1, 3, 4, 0, 5, 2], [0, 5, 2, 5, 3]])
    free = exact(task, originals, CONFIG)
    strict, loose = (task.replace(constraints=Constraints(max_regret=most)) for most in (1.2, 1.8))
    found = recourse(strict, originals, CONFIG, method=method, key=KEY, progress=False)
    dear = {(3, 4), (4, 0), (5, 2)}
    assert all(dear & set(itertools.pairwise(path)) for path in free.paths)
    assert not any(dear & set(itertools.pairwise(path)) for path in found.paths)
    assert found.status.tolist() == ["reached_goal"] * 2 and found.scores.violations.tolist() == [0, 0]
    np.testing.assert_allclose(found.reward, exact(strict, originals, CONFIG).reward, atol=1e-4)
    np.testing.assert_allclose(exact(loose, originals, CONFIG).reward, free.reward, atol=1e-6)
    assert score(strict, originals, free.paths).violations.tolist() == [
        sum(move in dear for move in itertools.pairwise(path)) for path in free.paths
    ]


def test_what_may_be_forbidden_is_not_free():
    task, originals = ring(max_regret=1.0), Paths.from_lists(ORIGINALS)
    for front_door in (exact, recourse, frontier, score):
        paths = (originals,) if front_door is score else ()
        with pytest.raises(ValueError, match=r'own_steps, max_regret: "free", .*max_regret forbids some'):
            front_door(task, originals, *paths, CONFIG.replace(own_steps="free"))


@pytest.mark.parametrize(
    "rules",
    [
        {"forbidden_states": (6,)},
        {"forbidden_states": (0,)},  # the start
        {"forbidden_actions": (0, 1, 2)},
        {"max_distance": 0},
        {"keep": (1,), "forbidden_states": (1, 5)},
    ],
    ids=lambda rules: "+".join(rules),
)
def test_where_nothing_is_feasible_both_say_so(rules):
    task = ring(**padded(rules))
    for found in (solve(task), exact(task, Paths.from_lists(ORIGINALS), CONFIG)):
        assert found.status.tolist() == ["infeasible"] * 3
        assert found.reward.tolist() == [-np.inf] * 3
        assert found.paths.to_lists() == [[0]] * 3
        assert found.scores.distance.tolist() == found.scores.violations.tolist() == [-1] * 3
        assert np.isnan(found.scores.goal).all() and np.isnan(found.scores.path).all()
        assert found.to_frame()["violations"].to_list() == [-1] * 3


def assert_bit_equal(one, other):
    for this, that in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(this, that)


@pytest.mark.parametrize("method", ["exact", pytest.param("learn", marks=pytest.mark.slow)])
def test_no_constraints_and_such_as_do_not_bind_change_nothing(method):
    assert ring().replace(constraints=Constraints()).constraints is None
    assert ring().replace(constraints=Constraints(forbidden_states=(), keep=[[], [], []])).constraints is None
    loose, free = (
        recourse(task, Paths.from_lists(ORIGINALS), CONFIG, method=method, key=KEY, progress=False)
        for task in (ring(**padded({})), ring())
    )
    assert_bit_equal(loose, free)


@pytest.mark.parametrize("method", ["exact", pytest.param("learn", marks=pytest.mark.slow)])
def test_a_better_original_is_still_what_it_was_where_it_is_forbidden(method):
    """`improved` asks for more than the original earned, on a way that a recourse may not take."""
    original = Paths.from_lists([[0, 1, 2, 3, 4, 6]])  # 3.5
    task = ring(forbidden_states=(1,), max_length=5).replace(goal=improved)
    found = recourse(task, original, CONFIG, method=method, key=KEY, progress=False)
    assert found.original_goal[0] == pytest.approx(3.5)
    assert found.status[0] == "infeasible"


def test_a_stochastic_world_is_never_let_where_it_might_go_astray():
    """A slip from 0 to the forbidden 2 has a chance of 1 %: the action that risks it is not taken."""
    transition = np.zeros((4, 2, 4))
    transition[0, 0, [1, 2]] = 0.99, 0.01
    transition[0, 1, 1] = transition[1, 1, 3] = transition[2, :, 3] = transition[1, 0, 1] = 1.0
    reward = np.array([[5, 0], [0, 1], [0, 0], [0, 0]])
    env = TabularMDP(None, reward, np.arange(4) == 3, 0, 4, transition=transition)
    task = Task(env, TablePolicy(np.full((4, 2), 0.5, np.float32)), constraints=Constraints(forbidden_states=(2,)))
    state = task.reset(KEY)
    np.testing.assert_array_equal(task.available(state), [False, True])
    np.testing.assert_array_equal(task.available_table()[:2], [[False, True], [True, True]])


def test_score_counts_what_is_broken():
    rules = {"forbidden_states": (5, 4), "forbidden_actions": (2,), "forbidden_transitions": ((2, 3),)}
    rules |= {"max_distance": 2, "max_length": 6}
    keep, originals = (1, 2, 4), [ORIGINALS[0]] * 3
    paths = [[0, 1, 2, 3, 6], [0, 5, 2, 5, 3, 4, 6], [0, 1, 2, 3, 1, 2, 3]]
    task = ring(**rules, keep=keep)
    actions = [[0, 0, 0, 2], [1, 0, 1, 1, 0, 2], [0, 0, 0, 1, 0, 0]]
    expected = [count(rules, *each, keep, {}) for each in zip(paths, actions, originals, strict=True)]
    scores = score(task, Paths.from_lists(originals), Paths.from_lists(paths))
    assert scores.violations.tolist() == expected
    assert score(ring(), Paths.from_lists(originals), Paths.from_lists(paths)).violations.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"forbidden_states": (-3,)}, "forbidden_states: expected integers of at least 0, got -3"),
        ({"forbidden_actions": (0.5,)}, "forbidden_actions: expected a list of integers, got "),
        ({"forbidden_actions": (4,)}, r"forbidden_actions: expected actions in \[0, 4\), got 4"),
        ({"forbidden_transitions": (1, 2)}, "forbidden_transitions: expected a list of pairs"),
        ({"forbidden_transitions": ((1, 2, 3),)}, "forbidden_transitions: expected pairs, got rows of 3"),
        ({"max_distance": -1}, "max_distance: expected a number of at least 0, got -1"),
        ({"max_regret": -0.1}, "max_regret: expected a number of at least 0, got -0.1"),
        ({"max_distance": "a"}, "max_distance: expected a number of at least 0, got 'a'"),
        ({"max_length": 1}, "max_length: expected at least 2.*got 1"),
        ({"keep": (5,)}, r"keep: originals\[1\] has 5 symbols, so no step 5"),
        ({"keep": ((1,), (2,))}, "keep: expected one list for each of 3 originals, got 2"),
    ],
)
def test_mistakes_are_named(rules, message):
    for front_door in (solve, lambda task: exact(task, Paths.from_lists(ORIGINALS), CONFIG)):
        with pytest.raises(ValueError, match=message):
            front_door(ring(**rules))
    with pytest.raises(TypeError, match=r"constraints: expected pprjax\.Constraints, got dict"):
        ring().replace(constraints={"max_length": 4})
