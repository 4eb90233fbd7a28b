"""Environments that say nothing of themselves, stock ones too: what Task is told counts as if they said it."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brute_force import HORIZON, A, Mdp, edit, every_path
from gymnax.environments.misc.rooms import FourRooms
from ring_road import CONFIG, NEXT_STATE, ORIGINALS, ring

import pprjax
from pprjax import declare
from pprjax.checks import check_agent, check_task
from pprjax.ruled import with_rules
from pprjax.task import Task

KEY = jax.random.key(0)
PATHS = pprjax.Paths.from_lists(ORIGINALS)


class Silent:
    """The ring road, without a word about itself."""

    def __init__(self):
        self.own = ring().env
        self.num_actions, self.default_params = self.own.num_actions, self.own.default_params
        self.reset_env, self.step_env, self.observe = self.own.reset_env, self.own.step_env, self.own.observe


def symbol(state, params):
    return params.symbols[state.id]


def state_id(state, params):
    return state.id


def available(state, params):
    return params.next_state[state.id] >= 0


def reached_goal(state, params):
    return params.terminal[state.id] & (state.time > 2)


class Talking(Silent):
    """The same, and what it is."""

    num_states, deterministic = len(NEXT_STATE), True
    symbol, state_id = staticmethod(symbol), staticmethod(state_id)
    available, reached_goal = staticmethod(available), staticmethod(reached_goal)


SAID = dict(
    symbol=symbol,
    state_id=state_id,
    num_states=len(NEXT_STATE),
    available=available,
    reached_goal=reached_goal,
    deterministic=True,
)
POLICY = ring().policy


def assert_same(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


SLOWLY = [pytest.param(method, marks=pytest.mark.slow) for method in ("search", "learn")]


@pytest.mark.parametrize("method", ["exact", *SLOWLY])
def test_what_is_told_counts_as_what_a_world_says(method):
    both = Task(Talking(), POLICY, pprjax.reached), Task(Silent(), POLICY, pprjax.reached, **SAID)
    found = [pprjax.recourse(task, PATHS, CONFIG, key=KEY, method=method) for task in both]
    assert_same(*found)
    assert (found[0].status == "reached_goal").all()


def test_each_thing_that_is_told_counts():
    """Against the world's own word."""
    told = Task(ring().env, POLICY, pprjax.reached)
    state = told.reset(KEY)
    assert told.replace(symbol=lambda state, params: state.id + 9).symbol(state) == 9
    assert told.replace(state_id=lambda state, params: state.id + 2).state_id(state) == 2
    assert not told.replace(available=lambda state, params: jnp.zeros(4, bool)).available(state).any()
    reached = told.replace(reached_goal=lambda state, params: state.id == 0)
    assert reached.outcome(state, jnp.bool_(False), jnp.float32(0)).reached
    assert reached.replace(symbol=lambda state, params: state.id + 9).outcome(state, False, jnp.float32(0)).reached
    silent = Task(Silent(), POLICY, **SAID)
    assert (silent.num_states, silent.deterministic) == (7, True)
    assert not silent.replace(deterministic=False).deterministic
    assert silent.replace(deterministic=False).replace(deterministic=True).env == silent.env


def test_what_an_environment_says_of_its_own_symbols_and_numbers_is_not_asked_of_others():
    own = Talking()
    own.next_symbols = own.promise = lambda state, params: jnp.arange(4)
    other = Task(own, POLICY, symbol=symbol).env
    assert (hasattr(other, "next_symbols"), hasattr(other, "promise")) == (False, True)
    rows = ring().env
    assert all(hasattr(rows, name) for name in ("state_from_id", "transition_probs"))
    told = Task(rows, POLICY, symbol=symbol).env
    assert all(hasattr(told, name) for name in ("state_from_id", "transition_probs"))
    numbered = Task(rows, POLICY, state_id=state_id).env
    assert not any(hasattr(numbered, name) for name in ("state_from_id", "transition_probs"))


def test_a_path_may_start_in_any_state_of_the_environment():
    moved = Task(ring().env, POLICY, pprjax.reached, start=ring().env.state_from_id(3, None))
    other = ring().params.replace(start=jnp.int32(3))
    originals = pprjax.Paths.from_lists([[3, 1, 2, 3], [3, 4, 0, 1]])
    for rules in ([], [declare.absence(4)]):
        limits = pprjax.Constraints(rules=rules)
        tasks = moved.replace(constraints=limits), moved.replace(constraints=limits, params=other, start=None)
        assert_same(*(pprjax.exact(task, originals, CONFIG) for task in tasks))


