"""Rules that are mined from the good paths of a log.

Good are the paths that meet the goal and keep the rules that were given. A rule may be mined if all of them keep it and
a tenth of them are about it: its state, or both of its states, occur. Of those some are held: in the order of
`STRONGEST`, and of one template the one first that most good paths are about; but not what follows from the goal and
the rules before, no more than 12, and none with which their automaton has more than 32 states (times those of the
given ones).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from pprjax import declare
from pprjax.automaton import Automaton
from pprjax.declare import Rule
from pprjax.errors import UserError
from pprjax.logs.answers import Originals
from pprjax.logs.fitted import Fitted, numbers
from pprjax.logs.log import CLOSE, Log
from pprjax.paths import PAD

STRONGEST = (
    "init", "last", "exactly", "chain_succession", "succession", "chain_response", "chain_precedence", "response",
    "precedence", "not_succession", "co_existence", "existence", "absence",
)  # fmt: skip
"""The order in which templates are mined."""

MOST_RULES = 12
"""Mined rules that recourses are held to, at most."""

MOST_STATES = 32
"""States of their automaton, at most."""

MOST_MINED = 64
"""States of the log that rules are mined of, the most visited ones."""

LEAST_SUPPORT = 0.1
"""The share of good paths that a mined rule must be about, at least."""

BLOCK = 512
"""Paths that are looked at side by side."""


@dataclasses.dataclass
class _Seen:
    """What all good paths so far had in common, and how many were about what. F states."""

    num_paths: int
    first: np.ndarray  # int64[F], paths that start there
    last: np.ndarray  # int64[F], paths that end there
    least: np.ndarray  # int64[F], the fewest times that a path was there
    most: np.ndarray  # int64[F], the most times
    occurs: np.ndarray  # int64[F], paths that were there
    total: np.ndarray  # int64[F], times that all paths were there
    both: np.ndarray  # int64[F, F], paths that were in both
    straight: np.ndarray  # int64[F, F], times that one stands straight before the other
    kept: dict[str, np.ndarray]  # bool[F, F], of each template that a path alone can break

    @classmethod
    def nothing(cls, size: int) -> _Seen:
        first, last, least, most, occurs, total = np.zeros((6, size), np.int64)
        both, straight = np.zeros((2, size, size), np.int64)
        alone = ("co_existence", "precedence", "response", "not_succession")
        kept = {name: np.ones((size, size), bool) for name in alone}
        least += np.iinfo(np.int64).max
        return cls(0, first, last, least, most, occurs, total, both, straight, kept)

    def add(self, paths: Int[np.ndarray, "B N"], times: Int[np.ndarray, " B"]) -> None:
        """See more paths, each so many times; symbols in [0, F], F another state, and PAD after the end."""
        size, (num, width) = len(self.first), paths.shape
        row, place = np.nonzero(paths != PAD)
        state = paths[row, place]
        flat = row * (size + 1) + state
        count = np.bincount(flat, minlength=num * (size + 1)).reshape(num, -1)[:, :size]
        first, last = np.full((2, num * (size + 1)), -1)
        last[flat] = place  # of equal places the last one stays
        first[flat[::-1]] = place[::-1]
        first, last = (x.reshape(num, -1)[:, :size] for x in (first, last))
        valid = count > 0
        ends = paths[np.arange(num), np.bincount(row, minlength=num) - 1]
        self.num_paths += int(times.sum())
        self.first += np.bincount(paths[:, 0], times, size + 1)[:size].astype(np.int64)
        self.last += np.bincount(ends, times, size + 1)[:size].astype(np.int64)
        self.least = np.minimum(self.least, count.min(0))
        self.most = np.maximum(self.most, count.max(0))
        self.occurs += times @ valid
        self.total += times @ count
        self.both += (valid * times[:, None]).T @ valid
        follows = (paths[:, :-1] != PAD) & (paths[:, 1:] != PAD)
        pairs = paths[:, :-1][follows] * (size + 1) + paths[:, 1:][follows]
        weight = np.broadcast_to(times[:, None], (num, width - 1))[follows]
        straight = np.bincount(pairs, weight, (size + 1) ** 2).reshape(size + 1, -1)
        self.straight += straight[:size, :size].astype(np.int64)
        a, b = valid[:, :, None], valid[:, None]
        self.kept["co_existence"] &= (a == b).all(0)
        self.kept["precedence"] &= (~b | (a & (first[:, :, None] < first[:, None]))).all(0)
        self.kept["response"] &= (~a | (last[:, None] > last[:, :, None])).all(0)
        self.kept["not_succession"] &= (~(a & b) | (last[:, None] < first[:, :, None])).all(0)

    def candidates(self) -> list[Rule]:
        """The rules that all paths keep and enough are about, without what follows from one of them; in their order."""
        enough = max(1, LEAST_SUPPORT * self.num_paths)
        often, kept = self.occurs >= enough, self.kept
        always = self.least > 0
        singles: dict[str, tuple[Bool[np.ndarray, " F"], Int[np.ndarray, " F"] | int]] = {
            "init": (self.first == self.num_paths, 1),
            "last": (self.last == self.num_paths, 1),
            "exactly": (always & (self.least == self.most), self.least),
            "existence": (always & (self.least < self.most), self.least),
            "absence": (often & ~always & (self.most == 1), 2),
        }
        straight_after = self.straight == self.total[:, None]
        straight_before = self.straight == self.total
        chain, succession = straight_after & straight_before, kept["response"] & kept["precedence"]
        pairs = {
            "chain_succession": chain,
            "succession": succession & ~chain,
            "chain_response": straight_after & ~chain,
            "chain_precedence": straight_before & ~chain,
            "response": kept["response"] & ~succession & ~straight_after,
            "precedence": kept["precedence"] & ~succession & ~straight_before,
            "not_succession": kept["not_succession"],
            "co_existence": np.triu(kept["co_existence"] & ~succession & ~succession.T & ~np.outer(always, always)),
        }
        about = (self.both >= enough) & ~np.eye(len(often), dtype=bool)
        rules: list[Rule] = []
        for name in STRONGEST:
            if name in singles:
                valid, count = singles[name]
                counts = np.broadcast_to(count, valid.shape)
                found = np.flatnonzero(valid)
                order = found[np.argsort(-self.occurs[found], kind="stable")]
                rules += [Rule(name, (int(a),), int(counts[a])) for a in order if counts[a] <= declare.MAX_STATES]
            else:
                found = np.argwhere(pairs[name] & about)
                order = found[np.argsort(-self.both[tuple(found.T)], kind="stable")]
                rules += [Rule(name, (a, b)) for a, b in order.tolist()]
        return rules


def mined(fitted: Fitted, log: Log) -> Fitted:
    """The same, with rules that all good paths keep, see this module's head.

    Raises:
        ValueError: there is no goal, or no path meets it and keeps the rules that were given.
    """
    if fitted.goal is None:
        raise UserError("rules: to mine them takes a goal, which says what a good path is")
    chosen = _most_visited(fitted, log)
    place = np.full(len(fitted.states) + 1, len(chosen))  # the last: PAD
    place[chosen], place[PAD] = np.arange(len(chosen)), PAD
    seen = _Seen.nothing(len(chosen))
    for paths in log.frames():
        originals = Originals.of(fitted, paths)
        good = fitted.until_met(np.asarray(originals.paths.symbols)[originals.met])
        if good.size:
            variants, times = np.unique(place[good], axis=0, return_counts=True)
            for low in range(0, len(variants), BLOCK):
                seen.add(variants[low : low + BLOCK], times[low : low + BLOCK])
    if not seen.num_paths:
        kept = " and keeps the rules that were given" if fitted.rules else ""
        raise UserError(f"rules: no path of the log meets the goal{kept}, so that none can be mined")
    named = [dataclasses.replace(rule, symbols=tuple(chosen[list(rule.symbols)])) for rule in seen.candidates()]
    rules, left_out = _held(fitted, named)
    return dataclasses.replace(fitted, rules=rules, rules_left_out=left_out)


def _most_visited(fitted: Fitted, log: Log) -> Int[np.ndarray, " F"]:
    """The states that rules are mined of, by their numbers."""
    arrived = numbers(log.counts["next"], fitted.states).to_numpy()
    visits: Float[np.ndarray, " S"] = np.bincount(arrived, log.counts["count"].to_numpy(), len(fitted.states))
    visits = np.maximum(visits, fitted.steps.visits)
    if log.closed:  # what is so of all paths is no rule of some
        visits[fitted.states == CLOSE] = -1
    most = min(MOST_MINED, len(visits) - log.closed)
    return np.sort(np.argsort(-visits, kind="stable")[:most])


def _held(fitted: Fitted, candidates: Sequence[Rule]) -> tuple[tuple[Rule, ...], int]:
    """The given rules and those that are held of the candidates; and how many are not that do not follow from them."""
    given = declare.product(fitted.all_rules) if fitted.all_rules else None
    most = MOST_STATES * (1 if given is None else given.num_states)
    held, all_of, left_out = list(fitted.rules), given, 0
    implied = _of_goal(fitted)
    known = all_of if implied is None else implied if all_of is None else all_of & implied
    for rule in candidates:
        own = declare.automaton(rule)
        if known is not None and known <= own:
            continue
        more = own if all_of is None else all_of & own
        if len(held) - len(fitted.rules) == MOST_RULES or more.num_states > min(most, declare.MAX_STATES):
            left_out += 1
            continue
        held.append(rule)
        all_of, known = more, own if known is None else known & own
    return tuple(held), left_out


def _of_goal(fitted: Fitted) -> Automaton | None:
    """What a goal on one state says as a rule, for then its path ends there; None of other goals."""
    if fitted.ends is None:
        return None
    ends = np.unique(np.flatnonzero(fitted.ends) % len(fitted.states))
    if len(ends) != 1 or fitted.marks.size:
        return None
    end = int(ends[0])
    return declare.automaton(Rule("last", (end,))) & declare.automaton(Rule("exactly", (end,)))
