"""Hard constraints: what every recourse keeps to, whatever it would earn by breaking it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int, Num

from pprjax import declare
from pprjax.errors import UserError
from pprjax.paths import PAD, Paths

REGRET_TOLERANCE = 1e-5
"""What a step's regret may exceed `max_regret` by, of 1 + max_regret: log P_A is rounded."""


@struct.dataclass(kw_only=True)
class Constraints:
    """What every recourse keeps to; None, the default, or an empty list: nothing. A state is named by its symbol.

    Forbidden states, actions and transitions, and steps of too much regret, are actions that are not available, so that
    no path is ever sampled which breaks them; where they leave no action a path ends, as in any dead end. The largest
    length is a shorter horizon. The largest distance and the kept steps are judged at the end, as a goal is. In a
    stochastic world an action is forbidden if it might lead astray, where the world tells where chance leads and time
    does not change it; else such a path is judged at the end. Rules are judged at the end as well, and an action is
    forbidden after which they can't be kept any more.

    A pytree: all but rules and max_length is traced.

    Raises:
        ValueError: a field holds something else than integers of at least 0 (max_distance may be any number, for edits
            that cost other than 1), min_reliability is no share in (0, 0.99], max_length is below 2, no path at all
            keeps the rules, or their automaton has more than 1,000 states.
        TypeError: a rule is none of `pprjax.declare`.
    """

    forbidden_states: Any = None
    """int[n], symbols that no path visits. A symbol that the world does not have is allowed, and forbids nothing."""
    forbidden_actions: Any = None
    """int[n], actions that no path takes."""
    forbidden_transitions: Any = None
    """int[n, 2], pairs of symbols: no path goes from the first right to the second."""
    keep: Any = None
    """int[K], steps of every original that stay, counted from 0; or for each original a list of its own. They stay if
    the recourse visits their symbols in their order: then there is an alignment that edits none of them."""
    max_distance: Any = None
    """The largest edit distance from the original."""
    min_reliability: Any = None
    """The least share of fresh runs of a recourse's actions that must meet the goal where chance decides, in (0, 0.99].
    Method "learn" takes a path as an answer only if 400 fresh runs of it have that share, less two standard errors; and
    the 1,000 of `Recourse.reliability` that have less make it "infeasible". Without chance all answers have a share
    of 1."""
    max_regret: Any = None
    """The most that any single step may cost, in nats: with max_regret m no path takes an action that is less likely
    under P_A than e^-m times the agent's favourite there (see `pprjax.reward.regret`), whatever the habit is. It goes
    with own_steps "charged"."""
    max_length: int | None = struct.field(pytree_node=False, default=None)
    """The largest number of symbols of a path, the start included, at least 2."""
    rules: Sequence[declare.Rule] = struct.field(pytree_node=False, default=())
    """Rules of a process, from `pprjax.declare`, that the symbols of every path keep. Tasks of the same rules share
    their programs."""

    def __post_init__(self):
        for name, width in (("forbidden_states", None), ("forbidden_actions", None), ("forbidden_transitions", 2)):
            _convert(self, name, lambda value, name=name, width=width: _integers(name, value, width))
        _convert(self, "keep", _steps)
        for name in ("max_distance", "max_regret"):
            most = getattr(self, name)
            if isinstance(most, str | bool) or (isinstance(most, int | float) and not most >= 0):
                raise UserError(f"{name}: expected a number of at least 0, got {most!r}")
        length = self.max_length
        least = self.min_reliability
        if (
            isinstance(least, str | bool)
            or np.ndim(least)
            or (isinstance(least, int | float) and not 0 < least <= 0.99)
        ):
            raise UserError(f"min_reliability: expected a share in (0, 0.99], got {least!r}")
        if length is not None and length < 2:
            raise UserError(f"max_length: expected at least 2, the start and one more symbol, got {length}")
        object.__setattr__(self, "rules", _rules(self.rules))

    def forbids(self, symbol: Int[Array, "*b"]) -> Bool[Array, "*b"]:
        """Whether this is the symbol of a forbidden state."""
        if self.forbidden_states is None:
            return jnp.zeros(jnp.shape(symbol), bool)
        return jnp.isin(symbol, self.forbidden_states)

    def forbids_move(self, before: Int[Array, "*b"], after: Int[Array, "*b"]) -> Bool[Array, "*b"]:
        """Whether the transition between these symbols is forbidden."""
        if self.forbidden_transitions is None:
            return jnp.zeros(jnp.broadcast_shapes(jnp.shape(before), jnp.shape(after)), bool)
        pairs = jnp.asarray(self.forbidden_transitions)
        here, valid = jnp.asarray(before)[..., None] == pairs[:, 0], jnp.asarray(after)[..., None] == pairs[:, 1]
        return (here & valid).any(-1)

    def affords(self, regrets: Float[Array, "*b"]) -> Bool[Array, "*b"]:
        """Whether steps of these regrets, at most 0, cost no more than `max_regret`, but for rounding."""
        if self.max_regret is None:
            return jnp.ones(jnp.shape(regrets), bool)
        most = jnp.asarray(self.max_regret)
        return -regrets <= most + REGRET_TOLERANCE * (1.0 + most)


