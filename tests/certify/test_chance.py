"""Chance is never certified: a world is judged by its probabilities, or by its word."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from gymnax.environments import environment
from pprjax_envs import GridWorld

from pprjax import TabularMDP
from pprjax.certify.frontier import exact_frontier
from pprjax.certify.optimum import exact
from pprjax.config import Config
from pprjax.goals import reached
from pprjax.paths import Paths
from pprjax.policy import TablePolicy
from pprjax.solve import frontier, recourse
from pprjax.task import Task

CONFIG = Config(lambda_path=10.0, lambda_policy=0.1)
REWARD = [[0.0, 5.0], [0.0, 0.0], [0.0, 0.0]]


def slippery(q):
    """Action 0 leads from the start to state 1, or with chance q to state 2."""
    transition = np.zeros((3, 2, 3))
    transition[0, 0], transition[0, 1] = [0, 1 - q, q], [0, 0, 1]
    transition[1:, :, 0] = 1  # after the ends there is nothing, whatever is said of them
    env = TabularMDP(reward=REWARD, terminal=[False, True, True], start=0, max_steps=3, transition=transition)
    return Task(env, TablePolicy(np.full((3, 2), 0.5, np.float32)), goal=reached)


@pytest.mark.parametrize("q", [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5])
@pytest.mark.parametrize("certify", [exact, exact_frontier])
def test_a_slip_however_rare_is_refused(q, certify):
    task = slippery(q)
    assert not task.deterministic
    with pytest.raises(ValueError, match=r"task.env: .* chance decides where action 0 in state 0 leads"):
        certify(task, Paths.from_lists([[0, 2]]), CONFIG)


@pytest.mark.parametrize("door", [recourse, frontier])
def test_a_world_of_chance_is_not_searched(door):
    with pytest.raises(ValueError, match='method: "search" needs a deterministic world'):
        door(slippery(0.1), Paths.from_lists([[0, 2]]), CONFIG, method="search")


def test_probabilities_of_0_and_1_are_no_chance():
    sure = slippery(0.0)
    assert sure.deterministic
    env = TabularMDP([[1, 2], [-1, -1], [-1, -1]], REWARD, [False, True, True], 0, 3)
    other = sure.replace(env=env, params=env.default_params)
    originals = Paths.from_lists([[0, 2], [0, 1]])
    np.testing.assert_array_equal(exact(sure, originals, CONFIG).reward, exact(other, originals, CONFIG).reward)


def test_chances_that_parameters_bring_in_count():
    """The world itself is sure, and only its parameters are not."""
    task = slippery(0.0)
    chances = np.array(task.env.transition_probs(task.params))
    chances[0, 0] = [0, 0.9, 0.1]
    params = task.env.with_chances(task.params, jnp.asarray(np.stack([chances] * 3), jnp.float32))
    with pytest.raises(ValueError, match="chance decides where action 0 in state 0 leads"):
        exact(task.replace(params=params), Paths.from_lists([[0, 2]]), CONFIG)


@struct.dataclass
class State(environment.EnvState):
    room: jax.Array


class Corridor(environment.Environment):
    """Rooms 0, 1 and 2 in a row; going on slips with chance `slip`."""

    num_states, num_actions = 3, 2

    def __init__(self, slip=0.0, **says):
        self.slip = slip
        for name, value in says.items():
            setattr(self, name, value)

    @property
    def default_params(self):
        return environment.EnvParams(max_steps_in_episode=4)

    def reset_env(self, key, params):
        return jnp.int32(0), State(time=0, room=jnp.int32(0))

    def step_env(self, key, state, action, params):
        slips = jax.random.uniform(key) < self.slip
        after = State(time=state.time + 1, room=jnp.clip(state.room + jnp.where((action == 1) & ~slips, 1, -1), 0, 2))
        return after.room, after, jnp.float32(0), after.room == 2, {}

    def action_space(self, params=None):
        raise NotImplementedError

    def symbol(self, state, params):
        return state.room

    def state_id(self, state, params):
        return state.room


def certify(env):
    return exact(Task(env, TablePolicy(np.full((3, 2), 0.5, np.float32))), Paths.from_lists([[0, 1, 2]]), CONFIG)


def test_a_world_that_says_nothing_is_told_what_to_add():
    with pytest.raises(ValueError, match=r"deterministic=True\)` .* Corridor says nothing"):
        certify(Corridor())
    with pytest.raises(ValueError, match="deterministic=True"):
        certify(Corridor(deterministic=False))


def test_a_world_is_taken_at_its_word():
    assert certify(Corridor(deterministic=True)).status.tolist() == ["unchanged"]


def test_draws_refute_a_word_that_is_not_kept():
    with pytest.raises(ValueError, match="action 1 in state 0 comes out differently from time to time"):
        certify(Corridor(slip=0.5, deterministic=True))


def test_a_map_is_deterministic():
    env = GridWorld()
    assert Task(env, TablePolicy(np.full((env.num_states, env.num_actions), 0.25, np.float32))).deterministic


@struct.dataclass
class Lift(environment.EnvState):
    floor: jax.Array
    has_key: jax.Array


class Building(environment.Environment):
    """Three floors with a key on the first; the door on the third opens with it. Down, up."""

    num_actions, deterministic = 2, True

    def __init__(self, tells_key):
        self.tells_key, self.num_states = tells_key, 6

    @property
    def default_params(self):
        return environment.EnvParams(max_steps_in_episode=8)

    def reset_env(self, key, params):
        return jnp.int32(1), Lift(time=0, floor=jnp.int32(1), has_key=jnp.bool_(False))

    def step_env(self, key, state, action, params):
        floor = jnp.clip(state.floor + 2 * action - 1, 0, 2)
        has_key = state.has_key | (floor == 0)
        after = Lift(time=state.time + 1, floor=floor, has_key=has_key)
        return floor, after, jnp.float32(floor == 2), (floor == 2) & has_key, {}

    def symbol(self, state, params):
        return state.floor

    def state_id(self, state, params):
        return state.floor + 3 * state.has_key * self.tells_key


@pytest.mark.parametrize("certify", [exact, exact_frontier])
def test_a_number_that_forgets_a_part_of_the_state_is_refused(certify):
    policy, originals = TablePolicy(np.full((6, 2), 0.5, np.float32)), Paths.from_lists([[1, 2]])
    found = certify(Task(Building(True), policy, goal=reached), originals, CONFIG)
    assert found.status[0] == "reached_goal"
    with pytest.raises(ValueError, match=r"state_id: expected another number .*, got two of id 1; in them action 1"):
        certify(Task(Building(False), policy, goal=reached), originals, CONFIG)
