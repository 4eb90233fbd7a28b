"""Task, P_A and goals: what does not fit is named, and a task goes through jit with its tables traced."""

import itertools
import types

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from flax import struct

import pprjax
from pprjax import TabularMDP
from pprjax.checks import check_agent, check_step
from pprjax.goals import AtLeast, Condition, Goal, Outcome, at_least, class_is, ends_in, improved, reached
from pprjax.policy import Policy, TablePolicy, softmax
from pprjax.task import Task, World

KEY = jax.random.key(0)
NEXT_STATE = np.array([[1, 2], [2, -1], [0, 0]])
REWARD = np.array([[1.0, -1.0], [5.0, 0.0], [0.0, 0.0]])
TERMINAL = np.array([False, False, True])
PROBS = np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]], np.float32)
WRONG = (ValueError, jaxtyping.TypeCheckError)  # the latter where shapes are checked at run time


def mdp(next_state=NEXT_STATE, **changes):
    given = {"reward": REWARD, "terminal": TERMINAL, "start": 0, "max_steps": 7} | changes
    return TabularMDP(next_state, given["reward"], given["terminal"], given["start"], given["max_steps"])


def table(probs=PROBS):
    return TablePolicy(jnp.asarray(probs, jnp.float32))


@struct.dataclass
class Count:
    """A policy with a memory: it counts its steps, and prefers action 0 the more of them there were."""

    slope: float = 1.0

    def init(self):
        return jnp.int32(0)

    def step(self, carry, state):
        return carry + 1, jax.nn.log_softmax(jnp.array([self.slope * carry, 0.0, 0.0]))


class Plain:
    """A line of integers, without end: only what every world must say."""

    num_actions = 3
    default_params = types.SimpleNamespace(max_steps_in_episode=5)

    def reset_env(self, key, params):
        return jnp.zeros(2), jnp.int32(0)

    def step_env(self, key, state, action, params):
        after = state + action
        return jnp.zeros(2), after, 1, after >= 3, {}

    def observe(self, key, state, action, params):
        return jnp.array([[state, 2 * state], [1, 0]])

    def symbol(self, state, params):
        return state + 10


def test_horizon_and_parameters_come_from_the_world():
    task = Task(mdp(), table())
    assert task.horizon == 7
    assert task.params.max_steps_in_episode == 7
    assert (task.num_states, task.num_actions) == (3, 2)
    assert Task(mdp(), table(), horizon=3).horizon == 3
    assert task.replace(horizon=1, goal=reached).horizon == 1
    assert task.replace(goal=reached).goal is reached


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"env": object()}, TypeError, r"^env: expected a gymnax Environment, got object, which has no `reset_env`$"),
        (
            {"policy": PROBS},
            TypeError,
            r"^policy: .* methods init and step, got ndarray; pprjax.TablePolicy makes one of",
        ),
        ({"goal": "flag"}, TypeError, r"^goal: expected a condition or a function, got str$"),
        ({"horizon": 0}, ValueError, r"^horizon: .* at least 1 action, got 0$"),
        ({"horizon": -2}, ValueError, r"^horizon: .* at least 1 action, got -2$"),
    ],
)
def test_what_does_not_fit_is_named(changes, error, message):
    with pytest.raises(error, match=message):
        Task(**({"env": mdp(), "policy": table()} | changes))


@pytest.mark.parametrize(
    ("rows", "row", "message"),
    [
        (1, [np.nan, 1.0], r"^policy\.probs\[1, 0\]: expected a probability, got nan$"),
        (2, [1.5, -0.5], r"^policy\.probs\[2, 1\]: expected a probability, got -0\.5$"),
        (2, [0.5, 0.4], r"^policy\.probs\[2\]: expected a row that sums to 1, got 0\.9$"),
        (
            0,
            [0.0, 0.0],
            r"^policy\.probs\[0\]: .* sums to 1, got 0: nothing is said of .* state 0; give such a row .* 1/2",
        ),
        (0, [1.0, np.inf], r"^policy\.probs\[0\]: expected a row that sums to 1, got inf$"),
    ],
)
def test_a_row_that_is_no_distribution_is_named(rows, row, message):
    probs = PROBS.copy()
    probs[rows] = row
    for policy in (table(probs), TablePolicy(probs)):
        with pytest.raises(ValueError, match=message):
            Task(mdp(), policy)


