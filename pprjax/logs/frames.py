"""A recourse for each of the whole paths of a log: certified where that is possible, else learned."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal, cast

import jax
import numpy as np
import polars as pl
from jaxtyping import Float, Int

from pprjax.certify.edits import whole_costs
from pprjax.certify.graph import Weighed, weigh
from pprjax.certify.near import CALLS, merged, near
from pprjax.config import Config, check_config
from pprjax.constraints import Constraints
from pprjax.errors import UserError
from pprjax.learn.reliable import row_keys
from pprjax.logs.answers import RELIABILITY, Answers, Originals
from pprjax.logs.fitted import Fitted
from pprjax.logs.graphs import Skeleton, affordable, graph, skeleton
from pprjax.logs.log import Log
from pprjax.objective import Objective, check_own_steps
from pprjax.paths import Paths
from pprjax.progress import progress_bar
from pprjax.result import Frontier, Recourse
from pprjax.ruled import with_rules
from pprjax.runs import RUNS, Reliability, joined, of_actions
from pprjax.solve import Method, frontier, recourse
from pprjax.task import Task

Noise = Literal["fresh", "observed"]

Advance = Callable[[int, Float[np.ndarray, " G"]], None]
"""Hears how many more paths are done, and which gaps were found, NaN where not known."""


LOG_CONFIG = Config(lambda_path=10.0, lambda_policy=0.3, own_steps="free")
"""The settings for logs: few edits come first, and of as many those that the agent would do. What the path did itself
costs nothing to keep."""


@dataclasses.dataclass(frozen=True)
class Search:
    """How recourses are looked for."""

    method: Method = "auto"
    """exact, with proof; search, which may end without one; learn, by Algorithm 1; auto: the first that is possible."""
    noise: Noise = "fresh"
    """where chance decides: fresh, as it may next time; observed, as on that trip, as far as its path tells."""
    seed: int = 0
    """of the training."""
    calls: int | None = None
    """steps that may be looked at for one path, for a proof; by default 4,194,304, for a ladder 16,777,216,
    with method search 100,000."""
    ladder: bool = False
    """write to OUT.ladder the best recourse for each number of edits, of which OUT has one."""


def recourse_log(
    fitted: Fitted,
    log: Log,
    config: Config = LOG_CONFIG,
    *,
    method: Method = "auto",
    noise: Noise = "fresh",
    seed: int = 0,
    calls: int | None = None,
) -> Any:
    """A recourse for each path of a log that misses the goal, in memory; files of any size: `pprjax recourse`.

    Args:
        method: as in `pprjax.recourse`; all but "learn" need a world that is said to be deterministic
            (`pprjax.fit_log`).
        noise: where chance decides, whether it decides anew, "fresh", or as on the logged path as far as that path
            tells, "observed": what would have happened on this trip. Where no step contradicts another it is the same.
        seed: of the training. Each path has a key of its own, so its row does not depend on the others.
        calls: steps that may be looked at for one path, for a proof; default 4,194,304, with method "search" 100,000.

    Returns:
        One row a path, sorted by agent and path: agent, path, status ("met": it reaches the goal already; "failed":
        no recourse can be looked for; "infeasible": there is none, or none was found; `reason` says why; else as in
        `pprjax.recourse`), method, seed, reward (R), reward_before and reward_after (R_goal as logged, and of the
        recourse), s_path, s_policy, distance, gap (a share of the largest R that there may be: 0 where certified, null
        where not known), probability (that the world leads along the recourse if its actions are taken: below 1 where
        chance decides), reliability and reliability_error (where chance decides and there is a goal: the share of 1,000
        fresh runs of its actions that meet the goal, and its standard error; else null), original, recourse, actions,
        edits (one character each: = kept, ~ replaced, + inserted, - deleted), and reason. A polars frame, or pandas'
        where the log came as one.

    Raises:
        ValueError: a setting is out of range, or suits no path of this log: method "exact" or "search" in a world
            that is not said to be deterministic, or noise "observed" in one that is too large for it.
    """
    search = Search(method, noise, seed, calls)
    with gap_progress(log.num_paths, np.zeros(0)) as advance:
        frames = [recourse_frame(fitted, paths, config, search, advance=advance) for paths in log.frames()]
    table = pl.concat(frames).sort("agent", "path")
    if not log.pandas:
        return table
    import pandas as pd  # its user has it

    return pd.DataFrame(table.to_dict(as_series=False))


def recourse_frame(
    fitted: Fitted,
    paths: pl.DataFrame,
    config: Config = LOG_CONFIG,
    search: Search = Search(),
    *,
    advance: Advance = lambda amount, gaps: None,
) -> pl.DataFrame:
    """`recourse_log` of some of the paths of a log (`Log.frames`).

    Args:
        advance: called now and again with how many more paths are done, and their gaps.
    """
    return answered(fitted, paths, config, search, advance=advance).to_frame(fitted, search.seed)


def answered(
    fitted: Fitted,
    paths: pl.DataFrame,
    config: Config,
    search: Search,
    *,
    advance: Advance = lambda amount, gaps: None,
) -> Answers:
    """What is found for some of the paths of a log, sorted by agent and path."""
    check(fitted, config, search)
    originals = Originals.of(fitted, paths.sort("agent", "path"))
    answers = Answers(originals, fitted.max_steps)
    advance(int(originals.met.sum()), np.zeros(0))
    as_graph = _is_near(fitted, config, search)
    if as_graph:
        bones = skeleton(fitted) if fitted.max_regret is None else None
        solve = partial(_solve_near, answers, fitted, bones)
    else:
        solve = partial(_solve, answers, fitted)
    for rows in originals.groups(by_start=not as_graph):
        _halving(answers, partial(solve, config, search), rows)
        advance(len(rows), answers.numbers["gap"][rows])
    return answers


def _halving(answers: Answers, solve: Callable[[np.ndarray], None], rows: Int[np.ndarray, " M"]) -> None:
    """Solve these paths; where that fails or takes too much memory, one half and then the other. One alone fails."""
    try:
        solve(rows)
    except (UserError, MemoryError, jax.errors.JaxRuntimeError) as error:
        if len(rows) > 1:
            _halving(answers, solve, rows[: len(rows) // 2])
            _halving(answers, solve, rows[len(rows) // 2 :])
        elif isinstance(error, UserError):
            answers.fail(rows[0], str(error))
        elif isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            length = int(np.asarray(answers.originals.paths.lengths)[rows[0]])
            said = f"out of memory, for this path of {length:,} states alone: {error}".rstrip(": ")
            answers.fail(rows[0], f"{said}; ask for less, see --calls and --max-steps")
        else:
            raise


def check(fitted: Fitted, config: Config, search: Search) -> None:
    """Raise a ValueError for what no path of the log can be solved with."""
    check_config(config, 1)
    if config.distance != "edit":
        raise UserError(f'distance: the paths of a log differ in length, so expected "edit", got {config.distance!r}')
    check_own_steps(config.objective, fitted)
    if search.noise == "observed":
        fitted.check_noise()
    if search.method not in ("exact", "search"):
        return
    whole_costs(config.objective.costs)
    if fitted.successors is not None:
        raise UserError("method: chance decides in this log's world, so nothing can be certified; expected learn")
    if not fitted.deterministic:
        raise UserError(
            f"method: a log can't show that its world is deterministic; for {search.method}, say so: --deterministic, "
            "or deterministic=True in fit_log"
        )


def _solve(answers: Answers, fitted: Fitted, config: Config, search: Search, rows: Int[np.ndarray, " M"]) -> None:
    """Find the recourses of these paths, which begin alike and are one agent's."""
    originals = answers.originals
    agent, start = int(originals.agents[rows[0]]), int(np.asarray(originals.paths.symbols)[rows[0], 0])
    if fitted.deterministic and search.method != "learn" and config.objective.whole:
        _certify(answers, fitted, fitted.task(agent, start), config, search, rows)
        return
    for index, chances in _trips(fitted, originals.paths, rows, search.noise):
        _learn(answers, fitted, fitted.task(agent, start, chances), config, search, index)
        answers.likely[index] = fitted.probability(answers.paths(index), chances)


