"""Fitting: a world and the habits of its agents, counted out of a log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Bool, Int

from pprjax import declare, goals
from pprjax.constraints import Constraints
from pprjax.declare import Rule
from pprjax.errors import UserError
from pprjax.logs import imitation, marks
from pprjax.logs.fitted import Fitted, numbers
from pprjax.logs.log import CLOSE, END, Log, held_out
from pprjax.logs.mining import mined
from pprjax.logs.rules import check_goal, parsed
from pprjax.logs.steps import Steps
from pprjax.logs.words import unknown_state

ROOM = 4
"""Actions that a recourse may have more than the longest path. Of three logs, of which 1 in 7 to 1 in 50 recourses were
cut short by the longest path, two more were enough for all."""

SELDOM = 0.1
"""Of the paths that come to a state, the share that ends there at least, where a good path may end: where fewer end, a
path was cut short."""

MOST_ASKED = 6
"""States that a goal may ask to visit or to avoid; with each the world has twice as many states."""

ALONE = '; "reward>=x" and "good" stand alone'

MOST_SUCCESSORS = 2**27
"""The most successors of all steps of a world that remembers states to visit or to avoid: 1 GiB of them."""


def fit_log(
    log: Log,
    goal: str | None = None,
    *,
    smoothing: float | None = None,
    max_steps: int | None = None,
    deterministic: bool = False,
    rules: Sequence[str] = (),
    mine_rules: bool = False,
    max_regret: float | None = None,
) -> Fitted:
    """Count a world and its agents out of a log.

    Steps that the log does not have are not available. P_A is as in `pprjax.logs.imitation`. A log can show that
    chance decides in its world, and never that it does not: certificates need `deterministic`, or a log without
    actions, where an action is to go to the next state.

    Args:
        goal: "state=X": to arrive in state X, where a path then ends; "ends=X": to end in state X, which it may pass
            before, of a log that is read with closed=True; "reward>=x": to earn x; "good": to end in a
            state in which more of the logged paths were labelled good than bad, of those that have visited, or not,
            the same of at most two marked states where that tells better (`pprjax.logs.marks`), and in which at least
            SELDOM of the paths that came there ended; None: Eq. 5 as printed.
            "visits=X" and "avoids=X": to have passed state X, or not; after "state=…" or "ends=…", or alone, where it
            means a path that ends where at least as many paths of the log ended as went on. Several are parted by
            commas and must all hold.
        smoothing: m, above 0; default: of a few, the best on held-out paths.
        max_steps: the largest number of actions of a recourse; default: ROOM more than the longest path has.
        deterministic: the same action in the same state always leads to the same next state.
        rules: what every recourse must keep, in words: "succession(register, pay)", see `pprjax.declare`.
        mine_rules: and what all good paths of the log keep, see `pprjax.logs.mining`.
        max_regret: the most that any step of a recourse may cost, in nats, see `pprjax.Constraints`; default any. It
            goes with own_steps "charged".

    Raises:
        ValueError: the goal is none of these, its state, label or rewards are not in the log, an option is out of
            range, a step contradicts `deterministic`, a rule is none, the rules contradict each other or the goal, or
            no path of the log meets the goal and keeps them all, where more are to be mined.
    """
    if smoothing is not None and not (np.isfinite(smoothing) and smoothing > 0):
        raise UserError(f"smoothing: expected a finite number above 0, got {smoothing}")
    if max_steps is not None and max_steps < 1:
        raise UserError(f"max_steps: expected at least 1, got {max_steps}")
    Constraints(max_regret=max_regret)  # says what is wrong with it
    if deterministic:
        _check_deterministic(log)
    counts = log.counts
    states = _natural([log.states])
    actions, agents = _natural([counts["action"]]), _natural([counts["agent"], log.alone["agent"]])
    names = {"agent": agents, "state": states, "action": actions, "next": states}
    numbered = counts.with_columns(numbers(counts[column], known) for column, known in names.items())
    steps = Steps.of(numbered, len(states), len(actions), acted=log.acted)
    wanted = _wanted(goal, log, states, steps.visits, _most_marks(steps))
    ends_there = wanted.ends if wanted.ends is not None and not wanted.marks.size else False
    likelihoods = {} if smoothing is not None else _likelihoods(numbered)
    fitted = Fitted(
        states=states,
        actions=actions,
        agents=agents,
        deterministic=deterministic or not log.acted,
        steps=steps,
        terminal=(steps.visits == 0) | ends_there,
        goal=wanted.goal,
        ends=wanted.ends,
        marks=wanted.marks,
        max_steps=log.longest - 1 + ROOM if max_steps is None else max_steps,
        smoothing=_likeliest(likelihoods) if smoothing is None else smoothing,
        likelihoods=likelihoods,
        goal_accuracy=wanted.accuracy,
        learned_goal=wanted.learned,
        edges=log.edges,
        own=numbered.group_by("agent", "state", "action").agg(pl.col("count").sum()).sort("agent", "state", "action"),
        rules=_before_close(parsed(rules, states), wanted, states),
        words=goal,
        goal_rules=wanted.rules,
        arrival=wanted.arrival,
        went_on=0 if wanted.arrival is None or log.closed else _went_on(log, str(states[wanted.arrival])),
        max_regret=max_regret,
    )
    _check_ends(fitted)
    check_goal(fitted.rules, rules, wanted.ends, wanted.marks, goal, wanted.rules)
    return mined(fitted, log) if mine_rules else fitted


def _check_ends(fitted: Fitted) -> None:
    """Raise an error where no path of the log ends where the goal says."""
    for rule in fitted.goal_rules:
        last, close = rule.symbols
        if not (fitted.steps.target[fitted.steps.state == last] == close).any():
            raise UserError(f"goal: no path of the log ends in {str(fitted.states[last])!r}")


def _check_deterministic(log: Log) -> None:
    """Raise an error that names the first step that led elsewhere than the same step before."""
    step = ["state", "action"]
    seen = log.counts.group_by(*step, "next").agg(pl.col("first").min()).sort("first")
    before = seen.with_columns(pl.col("next", "first").first().over(step).name.suffix("_before"))
    for row in before.filter(pl.col("next") != pl.col("next_before")).head(1).to_dicts():
        cut = any(str(row[name]).startswith((END, CLOSE)) for name in ("next", "next_before"))
        advice = "; if paths were cut there, leave the action of their last row out" if cut else ""
        raise UserError(
            f"deterministic: {log.place(row['first'])}: action {row['action']!r} in state {row['state']!r} leads to "
            f"{row['next']!r}, and to {row['next_before']!r} in {log.place(row['first_before'])}{advice}"
        )


def _most_marks(steps: Steps) -> int:
    """How many marks leave the world that remembers them small enough."""
    if steps.chances is None:
        return MOST_ASKED
    return int(np.clip(np.log2(MOST_SUCCESSORS / len(steps.chances)), 0, MOST_ASKED))


def _natural(columns: list[pl.Series]) -> np.ndarray:
    """The distinct values, sorted; as integers where all are whole numbers in their usual spelling."""
    values = pl.concat([c.rename("") for c in columns]).unique().to_list()
    if all(re.fullmatch(r"0|-?[1-9]\d{0,17}", v) for v in values):
        return np.array(sorted(map(int, values)), np.int64)
    return np.array(sorted(values), object)


class _Wanted(NamedTuple):
    goal: goals.Goal | None = None
    ends: Bool[np.ndarray, " R"] | None = None  # what meets it, where it is one on states
    marks: Int[np.ndarray, " k"] = np.zeros(0, np.int32)
    accuracy: float = float("nan")  # where it was learned
    learned: bool = False  # from labels
    rules: tuple[Rule, ...] = ()  # on the way to where it ends
    arrival: int | None = None  # the state X of "state=X"


def asks_ends(goal: str | None) -> bool:
    """Whether a goal is on where paths end, for which a log is to be read with closed=True."""
    return goal is not None and any(re.match(r"ends\s*=", clause) for clause in _clauses(goal))


def _clauses(goal: str) -> list[str]:
    """What is parted by commas: a comma may stand in a state's name as well."""
    begins = r",(?=\s*(?:(?:state|ends|visits|avoids)\s*=|reward\s*>=|good\s*$))"
    return [part.strip() for part in re.split(begins, goal)]


