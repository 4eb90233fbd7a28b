"""Nodes of a search: prefixes of paths, what they earned, and what the edits so far leave possible.

A node is a prefix. A child is a node and one more action. m, the smallest entry of the prefix's Levenshtein column, is
a bound: no path that goes on from here ends with fewer edits. With regret nothing is earned by going on but R_goal, so
where the world bounds the R_goal that is still to come,

    v(τ) = R_goal(τ) + λ_policy·R_policy(τ) ≤ R_goal so far + goal_bound + λ_policy·R_policy so far

for every path τ that goes on from here. With h(p) of Eq. 4 there is such a bound only before the last step.

Where symbols are vectors, m and d are no whole numbers, and e is their whole part: a bin of paths, e ≤ d < e + 1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int, Num

from pprjax import edit_distance, ladder
from pprjax.constraints import violations
from pprjax.edit_distance import RealCosts
from pprjax.ladder import Ladder, tolerated
from pprjax.objective import Objective
from pprjax.paths import PAD, fill_of
from pprjax.reward import closeness, spared
from pprjax.rollout import Original
from pprjax.search.to_come import provable
from pprjax.task import Task

STRANGE = PAD - 1
"""A symbol that no path has, and no padding either."""


def knows_next(task: Task) -> bool:
    """Whether the world tells the symbols that may follow before a step is taken."""
    return hasattr(task.env, "next_symbols")


def guides(task: Task) -> bool:
    """Whether the world has an opinion of prefixes."""
    return hasattr(task.env, "promise")


def guesses(task: Task) -> bool:
    """Whether it has an opinion of what may follow before a step is taken."""
    return hasattr(task.env, "next_promise")


def tells_end(task: Task) -> bool:
    """Whether the world tells which action ends a path."""
    return hasattr(task.env, "end_action")


@struct.dataclass
class Search:
    """What is searched: the paths of a deterministic world as edits of one original. Unbatched."""

    task: Task
    original: Original
    objective: Objective
    most: jax.Array | None = None  # float[S], `most_to_come` where the world is `tabulated`

    def to_come(self, state: Any) -> Float[Array, ""]:
        """The most that may still be added to v after this state; infinite where nothing says so."""
        known = provable(self.task, self.objective)
        return self.goal_to_come(state) if known else jnp.full((), jnp.inf, jnp.result_type(float))

    def goal_to_come(self, state: Any) -> Float[Array, ""]:
        """The same where the next step, whose habit is charged, ends the path: R_goal alone, from the world; infinite
        where it does not say."""
        env, params = self.task.env, self.task.params
        if self.most is not None:
            return self.most[self.task.state_id(state)]
        if hasattr(env, "goal_to_go"):
            return jnp.asarray(env.goal_to_go(state, params), jnp.result_type(float))
        most = env.goal_bound(params) if hasattr(env, "goal_bound") else jnp.inf
        return jnp.asarray(most, jnp.result_type(float))

    @property
    def bounded(self) -> bool:
        """Whether something says so of every state."""
        env = self.task.env
        if not provable(self.task, self.objective):
            return False
        return (
            self.most is not None or hasattr(env, "goal_to_go") or bool(np.isfinite(env.goal_bound(self.task.params)))
        )

    def steps_to_come(self, state: Any) -> Int[Array, ""]:
        """The fewest steps that a path still takes which meets the goal, from the world; 0 where it does not say."""
        env, params = self.task.env, self.task.params
        return jnp.asarray(env.steps_to_go(state, params) if hasattr(env, "steps_to_go") else 0, jnp.int32)

    @property
    def real(self) -> bool:
        """Whether symbols are vectors."""
        return isinstance(self.objective.costs, RealCosts)

    def longer(self, column: Any, symbol: Num[Array, "*k"]) -> Any:
        """The Levenshtein column after one more symbol."""
        costs = self.objective.costs
        return edit_distance.append(column, edit_distance.matches(self.original.symbols, symbol, costs), costs)

    def smallest(self, column: Any, steps: Any = 0) -> Num[Array, ""]:
        """m, the smallest entry of a column; of vectors with what is still to be added by so many steps at least."""
        original = self.original
        if self.real:  # of the i symbols that are read, length - i are left
            read = jnp.arange(len(column))
            column = column + jnp.maximum(0, steps - (original.length - read))
        smallest, _ = edit_distance.alignment(column, original.symbols, original.length, self.objective.costs)
        return smallest if self.real else jnp.rint(smallest).astype(jnp.int32)

    def smallest_after(self, column: Any, symbols: Num[Array, "A ..."]) -> Num[Array, " A"]:
        """m after each of these symbols. All that τ₀ lacks are as good as one another, so they are counted once."""
        own = self.original.symbols
        size = len(own)
        if self.real or len(symbols) <= size + 1:
            return jax.vmap(lambda symbol: self.smallest(self.longer(column, symbol)))(symbols)
        here = symbols[:, None] == own
        place = jnp.where(here.any(1), jnp.argmax(here, axis=1), size)
        kinds = jnp.append(own, STRANGE)
        return jax.vmap(lambda symbol: self.smallest(self.longer(column, symbol)))(kinds)[place]

    def habits(self, state: Any, log_probs: Float[Array, " A"]) -> Float[Array, " A"]:
        """What each action adds to R_policy, given log P_A of all: nothing where it is free as a step of τ₀."""
        task, own_steps = self.task, self.objective.own_steps
        habits = task.habits(state, log_probs, self.objective.habit)
        if own_steps == "charged":
            return habits
        return spared(habits, self.original.symbols, task.symbol(state), task.next_symbols(state), own_steps)

    def value(self, goal: Array, r_policy: Array) -> Array:
        """v = R_goal + λ_policy·R_policy."""
        return self.objective.value(goal, r_policy)

    def matters(self, value: Any, bound: Any, smallest: Any) -> Any:
        """Which prefixes, by their bound on v and their m, may lead to a path that is `needed`: bool[*b].

        Args:
            value: float[E] or float[E, 2n], of the ladder as far as it is known; all in JAX, or all in NumPy.
            bound, smallest: [*b].
        """
        least = tolerated(self.needed(value))
        rung = rung_of(smallest)
        return (rung < len(least)) & (self.at_rung(bound, smallest) > least[rung.clip(max=len(least) - 1)])

    def at_rung(self, value: Any, distance: Any) -> Any:
        """What v is worth at distance e that is worth this much at d, or that bounds what is: v + λ_path / (d + 1) -
        λ_path / (e + 1). v itself where d = e, and where no λ_path is given.
        """
        weight = self.objective.lambda_path
        if not self.real or weight is None:
            return value
        return value + closeness(distance, weight) - closeness(rung_of(distance), weight)

    def needed(self, value: Any) -> Any:
        """What v a path of at least e edits must exceed to be `needed`: float[E]."""
        return (needed if value.ndim == 1 else needed_beside)(value, self.objective.lambda_path)

    def promise(self, nodes: Nodes) -> Float[Array, " N"]:
        """The world's opinion of each prefix, where it has one: it guides and never scores. 0 of what is no prefix."""
        if not guides(self.task):
            return jnp.zeros_like(nodes.goal)
        opinions = jax.vmap(lambda state: self.task.env.promise(state, self.task.params))(nodes.state)
        return jnp.where(nodes.alive, opinions, 0.0)

    def next_promise(self, nodes: Nodes) -> Float[Array, "N A"]:
        """Its guess of each child's promise before the step; the node's own, where it does not guess."""
        if not guesses(self.task):
            return jnp.broadcast_to(self.promise(nodes)[:, None], (len(nodes.alive), self.task.num_actions))
        opinions = jax.vmap(lambda state: self.task.env.next_promise(state, self.task.params))(nodes.state)
        return jnp.where(nodes.alive[:, None], opinions, 0.0)


