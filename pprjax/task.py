"""Task: an environment, the agent that acts in it, and the goal of a recourse."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, Unpack, cast, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, Num

from pprjax.constraints import Constraints
from pprjax.errors import UserError
from pprjax.goals import Condition, Goal, Outcome
from pprjax.policy import Carry, ObservationPolicy, Policy, TablePolicy, ragged_of
from pprjax.ragged import Ragged, row_of
from pprjax.reward import Habit, link, regret
from pprjax.ruled import RuledWorld, own_state, own_world, without_rules
from pprjax.successors import most_successors, successors, tells_chances
from pprjax.worlds import Said, begin_in, env_itself, env_name, env_state, rows_of, told

State = Any

SMALL_WORLD = 4096
"""States up to which a table of them is made for each rollout."""


@runtime_checkable
class World(Protocol):
    """What a world adds to its gymnax Environment: unbatched and pure. Only `symbol` must be there.

    An environment that lacks any of it is told it as an argument of `Task`.
    """

    def symbol(self, state: State, params: Any) -> Num[Array, "*k"]:
        """What the edit distance compares: an integer in [0, 2³¹ - 1]; or, where states are continuous, float[k], a
        vector of finite numbers, with `Config(distance="real", scale=…)`."""
        ...

    # def available(self, state, params) -> bool[A]: the actions there are; default all.
    # def state_id(self, state, params) -> int32[] in [0, num_states): finite worlds only, with
    # num_states: int. It gives tables, exact counts and certificates. Time is no part of it.
    # def reached_goal(self, state, params) -> bool[]: default natural termination.
    # Of a search: def next_symbols(self, state, params) -> int32[A]: the symbols that the actions lead to.
    # def promise(self, state, params) -> float[]: how good a prefix looks; next_promise(self, state, params) ->
    # float[A]: how good it may look after each action.
    # def goal_bound(self, params) -> float[]: the most R_goal that may still come; or, by the state,
    # def goal_to_go(self, state, params) -> float[]. And of vectors def steps_to_go(self, state, params) -> int32[]:
    # the fewest steps that a path still takes which meets the goal.
    # def class_probs(self, state, params) -> float[C]: what a classifier thinks of the path, for `goals.class_is`.
    # def end_action(self, state, params) -> int32[]: the action that ends a path, PAD where none does.
    # def action_set_size(self, params) -> int32[]: A of Eq. 4, where only some of the agent's actions are offered.
    # def encoder(self, width) -> a Flax module that reads an observation for the Q-network, see `learn.networks`.
    # deterministic: bool, True where the world never rolls dice: it may then be certified, and searched.
    # def successors(self, params) -> pprjax.Successors, where chance leads, or transition_probs(self, params) ->
    # float[S, A, S]; and state_from_id(self, id, params) -> state: stochastic finite worlds, for constraints, and for
    # baselines that plan in them.


@dataclasses.dataclass(frozen=True, init=False)
class Task:
    """An environment, P_A, and what a recourse must satisfy. A pytree: env and horizon are static.

    What the environment does not say of itself, as a `World` does, is said here; what is said here counts. The field
    `env` is then the environment with what was said of it.

    Args:
        env: a gymnax Environment, of version 1.0 or later. Build it once, and each function below: every new instance
            compiles anew, unless it compares equal to another.
        policy: P_A.
        goal: a condition that every recourse should meet, from `pprjax.goals` or any function of (final state, R_goal);
            None is Eq. 5 as printed.
        params: the environment's parameters; default its own.
        horizon: the largest number of actions of a path; default the environment's time limit. A largest length among
            the constraints shortens it.
        constraints: what every recourse must keep to; default nothing.
        start: the environment's state in which every path starts, for example one that its `reset` gave; default what
            `reset_env` gives.
        symbol: (state, params) -> int32[] in [0, 2³¹ - 1] or float[k], what the edit distance compares. See also
            `actions_as_symbols`.
        available: (state, params) -> bool[A], the actions there are; default all.
        reached_goal: (state, params) -> bool[], what `pprjax.reached` asks; default natural termination.
        state_id: (state, params) -> int32[] in [0, num_states), of finite worlds: two states that may ever act
            differently have two numbers. Time does not count.
        num_states: S.
        goal_to_go: (state, params) -> float[], the most R_goal that may still come after this state: with it, a search
            can prove.
        steps_to_go: (state, params) -> int32[], the fewest steps that a path still takes which meets the goal. Where
            symbols are vectors it tightens the bound: what is too long for the original has to be added.
        deterministic: True where the same action in the same state always leads to the same place.

    Raises:
        TypeError: env is no gymnax Environment of version 1.0 or later, or nothing says its `symbol`; policy lacks
            `init` or `step`; constraints is not a `pprjax.Constraints`; or what is said is no function.
        ValueError: horizon is below 1, a forbidden action is none of the world's, or a policy table does not fit the
            world, is NaN or negative, or has a row that does not sum to 1.
    """

    env: Any
    policy: Policy
    goal: Goal | Callable[[State, Array], Array] | None = None
    params: Any = None
    horizon: int = None  # pyright: ignore[reportAssignmentType]  # known once the parameters are
    constraints: Constraints | None = None
    start: State | None = None

    def __init__(
        self,
        env: Any,
        policy: Any,
        goal: Any = None,
        params: Any = None,
        horizon: int | None = None,
        constraints: Constraints | None = None,
        start: Any = None,
        **said: Unpack[Said],
    ):
        given = dict(env=told(env, said), policy=policy, goal=goal, params=params, horizon=horizon)
        for name, value in dict(given, constraints=constraints, start=start).items():
            object.__setattr__(self, name, value)
        if not isinstance(self.policy, Policy):
            wrap = "; pprjax.TablePolicy makes one of a table" if hasattr(self.policy, "shape") else ""
            raise TypeError(
                f"policy: expected an object with the methods init and step, got {type(self.policy).__name__}{wrap}"
            )
        if self.params is None:
            object.__setattr__(self, "params", self.env.default_params)
        if self.horizon is None:
            object.__setattr__(self, "horizon", int(cast(Any, self.params).max_steps_in_episode))
        if self.horizon < 1:
            raise UserError(f"horizon: a path needs room for at least 1 action, got {self.horizon}")
        if self.goal is not None and not hasattr(self.goal, "uses_reward"):
            if not callable(self.goal):
                raise TypeError(f"goal: expected a condition or a function, got {type(self.goal).__name__}")
            object.__setattr__(self, "goal", Condition(cast(Callable, self.goal)))
        self._take_constraints()
        if isinstance(self.policy, TablePolicy):
            object.__setattr__(self, "policy", TablePolicy(rows_of(self.env, self.policy.probs)))
            _check_table(self.policy.probs, self.num_states, self.num_actions)

    def _take_constraints(self) -> None:
        constraints = self.constraints
        if constraints is None:
            return
        if not isinstance(constraints, Constraints):
            raise TypeError(f"constraints: expected pprjax.Constraints, got {type(constraints).__name__}")
        if constraints.min_reliability is not None and self.goal is None:
            raise UserError("constraints.min_reliability: expected a goal, which runs may meet or miss; got none")
        if constraints.max_length is not None:
            object.__setattr__(self, "horizon", min(self.horizon, constraints.max_length - 1))
        elif not jax.tree.leaves(constraints) and not constraints.rules:
            object.__setattr__(self, "constraints", None)
        actions = constraints.forbidden_actions
        if isinstance(actions, np.ndarray) and actions.max() >= self.num_actions:
            raise UserError(
                f"constraints.forbidden_actions: expected actions in [0, {self.num_actions}), got {actions.max()}"
            )

    def __repr__(self) -> str:
        goal = None if self.goal is None else type(self.goal).__name__
        return f"Task({env_name(self.env)}, {type(self.policy).__name__}, goal={goal}, horizon={self.horizon})"

    def replace(self, **changes) -> Task:
        """This task with some fields changed."""
        return dataclasses.replace(self, **changes)

    @property
    def num_actions(self) -> int:
        """A, the size of the whole action set, available or not."""
        return self.env.num_actions

    @property
    def num_states(self) -> int | None:
        """S of a finite world, None of any other."""
        return self.env.num_states if hasattr(self.env, "state_id") else None

    @property
    def deterministic(self) -> bool:
        """Whether the same action in the same state always leads to the same place.

        A world with `successors` or `transition_probs` is judged by them; any other is taken at its word, its attribute
        `deterministic`. One that says nothing may roll dice. For concrete parameters, outside of transformations.
        """
        most = most_successors(self.env, self.params) if tells_chances(self.env) else None
        if most is None:
            return bool(getattr(self.env, "deterministic", False))
        return int(most) <= 1

    def reset(self, key: jax.Array) -> State:
        """The state in which every path starts."""
        if self.start is not None:
            return begin_in(self.env, self.start, self.params)
        return self.env.reset_env(key, self.params)[1]

    def step(
        self, key: jax.Array, state: State, action: Int[Array, ""]
    ) -> tuple[State, Float[Array, ""], Bool[Array, ""]]:
        """The next state, the environment's reward, and whether the path ended naturally."""
        _, state, reward, terminated, _ = self.env.step_env(key, state, action, self.params)
        return state, jnp.asarray(reward, jnp.result_type(float)), jnp.asarray(terminated, bool)

    def symbol(self, state: State) -> Num[Array, "*k"]:
        """What the edit distance compares: int32[], or float32[k]."""
        symbol = jnp.asarray(self.env.symbol(state, self.params))
        return symbol.astype(jnp.float32 if jnp.issubdtype(symbol.dtype, jnp.floating) else jnp.int32)

    @property
    def symbol_type(self) -> jax.ShapeDtypeStruct:
        """Shape and type of a symbol: () and int32, or (k,) and float32."""
        return jax.eval_shape(lambda: self.symbol(self.reset(jax.random.key(0))))

    def next_symbols(self, state: State) -> Num[Array, "A ..."]:
        """The symbols that the actions lead to in a world without chance: it tells them, or each takes a step."""
        if hasattr(self.env, "next_symbols"):
            return self.env.next_symbols(state, self.params)
        step = partial(self.step, jax.random.key(0), state)
        return jax.vmap(lambda action: self.symbol(step(action)[0]))(jnp.arange(self.num_actions))

    def symbol_table(self) -> Num[Array, "S ..."] | None:
        """The symbols of all states of a finite world that is small and can name its states; None of any other."""
        states = self.all_states()
        return None if states is None else jax.vmap(self.symbol)(states)

    def all_states(self) -> State | None:
        """All states of a finite world that is small and can name them, with a leading axis of S; None of any other."""
        if not hasattr(self.env, "state_from_id") or self.env.num_states > SMALL_WORLD:
            return None
        return jax.vmap(lambda i: self.env.state_from_id(i, self.params))(jnp.arange(self.env.num_states))

    def state_id(self, state: State) -> Int[Array, ""]:
        """The number of a state of a finite world, in [0, num_states)."""
        return jnp.asarray(self.env.state_id(state, self.params), jnp.int32)

    def available(self, state: State) -> Bool[Array, " A"]:
        """Which of the A actions there are, and break no constraint but `max_regret`; see `affordable`."""
        available = jnp.ones(self.num_actions, bool)
        if hasattr(self.env, "available"):
            available = self.env.available(state, self.params)
        return available if self.constraints is None else available & self._allowed(state, self.constraints)

    def _allowed(self, state: State, constraints: Constraints) -> Bool[Array, " A"]:
        """Which of the A actions break nothing at once. One step of the world an action, where symbols decide and the
        world does not tell its `next_symbols`."""
        actions = jnp.arange(self.num_actions)
        allowed = jnp.ones(self.num_actions, bool)
        if constraints.forbidden_actions is not None:
            allowed = ~jnp.isin(actions, constraints.forbidden_actions)
        ruled = isinstance(self.env, RuledWorld)
        if constraints.forbidden_states is None and constraints.forbidden_transitions is None and not ruled:
            return allowed
        here, own = self.symbol(state), without_rules(self)

        def astray(after: Int[Array, "*b"]) -> Bool[Array, "*b"]:
            breaks = constraints.forbids(after) | constraints.forbids_move(here, after)
            return breaks | self.env.astray(state, after) if ruled else breaks

        chances = successors(own.env, self.params)
        if chances is None:
            return allowed & ~astray(own.next_symbols(own_state(state)))
        if chances.by_step:  # what a step may lead to is another each time: paths are judged at the end
            return allowed
        states = jax.vmap(lambda i: own.env.state_from_id(i, self.params))(jnp.arange(own.env.num_states))
        leads, probs, bounds = chances.of_state(own.state_id(own_state(state)))
        return allowed & ~chances.any_of(astray(jax.vmap(own.symbol)(states)[leads]) & (probs > 0), bounds)

    def affordable(self, state: State, log_probs: Float[Array, " A"]) -> Bool[Array, " A"]:
        """Which of the A actions cost no more than the constraints' `max_regret`, given log P_A(state, ·)."""
        if self.constraints is None or self.constraints.max_regret is None:
            return jnp.ones(self.num_actions, bool)
        return self.constraints.affords(self.habits(state, log_probs, "regret"))

    def available_table(self) -> Bool[Array, "S A"] | None:
        """`available` of all states, where constraints make it costly and a table is possible; else None, as for a
        ragged P_A."""
        costly = self.constraints is not None and ragged_of(self.policy) is None
        states = self.all_states() if costly else None
        return None if states is None else jax.vmap(self.available)(states)

    def observation(self, state: State) -> Array:
        """What a Q-network sees: the state's id in a finite world, else the flat float observation."""
        if self.num_states is not None:
            return self.state_id(state)
        observed = self.env.observe(jax.random.key(0), state, None, self.params)
        return jnp.ravel(observed).astype(jnp.result_type(float))

    def log_probs(self, carry: Carry, state: State) -> tuple[Carry, Float[Array, " A"]]:
        """The agent's carry after `state`, and log P_A over all actions."""
        if isinstance(self.policy, TablePolicy):
            return self.policy.step(carry, self.state_id(state))
        state, env = own_state(state), own_world(self.env)
        if isinstance(self.policy, ObservationPolicy):
            return self.policy.step(carry, env.observe(jax.random.key(0), state, None, self.params))
        return self.policy.step(carry, env_state(state))

    def probs(self, state: State, log_probs: Float[Array, " A"]) -> Float[Array, " A"]:
        """P_A(state, ·), given its logarithms."""
        if isinstance(self.policy, TablePolicy):
            return row_of(self.policy.probs, self.state_id(state), 0.0)
        return jnp.exp(log_probs)

    @property
    def action_set_size(self) -> int | Int[Array, ""]:
        """A of Eq. 4: the world's own `action_set_size`, else all A actions."""
        return self.env.action_set_size(self.params) if hasattr(self.env, "action_set_size") else self.num_actions

    def habits(self, state: State, log_probs: Float[Array, " A"], habit: Habit) -> Float[Array, " A"]:
        """What each action adds to R_policy, given log P_A(state, ·): its regret, or its link (Eq. 4).

        `pprjax.reward.spared` says what is left of it where the original took that step.

        A regret is measured against the favourite of all that the world offers in this state. Constraints forbid
        actions; they do not change habits.
        """
        if habit == "link":
            return link(self.probs(state, log_probs), self.action_set_size)
        return regret(log_probs, self.env.available(state, self.params) if hasattr(self.env, "available") else None)

    def habit_table(self, habit: Habit) -> Float[Array, "S A"] | None:
        """`habits` of all states where P_A is a dense table, so that a scan need not compute them; else None."""
        if not isinstance(self.policy, TablePolicy) or ragged_of(self.policy) is not None:
            return None
        if habit == "link":
            return link(self.policy.probs, self.action_set_size)
        if not hasattr(self.env, "available"):
            return regret(jnp.log(self.policy.probs))
        states = self.all_states()
        if states is None:
            return None
        available = jax.vmap(lambda state: self.env.available(state, self.params))(states)
        return regret(jnp.log(self.policy.probs), available)

    def charge(
        self,
        state: State,
        action: Int[Array, ""],
        log_probs: Float[Array, " A"],
        habit: Habit,
        table: Float[Array, "S A"] | None,
    ) -> Float[Array, ""]:
        """What one action adds to R_policy; `table` is the `habit_table`, where there is one."""
        if table is None:
            return self.habits(state, log_probs, habit)[action]
        return table.ravel()[self.state_id(state) * self.num_actions + action]

    def outcome(
        self,
        state: State,
        terminated: Bool[Array, ""],
        r_goal: Float[Array, ""],
        magnitude: Float[Array, ""] | None = None,
    ) -> Outcome:
        """How a path ended that stopped in `state` with R_goal = Σ r_t, and magnitude = Σ|r_t|."""
        own = hasattr(self.env, "reached_goal")
        reached = jnp.asarray(self.env.reached_goal(state, self.params), bool) if own else terminated
        env, inside = env_itself(own_world(self.env)), env_state(own_state(state))
        told = {
            name: getattr(env, name)(inside, self.params) if hasattr(env, name) else None
            for name in ("state_id", "class_probs")
        }
        return Outcome(state=inside, reached=reached, r_goal=r_goal, magnitude=magnitude, **told)


