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


def drives_off(weight, seen):
    """Logits of an agent that has none where its state is 2 or later."""
    del weight
    return jnp.where(seen >= 2, jnp.nan, jnp.zeros(2))


@pytest.mark.parametrize(
    ("method", "said"), [("search", "after a prefix of an edit"), ("exact", "action 0 in state 2")]
)
def test_an_agent_that_fails_on_the_way_is_named(method, said):
    """Its paths were once left out in silence, and what was left was proved."""
    task = chain(pprjax.reached).replace(policy=pprjax.ObservationPolicy(drives_off))
    with pytest.raises(ValueError, match=rf"policy\.step.*got NaN.*{said}"):
        pprjax.recourse(task, Paths.from_lists([[0, 1]]), method=method)


def test_a_function_on_the_host_gives_a_row_for_each_observation():
    turned = pprjax.on_host(lambda seen: np.zeros((2, len(seen))), 2)
    with pytest.raises(Exception, match=r"on_host: expected float\[3, 2\], got shape \(2, 3\)"):
        jax.vmap(lambda seen: turned((), seen))(jnp.zeros((3, 4)))


def test_a_ragged_agent_has_the_rows_of_its_world():
    def ragged(first, values):
        return pprjax.Ragged.of(np.array(first), np.array(values))

    world = TabularMDP(ragged([0, 2, 3, 3], [1, 2, 2]), ragged([0, 2, 3, 3], [0.0, 0.0, 1.0]), [False, False, True])
    task = Task(world, pprjax.TablePolicy(ragged([0, 1, 3, 3], np.float32([1.0, 0.5, 0.5]))))
    with pytest.raises(ValueError, match=r"policy\.probs: expected a pprjax\.Ragged whose rows are .* row 0"):
        pprjax.recourse(task, Paths.from_lists([[0, 1, 2]]))


@pytest.mark.parametrize("function", [lambda s, r: s == 3, lambda s, r: r, lambda s, r: jnp.zeros(2, bool)])
def test_a_goal_that_is_no_condition_is_named(function):
    task = chain(pprjax.goals.Condition(function))
    with pytest.raises(ValueError, match=r"goal: expected a function of \(state, R_goal\) that gives a bool\[\], got"):
        pprjax.recourse(task, Paths.from_lists([[0, 1]]))


def test_a_goal_that_nothing_meets_by_mistake_is_named():
    with pytest.raises(ValueError, match="x: expected a number, got nan"):
        pprjax.goals.at_least(float("nan"))
    with pytest.raises(ValueError, match="states: expected each number once, or a mask"):
        pprjax.goals.ends_in(np.array([0, 0, 0, 1]))
