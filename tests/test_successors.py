"""Where chance leads, stored as what occurs: the same worlds as tables of all next states."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pprjax
from pprjax import TabularMDP
from pprjax.baselines import action_changes, counterfactual_probabilities
from pprjax.successors import Successors, successors

S, A = 5, 3
SEEDS = st.integers(0, 2**31 - 1)


def random_table(rng, steps=()):
    """P(s' | s, a) with gaps, the same for all steps, and actions that are not available; one leads anywhere."""
    gaps = rng.random((S, A, S)) < 0.5
    gaps[0, 0] = False
    probs = np.where(gaps, 0.0, rng.dirichlet(np.ones(S), (*steps, S, A)))
    sums = probs.sum(-1, keepdims=True)
    return np.divide(probs, sums, out=np.zeros_like(probs), where=sums > 0)


@settings(deadline=None, max_examples=40)
@given(SEEDS, st.booleans())
def test_they_are_the_table_again(seed, timed):
    table = random_table(np.random.default_rng(seed), (2,) if timed else ())
    table[..., 0, 0, :] = 0
    found = Successors.of(table)
    np.testing.assert_array_equal(found.table(), table)
    occurs = (table.reshape(-1, S, A, S) > 0).any(0)
    assert (len(found.states), found.longest, found.widest) == (
        occurs.sum(),
        occurs.sum(-1).max(),
        occurs.sum((1, 2)).max(),
    )
    np.testing.assert_array_equal(Successors.every(table).table(), table)


@settings(deadline=None, max_examples=20)
@given(SEEDS)
def test_a_list_of_what_may_happen_adds_up(seed):
    rng = np.random.default_rng(seed)
    table = random_table(rng)
    state, action, next_state = np.nonzero(table)
    prob = table[state, action, next_state]
    order = rng.permutation(2 * len(prob))
    halves = (np.tile(x, 2)[order] for x in (state, action, next_state, prob / 2))
    found = Successors.from_steps(*halves, num_states=S, num_actions=A)
    np.testing.assert_allclose(found.table(), table, atol=1e-15)
    again = Successors.from_steps(*found.to_steps(), num_states=S, num_actions=A)
    jax.tree.map(np.testing.assert_array_equal, found, again)
    np.testing.assert_array_equal(found.prob(*np.indices(table.shape)), found.table())
    some = Successors.from_steps(np.array([1]), np.array([0]), np.array([2]), np.array([1.0]))
    assert some.table().shape == (3, 1, 3)


def test_a_world_of_them_is_that_of_the_table():
    rng = np.random.default_rng(0)
    table = random_table(rng)
    rest = dict(reward=np.zeros((S, A)), terminal=np.arange(S) == S - 1)
    keys = jax.random.split(jax.random.key(0), 100)
    uniform = jax.vmap(jax.random.uniform)(keys)
    for world in (TabularMDP(transition=x, **rest) for x in (table, Successors.of(table))):
        table_of = world.transition_probs(world.default_params)
        np.testing.assert_allclose(table_of[:-1], table[:-1], atol=1e-6)
        assert not table_of[-1].any()  # nothing is available where paths end
        assert world.default_params.successors.by_step is False
        for s, a in np.argwhere(table[:-1].any(-1)):
            drawn = jax.vmap(
                lambda key, s=s, a=a, world=world: (
                    world.step_env(key, state_of(world, s), a, world.default_params)[1].id
                )
            )(keys)
            sums = np.cumsum(table[s, a]).astype(np.float32)
            expected = (uniform[:, None] * sums[-1] >= sums).sum(1)  # the inverse of the sums over all states
            np.testing.assert_array_equal(drawn, np.minimum(expected, np.flatnonzero(table[s, a]).max()))


@pytest.mark.slow
def test_a_ragged_world_is_the_dense_one_without_what_there_is_not():
    """The same draws, the same actions that constraints leave, the same plans, and the same observed noise."""
    rng = np.random.default_rng(4)
    offered = np.arange(A) < np.array([2, 3, 1, 2, 0])[:, None]
    table = np.where(offered[..., None], random_table(rng), 0.0)
    table[offered & ~table.any(-1)] = np.eye(S)[4]
    reward, end = rng.normal(size=(S, A)), np.arange(S) == 4
    first = np.append(0, np.cumsum(offered.sum(1)))
    chances = Successors.from_steps(*Successors.of(table).to_steps(), rows=first)
    assert chances.shape == (S, A)
    assert chances.num_cells == offered.sum()
    np.testing.assert_array_equal(chances.table(), table)
    dense = TabularMDP(reward=reward, terminal=end, max_steps=3, transition=table)
    ragged = TabularMDP(reward=pprjax.Ragged.of(first, reward[offered]), terminal=end, max_steps=3, transition=chances)
    keys, astray = jax.random.split(jax.random.key(0), 20), pprjax.Constraints(forbidden_states=[2])
    probs = np.where(offered, 1 / np.maximum(offered.sum(1, keepdims=True), 1), 0)
    policies = np.where(probs.any(1, keepdims=True), probs, 1 / A), pprjax.Ragged.of(first, probs[offered])
    told = []
    for world, policy in zip((dense, ragged), policies, strict=True):
        params = world.default_params
        path = [0, *np.flatnonzero(table[0, 0])[:1], -1, -1], [0, -1, -1]
        observed = counterfactual_probabilities(world.successors(params), *map(np.array, path))
        timed = world.with_chances(params, observed)
        steps = [
            jax.vmap(lambda key, s=s, a=a, p=p, world=world: world.step_env(key, state_of(world, s), a, p)[1:3])(keys)
            for s, a in np.argwhere(np.ones((S, A)))
            for p in (params, timed)
        ]
        task = pprjax.Task(world, pprjax.TablePolicy(policy), constraints=astray)
        available = [task.available(state_of(world, s)) for s in range(S)]
        planned = action_changes(
            task.replace(constraints=None),
            pprjax.Paths.from_lists([path[0][:2]], [[0]]),
            max_changes=1,
            key=jax.random.key(0),
            num_samples=None,
        )
        told.append((steps, available, planned.reward, observed.table()))
    jax.tree.map(np.testing.assert_array_equal, *told)
    with pytest.raises(ValueError, match=r"action: expected integers in \[0, 1\], got 2"):
        Successors.from_steps([0], [2], [1], [1.0], rows=first)
    with pytest.raises(ValueError, match="rows: expected S \\+ 1 whole numbers that rise from 0, got"):
        Successors.from_steps([0], [0], [1], [1.0], rows=first[1:])
    with pytest.raises(ValueError, match="transition: expected shape"):
        ragged.with_chances(ragged.default_params, Successors.of(np.stack([table] * 3)))


def state_of(world, number):
    return world.state_from_id(np.int32(number), world.default_params)


def test_noise_is_the_same_where_cells_are_told_apart_by_their_lengths(monkeypatch):
    rng = np.random.default_rng(5)
    table = np.where(rng.random((40, 2, 40)) < rng.random((40, 2, 1)), rng.dirichlet(np.ones(40), (40, 2)), 0)
    table[..., 0] += 1 - table.sum(-1)
    chances = Successors.of(table)
    path = np.array([3, np.flatnonzero(table[3, 1])[1], 0]), np.array([1, -1])
    for options in ({}, dict(num_samples=20, key=jax.random.key(0))):
        together = counterfactual_probabilities(chances, *path, **options)
        with monkeypatch.context() as told_apart:
            told_apart.setattr("pprjax.baselines.counterfactual.SMALL", 0)
            apart = counterfactual_probabilities(chances, *path, **options)
        np.testing.assert_allclose(apart.probs, together.probs, atol=1e-6)
        assert np.abs(apart.probs[0] - chances.probs).max() > 0.1


@settings(deadline=None, max_examples=15)
@given(SEEDS)
def test_noise_that_was_observed_is_that_of_the_table(seed):
    rng = np.random.default_rng(seed)
    table = random_table(rng)
    state, action, next_state = rng.choice(np.argwhere(table > 0))
    states, actions = np.array([state, next_state, -1]), np.array([action, -1])
    chances = Successors.of(table)
    found = counterfactual_probabilities(chances, states, actions)
    dense = counterfactual_probabilities(np.moveaxis(table, 1, 0), states, actions)
    np.testing.assert_allclose(found.table(), np.moveaxis(dense, 1, 2), atol=1e-6)
    assert found.prob(state, action, next_state, 0) == 1
    sampled = dict(num_samples=50, key=jax.random.key(seed))
    found = counterfactual_probabilities(chances, states, actions, **sampled)
    dense = counterfactual_probabilities(np.moveaxis(table, 1, 0), states, actions, **sampled)
    np.testing.assert_allclose(found.table(), np.moveaxis(dense, 1, 2), atol=1e-6)


ONE = dict(state=np.array([0]), action=np.array([0]), next_state=np.array([1]), prob=np.array([1.0]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(state=np.array([0, 1])), "expected four lists of one length, got shapes"),
        (dict(num_states=1), r"next_state: expected integers in \[0, 0\], got 1"),
        (dict(action=np.array([-1])), r"action: expected integers in \[0, .*\], got -1"),
        (dict(state=np.array([0.0])), "state: expected integers .*, got float64"),
    ],
)  # fmt: skip
def test_bad_lists_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        Successors.from_steps(**ONE | changes)


