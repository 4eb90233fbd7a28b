"""Finite automata that read the symbols of a path one by one: what rules of a process remember of it."""

from __future__ import annotations

import dataclasses
from functools import cached_property

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from pprjax.paths import PAD


@dataclasses.dataclass(frozen=True, eq=False)
class Automaton:
    """Q states, of which 0 is the one before the first symbol. Arrays on the host."""

    symbols: np.ndarray  # int32[K], those that it tells apart, in their order; all others look alike
    next_state: np.ndarray  # int32[Q, K + 1], the state after symbols[k], and after any other symbol, k = K
    accepting: np.ndarray  # bool[Q], a path that ends here is accepted

    @property
    def num_states(self) -> int:
        """Q."""
        return len(self.next_state)

    @cached_property
    def hopeless(self) -> Bool[np.ndarray, " Q"]:
        """States from which no accepting one can be reached, whatever follows."""
        hope = self.accepting
        for _ in range(self.num_states):
            hope = hope | hope[self.next_state].any(1)
        return ~hope

    def after(self, state: Int[Array, "*#b"], symbol: Int[Array, "*#b"]) -> Int[Array, "..."]:
        """The state after one more symbol."""
        return jnp.asarray(self.next_state)[state, kinds(self.symbols, symbol)]

    def accepts(self, symbols: Int[np.ndarray, "B N"]) -> Bool[np.ndarray, " B"]:
        """Which paths, PAD after their ends, it accepts. On the host."""
        state = np.zeros(len(symbols), np.int32)
        for column in np.asarray(symbols).T:
            place = np.minimum(np.searchsorted(self.symbols, column), len(self.symbols) - 1)
            kind = np.where(self.symbols[place] == column, place, len(self.symbols))
            state = np.where(column == PAD, state, self.next_state[state, kind])
        return self.accepting[state]

    def over(self, symbols: Int[np.ndarray, " K"]) -> Automaton:
        """The same automaton, told which of these symbols it is, of which its own are some."""
        place = np.minimum(np.searchsorted(self.symbols, symbols), len(self.symbols) - 1)
        own = np.where(self.symbols[place] == symbols, place, len(self.symbols))
        return Automaton(symbols, self.next_state[:, np.append(own, len(self.symbols))], self.accepting)

    def __and__(self, other: Automaton) -> Automaton:
        """The smallest automaton that accepts what both accept."""
        return _smallest(_pairs(self, other))

    def __le__(self, other: Automaton) -> bool:
        """Whether the other accepts all that this one accepts."""
        both = _pairs(self, Automaton(other.symbols, other.next_state, ~other.accepting))
        return not both.accepting[_reached(both)].any()


def kinds(known: Int[np.ndarray, " K"], symbol: Int[Array, "*b"]) -> Int[Array, "*b"]:
    """Which of the known symbols this one is; K where it is another."""
    same = jnp.asarray(symbol)[..., None] == jnp.asarray(known)
    return jnp.argmax(jnp.concatenate([same, jnp.ones_like(same[..., :1])], axis=-1), axis=-1)


def _pairs(one: Automaton, other: Automaton) -> Automaton:
    """What accepts what both accept; its states are all pairs of theirs."""
    symbols = np.union1d(one.symbols, other.symbols)
    one, other = one.over(symbols), other.over(symbols)
    pairs = one.next_state[:, None] * other.num_states + other.next_state[None]
    accepting = one.accepting[:, None] & other.accepting
    return Automaton(symbols, pairs.reshape(-1, len(symbols) + 1), accepting.ravel())


def _reached(automaton: Automaton) -> Int[np.ndarray, " R"]:
    """The states that can be reached."""
    valid = np.zeros(automaton.num_states, bool)
    new = np.zeros(1, int)
    while new.size:
        valid[new] = True
        after = np.zeros_like(valid)
        after[automaton.next_state[new]] = True
        new = np.flatnonzero(after & ~valid)
    return np.flatnonzero(valid)


def _smallest(automaton: Automaton) -> Automaton:
    """The smallest automaton that accepts the same (Moore 1956): what can't be reached is left out, what can't be told
    apart is one state."""
    rows = _reached(automaton)
    next_state = np.searchsorted(rows, automaton.next_state[rows])
    label, count = automaton.accepting[rows].astype(int), 0
    while label.max() + 1 > count:
        count = label.max() + 1
        _, first, label = np.unique(
            np.column_stack([label, label[next_state]]), axis=0, return_index=True, return_inverse=True
        )
        label = np.argsort(np.argsort(first))[label.ravel()]  # numbered by their first state, so that 0 stays 0
    first = np.unique(label, return_index=True)[1]
    return Automaton(automaton.symbols, label[next_state[first]].astype(np.int32), automaton.accepting[rows[first]])
