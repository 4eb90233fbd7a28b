"""The templates of Declare by their definitions: what rules are compared with."""


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