HALVES = Successors.of(np.full((2, 1, 2), 0.5))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(probs=np.full(3, 0.5)), r"transition\.probs: expected shape \(4,\), got \(3,\)"),
        (dict(probs=np.full(4, -0.5)), r"transition\.probs\[0\]: expected a probability, got -0\.5"),
        (dict(probs=np.full(4, 0.25)), r"transition\[0, 0\]: expected a row that sums to 1, or to 0, got 0\.5"),
        (dict(states=np.arange(4)), r"transition\.states\[2\]: expected an integer in \[0, 1\], got 2"),
        (dict(states=np.array([0, 1, 1, 1])), r"transition\.states\[3\]: expected more than the one before it"),
        (dict(first=np.array([0, 3, 2])), r"transition\.first: expected numbers that rise from 0 to the 4 states"),
        (dict(first=np.array([0, 4])), r"transition\.first: expected shape \(3,\), got \(2,\)"),
        (dict(probs=np.zeros(4), states=np.zeros(0, int)), r"transition\.first\[1\]: expected an integer in \[0, 0\]"),
    ],
)  # fmt: skip
def test_bad_successors_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        TabularMDP(reward=np.zeros((2, 1)), terminal=[False, True], transition=HALVES.replace(**changes))


def test_a_world_in_which_nothing_is_available_is_refused():
    with pytest.raises(ValueError, match="transition: expected an action that is available somewhere, got none"):
        TabularMDP(reward=np.zeros((2, 1)), terminal=[False, True], transition=np.zeros((2, 1, 2)))


