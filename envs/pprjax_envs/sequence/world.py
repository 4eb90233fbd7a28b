"""SequenceEnv: a path is a sequence of symbols, chosen one by one and judged by a classifier at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax.errors import UserError
from pprjax.paths import PAD, Paths
from pprjax.quick_gymnax import environment, spaces
from pprjax.traced import traced_params
from pprjax_envs.sequence.judges import Classifier, Judge, Reread, as_classifier
from pprjax_envs.sequence.on_host import OnHost

EVIDENCE_LEVELS = 16
"""The class probabilities are observed in steps of 1/16, so that similar paths share their visit counts."""


@struct.dataclass(kw_only=True)
class Offered:
    """Which symbols a world offers, of all that the agent knows."""

    symbols: jax.Array | np.ndarray  # bool[V]; an end is offered whatever it says
    action_set_size: jax.Array | int | None = None  # int32[], A of Eq. 4; None: V


@struct.dataclass(kw_only=True)
class Guide:
    """What a search is told of prefixes. It guides and never scores."""

    weight: float = struct.field(pytree_node=False, default=1.0)
    """Of what the judge would think of a prefix if it ended there; the same as that of a sequence by default."""
    effects: jax.Array | np.ndarray | None = None  # float[V]
    """By how much each symbol alone raises the wanted class's probability, as a guess: a search tries those first."""
    every_end: bool = struct.field(pytree_node=False, default=False)
    """Whether every prefix that a search keeps is ended too, however unlikely its end is. By default an end is ranked
    as any symbol: of few symbols it finds its place, and of seventeen a search finds the same in half the time."""


@struct.dataclass
class SequenceState(environment.EnvState):
    time: jax.Array  # pyright: ignore  # int32[], symbols chosen
    symbol: jax.Array  # int32[], the last one; num_symbols before the first
    carry: Any  # the classifier's, after the symbols chosen, an end apart
    class_probs: jax.Array  # float[C], of these symbols; 0 before the end of a path that has one, or a Judge
    met: jax.Array  # bool[], the sequence is complete and taken for the wanted class


@struct.dataclass(kw_only=True)
class SequenceParams(environment.EnvParams):
    classifier: Any  # a Classifier; of a Judge its `Reread`
    wanted: jax.Array  # int32[], the class whose probability is paid at the end
    offered: Offered | None  # None: all symbols
    guide: Guide