def walks(env, start, horizon):
    """(cells, actions, whether it ended in the goal) of every path in FourRooms without failing steps."""
    free, goal = np.asarray(env.env_map), tuple(np.asarray(env.goal_fixed).tolist())
    for actions in itertools.product(range(4), repeat=horizon):
        cells = [start]
        for a in actions:
            step = tuple(np.add(cells[-1], np.asarray(env.directions)[a]).tolist())
            cells.append(step if free[step] else cells[-1])
            if cells[-1] == goal:
                break
        yield cells, actions[: len(cells) - 1], cells[-1] == goal


def likes_south(weights, observation):
    """Logits: south before all, and east the more, the further west it is."""
    return jnp.array([0.0, 0.3 * (9 - observation[1]), weights, 0.1])


@pytest.mark.parametrize("method", ["exact", SLOWLY[0]])
def test_stock_four_rooms_equals_every_path(method):
    env, start, horizon = FourRooms(), (7, 9), 5
    task = Task(
        env,
        pprjax.ObservationPolicy(likes_south, 1.0, temperature=0.5),
        pprjax.reached,
        env.default_params.replace(fail_prob=0.0),
        horizon,
        start=env.reset_env(KEY, env.default_params)[1].replace(pos=jnp.array(start)),
        symbol=lambda state, params: state.pos[0] * 13 + state.pos[1],
        state_id=lambda state, params: state.pos[0] * 13 + state.pos[1],
        num_states=13 * 13,
        deterministic=True,
    )
    originals = [[(7, 9), (7, 10), (7, 11), (8, 11)], [(7, 9), (7, 10), (8, 10), (8, 10), (9, 10), (9, 9)]]
    found = pprjax.recourse(
        task,
        pprjax.Paths.from_lists([[13 * y + x for y, x in path] for path in originals]),
        pprjax.Config(lambda_path=20.0, lambda_policy=0.5),
        method=method,
    )
    for i, original in enumerate(originals):
        best = -np.inf
        for cells, actions, reached in walks(env, start, horizon):
            logits = [np.array([0.0, 0.3 * (9 - x), 1.0, 0.1]) / 0.5 for _, x in cells]
            habit = sum(row[a] - row.max() for row, a in zip(logits, actions, strict=False))
            if reached:
                best = max(best, 1 + 0.5 * habit + 20 / (1 + edit(original, cells, {})))
        np.testing.assert_allclose(found.reward[i], best, rtol=1e-5)
        np.testing.assert_allclose(found.gap[i], 0, atol=1e-5)


@pytest.mark.parametrize("method", ["exact", pytest.param("search", marks=pytest.mark.slow)])
def test_actions_as_symbols_equal_every_path(method):
    for seed in (2, 8):  # regrets are charged
        mdp = Mdp(seed)
        own = mdp.task(pprjax.reached)
        task = own.replace(env=pprjax.actions_as_symbols(own.env))
        walked = [(states, actions) for states, actions in every_path(mdp, {})]
        originals = [[A, *actions] for _, actions in (walked[0], walked[-1])]
        found = pprjax.recourse(
            task, pprjax.Paths.from_lists(originals), pprjax.Config(lambda_path=3.0, lambda_policy=0.5), method=method
        )
        for i, original in enumerate(originals):
            best = -np.inf
            for states, actions in walked:
                if mdp.terminal[states[-1]]:
                    earned = sum(
                        mdp.reward[s, a] + 0.5 * mdp.habits[s, a] for s, a in zip(states, actions, strict=False)
                    )
                    best = max(best, earned + 3 / (1 + edit(original, [A, *actions], {})))
            if np.isfinite(best):
                np.testing.assert_allclose(found.reward[i], best, rtol=1e-5)
            else:
                assert found.status[i] == "infeasible"
        assert len(walked) <= A**HORIZON


def test_of_actions_agents_goals_and_functions_read_the_environment():
    own = Task(Talking(), POLICY)
    task = Task(
        pprjax.actions_as_symbols(Talking()),
        POLICY_OF_STATES,
        lambda state, r_goal: state.id == 1,
        reached_goal=reached_goal,
    )
    for one in (task, with_rules(task.replace(constraints=pprjax.Constraints(rules=[declare.absence(2)])))):
        state = one.reset(KEY)
        assert one.symbol(state) == one.num_actions
        np.testing.assert_array_equal(one.log_probs((), state)[1], own.policy.step((), 0)[1])
        after = one.step(KEY, state, jnp.int32(0))[0]
        assert (one.symbol(after), own.symbol(own.step(KEY, own.reset(KEY), jnp.int32(0))[0])) == (0, 1)
        np.testing.assert_array_equal(one.log_probs((), after)[1], own.policy.step((), 1)[1])
        assert one.goal(one.outcome(after, jnp.bool_(False), jnp.float32(0)))


def row_of(weights, observation):
    return weights[observation]


POLICY_OF_STATES = pprjax.ObservationPolicy(row_of, jnp.log(POLICY.probs))