@pytest.mark.parametrize("probs", [PROBS[:2], PROBS.T, PROBS[0], PROBS[None]])
def test_a_table_of_another_shape_is_an_error(probs):
    with pytest.raises(ValueError, match=r"^policy\.probs: expected shape \(3, 2\), got \("):
        Task(mdp(), table(probs))


def test_rounding_is_no_mistake():
    thirds = np.full((3, 2), 0.5, np.float32) + np.float32([2e-4, -1e-4])
    assert Task(mdp(), TablePolicy(thirds)).policy.probs is thirds


def test_a_table_needs_numbered_states():
    with pytest.raises(ValueError, match=r"^policy: a TablePolicy needs a finite world"):
        Task(Plain(), table())


def test_a_task_goes_through_jit_and_back():
    task = Task(mdp(), table(), goal=at_least(2.0))
    same = jax.jit(lambda task: task)(task)
    assert isinstance(same, Task)
    assert (same.horizon, same.goal.x) == (7, 2.0)
    assert same.env == task.env
    np.testing.assert_array_equal(same.policy.probs, PROBS)


def test_tables_parameters_and_thresholds_are_traced():
    traces = []

    @jax.jit
    def program(task):
        traces.append(task.horizon)
        state, reward, terminated = task.step(KEY, task.reset(KEY), jnp.int32(0))
        return task.log_probs((), state)[1], reward, task.goal(task.outcome(state, terminated, reward))

    first = Task(mdp(), table(), goal=at_least(2.0))
    even = np.full((3, 2), 0.5)
    log_probs, reward, met = program(first)
    np.testing.assert_allclose(np.exp(log_probs), PROBS[1])
    assert (reward, met) == (1.0, False)
    log_probs, _, met = program(first.replace(policy=table(even), goal=at_least(0.5)))
    np.testing.assert_allclose(np.exp(log_probs), even[1])
    assert met
    assert program(Task(mdp(reward=REWARD + 2), table(), goal=at_least(2.0)))[1] == 3.0
    assert traces == [7]  # one program for all three
    program(first.replace(horizon=4))
    assert traces == [7, 4]


def test_many_agents_in_one_call():
    env, tables = mdp(), np.stack([PROBS, np.full((3, 2), 0.5, np.float32)])

    def at_start(probs):
        task = Task(env, TablePolicy(probs))
        return task.log_probs((), task.reset(KEY))[1]

    np.testing.assert_allclose(np.exp(jax.vmap(at_start)(tables)), tables[:, 0])


def test_a_world_that_says_nothing():
    """All actions are available, a natural end is the goal, and an agent with a memory sees the state itself."""
    task = Task(Plain(), Count())
    assert isinstance(task.env, World)
    assert (task.num_states, task.num_actions, task.horizon) == (None, 3, 5)
    state = task.reset(KEY)
    assert task.symbol(state) == 10
    assert task.symbol(state).dtype == jnp.int32
    np.testing.assert_array_equal(task.available(state), [True] * 3)
    after, reward, terminated = task.step(KEY, state, 2)
    assert (after, reward, terminated) == (2, 1.0, False)
    assert (reward.dtype, terminated.dtype) == (jnp.result_type(float), bool)
    np.testing.assert_array_equal(task.observation(after), [2.0, 4.0, 1.0, 0.0])
    assert task.observation(after).dtype == jnp.result_type(float)
    for terminated in (jnp.bool_(False), jnp.bool_(True)):
        assert task.outcome(after, terminated, reward).reached == terminated

    carry, log_probs = task.log_probs(task.policy.init(), state)
    carry, later = task.log_probs(carry, after)
    assert carry == 2
    np.testing.assert_allclose(jnp.exp(log_probs), [1 / 3] * 3, rtol=1e-6)
    assert later[0] > later[1]


def test_a_world_that_says_more_is_asked():
    class Says(Plain):
        num_states = 9

        def available(self, state, params):
            return jnp.array([True, False, state > 1])

        def reached_goal(self, state, params):
            return state == 2

        def state_id(self, state, params):
            return state

    task = Task(Says(), Count())
    assert task.num_states == 9
    np.testing.assert_array_equal(task.available(jnp.int32(0)), [True, False, False])
    assert task.observation(jnp.int32(4)) == 4
    assert task.outcome(jnp.int32(2), jnp.bool_(False), jnp.float32(0)).reached
    assert not task.outcome(jnp.int32(3), jnp.bool_(True), jnp.float32(0)).reached