@traced_params
class SequenceEnv(environment.Environment[SequenceState, SequenceParams]):
    """A path of `length` symbols out of an alphabet of `num_symbols`. An action is the next symbol.

    A path starts before its first symbol, in a state whose symbol is num_symbols. Every path has this start, so it
    costs no edit, and the agent chooses all `length` symbols. The last step pays the judge's probability of the wanted
    class; all others pay nothing.

    With an `end` among the symbols a path ends when it is chosen, after `length` others at most, and only then is it a
    sequence. Every such path has one end, its last symbol, which costs no edit either: the edit distance of two paths
    is that of their sequences. The judge does not read it.

    A judge that reads whole sequences is asked where its answer counts: of complete sequences, and of the prefixes that
    a search or a learner looks at.

    Worlds with the same alphabet, lengths and number of classes compare equal and share one compilation: the judge, the
    wanted class and what is offered are traced, and judges on the host are known by a number.

    Args:
        classifier: reads the sequence symbol by symbol, or only whole, in JAX (`Judge`) or on the host (`OnHost`).
        wanted: the class to be reached, in [0, C).
        num_symbols: V ≥ 1, the size of the alphabet, an end included.
        length: L ≥ 1, symbols in a sequence; with an end the most, or the least and the most, the end apart.
        end: the symbol that ends a sequence, in [0, V); None: all have `length` symbols.
        offered: which symbols may follow; default all.
        guide: what a search is told of prefixes.

    Raises:
        TypeError: classifier lacks `init`, `step` or `log_probs`, and `probs` as well.
        ValueError: a number is out of range, or an array is not of V entries.
    """

    deterministic = True

    def __init__(
        self,
        classifier: Classifier | Judge | OnHost,
        wanted: int,
        *,
        num_symbols: int,
        length: int | tuple[int, int],
        end: int | None = None,
        offered: Offered | None = None,
        guide: Guide = Guide(),
    ):
        self.shortest, self.length = _lengths(length, end)
        if num_symbols < 1:
            raise UserError(f"num_symbols: expected at least 1, got {num_symbols}")
        if end is not None and not 0 <= end < num_symbols:
            raise UserError(f"end: expected a symbol in [0, {num_symbols}), got {end}")
        for name, array in {"offered.symbols": offered and offered.symbols, "guide.effects": guide.effects}.items():
            if array is not None and np.shape(array) != (num_symbols,):
                raise UserError(f"{name}: expected one entry for each of {num_symbols} symbols, got {np.shape(array)}")
        self.num_symbols, self.end = num_symbols, end
        self.classifier = classifier  # as it was given: one on the host lives as long as its world
        read = as_classifier(classifier, self.length)
        self.num_classes = jax.eval_shape(lambda: read.log_probs(read.init())).shape[0]
        if not 0 <= wanted < self.num_classes:
            raise UserError(f"wanted: expected a class in [0, {self.num_classes}), got {wanted}")
        self._params = SequenceParams(
            max_steps_in_episode=self.length + (end is not None),
            classifier=read,
            wanted=jnp.asarray(wanted, jnp.int32),
            offered=_traced(offered),
            guide=_traced(guide),
        )

    @property
    def _shape(self) -> tuple:
        told = self._params.guide.effects is not None, self._params.guide.every_end
        return self.num_symbols, self.shortest, self.length, self.num_classes, self.end, told

    @property
    def default_params(self) -> SequenceParams:
        return self._params

    @property
    def num_actions(self) -> int:
        return self.num_symbols

    def action_set_size(self, params: SequenceParams) -> int | Int[Array, ""]:
        """A of Eq. 4."""
        size = None if params.offered is None else params.offered.action_set_size
        return self.num_symbols if size is None else size

    def check(self) -> None:
        """Raise what a judge on the host raised, if it did."""
        if isinstance(self.classifier, OnHost):
            self.classifier.check()

    def reset_env(self, key: jax.Array, params: SequenceParams) -> tuple[Array, SequenceState]:
        carry = params.classifier.init()
        state = SequenceState(
            time=jnp.int32(0),
            symbol=jnp.int32(self.num_symbols),
            carry=carry,
            class_probs=self._judged(params, carry, jnp.bool_(False))[0],
            met=jnp.bool_(False),
        )
        return self.observe(key, state, None, params), state

    def step_env(self, key: jax.Array, state: SequenceState, action, params: SequenceParams):
        """One more symbol. A path that has ended stays as it is."""
        full = self.is_terminated(state, params)
        symbol = jnp.asarray(action, jnp.int32)
        carry = params.classifier.step(state.carry, symbol)
        if self.end is not None:  # which is no part of what is judged
            carry = jax.tree.map(lambda old, new: jnp.where(symbol == self.end, old, new), state.carry, carry)
        longer: Any = SequenceState(
            time=state.time + 1, symbol=symbol, carry=carry, class_probs=state.class_probs, met=state.met
        )
        asked = self._complete(longer) & ~full & self._is_sequence(state.time, carry, params)
        probs, takes = self._judged(params, carry, asked)
        longer = replace(longer, class_probs=probs, met=asked & takes[params.wanted])
        next_state = jax.tree.map(lambda old, new: jnp.where(full, old, new), state, longer)
        next_state = next_state.replace(time=state.time + 1)
        terminated = self.is_terminated(next_state, params)
        reward = jnp.where(asked, next_state.class_probs[params.wanted], 0.0)
        return self.observe(key, next_state, action, params), next_state, reward, terminated, {}

    def _is_late(self, params: SequenceParams) -> bool:
        """Whether states hold the class probabilities of complete sequences only: others must be asked for."""
        return self.end is not None or isinstance(params.classifier, Reread)

    def _judged(
        self, params: SequenceParams, carry: Any, asked: Bool[Array, ""]
    ) -> tuple[Float[Array, " C"], Bool[Array, " C"]]:
        """What a state holds of the judge's opinion, and the classes that the symbols are taken for."""
        if isinstance(params.classifier, Reread):
            return params.classifier.opinion(carry, asked)
        probs = jnp.exp(params.classifier.log_probs(carry))
        probs = jnp.where(asked, probs, 0.0) if self._is_late(params) else probs
        return probs, probs > 0.5

    def _is_sequence(self, count: Int[Array, ""], carry: Any, params: SequenceParams) -> Bool[Array, ""]:
        """Whether a judge can read these `count` symbols: enough of them, and none that is not offered."""
        enough = count >= self.shortest
        if params.offered is None or not isinstance(params.classifier, Reread):
            return enough
        symbols, _ = carry
        return enough & jnp.where(symbols == PAD, True, jnp.asarray(params.offered.symbols)[symbols]).all()

    def _opinion(self, state: SequenceState, params: SequenceParams) -> Float[Array, " C"]:
        """The judge's opinion of the symbols so far; 0 of those that no sequence can be."""
        if not self._is_late(params):
            return state.class_probs
        complete = self._complete(state)
        asked = ~complete & self._is_sequence(state.time, state.carry, params)
        return jnp.where(complete, state.class_probs, self._judged(params, state.carry, asked)[0])

    def observe(self, key: jax.Array, state: SequenceState, action, params: SequenceParams) -> Float[Array, " V+1+C"]:
        """The last symbol, one-hot over the alphabet and the start, and the class probabilities in steps of 1/16."""
        del key, action
        last = jax.nn.one_hot(state.symbol, self.num_symbols + 1, dtype=state.class_probs.dtype)
        return jnp.concatenate([last, jnp.round(self._opinion(state, params) * EVIDENCE_LEVELS) / EVIDENCE_LEVELS])

    def available(self, state: SequenceState, params: SequenceParams) -> Bool[Array, " A"]:
        """All symbols that are offered; an end after the least of them, and after the most nothing else."""
        actions = jnp.arange(self.num_actions)
        offered = jnp.ones_like(actions, bool) if params.offered is None else jnp.asarray(params.offered.symbols)
        if self.end is None:
            return offered
        return jnp.where(actions == self.end, state.time >= self.shortest, offered & (state.time < self.length))

    def _complete(self, state: SequenceState) -> Bool[Array, ""]:
        """Whether the path is a sequence."""
        return state.time >= self.length if self.end is None else state.symbol == self.end

    def is_terminated(self, state: SequenceState, params: SequenceParams) -> Bool[Array, ""]:
        del params
        return self._complete(state) | (state.time > self.length)

    def action_space(self, params: SequenceParams | None = None) -> spaces.Discrete:
        del params
        return spaces.Discrete(self.num_actions)

    def observation_space(self, params: SequenceParams | None = None) -> spaces.Box:
        del params
        return spaces.Box(0.0, 1.0, (self.num_symbols + 1 + self.num_classes,))

    def state_space(self, params: SequenceParams) -> spaces.Dict:
        return spaces.Dict(
            {
                "time": spaces.Discrete(params.max_steps_in_episode + 1),
                "symbol": spaces.Discrete(self.num_symbols + 1),
                "class_probs": spaces.Box(0.0, 1.0, (self.num_classes,)),
            }
        )

    def symbol(self, state: SequenceState, params: SequenceParams) -> Int[Array, ""]:
        """The last symbol; num_symbols before the first."""
        del params
        return state.symbol

    def class_probs(self, state: SequenceState, params: SequenceParams) -> Float[Array, " C"]:
        """What the judge thinks of the sequence, once it is complete."""
        del params
        return state.class_probs

    def reached_goal(self, state: SequenceState, params: SequenceParams) -> Bool[Array, ""]:
        """Whether the sequence is complete and the judge takes it for the wanted class: by default one that has more
        than half of the probability."""
        del params
        return state.met

    def next_symbols(self, state: SequenceState, params: SequenceParams) -> Int[Array, " A"]:
        """An action is the symbol that follows."""
        del state, params
        return jnp.arange(self.num_symbols)

    def promise(self, state: SequenceState, params: SequenceParams) -> Float[Array, ""]:
        """The probability of the wanted class, given the symbols so far, times the guide's weight."""
        return params.guide.weight * self._opinion(state, params)[params.wanted]

    @property
    def next_promise(self) -> Callable[[SequenceState, SequenceParams], Float[Array, " A"]]:
        """Asked of (state, params): the same after each symbol, if the judge thinks of the symbols together what it
        thinks of each.

        Raises:
            AttributeError: the guide has no `effects`; a search then does not ask.
        """
        if self._params.guide.effects is None:
            raise AttributeError("next_promise: the guide has no effects")
        return self._next_promise

    def _next_promise(self, state: SequenceState, params: SequenceParams) -> Float[Array, " A"]:
        so_far, effects = self._opinion(state, params)[params.wanted], jnp.asarray(params.guide.effects)
        return params.guide.weight * jnp.clip(so_far + effects, 0.0, 1.0)

    @property
    def end_action(self) -> Callable[[SequenceState, SequenceParams], Int[Array, ""]]:
        """Asked of (state, params): the end.

        Raises:
            AttributeError: there is none, or the guide does not say `every_end`; a search then does not ask.
        """
        if self.end is None or not self._params.guide.every_end:
            raise AttributeError("end_action: no end of every prefix")
        return self._end_action

    def _end_action(self, state: SequenceState, params: SequenceParams) -> Int[Array, ""]:
        del state, params
        return jnp.int32(self.end)

    def steps_to_go(self, state: SequenceState, params: SequenceParams) -> Int[Array, ""]:
        """The symbols that a sequence still lacks, and its end."""
        del params
        least = self.length if self.end is None else self.shortest
        left = jnp.maximum(least - state.time, 0) + (self.end is not None)
        return jnp.where(self._complete(state), 0, left)

    def goal_bound(self, params: SequenceParams) -> Float[Array, ""]:
        """The end pays a probability."""
        del params
        return jnp.ones(())

    def paths(self, sequences: Int[np.ndarray, "B L"] | Sequence[Sequence[int]]) -> Paths:
        """Whole sequences as paths of this world: with the start before them, and with their actions.

        Args:
            sequences: without an end; in a world with one, PAD may follow a row's last symbol.

        Raises:
            ValueError: a sequence is not of this world's length or has a symbol outside the alphabet.
        """
        rows = [self._row(f"sequences[{i}]", np.asarray(row, int)) for i, row in enumerate(sequences)]
        return Paths.from_lists([np.append(self.num_symbols, row) for row in rows], rows)

    def _row(self, name: str, row: Int[np.ndarray, " n"]) -> Int[np.ndarray, " m"]:
        """The actions of a sequence."""
        if self.end is None and row.shape != (self.length,):
            raise UserError(f"{name}: expected {self.length} symbols, got shape {row.shape}")
        if self.end is not None:
            row = row[: 1 + np.flatnonzero(row != PAD).max(initial=-1)]
            if not self.shortest <= len(row) <= self.length:
                span = f"{self.shortest} to" if self.shortest else "at most"
                raise UserError(f"{name}: expected {span} {self.length} symbols, got {len(row)}")
        outside = np.flatnonzero((row < 0) | (row >= self.num_symbols) | (row == self.end))
        if outside.size:
            step, but = outside[0], "" if self.end is None else f" without {self.end}, the end"
            raise UserError(f"{name}[{step}]: expected a symbol in [0, {self.num_symbols}){but}, got {row[step]}")
        return row if self.end is None else np.append(row, self.end)

    def sequences(self, paths: Paths) -> Int[np.ndarray, "B L"]:
        """The complete sequences of paths, without the start and an end; PAD after the last symbol of shorter ones.

        Raises:
            ValueError: a path is not complete; the message names it.
        """
        symbols, lengths = np.asarray(paths.symbols), np.asarray(paths.lengths)
        if self.end is None:
            wrong, expected = lengths != self.length + 1, f"{self.length + 1} symbols, the start included"
        else:
            wrong = symbols[np.arange(len(paths)), lengths - 1] != self.end
            expected = f"{self.end}, the end, as the last of its symbols"
        if wrong.any():
            i = np.flatnonzero(wrong)[0]
            got = lengths[i] if self.end is None else symbols[i, lengths[i] - 1]
            raise UserError(f"paths[{i}]: expected {expected}, got {got}")
        rows = np.full((len(paths), self.length), PAD, symbols.dtype)
        size = min(self.length, symbols.shape[1] - 1)
        rows[:, :size] = symbols[:, 1 : size + 1]
        return rows if self.end is None else np.where(rows == self.end, PAD, rows)


def _lengths(length: int | tuple[int, int], end: int | None) -> tuple[int, int]:
    """The least and the most symbols of a sequence; all of one length are not told apart by it, so their least is 0."""
    if isinstance(length, tuple) and end is None:
        raise UserError(f"length: expected one number where there is no end, got {length}")
    least, most = length if isinstance(length, tuple) else (0, length)
    if most < 1:
        raise UserError(f"length: expected at least 1, got {most}")
    if not 0 <= least <= most:
        raise UserError(f"length: expected a least number in [0, {most}], got {least}")
    return least, most


def _traced(tree: Any) -> Any:
    """The numbers in it as arrays of JAX's."""
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)), tree)
