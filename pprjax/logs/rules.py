"""Rules in words: what a user writes of the states of a log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from pprjax import declare
from pprjax.declare import COUNTED, ONE, TWO, Rule

_ARGUMENT = r"""\s*("[^"]*"|'[^']*'|[^,()"'\s][^,()]*?)\s*"""
_RULE = re.compile(rf"\s*(\w+)\s*\((?:{_ARGUMENT}(?:,{_ARGUMENT})*)?\s*\)\s*", re.DOTALL)


def parsed(texts: Sequence[str], states: np.ndarray) -> tuple[Rule, ...]:
    """The rules that words like "succession(register, pay)" mean in a log of these states.

    A name that has commas, parentheses or quotes stands in quotes, single or double ones.

    Raises:
        ValueError: they are no rules, a state is not in the log, or no path keeps them all.
    """
    names = {str(name): number for number, name in enumerate(states.tolist())}
    rules = tuple(_parsed(text, names) for text in texts)
    if rules:
        try:
            declare.product(rules)
        except ValueError as error:  # says it in symbols
            raise ValueError(f"{error}, where {_legend(rules, states)}") from None
    return rules


def _legend(rules: Sequence[Rule], states: np.ndarray) -> str:
    known = sorted({symbol for rule in rules for symbol in rule.symbols})
    return ", ".join(f"{symbol} is {states[symbol]}" for symbol in known)


def _parsed(text: str, names: dict[str, int]) -> Rule:
    found = _RULE.fullmatch(text)
    if found is None:
        raise ValueError(
            f"rule {text!r}: expected a template and its states, such as succession(register, pay), names with commas "
            f"or parentheses in quotes; templates: {', '.join(ONE + TWO)}"
        )
    template = found[1]
    if template not in ONE + TWO:
        raise ValueError(f"rule {text!r}: there is no template {template!r}; expected one of {', '.join(ONE + TWO)}")
    arguments = re.findall(rf"{_ARGUMENT}(?:,|$)", text[text.index("(") + 1 : text.rindex(")")], re.DOTALL)
    wanted, options = 1 if template in ONE else 2, {}
    if len(arguments) > wanted:
        options = _options(text, template, arguments[wanted:])
    if len(arguments) < wanted:
        raise ValueError(f"rule {text!r}: expected {wanted} state{'s'[: wanted - 1]}, got {len(arguments)}")
    called = [a[1:-1] if a[0] in "\"'" else a for a in arguments[:wanted]]
    for name in called:
        if name not in names:
            raise ValueError(f"rule {text!r}: no path of the log visits the state {name!r}")
    try:
        return Rule(template, tuple(names[name] for name in called), **options)
    except ValueError as error:
        raise ValueError(f"rule {text!r}: {str(error).partition(': ')[2]}") from None


def _options(text: str, template: str, rest: list[str]) -> dict[str, Any]:
    """What stands after the states: how often, or whether the rule is vacuous."""
    if len(rest) == 1 and template in COUNTED and re.fullmatch(r"\d+", rest[0]):
        return {"count": int(rest[0])}
    if len(rest) == 1 and template in TWO and rest[0] in ("vacuous=True", "vacuous=False"):
        return {"vacuous": rest[0] == "vacuous=True"}
    after = "a whole number" if template in COUNTED else "vacuous=False" if template in TWO else "nothing"
    raise ValueError(f"rule {text!r}: expected {after} after the state{'s' * (template in TWO)}, got {', '.join(rest)}")
