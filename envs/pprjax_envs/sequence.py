"""SequenceEnv: a path is a sequence of symbols, chosen one by one and judged by a classifier at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax.errors import UserError
from pprjax.paths import PAD, Paths
from pprjax_envs.asked import asked_probs
from pprjax_envs.quick_gymnax import environment, spaces
from pprjax_envs.traced import traced_params

EVIDENCE_LEVELS = 16
"""The class probabilities are observed in steps of 1/16, so that similar paths share their visit counts."""


@runtime_checkable
class Classifier(Protocol):
    """A classifier that reads a sequence symbol by symbol, unbatched and pure; a pytree, so that weights are traced."""

    def init(self) -> Any:
        """The carry before the first symbol."""
        ...

    def step(self, carry: Any, symbol: Int[Array, ""]) -> Any:
        """The carry after one more symbol; O(1) in the symbols read before."""
        ...

    def log_probs(self, carry: Any) -> Float[Array, " C"]:
        """The log probability of each of C ≥ 2 classes, given the symbols read so far."""
        ...


@runtime_checkable
class Judge(Protocol):
    """A classifier that reads whole sequences only, unbatched and pure; a pytree, so that weights are traced."""

    def probs(self, symbols: Int[Array, " L"], length: Int[Array, ""]) -> Float[Array, " C"]:
        """The probability of each of C ≥ 2 classes, given a sequence of `length` symbols, PAD after the last."""
        ...


@struct.dataclass
class Reread:
    """A Judge as a Classifier. Its carry is the symbols so far: of each prefix it thinks what it would if it ended."""

    judge: Any  # a Judge
    room: int = struct.field(pytree_node=False)  # L, the most symbols

    def init(self) -> tuple[Int[Array, " L"], Int[Array, ""]]:
        return jnp.full(self.room, PAD, jnp.int32), jnp.int32(0)

    def step(self, carry: Any, symbol: Int[Array, ""]) -> tuple[Int[Array, " L"], Int[Array, ""]]:
        symbols, length = carry
        return jnp.where(jnp.arange(self.room) == length, symbol, symbols), length + 1

    def log_probs(self, carry: Any) -> Float[Array, " C"]:
        return jnp.log(self.judge.probs(*carry))


@struct.dataclass
class SequenceState(environment.EnvState):
    time: jax.Array  # pyright: ignore  # int32[], symbols chosen
    symbol: jax.Array  # int32[], the last one; num_symbols before the first
    carry: Any  # the classifier's, after the symbols chosen, an end apart
    class_probs: jax.Array  # float[C], of these symbols; 0 before the end of a path that has one, or a Judge


@struct.dataclass(kw_only=True)
class SequenceParams(environment.EnvParams):
    classifier: Any  # a Classifier; of a Judge its `Reread`
    wanted: jax.Array  # int32[], the class whose probability is paid at the end


@traced_params
class SequenceEnv(environment.Environment[SequenceState, SequenceParams]):
    """A path of `length` symbols out of an alphabet of `num_symbols`. An action is the next symbol.

    A path starts before its first symbol, in a state whose symbol is num_symbols. Every path has this start, so it
    costs no edit, and the agent chooses all `length` symbols. The last step pays the classifier's probability of the
    wanted class; all others pay nothing.

    With an `end` among the symbols a path ends when it is chosen, after `length` others at most, and only then is it a
    sequence. Every such path has one end, its last symbol, which costs no edit either: the edit distance of two paths
    is that of their sequences. The classifier does not read it.

    Worlds with the same alphabet, length and number of classes compare equal and share one compilation: the classifier
    and the wanted class are traced.

    Args:
        classifier: reads the sequence symbol by symbol, or only whole.
        wanted: the class to be reached, in [0, C).
        num_symbols: V ≥ 1, the size of the alphabet, an end included.
        length: L ≥ 1, symbols in a sequence; with an end the most, the end apart.
        end: the symbol that ends a sequence, in [0, V); None: all have `length` symbols.

    Raises:
        TypeError: classifier lacks `init`, `step` or `log_probs`, and `probs` as well.
        ValueError: a number is out of range.
    """

    deterministic = True

    def __init__(
        self, classifier: Classifier | Judge, wanted: int, *, num_symbols: int, length: int, end: int | None = None
    ):
        for name, value in {"num_symbols": num_symbols, "length": length}.items():
            if value < 1:
                raise UserError(f"{name}: expected at least 1, got {value}")
        if end is not None and not 0 <= end < num_symbols:
            raise UserError(f"end: expected a symbol in [0, {num_symbols}), got {end}")
        if not isinstance(classifier, Classifier):
            if not isinstance(classifier, Judge):
                got = type(classifier).__name__
                raise TypeError(f"classifier: expected init, step and log_probs, or probs, got {got}")
            classifier = Reread(classifier, length)
        self.num_symbols, self.length, self.end = num_symbols, length, end
        self.num_classes = jax.eval_shape(lambda: classifier.log_probs(classifier.init())).shape[0]
        if not 0 <= wanted < self.num_classes:
            raise UserError(f"wanted: expected a class in [0, {self.num_classes}), got {wanted}")
        self._params = SequenceParams(
            max_steps_in_episode=length + (end is not None),
            classifier=classifier,
            wanted=jnp.asarray(wanted, jnp.int32),
        )

    @property
    def _shape(self) -> tuple:
        return self.num_symbols, self.length, self.num_classes, self.end

    @property
    def default_params(self) -> SequenceParams:
        return self._params

    @property
    def num_actions(self) -> int:
        return self.num_symbols

    def reset_env(self, key: jax.Array, params: SequenceParams) -> tuple[Array, SequenceState]:
        carry = params.classifier.init()
        state = SequenceState(
            time=jnp.int32(0),
            symbol=jnp.int32(self.num_symbols),
            carry=carry,
            class_probs=self._class_probs(params, carry, jnp.bool_(False)),
        )
        return self.observe(key, state, None, params), state

    def step_env(self, key: jax.Array, state: SequenceState, action, params: SequenceParams):
        """One more symbol. A path that has ended stays as it is."""
        full = self.is_terminated(state, params)
        symbol = jnp.asarray(action, jnp.int32)
        carry = params.classifier.step(state.carry, symbol)
        if self.end is not None:  # which is no part of what is judged
            carry = jax.tree.map(lambda old, new: jnp.where(symbol == self.end, old, new), state.carry, carry)
        longer: Any = SequenceState(time=state.time + 1, symbol=symbol, carry=carry, class_probs=state.class_probs)
        asked = self._complete(longer) & ~full
        longer = replace(longer, class_probs=self._class_probs(params, carry, asked))
        following = jax.tree.map(lambda old, new: jnp.where(full, old, new), state, longer)
        following = following.replace(time=state.time + 1)
        terminated = self.is_terminated(following, params)
        reward = jnp.where(asked, following.class_probs[params.wanted], 0.0)
        return self.observe(key, following, action, params), following, reward, terminated, {}

    def _is_late(self, params: SequenceParams) -> bool:
        """Whether states hold the class probabilities of complete sequences only: others must be asked for."""
        return self.end is not None or isinstance(params.classifier, Reread)

    def _class_probs(self, params: SequenceParams, carry: Any, asked: Bool[Array, ""]) -> Float[Array, " C"]:
        """What a state holds of the classifier's opinion."""
        if isinstance(params.classifier, Reread):
            symbols, length = carry
            return asked_probs(params.classifier.judge, symbols, length, asked)
        probs = jnp.exp(params.classifier.log_probs(carry))
        return jnp.where(asked, probs, 0.0) if self._is_late(params) else probs

    def _opinion(self, state: SequenceState, params: SequenceParams) -> Float[Array, " C"]:
        """The classifier's opinion of the symbols so far."""
        if not self._is_late(params):
            return state.class_probs
        complete = self._complete(state)
        return jnp.where(complete, state.class_probs, self._class_probs(params, state.carry, ~complete))

    def observe(self, key: jax.Array, state: SequenceState, action, params: SequenceParams) -> Float[Array, " V+1+C"]:
        """The last symbol, one-hot over the alphabet and the start, and the class probabilities in steps of 1/16."""
        del key, action
        last = jax.nn.one_hot(state.symbol, self.num_symbols + 1, dtype=state.class_probs.dtype)
        return jnp.concatenate([last, jnp.round(self._opinion(state, params) * EVIDENCE_LEVELS) / EVIDENCE_LEVELS])

    def available(self, state: SequenceState, params: SequenceParams) -> Bool[Array, " A"]:
        """All symbols; after `length` of them only an end."""
        del params
        actions = jnp.arange(self.num_actions)
        return jnp.ones_like(actions, bool) if self.end is None else (state.time < self.length) | (actions == self.end)

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
        del params
        return state.symbol

    def reached_goal(self, state: SequenceState, params: SequenceParams) -> Bool[Array, ""]:
        """Whether the sequence is complete and the wanted class has more than half of the probability."""
        return self._complete(state) & (state.class_probs[params.wanted] > 0.5)

    def next_symbols(self, state: SequenceState, params: SequenceParams) -> Int[Array, " A"]:
        """An action is the symbol that follows."""
        del state, params
        return jnp.arange(self.num_symbols)

    def promise(self, state: SequenceState, params: SequenceParams) -> Float[Array, ""]:
        """The probability of the wanted class, given the symbols so far."""
        return self._opinion(state, params)[params.wanted]

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
            if len(row) > self.length:
                raise UserError(f"{name}: expected at most {self.length} symbols, got {len(row)}")
        outside = np.flatnonzero((row < 0) | (row >= self.num_symbols) | (row == self.end))
        if outside.size:
            at, but = outside[0], "" if self.end is None else f" without {self.end}, the end"
            raise UserError(f"{name}[{at}]: expected a symbol in [0, {self.num_symbols}){but}, got {row[at]}")
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


