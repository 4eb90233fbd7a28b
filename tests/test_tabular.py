import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pprjax import TabularMDP

S, A = 4, 2
NEXT_STATE = np.array([[1, 2], [3, -1], [0, 3], [0, 0]])
REWARD = np.array([[0.5, -1.0], [2.0, 9.0], [0.25, 3.0], [7.0, 7.0]])
TERMINAL = np.array([False, False, False, True])
TABLES = dict(next_state=NEXT_STATE, reward=REWARD, terminal=TERMINAL, start=0, max_steps=5)


def transition_of(probabilities):
    """Every action of every state leads to the same distribution."""
    return np.tile(np.asarray(probabilities, float), (S, A, 1))


TRANSITION = transition_of([0.25, 0.25, 0.25, 0.25])
STOCHASTIC = TABLES | dict(next_state=None, transition=TRANSITION)


def at(env, s):
    state = env.reset_env(jax.random.key(0), env.default_params)[1]
    return state.replace(id=jnp.int32(s))


def test_steps_follow_the_tables():
    env = TabularMDP(**TABLES)
    for s in range(S):
        for a in range(A):
            _, state, reward, terminated, _ = env.step_env(jax.random.key(0), at(env, s), a, env.default_params)
            moves = NEXT_STATE[s, a] >= 0 and not TERMINAL[s]
            expected = NEXT_STATE[s, a] if moves else s
            assert state.id == expected
            assert reward == (REWARD[s, a] if moves else 0.0)
            assert terminated == TERMINAL[expected]
            assert state.time == 1


def test_start_symbols_and_available_actions_are_those_given():
    env = TabularMDP(**TABLES | dict(start=2, symbols=[5, 5, 0, 2**31 - 1]))
    params = env.default_params
    assert env.reset(jax.random.key(0))[1].id == 2
    assert [int(env.symbol(at(env, s), params)) for s in range(S)] == [5, 5, 0, 2**31 - 1]
    available = np.stack([env.available(at(env, s), params) for s in range(S)])
    np.testing.assert_array_equal(available, (NEXT_STATE >= 0) & ~TERMINAL[:, None])
    assert [int(TabularMDP(**TABLES).symbol(at(env, s), TabularMDP(**TABLES).default_params)) for s in range(S)] == [
        *range(S)
    ]


def test_transitions_are_as_likely_as_they_should_be():
    transition = np.zeros((S, A, S))
    transition[0, 0] = [0.0, 0.7, 0.1, 0.2]
    transition[0, 1] = [0.5, 0.0, 0.5, 0.0]
    transition[1, 0] = [0.0, 0.0, 0.0, 1.0]
    env = TabularMDP(**TABLES | dict(next_state=None, transition=transition))
    keys = jax.random.split(jax.random.key(0), 20_000)

    @jax.jit
    def draw(s, a):
        return jax.vmap(lambda key: env.step_env(key, at(env, s), a, env.default_params)[1].id)(keys)

    for s, a in [(0, 0), (0, 1), (1, 0)]:
        expected = transition[s, a]
        seen = np.bincount(draw(s, a), minlength=S) / len(keys)
        assert (np.abs(seen - expected) <= 4 * np.sqrt(expected * (1 - expected) / len(keys))).all()
        assert (seen[expected == 0] == 0).all()
    assert (draw(1, 1) == 1).all()
    np.testing.assert_array_equal(env.available(at(env, 0), env.default_params), [True, True])
    np.testing.assert_array_equal(env.available(at(env, 1), env.default_params), [True, False])


def test_a_row_that_nearly_sums_to_one_never_leaves_the_states():
    row = np.array([0.3334, 0.3334, 0.3334, 0.0])
    env = TabularMDP(**STOCHASTIC | dict(transition=transition_of(row)))
    keys = jax.random.split(jax.random.key(1), 20_000)
    ids = jax.vmap(lambda key: env.step_env(key, at(env, 0), 0, env.default_params)[1].id)(keys)
    assert set(np.unique(ids)) == {0, 1, 2}


def test_worlds_of_one_shape_share_a_compilation_and_keep_their_own_tables():
    traces = []

    @functools.partial(jax.jit, static_argnums=0)
    def first_step(env, params):
        traces.append(env)
        state = env.reset_env(jax.random.key(0), params)[1]
        _, state, reward, *_ = env.step_env(jax.random.key(0), state, 0, params)
        return state.id, reward

    one = TabularMDP(**TABLES)
    other = TabularMDP(**TABLES | dict(reward=REWARD + 10, start=2, max_steps=7))
    assert one == other
    assert hash(one) == hash(other)
    assert [float(x) for x in first_step(one, one.default_params)] == [1, 0.5]
    assert [float(x) for x in first_step(other, other.default_params)] == [0, 10.25]
    assert len(traces) == 1
    assert one != TabularMDP(**STOCHASTIC)
    assert one != TabularMDP(np.zeros((S, A + 1), int), np.zeros((S, A + 1)), TERMINAL)
    assert one != "one"


def test_gymnaxs_own_jitted_methods_use_the_tables_of_the_world_they_are_called_on():
    key = jax.random.key(0)
    one, other = TabularMDP(**TABLES), TabularMDP(**TABLES | dict(reward=REWARD + 10, start=2))
    for env, start, reward in ((one, 0, 0.5), (other, 2, 10.25)):
        _, state = env.reset(key)
        assert state.id == start
        assert env.step(key, state, 0)[2] == reward


