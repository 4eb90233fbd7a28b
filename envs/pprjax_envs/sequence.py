"""SequenceEnv: a path is a sequence of symbols, chosen one by one and judged by a classifier at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from pprjax.paths import Paths
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


@struct.dataclass
class SequenceState(environment.EnvState):
    time: jax.Array  # pyright: ignore  # int32[], symbols chosen
    symbol: jax.Array  # int32[], the last one; num_symbols before the first
    carry: Any  # the classifier's, after the symbols chosen
    class_probs: jax.Array  # float[C], of the symbols chosen


@struct.dataclass(kw_only=True)
class SequenceParams(environment.EnvParams):
    classifier: Any  # a Classifier
    wanted: jax.Array  # int32[], the class whose probability is paid at the end


@traced_params
class SequenceEnv(environment.Environment[SequenceState, SequenceParams]):
    """A path of `length` symbols out of an alphabet of `num_symbols`. An action is the next symbol.

    A path starts before its first symbol, in a state whose symbol is num_symbols. Every path has this start, so it
    costs no edit, and the agent chooses all `length` symbols. The last step pays the classifier's probability of the
    wanted class; all others pay nothing.

    Worlds with the same alphabet, length and number of classes compare equal and share one compilation: the classifier
    and the wanted class are traced.

    Args:
        classifier: reads the sequence.
        wanted: the class to be reached, in [0, C).
        num_symbols: V ≥ 1, the size of the alphabet.
        length: L ≥ 1, symbols in a sequence.

    Raises:
        TypeError: classifier lacks `init`, `step` or `log_probs`.
        ValueError: a number is out of range.
    """

    deterministic = True

    def __init__(self, classifier: Classifier, wanted: int, *, num_symbols: int, length: int):
        if not isinstance(classifier, Classifier):
            raise TypeError(f"classifier: expected init, step and log_probs, got {type(classifier).__name__}")
        for name, value in {"num_symbols": num_symbols, "length": length}.items():
            if value < 1:
                raise ValueError(f"{name}: expected at least 1, got {value}")
        self.num_symbols, self.length = num_symbols, length
        self.num_classes = jax.eval_shape(lambda: classifier.log_probs(classifier.init())).shape[0]
        if not 0 <= wanted < self.num_classes:
            raise ValueError(f"wanted: expected a class in [0, {self.num_classes}), got {wanted}")
        self._params = SequenceParams(
            max_steps_in_episode=length, classifier=classifier, wanted=jnp.asarray(wanted, jnp.int32)
        )

    @property
    def _shape(self) -> tuple:
        return self.num_symbols, self.length, self.num_classes

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
            class_probs=jnp.exp(params.classifier.log_probs(carry)),
        )
        return self.observe(key, state, None, params), state

    def step_env(self, key: jax.Array, state: SequenceState, action, params: SequenceParams):
        """One more symbol. A complete sequence stays as it is."""
        full = self.is_terminated(state, params)
        carry = params.classifier.step(state.carry, jnp.asarray(action, jnp.int32))
        longer = SequenceState(
            time=state.time,
            symbol=jnp.asarray(action, jnp.int32),
            carry=carry,
            class_probs=jnp.exp(params.classifier.log_probs(carry)),
        )
        following = jax.tree.map(lambda old, new: jnp.where(full, old, new), state, longer)
        following = following.replace(time=state.time + 1)
        terminated = self.is_terminated(following, params)
        reward = jnp.where(terminated & ~full, following.class_probs[params.wanted], 0.0)
        return self.observe(key, following, action, params), following, reward, terminated, {}

    def observe(self, key: jax.Array, state: SequenceState, action, params: SequenceParams) -> Float[Array, " V+1+C"]:
        """The last symbol, one-hot over the alphabet and the start, and the class probabilities in steps of 1/16."""
        del key, action, params
        last = jax.nn.one_hot(state.symbol, self.num_symbols + 1, dtype=state.class_probs.dtype)
        return jnp.concatenate([last, jnp.round(state.class_probs * EVIDENCE_LEVELS) / EVIDENCE_LEVELS])

    def is_terminated(self, state: SequenceState, params: SequenceParams) -> Bool[Array, ""]:
        del params
        return state.time >= self.length

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
        return self.is_terminated(state, params) & (state.class_probs[params.wanted] > 0.5)

    def next_symbols(self, state: SequenceState, params: SequenceParams) -> Int[Array, " A"]:
        """An action is the symbol that follows."""
        del state, params
        return jnp.arange(self.num_symbols)

    def promise(self, state: SequenceState, params: SequenceParams) -> Float[Array, ""]:
        """The probability of the wanted class, given the symbols so far."""
        return state.class_probs[params.wanted]

    def goal_bound(self, params: SequenceParams) -> Float[Array, ""]:
        """The end pays a probability."""
        del params
        return jnp.ones(())

    def paths(self, sequences: Int[np.ndarray, "B L"] | Sequence[Sequence[int]]) -> Paths:
        """Whole sequences as paths of this world: with the start before them, and with their actions.

        Raises:
            ValueError: a sequence is not of this world's length or has a symbol outside the alphabet.
        """
        rows = [np.asarray(row) for row in sequences]
        for i, row in enumerate(rows):
            if row.shape != (self.length,):
                raise ValueError(f"sequences[{i}]: expected {self.length} symbols, got shape {row.shape}")
            outside = np.flatnonzero((row < 0) | (row >= self.num_symbols))
            if outside.size:
                at = outside[0]
                raise ValueError(f"sequences[{i}][{at}]: expected a symbol in [0, {self.num_symbols}), got {row[at]}")
        return Paths.from_lists([np.append(self.num_symbols, row) for row in rows], rows)

    def sequences(self, paths: Paths) -> Int[np.ndarray, "B L"]:
        """The complete sequences of paths, without the start.

        Raises:
            ValueError: a path is not complete; the message names it.
        """
        short = np.flatnonzero(np.asarray(paths.lengths) != self.length + 1)
        if short.size:
            i = short[0]
            raise ValueError(
                f"paths[{i}]: expected {self.length + 1} symbols, the start included, got {paths.lengths[i]}"
            )
        return np.asarray(paths.symbols)[:, 1 : self.length + 1]


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
