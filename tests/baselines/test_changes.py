import functools

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pprjax_envs import gridworld
from small_mdps import A, K, Mdp, S, T, random_transition

from pprjax import TabularMDP
from pprjax.baselines import action_change_values, action_changes, counterfactual_probabilities
from pprjax.goals import reached
from pprjax.paths import PAD, Paths
from pprjax.policy import TablePolicy
from pprjax.task import Task

NUM_SAMPLES = 1000
SEEDS = st.integers(0, 2**31 - 1)
WRONG = (ValueError, jaxtyping.TypeCheckError)  # the latter where shapes are checked at run time
slow = functools.partial(settings, deadline=None)


@pytest.fixture(scope="module")
def published(oracle):
    """Eight cases as the published program computes them."""
    return oracle("action_changes")


def within(estimate, probs, num_samples, standard_errors=4.0):
    """Whether a histogram is as near to the probabilities as chance has it; what is certain must be exact."""
    error = np.sqrt(probs * (1 - probs) / num_samples)
    return np.all(np.abs(estimate - probs) <= standard_errors * error + 1e-6)


class TestCounterfactualProbabilities:
    def test_agree_with_the_published_program(self, published):
        for case in published:
            states = np.array([*case["states"], PAD])  # the last step's outcome was not observed
            key = jax.random.key(case["seed"])
            with jax.enable_x64(True):
                transition = np.array(case["P"])
                exact = counterfactual_probabilities(transition, states, np.array(case["actions"]))
                estimate = counterfactual_probabilities(
                    transition, states, np.array(case["actions"]), num_samples=NUM_SAMPLES, key=key
                )
            exact, estimate = np.asarray(exact), np.asarray(estimate)
            assert within(np.array(case["P_cf"]), exact, NUM_SAMPLES)
            assert within(estimate, exact, NUM_SAMPLES)

    def test_agree_with_truncated_gumbels(self):
        rng = np.random.default_rng(0)
        transition = random_transition(rng, gaps=False)
        state, action, next_state, num_samples = 1, 2, 0, 20_000
        location = np.log(transition[action, state])
        top = rng.gumbel(size=(num_samples, 1))
        value = -np.log(np.exp(-rng.gumbel(location, size=(num_samples, S))) + np.exp(-top))  # cut off below `top`
        value[:, next_state] = top[:, 0]
        winner = np.argmax(np.log(transition) + (value - location)[:, None, None], axis=-1)
        histogram = (winner[..., None] == np.arange(S)).mean(0)
        exact = counterfactual_probabilities(transition, np.array([state, next_state]), np.array([action]))[0]
        assert within(histogram, np.asarray(exact), num_samples)

    @slow(max_examples=60)
    @given(SEEDS)
    def test_average_to_the_world_itself(self, seed):
        transition = random_transition(np.random.default_rng(seed))
        state, action = np.argwhere(transition.any(-1).T)[0] if transition.any() else (0, 0)
        with jax.enable_x64(True):
            probs = np.stack(
                [
                    counterfactual_probabilities(transition, np.array([state, i]), np.array([action]))[0]
                    for i in range(S)
                ]
            )
        average = np.einsum("i,iast->ast", transition[action, state], probs)
        np.testing.assert_allclose(average, transition * transition[action, state].sum(), atol=1e-12)

    @slow(max_examples=60)
    @given(SEEDS)
    def test_are_probabilities_certain_of_the_observed_and_stable(self, seed):
        rng = np.random.default_rng(seed)
        transition = random_transition(rng)
        possible = np.argwhere(transition > 0)
        if not len(possible):
            return
        action, state, next_state = rng.choice(possible)
        with jax.enable_x64(True):
            probs = np.asarray(
                counterfactual_probabilities(transition, np.array([state, next_state]), np.array([action]))[0]
            )
        assert np.all(probs >= 0)
        np.testing.assert_allclose(probs.sum(-1), transition.any(-1), atol=1e-12)
        np.testing.assert_array_equal(probs[action, state], np.eye(S)[next_state])
        assert np.all(probs[transition == 0] == 0)
        # stability: what has become less likely relative to the observed outcome can't take its place
        p = transition[action, state]
        less = transition * p[next_state] <= transition[..., [next_state]] * p * (1 - 1e-9)
        less[..., next_state] = False
        assert np.all(probs[less] == 0)

    def test_of_a_deterministic_world_are_the_world(self):
        transition = np.eye(S)[np.random.default_rng(0).integers(S, size=(A, S))]
        states, actions = [2], np.array([0, 2, 1])
        for action in actions:
            states.append(int(transition[action, states[-1]].argmax()))
        for options in ({}, {"num_samples": 50, "key": jax.random.key(0)}):
            probs = counterfactual_probabilities(transition, np.array(states), actions, **options)
            np.testing.assert_array_equal(probs, np.broadcast_to(transition, probs.shape))

    @pytest.mark.parametrize(
        ("change", "name"),
        [
            ({"transition": np.ones((A, S, S + 1))}, "transition"),
            ({"states": np.zeros(T, int)}, "states"),
            ({"num_samples": 0, "key": jax.random.key(0)}, "num_samples"),
            ({"num_samples": 10}, "key"),
        ],
    )
    def test_says_what_is_wrong(self, change, name):
        good = {"transition": np.ones((A, S, S)) / S, "states": np.zeros(T + 1, int), "actions": np.zeros(T, int)}
        with pytest.raises(WRONG, match=name):
            counterfactual_probabilities(**{**good, **change})