def _wanted(goal: str | None, log: Log, states: np.ndarray, visits: Int[np.ndarray, " S"], most_marks: int) -> _Wanted:
    """What the words of the goal mean in this log; `visits` says how often paths went on from each state."""
    if goal is None:
        return _Wanted()
    clauses = _clauses(goal)
    if asks_ends(goal) and not log.closed:
        raise UserError("goal: ends=X takes a log that was read with closed=True, which says where paths end")
    if len(clauses) > 1 or any(re.match(r"(ends|visits|avoids)\s*=", clause) for clause in clauses):
        return _passing(clauses, goal, states, _ended(log, states) >= visits, most_marks)
    found = re.fullmatch(r"\s*(state|reward|good)\s*(=|>=)?\s*(.*?)\s*", goal, re.DOTALL)
    match found.groups() if found else None:
        case ("state", "=", value):
            arrival = _number(value, states)
            ends = np.arange(len(states)) == arrival
            return _Wanted(goals.ends_in(ends), ends, arrival=arrival)
        case ("reward", ">=", value):
            if not log.rewarded:
                raise UserError(
                    "goal: reward>= needs a column of rewards; name it with --reward COLUMN, or Columns(reward=…)"
                )
            try:
                return _Wanted(goals.at_least(float(value)))
            except ValueError:
                raise UserError(f"goal: expected a number after reward>=, got {value!r}") from None
        case ("good", None, ""):
            if log.closed:
                raise UserError('goal: "good" tells by where paths end; it takes a log read with closed=False')
            if not log.labelled:
                raise UserError('goal: "good" needs a column of labels; name it with --good COLUMN, or Columns(good=…)')
            told = marks.learn(partial(_votes, log, states), min(most_marks, marks.MAX_MARKS))
            ended = _ended(log, states)
            often = ended >= SELDOM * (ended + visits)
            good = told.good & np.tile(often, 2 ** len(told.marks))
            if not good.any():
                raise UserError(
                    "goal: in no state do more good paths end than bad ones, of those in which at least "
                    f"{SELDOM:.0%} of the paths that come there end"
                )
            return _Wanted(goals.ends_in(good), good, told.marks, told.accuracy, learned=True)
    raise UserError(
        f'goal: expected "state=X", "ends=X", "visits=X", "avoids=X", "reward>=x" or "good", got {goal!r}'
        f"{_meant(goal, states)}"
    )


