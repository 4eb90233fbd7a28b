"""What a world does not have is named before a method starts: actions, states of a goal, a key."""

import re

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pprjax
from pprjax import Paths, Successors, TabularMDP, Task

KEY = jax.random.key(0)
CHAIN = np.array([[1, 2], [3, 3], [3, 3], [-1, -1]])


def chain(goal=pprjax.reached):
    """Two ways through a world of four states and two actions."""
    env = TabularMDP(CHAIN, np.ones((4, 2)), np.arange(4) == 3, 0, 4)
    return Task(env, pprjax.TablePolicy(np.full((4, 2), 0.5)), goal=goal)


def chances():
    """The same, but where an action leads is by chance."""
    transition = np.zeros((4, 2, 4))
    transition[0] = [[0, 0.5, 0.5, 0], [0, 0.2, 0.8, 0]]
    transition[1:3, :, 3] = 1
    env = TabularMDP(None, np.ones((4, 2)), np.arange(4) == 3, 0, 4, transition=transition)
    return Task(env, pprjax.TablePolicy(np.full((4, 2), 0.5)), goal=pprjax.reached)


@pytest.mark.parametrize("make", [chain, chances])
def test_an_action_that_the_world_lacks_is_named(make):
    said = r"originals.actions\[1\]\[0\]: expected an action in \[0, 1\], got 7"
    originals = Paths.from_lists([[0, 1, 3], [0, 1]], [[0, 1], [7]])
    with pytest.raises(ValueError, match=said):
        pprjax.recourse(make(), originals, key=KEY)
    with pytest.raises(ValueError, match=r"^paths.actions\[1\]\[0\]: expected"):
        pprjax.reliability(make(), originals, key=KEY)


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ([True, False, False], "goal: expected a mask bool[4], one for each state, got bool[3]"),
        ([4], "goal: expected numbers of states in [0, 3], got 4"),
    ],
)
def test_states_that_the_world_lacks_are_no_goal(states, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        pprjax.recourse(chain(pprjax.goals.ends_in(states)), Paths.from_lists([[0, 1]]))


def test_actions_that_are_no_numbers_are_refused():
    env, _ = gymnax.make("Pendulum-v1")
    policy = pprjax.ObservationPolicy(lambda weight, seen: weight * seen[:1], 1.0)
    for world in (env, pprjax.actions_as_symbols(env)):
        with pytest.raises(TypeError, match=r"a Discrete space, got Box\[1\] of Pendulum"):
            Task(world, policy, deterministic=True, horizon=4)


@pytest.mark.parametrize("key", [0, "a", jax.random.split(KEY)])
def test_what_is_no_key_is_named(key):
    with pytest.raises(ValueError, match=r"^key: expected one key"):
        pprjax.recourse(chain(), Paths.from_lists([[0, 1]]), method="learn", key=key)
    with pytest.raises(ValueError, match=r"^key: expected one key"):
        pprjax.reliability(chain(), Paths.from_lists([[0, 1]], [[0]]), key=key)


def test_a_search_says_where_chance_decides():
    with pytest.raises(ValueError, match="chance decides where action 0 in state 0 leads"):
        pprjax.recourse(chances(), Paths.from_lists([[0, 1]]), method="search")


@pytest.mark.parametrize("prob", [-0.5, np.nan])
def test_what_is_no_probability_is_named_in_a_list_of_steps(prob):
    with pytest.raises(ValueError, match=r"prob\[1\]: expected a probability, got"):
        Successors.from_steps([0, 0], [0, 0], [0, 1], [0.5, prob])


def test_one_share_for_all():
    with pytest.raises(ValueError, match="min_reliability: expected a share"):
        pprjax.Constraints(min_reliability=np.array([0.5, 0.6]))


def test_nothing_is_known_of_a_row_without_a_path_and_with_a_bound():
    """Where a proof ends early and no path was found, the gap is infinite, whatever may still be found."""
    found = pprjax.recourse(chain(lambda state, reward: jnp.bool_(False)), Paths.from_lists([[0, 1]]))
    assert found.status.tolist() == ["infeasible"] and found.gap.tolist() == [0.0]  # that is proved
    assert np.isinf(found.replace(bound=np.array([5.0])).gap).all()
