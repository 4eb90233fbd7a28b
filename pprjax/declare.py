"""Rules of a process, the templates of Declare: what must hold of the symbols of a path, the start included.

Each function gives a `Rule` for `pprjax.Constraints(rules=[…])`. A path has the symbols σ_1 … σ_n, n ≥ 1, and a
template says what holds of them (Pesic, Schonenberg and van der Aalst, EDOC 2007; linear temporal logic on finite
traces: De Giacomo and Vardi, IJCAI 2013).

A template of two symbols asks nothing of a path without them: it holds vacuously. With `vacuous=False` both symbols
must occur as well, as some benchmarks count.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import lru_cache, reduce
from operator import and_, index

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from pprjax.automaton import Automaton, kinds
from pprjax.errors import UserError
from pprjax.paths import PAD

MAX_STATES = 1000
"""The most states that the automaton of all rules of a task may have, and the largest count of a rule."""

ONE = ("init", "last", "absence", "exactly", "existence")
"""The templates of one symbol."""

COUNTED = ("absence", "exactly", "existence")
"""Those of them that count."""

TWO = (
    "co_existence", "precedence", "response", "succession", "not_succession",
    "chain_precedence", "chain_response", "chain_succession",
)  # fmt: skip
"""The templates of two symbols."""


@dataclasses.dataclass(frozen=True)
class Rule:
    """A template of Declare and the symbols that it is about. Made by the functions of `pprjax.declare`.

    Raises:
        ValueError: there is no such template, or it has other symbols or another count.
    """

    name: str
    """The template."""
    symbols: tuple[int, ...]
    """a, or a and b, which differ."""
    count: int = 1
    """n of the templates that count; else 1."""
    vacuous: bool = True
    """Whether it holds where a or b never occurs; False only in a template of two symbols."""

    def __post_init__(self):
        if self.name not in ONE + TWO:
            raise UserError(f"rule: expected one of {', '.join(ONE + TWO)}, got {self.name!r}")
        try:
            object.__setattr__(self, "symbols", tuple(index(symbol) for symbol in self.symbols))
            object.__setattr__(self, "count", index(self.count))
        except TypeError:
            raise UserError(f"{self}: expected integers, got {(*self.symbols, self.count)}") from None
        wanted = 1 if self.name in ONE else 2
        if len(self.symbols) != wanted or len(set(self.symbols)) != wanted:
            what = "1 symbol" if wanted == 1 else "2 symbols that differ"
            raise UserError(f"{self}: expected {what}, got {', '.join(map(str, self.symbols)) or 'none'}")
        if min(self.symbols) < 0:
            raise UserError(f"{self}: expected symbols of at least 0, got {min(self.symbols)}")
        if not 1 <= self.count <= (MAX_STATES if self.name in COUNTED else 1):
            limit = f"in [1, {MAX_STATES}]" if self.name in COUNTED else "1, since this template does not count"
            raise UserError(f"{self}: expected a count {limit}, got {self.count}")
        if self.name in ONE and not self.vacuous:
            raise UserError(f"{self}: only a template of two symbols may be vacuous")

    def __str__(self) -> str:
        return self.named(self.symbols)

    def named(self, names: Sequence) -> str:
        """The rule in words, with names in the place of its symbols."""
        counted = [str(self.count)] if self.name in COUNTED else []
        return f"{self.name}({', '.join([*map(str, names), *counted, *([] if self.vacuous else ['vacuous=False'])])})"


def init(a: int) -> Rule:
    """σ_1 = a: the path starts with a."""
    return Rule("init", (a,))


def last(a: int) -> Rule:
    """σ_n = a: the path ends with a."""
    return Rule("last", (a,))


def absence(a: int, n: int = 1) -> Rule:
    """|{i : σ_i = a}| < n: a occurs less than n times, by default never."""
    return Rule("absence", (a,), n)


def exactly(a: int, n: int = 1) -> Rule:
    """|{i : σ_i = a}| = n: a occurs n times."""
    return Rule("exactly", (a,), n)


def existence(a: int, n: int = 1) -> Rule:
    """|{i : σ_i = a}| ≥ n: a occurs at least n times."""
    return Rule("existence", (a,), n)


def co_existence(a: int, b: int, *, vacuous: bool = True) -> Rule:
    """◇a ↔ ◇b: if one of the two occurs, so does the other."""
    return Rule("co_existence", (a, b), vacuous=vacuous)


def precedence(a: int, b: int, *, vacuous: bool = True) -> Rule:
    """∀j: σ_j = b → ∃i < j: σ_i = a. Before each b there is an a."""
    return Rule("precedence", (a, b), vacuous=vacuous)


def response(a: int, b: int, *, vacuous: bool = True) -> Rule:
    """∀i: σ_i = a → ∃j > i: σ_j = b. After each a there is a b."""
    return Rule("response", (a, b), vacuous=vacuous)


def succession(a: int, b: int, *, vacuous: bool = True) -> Rule:
    """`precedence` and `response`: before each b there is an a, and after each a a b."""
    return Rule("succession", (a, b), vacuous=vacuous)


def not_succession(a: int, b: int, *, vacuous: bool = True) -> Rule:
    """∀i < j: σ_i = a → σ_j ≠ b. After an a there is no b."""
    return Rule("not_succession", (a, b), vacuous=vacuous)


def chain_precedence(a: int, b: int, *, vacuous: bool = True) -> Rule:
    """∀j: σ_j = b → j > 1 and σ_{j-1} = a. Straight before each b there is an a."""
    return Rule("chain_precedence", (a, b), vacuous=vacuous)


def chain_response(a: int, b: int, *, vacuous: bool = True) -> Rule:
    """∀i: σ_i = a → i < n and σ_{i+1} = b. Straight after each a there is a b."""
    return Rule("chain_response", (a, b), vacuous=vacuous)


def chain_succession(a: int, b: int, *, vacuous: bool = True) -> Rule:
    """`chain_precedence` and `chain_response`: a and b occur only as a straight followed by b."""
    return Rule("chain_succession", (a, b), vacuous=vacuous)


# The state after a, after b (of templates of two symbols) and after any other symbol; and which states accept.
_TABLES = {
    "init": ([[1, 2], [1, 1], [2, 2]], [0, 1, 0]),
    "last": ([[1, 0], [1, 0]], [0, 1]),
    "co_existence": ([[1, 2, 0], [1, 3, 1], [3, 2, 2], [3, 3, 3]], [1, 0, 0, 1]),
    "precedence": ([[1, 2, 0], [1, 1, 1], [2, 2, 2]], [1, 1, 0]),
    "response": ([[1, 0, 0], [1, 0, 1]], [1, 0]),
    "not_succession": ([[1, 0, 0], [1, 2, 1], [2, 2, 2]], [1, 1, 0]),
    "chain_precedence": ([[1, 2, 0], [1, 0, 0], [2, 2, 2]], [1, 1, 0]),
    "chain_response": ([[1, 0, 0], [2, 0, 2], [2, 2, 2]], [1, 0, 0]),
}
_PARTS = {
    "succession": ("precedence", "response"),
    "chain_succession": ("chain_precedence", "chain_response"),
}


@lru_cache(maxsize=4096)
def automaton(rule: Rule) -> Automaton:
    """What accepts the paths that keep a rule."""
    if not rule.vacuous:
        both = (Rule("existence", (symbol,)) for symbol in rule.symbols)
        return reduce(and_, map(automaton, both), automaton(dataclasses.replace(rule, vacuous=True)))
    if rule.name in _PARTS:
        return reduce(and_, (automaton(dataclasses.replace(rule, name=name)) for name in _PARTS[rule.name]))
    if rule.name in COUNTED:
        most = rule.count + (rule.name == "exactly")
        times = np.arange(most + 1)  # that a occurred, the last one: or more
        table = np.stack([np.minimum(times + 1, most), times], axis=1)
        accepts = {"absence": times < rule.count, "exactly": times == rule.count, "existence": times >= rule.count}
        accepting = accepts[rule.name]
    else:
        table, accepting = map(np.array, _TABLES[rule.name])
    order = np.argsort(rule.symbols)
    columns = np.append(order, len(order))
    return Automaton(
        np.array(rule.symbols, np.int32)[order], table[:, columns].astype(np.int32), accepting.astype(bool)
    )


class ContradictionError(UserError):
    """No path at all keeps these rules, of which each one has its part in that."""

    def __init__(self, rules: Sequence[Rule]):
        super().__init__(f"rules: no path at all keeps {' and '.join(map(str, rules))}")
        self.rules = tuple(rules)


@lru_cache(maxsize=1024)
def product(rules: tuple[Rule, ...]) -> Automaton:
    """What accepts the paths that keep all of at least one rule.

    Raises:
        ContradictionError: no path keeps them all.
        ValueError: it has more than MAX_STATES states.
    """
    all_of = automaton(rules[0])
    for i, rule in enumerate(rules[1:], start=2):
        all_of = all_of & automaton(rule)
        if all_of.num_states > MAX_STATES:
            raise UserError(
                f"rules: the automaton of the first {i} of {len(rules)} rules has {all_of.num_states} states; "
                f"expected at most {MAX_STATES}"
            )
        if all_of.hopeless[0]:
            raise ContradictionError(contradiction(rules[:i]))
    return all_of


def contradiction(rules: Sequence[Rule], beside: Automaton | None = None) -> list[Rule]:
    """The rules of a contradiction, without those that have no part in it.

    Args:
        rules: no path keeps them all.
        beside: what every path must be accepted by as well.
    """
    needed, always = list(rules), [] if beside is None else [beside]
    for rule in rules:
        others = [other for other in needed if other is not rule]
        if others and reduce(and_, [*always, *map(automaton, others)]).hopeless[0]:
            needed = others
    return needed


def broken(rules: tuple[Rule, ...], symbols: Int[Array, " n"]) -> Int[Array, ""]:
    """How many rules a path breaks.

    Args:
        symbols: PAD after the end.
    """
    known = np.unique([symbol for rule in rules for symbol in rule.symbols])
    alone = [automaton(rule).over(known) for rule in rules]
    largest = max(one.num_states for one in alone)
    next_state = jnp.asarray(
        np.stack([np.pad(one.next_state, ((0, largest - one.num_states), (0, 0))) for one in alone])
    )
    accepting = jnp.asarray(np.stack([np.pad(one.accepting, (0, largest - one.num_states)) for one in alone]))
    each = jnp.arange(len(rules))

    def read(states, x):
        kind, inside = x
        return jnp.where(inside, next_state[each, states, kind], states), None

    symbols = jnp.asarray(symbols)
    states, _ = jax.lax.scan(read, jnp.zeros(len(rules), jnp.int32), (kinds(known, symbols), symbols != PAD))
    return jnp.sum(~accepting[each, states], dtype=jnp.int32)