def _number(name: str, states: np.ndarray) -> int:
    known = [str(s) for s in states.tolist() if s != CLOSE]
    found = np.flatnonzero(states.astype(str) == name)
    if name not in known:
        several = re.search(r"\s(state|ends|visits|avoids)\s*=", name)
        parted = "; clauses of a goal are parted by commas" if several else ""
        raise UserError(f"goal: {unknown_state(name, known)}{parted}")
    return int(found[0])


def _meant(clause: str, states: np.ndarray) -> str:
    """What a clause of a goal may mean that is a state's name alone, or of which a shell took a part."""
    name = clause.strip()
    if name == "reward":
        return '; a shell takes > for itself: write "reward>=x" in quotes'
    return f"; did you mean state={name}?" if name in map(str, states.tolist()) else ""


def _passing(
    clauses: list[str], goal: str, states: np.ndarray, usual: Bool[np.ndarray, " S"], most_marks: int
) -> _Wanted:
    """A goal on what a path has passed: of its final states, in the world that remembers the marks, those that meet it.

    Args:
        usual: where a path ends if no state is named.
    """
    arrive, wanted, rules, last = usual, {}, (), None
    for clause in clauses:
        found = re.fullmatch(r"(state|ends|visits|avoids)\s*=\s*(.*)", clause, re.DOTALL)
        if found is None:
            raise UserError(
                f'goal: expected "state=X", "ends=X", "visits=X" or "avoids=X" between commas, got {clause!r}'
                f"{_meant(clause, states)}{ALONE if re.match('reward|good', clause) else ''}"
            )
        number = _number(found[2], states)
        if found[1] in ("state", "ends"):
            if last is not None:
                raise UserError(f"goal: expected one state to end in, got {goal!r}")
            last = number
        if found[1] == "state":
            arrive = np.arange(len(states)) == number
        elif found[1] == "ends":
            arrive, rules = states == CLOSE, (declare.chain_precedence(number, int(np.argmax(states == CLOSE))),)
        elif wanted.setdefault(number, found[1]) != found[1]:
            raise UserError(f"goal: expected to visit or to avoid {found[2]!r}, got both in {goal!r}")
    if last is not None and wanted.get(last) == "avoids":
        raise UserError(f"goal: expected to end in {str(states[last])!r} or to avoid it, got both in {goal!r}")
    if len(wanted) > most_marks:
        raise UserError(f"goal: expected at most {most_marks} states to visit or to avoid, got {len(wanted)}")
    bits = np.arange(2 ** len(wanted))[:, None] >> np.arange(len(wanted)) & 1
    kept = (bits == [kind == "visits" for kind in wanted.values()]).all(1)
    ends = (kept[:, None] & arrive).ravel()
    return _Wanted(goals.ends_in(ends), ends, np.array(list(wanted), np.int32), rules=rules)