def class_probs(classifier: Classifier, sequences: Int[np.ndarray, "B L"] | Int[Array, "B L"]) -> Float[Array, "B C"]:
    """The classifier's probabilities of whole sequences."""
    return _class_probs(classifier, jnp.asarray(sequences, jnp.int32))


def log_probs(policy: Any, sequences: Int[np.ndarray, "B L"] | Int[Array, "B L"], start: int) -> Float[Array, "B L"]:
    """log P_A of each symbol of whole sequences, given those before it; s_policy is the mean over a row.

    Args:
        policy: P_A, whose `step` reads a state's `symbol`.
        start: the symbol of the start, num_symbols.
    """
    return _log_probs(policy, jnp.asarray(sequences, jnp.int32), start)


@jax.jit
def _class_probs(classifier, sequences):
    def one(symbols):
        carry, _ = jax.lax.scan(lambda c, s: (classifier.step(c, s), None), classifier.init(), symbols)
        return jnp.exp(classifier.log_probs(carry))

    return jax.vmap(one)(sequences)


@jax.jit
def _log_probs(policy, sequences, start):
    def one(symbols):
        def step(carry, pair):
            before, symbol = pair
            carry, log_prob = policy.step(carry, SymbolOnly(before))
            return carry, log_prob[symbol]

        before = jnp.concatenate([jnp.asarray(start, jnp.int32)[None], symbols[:-1]])
        return jax.lax.scan(step, policy.init(), (before, symbols))[1]

    return jax.vmap(one)(sequences)


@struct.dataclass
class SymbolOnly:
    """As much of a SequenceState as P_A reads."""

    symbol: jax.Array  # int32[]