def test_a_function_of_the_observation_acts_as_its_table():
    q = jnp.array(np.random.default_rng(0).normal(size=NEXT_STATE.shape), jnp.float32)
    table = ring().replace(policy=pprjax.TablePolicy(pprjax.softmax(q, temperature=0.5)))
    table = table.replace(constraints=pprjax.Constraints(rules=[declare.absence(4)]))  # its states know more
    network = table.replace(policy=pprjax.ObservationPolicy(row_of, q, 0.5))
    answers = [pprjax.exact(task, PATHS, CONFIG) for task in (table, network)]
    np.testing.assert_allclose(answers[0].reward, answers[1].reward, rtol=1e-5)
    assert answers[0].paths.to_lists() == answers[1].paths.to_lists()


def test_a_function_on_the_host_is_asked_with_a_batch():
    sizes = []

    def on_numpy(observations):
        sizes.append(observations.shape)
        return observations @ np.arange(6.0).reshape(2, 3)

    asked = pprjax.ObservationPolicy(pprjax.on_host(on_numpy, 3))
    seen = np.random.default_rng(0).normal(size=(4, 5, 2)).astype(np.float32)
    one = lambda observation: asked.step((), observation)[1]  # noqa: E731
    got = jax.jit(jax.vmap(jax.vmap(one)))(seen)
    np.testing.assert_allclose(got, jax.nn.log_softmax(seen @ np.arange(6.0).reshape(2, 3)), rtol=1e-5)
    np.testing.assert_allclose(one(seen[1, 2]), got[1, 2], rtol=1e-5)
    assert sizes == [(20, 2), (1, 2)]


class OfGymnasium:
    """As an environment of Gymnasium, which need not be there."""

    __module__ = "gymnasium.envs.classic_control.cartpole"

    def reset(self, seed): ...

    def step(self, action): ...


class Older:
    """As an environment of gymnax below 1.0."""

    def reset_env(self, key, params): ...

    def step_env(self, key, state, action, params): ...

    def get_obs(self, state): ...


@pytest.mark.parametrize(
    ("env", "said", "error", "message"),
    [
        (
            FourRooms(),
            {},
            TypeError,
            "^symbol: expected a function .* FourRooms has no `symbol` of its own; or pprjax",
        ),
        (FourRooms(), {"symbol": 3}, TypeError, r"^symbol: expected a function of \(state, params\), got int$"),
        (Silent(), {"symbol": symbol, "state_id": state_id}, ValueError, "^num_states: .* Silent has none$"),
        (
            pprjax.actions_as_symbols(Silent()),
            SAID,
            TypeError,
            "^symbol: expected none beside pprjax.actions_as_symbols",
        ),
        (Silent(), SAID | {"num_states": 0}, ValueError, "^num_states: .* at least 1, got 0$"),
        (Silent(), SAID | {"deterministic": 1}, TypeError, "^deterministic: expected True or False, got 1$"),
        (Silent(), SAID | {"symbols": symbol}, TypeError, "^Task: got 'symbols', which is none of its arguments$"),
        (
            OfGymnasium(),
            SAID,
            TypeError,
            "^env: expected a gymnax Environment, got OfGymnasium of Gymnasium",
        ),
        (Older(), SAID, TypeError, "^env: expected .* version 1.0 or later, got Older, which has no `observe"),
    ],
)
def test_what_does_not_fit_is_named(env, said, error, message):
    with pytest.raises(error, match=message):
        Task(env, POLICY, **said)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            {"symbol": lambda state, params: state.id * jnp.nan},
            r"^symbol: expected int\[\] or float\[k\], got float32\[\]$",
        ),
        (
            {"symbol": lambda state, params: jnp.array([state.id, 2])},
            r"^symbol: expected int\[\] or float\[k\], got int32\[2\]$",
        ),
        ({"symbol": lambda state, params: state.id - 2}, r"^symbol: .* got -2 in the first state$"),
        ({"state_id": lambda state, params: state.id / 2}, r"^state_id: expected int\[\], got float32\[\]$"),
        ({"available": lambda state, params: jnp.ones(3, bool)}, r"^available: expected bool\[4\], got bool\[3\]$"),
        ({"reached_goal": lambda state, params: state.id}, r"^reached_goal: expected bool\[\], got int32\[\]$"),
        ({"start": 3}, "^start: expected a state of the environment, got int$"),
    ],
)
def test_what_is_said_in_another_shape_is_named(said, message):
    check_task(Task(Silent(), POLICY, **SAID), PATHS)
    with pytest.raises(ValueError, match=message):
        check_task(Task(Silent(), POLICY, **SAID | said), PATHS)


def test_a_network_of_another_width_is_named():
    with pytest.raises(ValueError, match=r"expected 4 log-probabilities, one an action, got shape \(3,\)"):
        check_agent(Task(Silent(), pprjax.ObservationPolicy(row_of, jnp.zeros((7, 3))), **SAID))