class TestActionChangeValues:
    def test_agree_with_the_published_program(self, published):
        for case in published:
            with jax.enable_x64(True):
                values = action_change_values(
                    np.array(case["P_cf"]),
                    np.array(case["R"], float),
                    np.array(case["actions"]),
                    case["states"][0],
                    case["T"],
                )
            np.testing.assert_allclose(values, [case["values"][str(k)] for k in range(case["T"] + 1)], atol=1e-9)

    @slow(max_examples=50)
    @given(SEEDS)
    def test_agree_with_recursion(self, seed):
        rng = np.random.default_rng(seed)
        probs = np.stack([random_transition(rng) for _ in range(T)])
        reward = np.where(probs.any(-1).all(0), rng.normal(size=(A, S)), -np.inf)
        actions = rng.integers(0, A, T)

        def value(t, s, left):
            if t == T:
                return 0.0
            spent = (np.arange(A) != actions[t]).astype(int)
            return max(
                (
                    reward[a, s] + sum(q * value(t + 1, i, left - spent[a]) for i, q in enumerate(probs[t, a, s]) if q)
                    for a in range(A)
                    if spent[a] <= left
                ),
                default=-np.inf,
            )

        with jax.enable_x64(True):
            values = np.asarray(action_change_values(probs, reward, actions, 0, K))
        np.testing.assert_allclose(values, [value(0, 0, k) for k in range(K + 1)], atol=1e-12)
        assert np.all(values[1:] >= values[:-1] - 1e-12)

    def test_vmaps_and_ignores_padding(self):
        rng = np.random.default_rng(1)
        probs = np.stack([random_transition(rng, gaps=False) for _ in range(T)])
        reward = rng.normal(size=(A, S))
        whole, short = np.array([0, 1, 2, 1]), np.array([0, 1, PAD, PAD])
        batch = jax.vmap(lambda actions: action_change_values(probs, reward, actions, 1, K))(jnp.stack([whole, short]))
        np.testing.assert_allclose(batch[0], action_change_values(probs, reward, whole, 1, K), rtol=1e-6)
        np.testing.assert_allclose(batch[1], action_change_values(probs[:2], reward, short[:2], 1, K), rtol=1e-6)

    @pytest.mark.parametrize(
        ("change", "name"),
        [
            ({"p_counterfactual": np.ones((T, A, S))}, "p_counterfactual"),
            ({"reward": np.zeros((S, A))}, "p_counterfactual"),
            ({"actions": np.array([0, 1, 2, A])}, "actions"),
            ({"start": S}, "start"),
            ({"max_changes": -1}, "max_changes"),
        ],
    )
    def test_says_what_is_wrong(self, change, name):
        good = {
            "p_counterfactual": np.full((T, A, S, S), 1 / S),
            "reward": np.zeros((A, S)),
            "actions": np.zeros(T, int),
            "start": 0,
            "max_changes": K,
        }
        with pytest.raises(WRONG, match=name):
            action_change_values(**{**good, **change})