@struct.dataclass
class Nodes:
    """N prefixes of t actions. T = horizon."""

    state: Any  # the world's, leaves of [N, ...]
    carry: Any  # P_A's, before it has seen the state
    column: Any  # Levenshtein column, leaves of [N, ...]
    smallest: jax.Array  # int32[N], m; float[N] where symbols are vectors
    goal: jax.Array  # float[N], R_goal so far
    most: jax.Array  # float[N], the most that it may become, by what the world says after each prefix
    due: jax.Array  # int32[N], the fewest actions that a path has which meets the goal, the same
    magnitude: jax.Array  # float[N], Σ|r_t| so far
    r_policy: jax.Array  # float[N], R_policy so far
    log_prob: jax.Array  # float[N], Σ log P_A so far
    symbols: jax.Array  # int32[N, T + 1], PAD after the end; or float32[N, T + 1, k], inf after it
    actions: jax.Array  # int32[N, T], PAD after the end
    alive: jax.Array  # bool[N], there is a node here, and it is no complete path
    complete: jax.Array  # bool[N], a path that ended here: by the world, at the horizon, or in a dead end
    terminated: jax.Array  # bool[N], by the world


@struct.dataclass
class Children:
    """The A actions of N nodes, before a step is taken."""

    carry: Any  # P_A's, after the node's state; leaves of [N, ...]
    available: jax.Array  # bool[N, A], of living nodes
    r_policy: jax.Array  # float[N, A], R_policy with this action
    log_prob: jax.Array  # float[N, A], Σ log P_A with this action
    smallest: jax.Array  # [N, A], m: of the child where its symbol is known, else of the node
    bound: jax.Array  # float[N, A], on v of all that goes on with this action