def _is_near(fitted: Fitted, config: Config, search: Search) -> bool:
    """Whether paths are answered in the graph of the log: what the goal asks, its rows know."""
    asked = fitted.goal is None or fitted.ends is not None
    return asked and fitted.deterministic and config.objective.whole and search.method in ("auto", "exact")


def _solve_near(
    answers: Answers,
    fitted: Fitted,
    bones: Skeleton | None,
    config: Config,
    search: Search,
    rows: Int[np.ndarray, " M"],
) -> None:
    """Find the recourses of these paths, which are one agent's, in the graph of the log.

    Args:
        bones: of all agents; None where each has its own.
    """
    agent = int(answers.originals.agents[rows[0]])
    bones = skeleton(fitted, affordable(fitted, agent)) if bones is None else bones
    objective = config.objective
    world = graph(fitted, bones, agent, objective.habit)
    weighed = weigh(world, float(objective.lambda_policy), endless=objective.own_steps == "free")
    size = np.log2(np.asarray(answers.originals.paths.lengths)[rows]).astype(int) // 2
    for alike in np.unique(size):  # tables are as wide as the longest
        _find_near(answers, weighed, bones, objective, search, rows[size == alike])


def _find_near(
    answers: Answers,
    weighed: Weighed,
    bones: Skeleton,
    objective: Objective,
    search: Search,
    rows: Int[np.ndarray, " M"],
) -> None:
    """The same of paths that are about as long; those that are alike are solved once."""
    paths, lambda_path = answers.originals.paths[rows], float(objective.lambda_path)
    symbols, first, index = np.unique(np.asarray(paths.symbols), axis=0, return_index=True, return_inverse=True)
    solve = partial(near, weighed, paths[first], bones.begin[symbols[:, 0]], calls=search.calls)
    every = solve(objective.for_frontier if search.ladder else objective)
    best = every.at(lambda_path)
    if search.ladder and (best.gap > 0).any():  # all rungs were too many, the best may be not
        best = solve(objective).at(lambda_path)
        every = merged(every, best)
    index, refused = index.ravel(), (best.gap > 0) & (search.method == "exact")
    for path in rows[refused[index]]:
        answers.fail(path, f"not proved within {search.calls or CALLS:,} steps; ask for more --calls, or for auto")
    kept = ~refused[index]
    answers.take(best, every if search.ladder else None, index[kept], rows[kept])