class TestActionChanges:
    @slow(max_examples=40)
    @given(SEEDS)
    def test_agree_with_brute_force(self, seed):
        mdp = Mdp(seed)
        result = action_changes(mdp.task(), mdp.originals(), max_changes=K)
        assert result.valid.all()
        expected = np.stack([mdp.best(actions) for actions in mdp.actions])
        np.testing.assert_allclose(result.reward, expected, atol=1e-5)
        np.testing.assert_allclose(result.reward[:, 0], [mdp.earned(a)[0] for a in mdp.actions], atol=1e-5)
        np.testing.assert_array_equal(result.changes, np.argmax(expected == expected[:, -1:], axis=1))
        # the realized path is a walk of this world that earns the value, with no more changes than counted
        np.testing.assert_allclose(result.realized, expected[:, -1], atol=1e-5)
        plans = zip(result.paths.actions_to_lists(), result.paths.to_lists(), mdp.actions, result.changes, strict=True)
        for i, (plan, symbols, observed, changes) in enumerate(plans):
            total, seen = mdp.earned(plan)
            assert (total, seen) == (pytest.approx(expected[i, -1], abs=1e-5), symbols)
            assert len(plan) <= len(observed)
            assert sum(a != b for a, b in zip(plan, observed, strict=False)) <= changes

    @slow(max_examples=20)
    @given(SEEDS)
    def test_policy_attains_every_value(self, seed):
        mdp = Mdp(seed, num_originals=1)
        result = action_changes(mdp.task(), mdp.originals(), max_changes=K)
        for k in range(K + 1):
            state, left, total = 0, k, 0.0
            for t, observed in enumerate(mdp.actions[0]):
                if mdp.stops(state):
                    assert np.all(result.policy[0, t, state] == PAD)
                    break
                action = result.policy[0, t, state, left]
                left -= int(action != observed)
                total += mdp.reward[state, action]
                state = mdp.next_state[state, action]
            assert left >= 0
            assert total == pytest.approx(result.reward[0, k], abs=1e-5)

    def test_refuses_no_samples_where_none_are_drawn_either(self):
        task = gridworld.task()
        with pytest.raises(WRONG, match="num_samples: expected at least 1"):
            action_changes(task, gridworld.bad_paths(task.env, 1), max_changes=1, num_samples=0)

    def test_traces_missing_actions(self):
        task = gridworld.task()
        originals = gridworld.bad_paths(task.env, 4)
        traced = action_changes(task, originals.replace(actions=None), max_changes=2)
        given = action_changes(task, originals, max_changes=2)
        np.testing.assert_array_equal(traced.reward, given.reward)

    def test_says_which_originals_are_not_valid_and_which_are_too_short(self):
        next_state = np.array([[1, -1], [2, 0], [3, 1], [-1, -1]])  # a corridor of four, ahead and back
        reward = np.array([[1, 0], [2, 0], [5, 0], [0, 0]])
        env = TabularMDP(next_state, reward, np.arange(4) == 3, 0, 6)
        task = Task(env, TablePolicy(jnp.full((4, 2), 0.5)), goal=reached)
        cases = [  # symbols, actions, recourse, status
            ([0, 1, 0, 1], [0, 1, 0], [0, 1, 2, 3], "reached_goal"),
            ([0, 1, 0], [0, 1], [0, 1, 2], "cut"),
            ([0, 1, 2, 3], [0, 0, 0], [0, 1, 2, 3], "unchanged"),
            ([0], [], [0], "cut"),
            ([0, 2, 3], [0, 0], [0], "invalid"),
            ([0, 1], [1], [0], "invalid"),
        ]
        symbols, actions, recourses, status = map(list, zip(*cases, strict=True))
        result = action_changes(task, Paths.from_lists(symbols, actions), max_changes=2)
        assert result.status.tolist() == status
        assert result.paths.to_lists() == recourses
        assert result.changes.tolist()[:4] == [1, 1, 0, 0]
        assert result.valid.tolist() == [word != "invalid" for word in status]
        assert np.isneginf(result.reward[~result.valid]).all()

    def test_originals_beyond_the_horizon_are_not_valid(self):
        task = gridworld.task()
        originals = Paths.from_lists([[16, 24, 16, 24, 16]], [[1, 3, 1, 3]])
        for horizon in (T - 1, T):
            result = action_changes(task.replace(horizon=horizon), originals, max_changes=1)
            assert result.valid.tolist() == [horizon == T]