@struct.dataclass
class Edges:
    """M children, by their node and action."""

    parent: jax.Array  # int32[M]
    action: jax.Array  # int32[M]
    valid: jax.Array  # bool[M], it is one; else padding


def root(search: Search, room: int) -> Nodes:
    """The start, in an array with room for more nodes."""
    task = search.task
    state = task.reset(jax.random.key(0))
    symbol = task.symbol(state)
    column = search.longer(edit_distance.start(search.original.symbols, search.objective.costs), symbol)
    zero, no = jnp.zeros((), jnp.result_type(float)), jnp.bool_(False)
    node = Nodes(
        state=state,
        carry=task.policy.init(),
        column=column,
        smallest=search.smallest(column, search.steps_to_come(state)),
        goal=zero,
        most=search.goal_to_come(state),
        due=search.steps_to_come(state),
        magnitude=zero,
        r_policy=zero,
        log_prob=zero,
        symbols=jnp.full((task.horizon + 1, *symbol.shape), fill_of(symbol), symbol.dtype).at[0].set(symbol),
        actions=jnp.full(task.horizon, PAD, jnp.int32),
        alive=jnp.bool_(True) if task.constraints is None else ~task.constraints.forbids(symbol).any(),
        complete=no,
        terminated=no,
    )
    nodes = jax.tree.map(lambda x: jnp.repeat(jnp.asarray(x)[None], room, axis=0), node)
    return replace(nodes, alive=nodes.alive & (jnp.arange(room) == 0))


def expand(search: Search, nodes: Nodes, *, last: bool = False) -> Children:
    """What may follow each node; `last`: with every action a path is complete. P_A is asked once a node."""
    task, to_come = search.task, search.goal_to_come if last else search.to_come

    def one(node: Nodes):
        carry, log_probs = task.log_probs(node.carry, node.state)
        r_policy = node.r_policy + search.habits(node.state, log_probs)
        smallest = jnp.full(task.num_actions, node.smallest)
        if knows_next(search.task):
            smallest = search.smallest_after(node.column, task.env.next_symbols(node.state, task.params))
        return Children(
            carry=carry,
            available=task.available(node.state) & task.affordable(node.state, log_probs) & node.alive,
            r_policy=r_policy,
            log_prob=node.log_prob + log_probs,
            smallest=smallest,
            bound=search.value(node.goal + to_come(node.state), r_policy),
        )

    return jax.vmap(one)(nodes)


def step(search: Search, nodes: Nodes, children: Children, edges: Edges, t: Int[Array, ""] | int) -> Nodes:
    """The M children of these edges, after t + 1 actions each."""
    task = search.task

    def one(edge: Edges):
        node = jax.tree.map(lambda x: x[edge.parent], nodes)
        state, reward, terminated = task.step(jax.random.key(0), node.state, edge.action)
        symbol = task.symbol(state)
        column, goal, steps = search.longer(node.column, symbol), node.goal + reward, search.steps_to_come(state)
        complete = edge.valid & (terminated | (t + 1 >= task.horizon) | no_number(symbol))
        return Nodes(
            state=state,
            carry=jax.tree.map(lambda x: x[edge.parent], children.carry),
            column=column,
            smallest=search.smallest(column, steps),
            goal=goal,
            most=jnp.where(terminated, node.most, jnp.minimum(node.most, goal + search.goal_to_come(state))),
            due=jnp.where(terminated, node.due, jnp.maximum(node.due, t + 1 + steps)),
            magnitude=node.magnitude + jnp.abs(reward),
            r_policy=children.r_policy[edge.parent, edge.action],
            log_prob=children.log_prob[edge.parent, edge.action],
            symbols=node.symbols.at[t + 1].set(symbol),
            actions=node.actions.at[t].set(edge.action),
            alive=edge.valid & ~complete,
            complete=complete,
            terminated=terminated,
        )

    return jax.vmap(one)(edges)


