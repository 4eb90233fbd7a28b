"""Steps that the original took, charged or free: every method against every path there is, under both settings."""

import itertools
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brute_force import GOALS, HORIZON, UNEVEN, Mdp, edit, greedy, lambdas
from hypothesis import given, settings
from hypothesis import strategies as st
from ring_road import CONFIG, KEY, NEXT_STATE, ORIGINALS, PROBS, ring
from search_worlds import ALL, L, V, sequences

import pprjax
from pprjax.certify.frontier import exact_frontier
from pprjax.certify.optimum import exact
from pprjax.config import check_config
from pprjax.ladder import Wanted
from pprjax.reward import is_own, spared
from pprjax.rollout import Behaviour, rollout, trace
from pprjax.search.points import search_points

FREE = replace(CONFIG, own_steps="free")
RARE = replace(FREE, lambda_policy=3.0, lambda_path=1.0)  # whose habits count for more than closeness
BOTH = pytest.mark.parametrize("own_steps", ["charged", "free"])
ROOMY = 21  # for each of 12 distances: room for all paths of a small world, at most 3^5


def regretful(seed):
    """A small random world under habit "regret"."""
    return Mdp(2 * seed)


def rungs(mdp, original, goal, config):
    """{e: F(e)}, by looking at every path."""
    costs = dict(w_ins=config.w_ins, w_del=config.w_del, w_sub=config.w_sub)
    best = {}
    for states, earned, habit, _ in mdp.paths_beside(original, config.own_steps):
        if mdp.meets(goal, states[-1], earned, original):
            distance = int(edit(original, mdp.symbols[list(states)], costs))
            best[distance] = max(best.get(distance, -np.inf), earned + config.lambda_policy * habit)
    return best


def by_hand(original, states):
    """R_policy of a path of the ring road."""
    own = set(itertools.pairwise(original))
    total = 0.0
    for s, after in itertools.pairwise(states):
        action = int(np.flatnonzero(NEXT_STATE[s] == after)[0])
        valid = NEXT_STATE[s] >= 0
        total += 0.0 if (s, after) in own else np.log(PROBS[s, action]) - np.log(PROBS[s][valid].max())
    return total


def test_a_pair_of_symbols_is_free_wherever_and_however_often_it_is_gone():
    original = np.array([4, 7, 7, 2, -1, -1])
    before, after = np.array([4, 7, 7, 2, 7, 4]), np.array([7, 7, 2, 4, 4, 2])
    for xp in (np, jnp):
        assert is_own(xp.asarray(original), before, after).tolist() == [True, True, True, False, False, False]
        habits = -xp.arange(1.0, 7.0)
        assert spared(habits, original, before, after, "free").tolist() == [0, 0, 0, -4, -5, -6]
        assert spared(habits, original, before, after, "charged").tolist() == habits.tolist()
    assert not is_own(np.array([4]), before, after).any()  # a start alone has no step