def test_a_table_is_looked_up_by_the_state_s_number():
    task = Task(mdp(), table())
    state = task.step(KEY, task.reset(KEY), jnp.int32(0))[0]
    carry, log_probs = task.log_probs(task.policy.init(), state)
    assert carry == ()
    np.testing.assert_array_equal(log_probs, [0.0, -np.inf])
    np.testing.assert_array_equal(task.available(state), [True, False])
    assert isinstance(task.policy, Policy)


def outcome(reached=True, r_goal=0.0, **told):
    return Outcome(state=0, reached=jnp.bool_(reached), r_goal=jnp.float32(r_goal), **told)


def test_reached():
    assert reached(outcome(True, -9.0))
    assert not reached(outcome(False, 9.0))
    assert reached.of(jnp.float32(3)) is reached


@pytest.mark.parametrize(("reward", "met"), [(1.9, False), (2.0, True), (2.5, True)])
def test_at_least(reward, met):
    for is_reached in (True, False):
        assert at_least(2)(outcome(is_reached, reward)) == met
    assert isinstance(at_least(2).of(jnp.float32(99)), AtLeast)
    assert at_least(2).of(jnp.float32(99)).x == 2


@pytest.mark.parametrize(("reward", "is_reached", "met"), [(3.0, True, False), (3.5, True, True), (3.5, False, False)])
def test_improved_is_relative_to_the_original(reward, is_reached, met):
    assert improved.of(jnp.float32(3.0))(outcome(is_reached, reward)) == met
    assert improved.of(jnp.float32(-jnp.inf))(outcome(is_reached, reward)) == is_reached


@pytest.mark.parametrize(("probs", "met"), [([0.4, 0.6], True), ([0.5, 0.5], False), ([0.6, 0.4], False)])
def test_class_is(probs, met):
    assert class_is(1)(outcome(class_probs=jnp.array(probs))) == met
    with pytest.raises(ValueError, match=r"goal: class_is needs a world that has `class_probs\(state, params\)`"):
        class_is(1)(outcome())


def test_a_function_is_a_goal():
    task = Task(mdp(), table(), goal=lambda state, r_goal: (state.id == 2) & (r_goal > 3))
    assert isinstance(task.goal, Condition)
    assert task.goal.uses_reward
    state = task.step(KEY, task.reset(KEY), jnp.int32(1))[0]
    assert task.goal(task.outcome(state, jnp.bool_(True), jnp.float32(4)))
    assert not task.goal(task.outcome(state, jnp.bool_(True), jnp.float32(3)))
    assert not task.goal(task.outcome(task.reset(KEY), jnp.bool_(True), jnp.float32(4)))
    assert task.goal.of(jnp.float32(0)) == task.goal
    assert Task(mdp(), table(), goal=task.goal).goal is task.goal


def test_goals_say_whether_they_read_the_reward():
    """A certificate counts paths apart by what they earned only where it must."""
    assert [goal.uses_reward for goal in (reached, class_is(0), at_least(1), improved)] == [False, False, True, True]
    assert all(isinstance(goal, Goal) for goal in (reached, improved, at_least(1), class_is(0)))


def test_softmax_by_hand():
    values = jnp.array([[0.0, jnp.log(3.0)], [5.0, 5.0]])
    np.testing.assert_allclose(softmax(values), [[0.25, 0.75], [0.5, 0.5]], rtol=1e-6)
    np.testing.assert_allclose(softmax(values, temperature=0.5)[0], [0.1, 0.9], rtol=1e-6)
    available = jnp.array([[True, False], [True, True]])
    np.testing.assert_array_equal(softmax(values, available=available), [[1.0, 0.0], [0.5, 0.5]])
    assert Task(mdp(next_state=np.array([[1, -1], [2, 0], [0, 0]])), TablePolicy(softmax(jnp.zeros((3, 2)))))
    with pytest.raises(WRONG):
        softmax(values, available=jnp.ones((3, 5), bool))


class Growing(Plain):
    """A step that makes another kind of state."""

    def __init__(self, after):
        self.after = after

    def step_env(self, key, state, action, params):
        return jnp.zeros(2), self.after(state), 1, jnp.bool_(False), {}