def without_keep(constraints: Constraints | None) -> Constraints | None:
    """The constraints that are the same for all originals: what must stay is handed on as `kept_symbols`."""
    return None if constraints is None else dataclasses.replace(constraints, keep=None)


def kept_symbols(constraints: Constraints | None, originals: Paths) -> Int[np.ndarray, "B K"] | None:
    """The symbols of the steps that must stay, PAD after the last; None where none must.

    Raises:
        ValueError: an original is too short for one, or there is not one list for each original.
    """
    if constraints is None or constraints.keep is None:
        return None
    size, keep = len(originals), np.asarray(constraints.keep)
    if keep.ndim == 2 and len(keep) != size:
        raise UserError(f"keep: expected one list for each of {size} originals, got {len(keep)}")
    keep = np.broadcast_to(keep, (size, keep.shape[-1]))
    lengths = np.asarray(originals.lengths)
    bad = np.argwhere(keep >= lengths[:, None])
    if bad.size:
        i, k = bad[0]
        raise UserError(f"keep: originals[{i}] has {lengths[i]} symbols, so no step {keep[i, k]}")
    symbols = np.take_along_axis(np.asarray(originals.symbols), np.maximum(keep, 0), axis=1)
    return np.where(keep == PAD, PAD, symbols).astype(np.int32)


def violations(
    constraints: Constraints | None,
    kept: Int[Array, " K"] | None,
    symbols: Num[Array, "T+1 ..."],
    actions: Int[Array, " T"],
    distance: Num[Array, ""],
) -> Int[Array, ""] | None:
    """How often one path breaks its constraints; None where it has none.

    It is the number of forbidden symbols, actions and transitions, of the kept steps that it lacks, of the rules that
    it breaks, and of the edits and symbols that it has too many.

    Args:
        kept: symbols that it must visit in this order, PAD after the last.
        symbols: PAD after the end, like actions.
        distance: from the original.
    """
    if constraints is None and kept is None:
        return None
    count = jnp.int32(0)
    if kept is not None:

        def visit(found, symbol):
            return found + (symbol == jnp.append(kept, PAD)[found]) * (symbol != PAD), None

        found, _ = jax.lax.scan(visit, jnp.int32(0), symbols)
        count += jnp.sum(kept != PAD, dtype=jnp.int32) - found
    if constraints is None:
        return count
    count += jnp.sum(constraints.forbids(symbols), dtype=jnp.int32)
    count += jnp.sum(constraints.forbids_move(symbols[:-1], symbols[1:]), dtype=jnp.int32)
    if constraints.rules:
        count += declare.broken(tuple(constraints.rules), symbols)
    if constraints.forbidden_actions is not None:
        count += jnp.sum(jnp.isin(actions, constraints.forbidden_actions), dtype=jnp.int32)
    if constraints.max_distance is not None:
        count += jnp.ceil(jnp.maximum(distance - jnp.asarray(constraints.max_distance), 0)).astype(jnp.int32)
    if constraints.max_length is not None:
        count += jnp.maximum(jnp.sum(actions != PAD, dtype=jnp.int32) + 1 - constraints.max_length, 0)
    return count


def _rules(value: Any) -> tuple[declare.Rule, ...]:
    rules = (value,) if isinstance(value, declare.Rule) else tuple(() if value is None else value)
    for i, rule in enumerate(rules):
        if not isinstance(rule, declare.Rule):
            raise TypeError(f"rules[{i}]: expected a rule of pprjax.declare, got {rule!r}")
    rules = tuple(dict.fromkeys(rules))
    if rules:
        declare.product(rules)  # says what is wrong with them all together
    return rules


def _convert(constraints: Constraints, name: str, function) -> None:
    """Turn what a user gave into an array, None if it is empty; leave alone what passes through a transformation."""
    value = getattr(constraints, name)
    if isinstance(value, list | tuple | set | frozenset | range | np.ndarray):
        value = list(value) if isinstance(value, set | frozenset) else value
        object.__setattr__(constraints, name, function(value) if len(value) else None)


def _integers(name: str, value: Sequence | np.ndarray, width: int | None) -> Int[np.ndarray, " n *width"]:
    array = np.asarray(value)
    if array.dtype.kind not in "iu" or array.ndim != (1 if width is None else 2):
        what = "a list of integers" if width is None else "a list of pairs of integers"
        raise UserError(f"{name}: expected {what}, got {value!r}")
    if width is not None and array.shape[1] != width:
        raise UserError(f"{name}: expected pairs, got rows of {array.shape[1]}")
    if array.min() < 0:
        raise UserError(f"{name}: expected integers of at least 0, got {array.min()}")
    return array.astype(np.int32)


def _steps(value: Sequence | np.ndarray) -> Int[np.ndarray, " *size K"] | None:
    """int[K], sorted, or int[B, K] with PAD after the last; None where no step is named."""
    if isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind in "iu":
        value = [row[row != PAD] for row in value]
    if np.ndim(value[0]) == 0:
        return np.unique(_integers("keep", value, None))
    rows = [np.unique(_integers("keep", row, None)) if len(row) else np.zeros(0, np.int32) for row in value]
    width = max(map(len, rows))
    padded = [np.append(row, np.full(width - len(row), PAD, np.int32)) for row in rows]
    return np.stack(padded) if width else None