def test_what_pays_can_not_be_free():
    task, paths = ring(), pprjax.Paths.from_lists(ORIGINALS)
    config = replace(FREE, habit="link")
    for solve in (pprjax.recourse, pprjax.frontier, exact, exact_frontier):
        with pytest.raises(ValueError, match=r'own_steps: "free" takes away .* habit "link" pays'):
            solve(task, paths, config)
    with pytest.raises(ValueError, match="own_steps"):
        pprjax.score(task, paths, paths, config)
    with pytest.raises(ValueError, match=r"own_steps: expected one of charged, free, got 'cheap'"):
        check_config(replace(CONFIG, own_steps="cheap"), 1)


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**31 - 1),
    goal=st.sampled_from(sorted(GOALS)),
    costs=st.sampled_from([{}, UNEVEN]),
    lambda_policy=lambdas,
    lambda_path=lambdas,
)
def test_certificates_are_those_of_all_paths_and_free_steps_are_never_worth_less(
    seed, goal, costs, lambda_policy, lambda_path
):
    mdp = regretful(seed)
    task, paths, edits = mdp.task(GOALS[goal]), pprjax.Paths.from_lists(mdp.originals), np.arange(40)
    limits = {}
    for own_steps in ("charged", "free"):
        config = pprjax.Config(lambda_path=lambda_path, lambda_policy=lambda_policy, own_steps=own_steps, **costs)
        found, best = exact_frontier(task, paths, config), exact(task, paths, config)
        limits[own_steps] = np.full((len(paths), len(edits)), -np.inf)
        np.maximum.at(limits[own_steps], (found.index, found.distance), found.value)
        limits[own_steps] = np.maximum.accumulate(limits[own_steps], axis=1)
        for b, original in enumerate(mdp.originals):
            truth = rungs(mdp, original, goal, config)
            most = [max((v for d, v in truth.items() if d <= e), default=-np.inf) for e in edits]
            np.testing.assert_allclose(limits[own_steps][b], most, rtol=1e-5, atol=1e-5)
            expected = max((v + lambda_path / (d + 1) for d, v in truth.items()), default=-np.inf)
            np.testing.assert_allclose(best.reward[b], expected, rtol=1e-5, atol=1e-5)
    assert (limits["free"] >= limits["charged"] - 1e-5 * (1 + np.abs(np.nan_to_num(limits["charged"])))).all()


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), lambda_path=lambdas, lambda_policy=lambdas)
def test_the_n_best_too(seed, lambda_path, lambda_policy):
    mdp = regretful(seed)
    mdp.reward += np.random.default_rng(seed).normal(size=mdp.reward.shape) / 8  # few ties
    config = replace(FREE, lambda_path=lambda_path, lambda_policy=lambda_policy)
    best = exact(mdp.task(None), pprjax.Paths.from_lists(mdp.originals), config, n_recourses=3)
    for b, original in enumerate(mdp.originals):
        ranked = []
        for states, earned, habit, _ in mdp.paths_beside(original, "free"):
            symbols = tuple(mdp.symbols[list(states)].tolist())
            ranked.append((earned + lambda_policy * habit + lambda_path / (1 + edit(original, symbols, {})), symbols))
        expected = [value for value, _ in greedy(sorted(ranked, reverse=True), 3, 1)]
        np.testing.assert_allclose(best.reward[best.index == b], expected, rtol=1e-5, atol=1e-4)


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), lambda_policy=st.sampled_from([0.0, 0.5, 3.0]))
def test_a_search_that_drops_nothing_has_the_same(seed, lambda_policy):
    """In a world that does not tell which symbols follow, several of whose states look alike."""
    mdp = regretful(seed)
    config = pprjax.Config(lambda_policy=lambda_policy, own_steps="free")
    originals = pprjax.Paths.from_lists(mdp.originals).padded_to(HORIZON + 3)
    every = config.objective.for_frontier
    found = search_points(
        mdp.task(GOALS["reached"]), originals, every, wanted=Wanted(num_distances=12), calls=0, width=ROOMY
    )
    for b, original in enumerate(mdp.originals):
        truth = np.full(12, -np.inf)
        for distance, value in rungs(mdp, original, "reached", config).items():
            truth[min(distance, 11)] = value if distance < 12 else truth[11]
        expected = np.maximum.accumulate(truth)
        np.testing.assert_allclose(found.limit[b], expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(np.maximum.accumulate(found.best.value[b]), expected, rtol=1e-4, atol=1e-4)


def sequence_habits(task, rows):
    """log P_A of each symbol less that of the likeliest: [N, L]."""

    def one(row):
        state, carry, charged = task.reset(KEY), task.policy.init(), []
        for symbol in row:
            carry, log_probs = task.log_probs(carry, state)
            charged.append(log_probs[symbol] - log_probs.max())
            state = task.step(KEY, state, symbol)[0]
        return jnp.stack(charged)

    return np.asarray(jax.jit(jax.vmap(one))(rows))


@pytest.mark.slow
def test_scores_and_a_proof_with_bounds_where_the_agent_remembers():
    """Branch and bound, in a world that tells which symbols follow; the start is the first symbol of every path."""
    task, originals = sequences(3), ALL[[7, 77, 200]]
    charged = sequence_habits(task, ALL)
    moves = np.stack([np.column_stack([np.full(len(ALL), V), ALL[:, :-1]]), ALL], axis=-1)
    config = pprjax.Config(lambda_policy=0.3, own_steps="free")
    front = pprjax.frontier(task, task.env.paths(originals), config, method="search")
    assert (front.bound == front.value).all()
    for i, original in enumerate(originals):
        own = set(itertools.pairwise([V, *original.tolist()]))
        kept = np.array([[tuple(move) not in own for move in row] for row in moves.tolist()])
        scores = pprjax.score(task, task.env.paths([original] * len(ALL)), task.env.paths(ALL), config)
        np.testing.assert_allclose(scores.r_policy, (charged * kept).sum(1), atol=1e-4)
        value = np.where(scores.goal > 0.5, scores.goal + 0.3 * scores.r_policy, -np.inf)
        truth = np.maximum.accumulate([value[scores.distance == e].max(initial=-np.inf) for e in range(L + 1)])
        rows = front.index == i
        np.testing.assert_allclose(front.value[rows], truth[front.distance[rows]], rtol=1e-4, atol=1e-4)
        assert front.value[rows].max() == pytest.approx(truth.max(), abs=1e-4)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**31 - 1))