def ended(search: Search, nodes: Nodes, children: Children, t: Int[Array, ""] | int) -> tuple[Nodes, Children]:
    """The nodes ended by the world's `end_action`, where it has one, and the children that are left to be ranked.

    An end is a path: it is taken from every node, however unlikely it is there.
    """
    size, num_actions = children.available.shape
    end = jax.vmap(lambda state: search.task.env.end_action(state, search.task.params))(nodes.state)
    is_end = jnp.arange(num_actions) == end[:, None]
    edges = Edges(parent=jnp.arange(size), action=jnp.maximum(end, 0), valid=(children.available & is_end).any(1))
    return step(search, nodes, children, edges, t), replace(children, available=children.available & ~is_end)


def dead_ends(nodes: Nodes, children: Children) -> Nodes:
    """The nodes, of which those that nothing follows are complete paths, and no others."""
    ends = nodes.alive & ~children.available.any(-1)
    no = jnp.zeros_like(ends)
    return replace(nodes, complete=ends, terminated=no)


def record(search: Search, best: Ladder, nodes: Nodes) -> Ladder:
    """The best paths after these nodes, of which those that are complete count.

    v is inf of a path that earned more than the world said may still come, or met the goal after fewer steps: what it
    says is not so. And of one whose last symbol is no number.
    """
    task, original = search.task, search.original

    def one(node: Nodes):
        distance = edit_distance.distance(node.column, original.length, search.objective.costs)
        outcome = task.outcome(node.state, node.terminated, node.goal, node.magnitude)
        met = jnp.bool_(True) if original.goal is None else original.goal(outcome)
        broken = violations(task.constraints, original.kept, node.symbols, node.actions, distance)
        counts = node.complete & met & (True if broken is None else broken == 0) & (distance < len(best.value))
        value = search.at_rung(search.value(node.goal, node.r_policy), distance)
        contradicts = node.complete & (node.goal > node.most + 1e-5 * (1.0 + node.magnitude))
        contradicts |= node.complete & met & (jnp.sum(node.actions != PAD) < node.due)
        unknown = node.complete & no_number(node.symbols)
        value = jnp.where(contradicts | unknown, jnp.inf, jnp.where(counts, value, -jnp.inf))
        return value, jnp.where(unknown, 0, distance), outcome.reached

    value, distance, reached = jax.vmap(one)(nodes)
    found = Ladder(
        value=value,
        goal=nodes.goal,
        r_policy=nodes.r_policy,
        log_prob=nodes.log_prob,
        reached=reached,
        terminated=nodes.terminated,
        symbols=nodes.symbols,
        actions=nodes.actions,
        distance=distance if search.real else None,
    )
    whole = distance if search.real else jnp.rint(distance)
    return ladder.extend(best, found, rung_of(whole), search.objective.apart)


def rung_of(distance: Any) -> Any:
    """e of these distances: their whole part. int32[*b]"""
    return distance.astype(np.int32)


def no_number(symbols: Num[Array, "*b"]) -> Bool[Array, ""]:
    """Whether a vector is NaN."""
    return jnp.isnan(symbols).any() if jnp.issubdtype(symbols.dtype, jnp.floating) else jnp.bool_(False)


def needed(value: Any, lambda_path: Any = None) -> Any:
    """What v a path of at least e edits must exceed to matter, e = 0 … E - 1, where F(e) = value is known. [..., E]

    To the frontier that is the best v of at most e edits. At one λ_path it is max_k (F(k) + λ_path / (k + 1)) -
    λ_path / (e + 1), which is no less: no path of e edits or more can then have a larger R than the best.
    """
    xp: Any = jnp if isinstance(value, jax.Array) else np
    if lambda_path is None:
        return xp.maximum.accumulate(value, axis=-1)
    close = closeness(xp.arange(value.shape[-1]), lambda_path)
    return xp.max(value + close, axis=-1, keepdims=True) - close


def needed_beside(value: Any, lambda_path: Any = None) -> Any:
    """The same where the n best matter and not only the best: float[E] of value float[E, 2n], of each e the best first.

    To the frontier that is, of the n-th best of every number of edits from e on, the least. At one λ_path it is the
    n-th largest R less λ_path / (e + 1).
    """
    xp: Any = jnp if isinstance(value, jax.Array) else np
    num_distances, places = value.shape
    last = places // 2 - 1
    if lambda_path is None:
        return xp.min(xp.where(xp.tri(num_distances, dtype=bool).T, value[:, last], xp.inf), axis=1)
    close = closeness(xp.arange(num_distances), lambda_path)
    return xp.sort((value + close[:, None]).ravel())[-1 - last] - close