@pytest.mark.parametrize(
    ("after", "message"),
    [
        (lambda state: state + 0.5, r"keep the type of state, int32\[\], got float32\[\]"),
        (lambda state: jnp.stack([state, state]), r"keep the type of state, int32\[\], got int32\[2\]"),
        (lambda state: {"x": state}, "a state with the fields of the one it is given"),
    ],
)
def test_a_step_that_changes_the_type_of_a_state_is_named(after, message):
    check_step(Task(Plain(), Count()))
    with pytest.raises(ValueError, match=message):
        check_step(Task(Growing(after), Count()))


class Unregistered:
    """No pytree."""

    def init(self):
        return ()

    def step(self, carry, state):
        return carry, jnp.log(jnp.full(3, 1 / 3))


@struct.dataclass
class Says:
    """Always the same."""

    log_probs: jax.Array

    def init(self):
        return ()

    def step(self, carry, state):
        return carry, self.log_probs


@pytest.mark.parametrize(
    ("policy", "error", "message"),
    [
        (Unregistered(), TypeError, "expected a pytree, got Unregistered; make it a flax.struct.dataclass"),
        (Says(jnp.full(3, 1 / 3)), ValueError, r"sum of 4.187 in the first state; jax.nn.log_softmax makes them"),
        (Says(jnp.full(3, jnp.nan)), ValueError, "got NaN in the first state"),
        (Says(jnp.zeros(2)), ValueError, r"expected 3 log-probabilities, one an action, got shape \(2,\)"),
    ],
)
def test_an_agent_that_gives_no_log_probabilities_is_named(policy, error, message):
    options = dict(params={}, horizon=5)
    check_agent(Task(Plain(), Says(jnp.log(jnp.array([0.5, 0.3, 0.0]))), **options))  # not all need be offered
    with pytest.raises(error, match=message):
        check_agent(Task(Plain(), policy, **options))


def test_a_goal_names_states_by_number_or_by_mask():
    """A list of numbers was taken for a mask once, and answered another question in silence."""
    for number in range(3):
        valid = outcome(state_id=jnp.int32(number))
        for mask in itertools.product([False, True], repeat=3):
            named = np.flatnonzero(mask).tolist()
            assert ends_in(np.array(mask))(valid) == mask[number]
            assert not named or ends_in(named)(valid) == mask[number]
    for wrong, said in (
        ([], "states: expected the numbers"),
        ([0.5], "states: expected the numbers"),
        ([-1], "at least 0"),
    ):
        with pytest.raises(ValueError, match=said):
            ends_in(wrong)
    with pytest.raises(ValueError, match=r"goal: ends_in needs a world that has `state_id\(state, params\)`"):
        ends_in([1])(outcome())


def test_a_goal_on_states_asks_the_environment_whatever_is_wrapped_around_it():
    """With actions as symbols and under rules the world has other numbers; the goal's are the environment's own."""
    env = pprjax.TabularMDP([[1, 2], [0, 0], [-1, -1]], np.zeros((3, 2)), [False, False, True], 0, 3)
    policy, goal = TablePolicy(np.full((3, 2), 0.5, np.float32)), ends_in([2])
    rules = pprjax.Constraints(rules=[pprjax.declare.absence(7)])
    for world, path in ((env, [0, 1, 0]), (pprjax.actions_as_symbols(env), [2, 0, 0])):
        originals = pprjax.Paths.from_lists([path])
        found = pprjax.exact(Task(world, policy, goal=goal, constraints=rules), originals, pprjax.Config())
        assert found.status.tolist() == ["reached_goal"] and found.paths.actions_to_lists() == [[0, 0, 1]]


@pytest.mark.parametrize("temperature", [0, -1.0, float("nan"), float("inf")])
def test_a_temperature_that_is_none_is_refused(temperature):
    """A negative one would turn all preferences round."""
    with pytest.raises(ValueError, match=f"temperature: expected a finite number above 0, got {temperature}"):
        softmax(jnp.zeros((2, 3)), temperature=temperature)
    with pytest.raises(ValueError, match="temperature: expected a finite number above 0"):
        pprjax.ObservationPolicy(lambda weights, observation: observation, temperature=temperature)
    traced = jax.jit(lambda t: pprjax.ObservationPolicy(lambda w, x: x, temperature=t).step((), jnp.arange(2.0))[1])
    np.testing.assert_allclose(traced(2.0), jax.nn.log_softmax(jnp.arange(2.0) / 2), rtol=1e-6)