def _certify(
    answers: Answers, fitted: Fitted, task: Task, config: Config, search: Search, members: Int[np.ndarray, " M"]
) -> None:
    paths = fitted.to_columns(answers.originals.paths[members])
    rows = np.concatenate([paths.symbols, cast(np.ndarray, paths.actions)], axis=1)
    _, first, index = np.unique(rows, axis=0, return_index=True, return_inverse=True)  # those alike are solved once
    options: dict[str, Any] = dict(method=search.method, calls=search.calls, progress=False)
    found = _found(fitted, task, paths[first], config, search.ladder, options)
    answers.take(*found, index.ravel(), members)


def _learn(
    answers: Answers, fitted: Fitted, task: Task, config: Config, search: Search, rows: Int[np.ndarray, " M"]
) -> None:
    originals = answers.originals
    key = jax.random.key(search.seed)
    options: dict[str, Any] = dict(method="learn", key=key, ids=originals.ids[rows], progress=False)
    best, every = _found(fitted, task, fitted.to_columns(originals.paths[rows]), config, search.ladder, options)
    answers.take(best, every, np.arange(len(rows)), rows)
    if fitted.successors is not None and fitted.goal is not None:
        told = _reliability(fitted, task, best, row_keys(key, originals.ids[rows], np.ones(len(rows), np.int32)))
        for name, values in zip(RELIABILITY, (told.share, told.error), strict=True):
            answers.numbers[name][rows] = np.where(best.status == "infeasible", np.nan, values)


def _reliability(fitted: Fitted, task: Task, best: Recourse, keys: jax.Array) -> Reliability:
    """How likely the actions of each recourse are to meet the goal, as `pprjax.reliability` says. Path by path, so that
    all share one program. A goal's own rules count with it."""
    if fitted.goal_rules:
        task = with_rules(task.replace(constraints=Constraints(rules=fitted.goal_rules)))
    actions, goal = np.asarray(fitted.to_columns(best.paths).actions), best.original_goal
    rows = (slice(i, i + 1) for i in range(len(actions)))
    return joined([of_actions(task, actions[index], goal[index], keys[index], RUNS) for index in rows])


def _found(
    fitted: Fitted, task: Task, paths: Paths, config: Config, ladder: bool, options: dict[str, Any]
) -> tuple[Recourse, Frontier | None]:
    """The recourses, and the frontier that they are on where it is wanted."""
    if not ladder:
        best = recourse(task, paths, config, runs=0, **options)
        return dataclasses.replace(best, paths=fitted.to_actions(best.paths)), None
    every = frontier(task, paths, config, **options)
    every = dataclasses.replace(every, paths=fitted.to_actions(every.paths))
    return every.at(config.lambda_path), every


def _trips(
    fitted: Fitted, paths: Paths, rows: Int[np.ndarray, " M"], noise: Noise
) -> Iterator[tuple[Int[np.ndarray, " K"], Any]]:
    """Which of these paths share a world, and its chances: all, or each its own where its noise is known."""
    if noise == "fresh" or fitted.successors is None:
        yield rows, None
        return
    symbols, actions = np.asarray(paths.symbols), np.asarray(paths.actions)
    for i in rows:
        yield np.array([i]), fitted.counterfactual(symbols[i], actions[i])


@contextlib.contextmanager
def gap_progress(num_paths: int, done: Float[np.ndarray, " D"], enabled: bool | None = None) -> Iterator[Advance]:
    """A progress bar with the mean gap so far. `done`: of the paths that are done already, NaN where not known."""
    lock, sums = threading.Lock(), np.zeros(2)
    with progress_bar("recourse", num_paths, done=len(done), enabled=enabled) as bar:

        def advance(amount: int, gaps: Float[np.ndarray, " G"]) -> None:
            known = gaps[np.isfinite(gaps)]
            with lock:
                sums[:] += len(known), known.sum()
            bar(amount, f"gap {sums[1] / sums[0]:.2%}" if sums[0] else "")

        advance(0, done)
        yield advance