def test_what_takes_too_much_says_what_takes_how_much(monkeypatch):
    """A plan over all states has a table of them; the world itself has not."""
    monkeypatch.setattr("pprjax.baselines.padded.MAX_NUMBERS", 3)
    env = TabularMDP(reward=np.zeros((2, 1)), terminal=[False, True], max_steps=2, transition=HALVES)
    task = pprjax.Task(env, pprjax.TablePolicy(np.ones((2, 1), np.float32)))
    message = r"task\.env: a plan over all states .* 2 states × 1 actions × 2 next states, .* takes 0\.0 GiB; .* 0 GiB"
    with pytest.raises(ValueError, match=message):
        pprjax.baselines.action_changes(
            task, pprjax.Paths.from_lists([[0, 1]], [[0]]), max_changes=1, key=jax.random.key(0)
        )


def test_a_world_of_chances_by_step_is_no_world_to_plan_in():
    table = random_table(np.random.default_rng(0))
    env = TabularMDP(reward=np.zeros((S, A)), terminal=np.arange(S) == S - 1, max_steps=2, transition=table)
    params = env.with_chances(env.default_params, Successors.of(np.stack([table, table])))
    task = pprjax.Task(env, pprjax.TablePolicy(np.full((S, A), 1 / A, np.float32)), params=params)
    with pytest.raises(ValueError, match=r"task\.params: expected the same chances at each step"):
        pprjax.baselines.action_changes(
            task, pprjax.Paths.from_lists([[0, 1]], [[0]]), max_changes=1, key=jax.random.key(0)
        )
    with pytest.raises(ValueError, match="transition: expected shape"):
        env.with_chances(env.default_params, Successors.of(np.stack([table] * 3)))


class Dense(TabularMDP):
    """A world that tells a table, as one of another kind may."""

    @property
    def successors(self):
        raise AttributeError("successors")

    def transition_probs(self, params):
        return jnp.asarray(self.table, jnp.float32) * (params.next_state >= 0)[..., None]


def test_a_world_may_tell_a_table_instead():
    table = random_table(np.random.default_rng(1))
    rest = dict(reward=np.zeros((S, A)), terminal=np.arange(S) == S - 1)
    ours, other = TabularMDP(transition=table, **rest), Dense(transition=table, **rest)
    other.table = table
    told = successors(other, other.default_params)
    assert told.longest == S
    np.testing.assert_allclose(told.table(), ours.transition_probs(ours.default_params), atol=1e-6)
    policy = pprjax.TablePolicy(np.full((S, A), 1 / A, np.float32))
    astray = pprjax.Constraints(forbidden_states=[2])
    tasks = [pprjax.Task(env, policy, constraints=astray) for env in (ours, other)]
    assert not any(task.deterministic for task in tasks)
    tables = [np.asarray(task.available_table()) for task in tasks]
    np.testing.assert_array_equal(tables[0], tables[1])
    assert tables[0].sum() < (table[:-1].any(-1)).sum()