@pytest.mark.parametrize(
    "changes",
    [
        dict(reward=REWARD.astype(int)),
        dict(reward=REWARD > 1),
        dict(terminal=TERMINAL.astype(int)),
        dict(terminal=TERMINAL.tolist(), next_state=NEXT_STATE.tolist(), reward=REWARD.tolist()),
        dict(start=np.int64(0), max_steps=np.int32(5)),
        dict(next_state=jnp.asarray(NEXT_STATE)),
    ],
)
def test_tables_of_other_dtypes_become_the_same_parameters(changes):
    params = TabularMDP(**TABLES | changes).default_params
    assert jax.tree.map(jnp.result_type, params) == jax.tree.map(jnp.result_type, TabularMDP(**TABLES).default_params)
    expected = np.asarray(changes.get("reward", REWARD), np.float32)
    np.testing.assert_array_equal(params.reward, expected)
    np.testing.assert_array_equal(params.terminal, TERMINAL)


def changed(array, entry, value):
    array = np.array(array, type(value) if isinstance(value, float) else None)
    array[entry] = value
    return array


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(next_state=changed(NEXT_STATE, (2, 1), 4)), r"next_state\[2, 1\]: expected .* \[-1, 3\], got 4"),
        (dict(next_state=changed(NEXT_STATE, (0, 1), -2)), r"next_state\[0, 1\].*got -2"),
        (dict(next_state=NEXT_STATE.astype(float)), "next_state: expected integers, got float64"),
        (dict(next_state=NEXT_STATE > 0), "next_state: expected integers, got bool"),
        (dict(next_state=NEXT_STATE[0]), r"next_state: expected int\[S, A\], got shape \(2,\)"),
        (dict(next_state=np.zeros((0, 2), int)), r"next_state: expected int\[S, A\], got shape \(0, 2\)"),
        (dict(next_state=[[1, 2], [3]]), "next_state: .*unequal length"),
        (dict(next_state=None), "next_state, transition: expected exactly one"),
        (dict(transition=TRANSITION), "next_state, transition: expected exactly one"),
        (dict(reward=changed(REWARD, (1, 1), np.nan)), r"reward\[1, 1\]: expected a finite number, got nan"),
        (dict(reward=changed(REWARD, (3, 0), -np.inf)), r"reward\[3, 0\]: expected a finite number, got -inf"),
        (dict(reward=REWARD.T), r"reward: expected shape \(4, 2\), got \(2, 4\)"),
        (dict(reward=REWARD.astype(str)), "reward: expected numbers, got <U"),
        (dict(reward=None), r"reward: expected an array of shape \(4, 2\), got none"),
        (dict(terminal=[0, 0, 0, 2]), r"terminal\[3\]: expected an integer in \[0, 1\], got 2"),
        (dict(terminal=[0.0, np.nan, 0.0, 1.0]), "terminal: expected integers, got float64"),
        (dict(terminal=[False]), r"terminal: expected shape \(4,\), got \(1,\)"),
        (dict(symbols=[0, 1, -1, 2]), r"symbols\[2\]: expected an integer in \[0, 2147483647\], got -1"),
        (dict(symbols=[0, 1, 2**31, 2]), r"symbols\[2\]: .*got 2147483648"),
        (dict(symbols=[0.0, 1.0, 2.0, 3.0]), "symbols: expected integers"),
        (dict(start=4), r"start: expected an integer in \[0, 3\], got 4"),
        (dict(start=-1), r"start: .*got -1"),
        (dict(start=1.0), "start: expected integers, got float64"),
        (dict(start=True), "start: expected integers, got bool"),
        (dict(start=[0]), r"start: expected shape \(\), got \(1,\)"),
        (dict(max_steps=0), r"max_steps: .*got 0"),
        (dict(max_steps=2.5), "max_steps: expected integers, got float64"),
    ],
)  # fmt: skip
def test_bad_tables_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        TabularMDP(**TABLES | changes)


@pytest.mark.parametrize(
    ("transition", "message"),
    [
        (changed(TRANSITION, (1, 0, 2), -0.25), r"transition\[1, 0, 2\]: expected a probability, got -0.25"),
        (changed(TRANSITION, (1, 0, 2), np.nan), r"transition\[1, 0, 2\]: expected a probability, got nan"),
        (changed(TRANSITION, (3, 1, 0), 0.5), r"transition\[3, 1\]: expected a row that sums to 1.*got 1.25"),
        (changed(TRANSITION, (3, 1, 0), np.inf), r"transition\[3, 1\]: expected a row that sums to 1"),
        (np.ones((S, A, S + 1)), r"transition: expected float\[S, A, S\], got shape \(4, 2, 5\)"),
        (np.ones((S, A)), r"transition: expected float\[S, A, S\], got shape \(4, 2\)"),
        (TRANSITION.astype(str), "transition: expected numbers"),
    ],
)  # fmt: skip
def test_bad_transitions_are_named(transition, message):
    with pytest.raises(ValueError, match=message):
        TabularMDP(**STOCHASTIC | dict(transition=transition))