def _ended(log: Log, states: np.ndarray) -> Int[np.ndarray, " S"]:
    """How many paths of the log ended in each state."""
    last = pl.concat([paths.select(pl.col("states").list.last()).to_series() for paths in log.frames()])
    return np.bincount(numbers(last, states), minlength=len(states))


def _before_close(rules: tuple[Rule, ...], wanted: _Wanted, states: np.ndarray) -> tuple[Rule, ...]:
    """The rules as they are of paths that all come to CLOSE after their last state, if such are wanted."""
    ends = np.zeros(0, int) if wanted.ends is None else np.flatnonzero(wanted.ends) % len(states)
    if not ends.size or (states[ends] != CLOSE).any():
        return rules
    close = int(ends[0])
    return tuple(declare.chain_precedence(rule.symbols[0], close) if rule.name == "last" else rule for rule in rules)


def _went_on(log: Log, state: str) -> int:
    """How many paths of the log came to a state and ended elsewhere. An end of its own is one in that state."""
    states, last = pl.col("states"), pl.col("states").list.last()
    own_end = last.str.starts_with("end ") & last.str.ends_with(f" in {state}")
    went_on = states.list.contains(state) & (last != state) & ~own_end
    return sum(int(paths.select(went_on.sum()).item()) for paths in log.frames())


def _votes(
    log: Log, states: np.ndarray, marked: Int[np.ndarray, " k"]
) -> tuple[marks.Votes, Int[np.ndarray, " M"], Int[np.ndarray, " M"], marks.Votes]:
    """The labels of a log, counted as `marks.learn` wants them."""
    size, parts = len(states), []
    counted = [(pl.col("good") == good) & (pl.col("held") == held) for held in (False, True) for good in (True, False)]
    votes = [condition.sum().cast(pl.Int64).alias(f) for condition, f in zip(counted, marks.Votes._fields, strict=True)]
    for paths in log.frames():
        rows = paths.select(pl.int_range(pl.len()).alias("path"), "good", held_out().alias("held"), state="states")
        rows = rows.explode("state")
        rows = rows.with_columns(state=numbers(rows["state"], states))
        has = [(pl.col("state") == mark).any().over("path") * 2**j for j, mark in enumerate(marked.tolist())]
        rows = rows.with_columns(cell=sum(has, pl.lit(0)) * size + pl.col("state").last().over("path"))
        rows = rows.unique(["path", "state"])
        parts += [rows.group_by("cell", "state").agg(votes)]
        parts += [rows.unique("path").with_columns(state=pl.lit(-1, pl.Int32)).group_by("cell", "state").agg(votes)]
    table = pl.concat(parts).group_by("cell", "state").sum().sort("cell", "state")
    every, via = table.filter(pl.col("state") < 0), table.filter(pl.col("state") >= 0)
    whole = np.zeros((len(votes), size << len(marked)), np.int64)
    whole[:, every["cell"].to_numpy()] = every.select(marks.Votes._fields).to_numpy().T
    split = marks.Votes(*(via[name].to_numpy() for name in marks.Votes._fields))
    return marks.Votes(*whole), via["cell"].to_numpy(), via["state"].to_numpy(), split


def _likelihoods(numbered: pl.DataFrame) -> dict[float, float]:
    by = ["agent", "state", "action"]
    sums = numbered.group_by(by).agg(
        trained=(pl.col("count") * ~pl.col("held")).sum(), held=(pl.col("count") * pl.col("held")).sum()
    )
    sums = sums.with_columns(
        total=pl.col("trained").sum().over("agent", "state"), everyone=pl.col("trained").sum().over("state", "action")
    )
    pairs = sums.select("state", "action", "everyone").unique().filter(pl.col("everyone") > 0)
    prior = imitation.shared_policy(pairs["everyone"].to_numpy(), pairs["state"].to_numpy())
    priors = pairs.select("state", "action", prior=pl.Series(prior, dtype=pl.Float64))
    sums = sums.join(priors, on=["state", "action"], how="left").sort(by)
    columns = ("trained", "total", "held")
    trained, total, held = (sums[c].to_numpy() for c in columns)
    prior = sums["prior"].fill_null(0.0).to_numpy()
    return {m: imitation.held_out_log_likelihood(trained, total, prior, held, m) for m in imitation.SMOOTHINGS}


def _likeliest(likelihoods: dict[float, float]) -> float:
    """The smoothing of the highest likelihood; 1 where none is known."""
    known = {m: value for m, value in likelihoods.items() if np.isfinite(value)}
    return max(known, key=known.__getitem__) if known else 1.0
