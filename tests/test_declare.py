"""Rules of a process: each template as its definition says, in every method, beside what no rule changes."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pprjax import declare
from pprjax.declare import Rule

A, B = 3, 7


def times(path, symbol):
    return path.count(symbol)


def places(path, symbol):
    return [i for i, s in enumerate(path) if s == symbol]


MEANING = {
    "co_existence": lambda p, a, b: (a in p) == (b in p),
    "precedence": lambda p, a, b: all(a in p[:j] for j in places(p, b)),
    "response": lambda p, a, b: all(b in p[i + 1 :] for i in places(p, a)),
    "succession": lambda p, a, b: all(a in p[:j] for j in places(p, b)) and all(b in p[i + 1 :] for i in places(p, a)),
    "not_succession": lambda p, a, b: not any(b in p[i + 1 :] for i in places(p, a)),
    "chain_precedence": lambda p, a, b: all(j > 0 and p[j - 1] == a for j in places(p, b)),
    "chain_response": lambda p, a, b: all(p[i + 1 : i + 2] == (b,) for i in places(p, a)),
    "chain_succession": lambda p, a, b: (
        all(j > 0 and p[j - 1] == a for j in places(p, b)) and all(p[i + 1 : i + 2] == (b,) for i in places(p, a))
    ),
}
"""The templates of two symbols, from their definitions over the whole path."""

COUNTS = {
    "absence": lambda p, a, n: times(p, a) < n,
    "exactly": lambda p, a, n: times(p, a) == n,
    "existence": lambda p, a, n: times(p, a) >= n,
}


def keeps(rule, path):
    """Whether a path keeps a rule, as the words say."""
    path, (a, *b) = tuple(path), rule.symbols
    if rule.name in COUNTS:
        return COUNTS[rule.name](path, a, rule.count)
    if not b:
        return path[0] == a if rule.name == "init" else path[-1] == a
    return (rule.vacuous or (a in path and b[0] in path)) and MEANING[rule.name](path, a, *b)


def accepts(automaton, path):
    """Whether an automaton accepts a path, read off its tables."""
    state = 0
    for symbol in path:
        (at,) = np.nonzero(automaton.symbols == symbol)
        state = automaton.following[state, at[0] if at.size else -1]
    return bool(automaton.accepting[state])


PATHS = [path for n in range(1, 7) for path in itertools.product((A, B, 0, 9), repeat=n)]
RULES = [
    *(getattr(declare, name)(a) for name in ("init", "last") for a in (A, B)),
    *(getattr(declare, name)(A, n) for name in COUNTS for n in (1, 2, 3)),
    *(getattr(declare, name)(*pair, vacuous=v) for name in MEANING for pair in ((A, B), (B, A)) for v in (True, False)),
]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_an_automaton_accepts_what_keeps_the_rule(rule):
    automaton = declare.automaton(rule)
    told = [accepts(automaton, path) for path in PATHS]
    assert told == [keeps(rule, path) for path in PATHS]
    assert 0 < sum(told) < len(told)


def test_every_template_is_tested():
    assert {rule.name for rule in RULES} == set(declare.ONE + declare.TWO)


rules_of = st.lists(
    st.one_of(
        st.builds(Rule, st.sampled_from(("init", "last")), st.tuples(st.integers(0, 3))),
        st.builds(Rule, st.sampled_from(sorted(COUNTS)), st.tuples(st.integers(0, 3)), st.integers(1, 3)),
        st.builds(
            lambda name, pair, vacuous: Rule(name, tuple(pair), vacuous=vacuous),
            st.sampled_from(sorted(MEANING)),
            st.lists(st.integers(0, 3), min_size=2, max_size=2, unique=True),
            st.booleans(),
        ),
    ),
    min_size=1,
    max_size=5,
).map(tuple)


@settings(max_examples=150, deadline=None)
@given(rules=rules_of, paths=st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=9), min_size=1, max_size=20))
def test_the_product_is_the_conjunction_and_knows_when_all_is_lost(rules, paths):
    try:
        product = declare.product(rules)
    except ValueError as error:
        assert "no path at all keeps" in str(error)
        assert not any(all(keeps(rule, path) for rule in rules) for path in paths)
        return
    for path in paths:
        kept = [keeps(rule, path) for rule in rules]
        assert accepts(product, path) == all(kept)
    # a state is hopeless exactly if no short continuation is accepted: 4 symbols and rules of 3 take no more than Q
    reach = product.accepting.copy()
    for _ in range(product.num_states):
        reach |= reach[product.following].any(1)
    np.testing.assert_array_equal(product.hopeless, ~reach)
