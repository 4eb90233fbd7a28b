"""Rules in words: what a user writes of the states of a log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from pprjax import declare
from pprjax.automaton import Automaton
from pprjax.declare import COUNTED, ONE, TWO, ContradictionError, Rule
from pprjax.errors import UserError
from pprjax.logs.log import CLOSE
from pprjax.logs.words import counted, unknown_state

_ARGUMENT = r"""\s*("[^"]*"|'[^']*'|[^,()"'\s][^,()]*?)\s*"""
_RULE = re.compile(rf"\s*(\w+)\s*\((?:{_ARGUMENT}(?:,{_ARGUMENT})*)?\s*\)\s*", re.DOTALL)


def parsed(texts: Sequence[str], states: np.ndarray) -> tuple[Rule, ...]:
    """The rules that words like "succession(register, pay)" mean in a log of these states.

    A name that has commas, parentheses or quotes stands in quotes, single or double ones.

    Raises:
        ValueError: they are no rules, a state is not in the log, or no path keeps them all.
    """
    names = {str(name): number for number, name in enumerate(states.tolist()) if name != CLOSE}
    rules = tuple(_parsed(text, names) for text in texts)
    if rules:
        try:
            declare.product(rules)
        except ContradictionError as error:
            raise UserError(f"rules: no path at all keeps {_as_typed(error.rules, rules, texts)}") from None
    return rules


def check_goal(
    rules: tuple[Rule, ...],
    texts: Sequence[str],
    ends: Bool[np.ndarray, " R"] | None,
    marks: Int[np.ndarray, " k"],
    goal: str | None,
    goal_rules: tuple[Rule, ...] = (),
) -> None:
    """Raise a ValueError that names the rules which no path that meets the goal can keep, whatever its world.

    Args:
        rules: each with the words that it was typed in, `texts`.
        ends: what meets a goal on states, R = S·2^k; None: the goal is none on states, and nothing is checked.
        marks: the states that it asks whether the path has visited.
        goal: in words.
        goal_rules: what it asks of the way to its end.
    """
    if ends is None or not rules or not ends.any():
        return
    arrives = meets(ends, marks, sorted({symbol for rule in (*rules, *goal_rules) for symbol in rule.symbols}))
    if goal_rules:
        arrives &= declare.product(goal_rules)
    if (arrives & declare.product(rules)).hopeless[0]:
        named = _as_typed(declare.contradiction(rules, arrives), rules, texts)
        raise UserError(f"rules: no path at all meets the goal {goal!r} and keeps {named}")


def meets(ends: Bool[np.ndarray, " R"], marks: Int[np.ndarray, " k"], told: Sequence[int]) -> Automaton:
    """What accepts the paths that end where they meet a goal on states for the first time.

    It remembers which marks were visited: its state is their bits, 2^k if the goal is met, and 2^k + 1 if the path goes
    on all the same. Of states that are alike, and are neither marks nor told apart, it knows one.

    Args:
        ends: R = S·2^k.
        told: the states that are told apart.
    """
    memories, known = 2 ** len(marks), {*told, *marks.tolist()}
    by_memory = ends.reshape(memories, -1)
    others = np.setdiff1d(np.arange(by_memory.shape[1]), list(known))
    first = np.unique(by_memory[:, others], axis=1, return_index=True)[1] if others.size else others
    symbols = np.union1d(list(known), others[first]).astype(np.int32)
    after = np.arange(memories)[:, None] | (symbols[:, None] == marks) @ (1 << np.arange(len(marks)))
    next_state = np.full((memories + 2, len(symbols) + 1), memories + 1, np.int32)
    next_state[:memories, :-1] = np.where(by_memory[after, symbols], memories, after)
    return Automaton(symbols, next_state, np.arange(memories + 2) == memories)


def _as_typed(some: Sequence[Rule], rules: Sequence[Rule], texts: Sequence[str]) -> str:
    """Some of the rules, in the words in which they were typed."""
    return " and ".join(next(text for text, rule in zip(texts, rules, strict=True) if rule is one) for one in some)


def _parsed(text: str, names: dict[str, int]) -> Rule:
    found = _RULE.fullmatch(text)
    if found is None:
        raise UserError(
            f"rule {text!r}: expected a template and its states, such as succession(register, pay), names with commas "
            f"or parentheses in quotes; templates: {', '.join(ONE + TWO)}"
        )
    template = found[1]
    if template not in ONE + TWO:
        raise UserError(f"rule {text!r}: there is no template {template!r}; expected one of {', '.join(ONE + TWO)}")
    arguments = re.findall(rf"{_ARGUMENT}(?:,|$)", text[text.index("(") + 1 : text.rindex(")")], re.DOTALL)
    wanted, options = 1 if template in ONE else 2, {}
    if len(arguments) > wanted:
        options = _options(text, template, arguments[wanted:])
    if len(arguments) < wanted:
        expected = f"expected {counted(wanted, 'state')}, as in {_form(template)}"
        raise UserError(f"rule {text!r}: {expected}; got {len(arguments)}")
    called = [a[1:-1] if a[0] in "\"'" else a for a in arguments[:wanted]]
    for name in called:
        if name not in names:
            raise UserError(f"rule {text!r}: {unknown_state(name, list(names))}")
    try:
        return Rule(template, tuple(names[name] for name in called), **options)
    except ValueError as error:
        raise UserError(f"rule {text!r}: {str(error).partition(': ')[2]}") from None


def _options(text: str, template: str, rest: list[str]) -> dict[str, Any]:
    """What stands after the states: how often, or whether the rule is vacuous."""
    if len(rest) == 1 and template in COUNTED and re.fullmatch(r"\d+", rest[0]):
        return {"count": int(rest[0])}
    if len(rest) == 1 and template in TWO and rest[0] in ("vacuous=True", "vacuous=False"):
        return {"vacuous": rest[0] == "vacuous=True"}
    after = "a whole number" if template in COUNTED else "vacuous=False" if template in TWO else "nothing"
    expected = f"expected {after} after the state{'s' * (template in TWO)}, as in {_form(template)}"
    raise UserError(f"rule {text!r}: {expected}; got {', '.join(rest)}")


def _form(template: str) -> str:
    """How a template is written."""
    if template in TWO:
        return f"{template}(a, b)"
    return f"{template}(a) or {template}(a, 2)" if template in COUNTED else f"{template}(a)"