@pytest.fixture(scope="module")
def world():
    """A small stochastic world, and its reward[s, a]."""
    rng = np.random.default_rng(5)
    transition = np.moveaxis(random_transition(rng, gaps=False), 0, 1)
    transition[1, 2] = 0.0
    reward = rng.integers(0, 5, (S, A)).astype(float)
    env = TabularMDP(reward=reward, terminal=np.arange(S) == S - 1, max_steps=T, transition=transition)
    return Task(env, TablePolicy(jnp.full((S, A), 1 / A))), reward


class TestStochasticWorld:
    def test_first_value_is_the_observed_reward(self, world):
        task, reward = world
        states, actions = [[0, 1, 0, 2, 1], [0, 2, 3]], [[0, 1, 2, 1], [1, 0]]
        originals = Paths.from_lists(states, actions)
        result = action_changes(task, originals, max_changes=K, key=jax.random.key(0), num_samples=200)
        assert result.valid.all()
        observed = [sum(reward[s, a] for s, a in zip(p, q, strict=False)) for p, q in zip(states, actions, strict=True)]
        np.testing.assert_allclose(result.reward[:, 0], observed, rtol=1e-6)
        assert np.all(np.diff(result.reward, axis=1) >= -1e-5)
        alone = action_changes(task, originals[0], max_changes=K, key=jax.random.key(0), num_samples=200)
        np.testing.assert_allclose(alone.reward[0], result.reward[0], rtol=1e-6)

    def test_realized_paths_earn_the_value_on_average(self, world):
        task, _ = world
        num = 4000
        originals = Paths.from_lists([[0, 1, 0, 2, 1]] * num, [[0, 1, 2, 1]] * num)
        result = action_changes(task, originals, max_changes=2, key=jax.random.key(0), num_samples=None)
        value = result.reward[0, result.changes[0]]
        assert result.changes[0] > 0
        standard_error = result.realized.std() / np.sqrt(num)
        assert standard_error > 0
        assert abs(result.realized.mean() - value) < 4 * standard_error

    def test_of_certain_transitions_is_the_deterministic_one(self):
        mdp = Mdp(3)
        mdp.symbols = np.arange(S)
        transition = np.where(mdp.next_state[..., None] >= 0, mdp.next_state[..., None] == np.arange(S), 0.0)
        env = TabularMDP(
            reward=mdp.reward, terminal=mdp.terminal, max_steps=T, symbols=mdp.symbols, transition=transition
        )
        sure = action_changes(mdp.task(), mdp.originals(), max_changes=K)
        task = Task(env, TablePolicy(jnp.full((S, A), 1 / A)))
        for num_samples in (20, None):
            chance = action_changes(
                task, mdp.originals(), max_changes=K, key=jax.random.key(0), num_samples=num_samples
            )
            np.testing.assert_allclose(chance.reward, sure.reward)
            assert chance.paths.to_lists() == sure.paths.to_lists()
            assert chance.status.tolist() == sure.status.tolist()

    def test_says_what_is_wrong(self, world):
        task, _ = world
        originals = Paths.from_lists([[0, 1]], [[0]])
        with pytest.raises(ValueError, match="key"):
            action_changes(task, originals, max_changes=1)
        with pytest.raises(ValueError, match="actions"):
            action_changes(task, originals.replace(actions=None), max_changes=1, key=jax.random.key(0))
        with pytest.raises(ValueError, match="max_changes"):
            action_changes(task, originals, max_changes=-1, key=jax.random.key(0))
        with pytest.raises(WRONG, match="num_samples: expected at least 1"):
            action_changes(task, originals, max_changes=1, num_samples=0)
        impossible = Paths.from_lists([[0, 1], [1, 0], [0, 9]], [[0], [2], [0]])
        assert action_changes(task, impossible, max_changes=1, key=jax.random.key(0)).valid.tolist() == [
            True,
            False,
            False,
        ]