jax.tree_util.register_dataclass(
    Task, data_fields=["policy", "goal", "params", "constraints", "start"], meta_fields=["env", "horizon"]
)


def _check_table(probs: Any, num_states: int | None, num_actions: int) -> None:
    if num_states is None:
        raise UserError("policy: a TablePolicy needs a finite world, one with `state_id` and `num_states`")
    ragged = isinstance(probs, Ragged)
    numbers = probs.values if ragged else probs
    if isinstance(numbers, Tracer) or not isinstance(numbers, np.ndarray | jax.Array):
        return  # a leaf of a pytree in transit
    if probs.shape != (num_states, num_actions):
        raise UserError(f"policy.probs: expected shape {(num_states, num_actions)}, got {probs.shape}")
    table = np.asarray(probs.entries if ragged else probs)
    bad = np.argwhere(~(table >= 0))
    if bad.size:
        place = probs.place(int(bad[0, 0])) if ragged else bad[0].tolist()
        raise UserError(f"policy.probs{place}: expected a probability, got {table[tuple(bad[0])]}")
    sums = probs.sums(empty=1.0) if ragged else table.sum(1)  # in an empty row there is nothing to do
    off = np.flatnonzero(np.abs(sums - 1) > 1e-3)
    if off.size:
        s, total = off[0], sums[off[0]]
        said = f"policy.probs[{s}]: expected a row that sums to 1, got {total:.6g}"
        if total == 0:
            more = f", and in {len(off) - 1} more" if len(off) > 1 else ""
            said += (
                f": nothing is said of what the agent does in state {s}{more}; give such a row what it would do, or "
                f"1/{num_actions} everywhere if it never has to act there, as where a path ends"
            )
        raise UserError(said)