def test_an_original_that_its_world_can_follow_is_free(seed):
    mdp = regretful(seed)
    rng = np.random.default_rng(seed)
    rows = [mdp.symbols[list(mdp.paths[i][0])].tolist() for i in rng.integers(len(mdp.paths), size=3)]
    paths = pprjax.Paths.from_lists(rows).padded_to(HORIZON + 1)
    scores = pprjax.score(mdp.task(None), paths, paths, pprjax.Config(own_steps="free"))
    assert (scores.r_policy == 0).all() and (scores.distance == 0).all()


@BOTH
def test_a_rollout_and_the_environment_pay_what_is_printed(own_steps):
    task, original, config = ring(), ORIGINALS[0], replace(CONFIG, own_steps=own_steps)
    traced = trace(task, jnp.array(original), jnp.int32(len(original)), KEY)
    lanes = Behaviour(
        forced=jnp.full((32, 7), -1), explore=jnp.ones((32, 7), bool), from_policy=jnp.zeros(32, bool),
        uniform=jax.random.uniform(KEY, (32, 7)),
    )  # fmt: skip
    paths = jax.jit(jax.vmap(partial(rollout, key=KEY), (None, None, 0, None)))(task, traced, lanes, config)
    env = pprjax.RecourseEnv(task, pprjax.Paths.from_lists([original]), config, penalty=0.0)
    step = jax.jit(env.step_env)
    freed = 0
    for symbols, actions, policy, reward, paid, n in zip(
        *map(np.asarray, (paths.symbols, paths.actions, paths.r_policy, paths.reward, paths.rewards)),
        np.asarray(paths.num_actions),
        strict=True,
    ):
        expected = by_hand(original if own_steps == "free" else [], symbols[: n + 1].tolist())
        freed += expected != by_hand([], symbols[: n + 1].tolist())
        assert policy == pytest.approx(expected, abs=1e-5)
        assert paid.sum() == pytest.approx(reward - config.lambda_path, abs=1e-4)
        state, earned = env.reset_env(KEY, env.default_params)[1], 0.0
        for action in actions[:n]:
            _, state, gain, _, _ = step(KEY, state, action, env.default_params)
            earned += float(gain)
        assert earned == pytest.approx(reward, abs=1e-4)
    assert (freed > 0) == (own_steps == "free")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["search", "learn"])
def test_learned_and_searched_are_as_good_as_certified(method):
    task, paths = ring(), pprjax.Paths.from_lists(ORIGINALS)
    best = pprjax.recourse(task, paths, RARE, method="exact")
    found = pprjax.recourse(task, paths, RARE, method=method, key=KEY, progress=False)
    np.testing.assert_allclose(found.reward, best.reward, rtol=1e-4, atol=1e-4)


def test_rare_steps_are_kept_where_they_are_free():
    """At a large λ_policy a path that keeps what it did is best where that is free, and is not where it costs."""
    task, paths = ring(), pprjax.Paths.from_lists(ORIGINALS)
    best = pprjax.recourse(task, paths, RARE, method="exact")
    np.testing.assert_array_equal(pprjax.recourse(pprjax.stack([task] * 3), paths, RARE).reward, best.reward)
    for b, original in enumerate(ORIGINALS):
        assert best.scores.r_policy[b] == pytest.approx(by_hand(original, best.paths.to_lists()[b]), abs=1e-4)
    charged = pprjax.recourse(task, paths, replace(RARE, own_steps="charged"), method="exact")
    assert best.paths.to_lists() != charged.paths.to_lists()
    assert (best.scores.distance <= charged.scores.distance).all()
