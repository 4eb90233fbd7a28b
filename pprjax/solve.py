"""The front door: `recourse` and `frontier`, by whichever method suits the world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, get_args

import jax
import numpy as np
from jaxtyping import Int

from pprjax import ladder
from pprjax.certify.edits import UNIT, largest_distance, whole_costs
from pprjax.certify.frontier import exact_frontier
from pprjax.certify.optimum import exact
from pprjax.checks import check_key, check_paths, check_task
from pprjax.config import Config, check_config
from pprjax.edit_distance import Norm, RealCosts
from pprjax.errors import UserError
from pprjax.finite_world import not_deterministic
from pprjax.ladder import Wanted
from pprjax.learn.batches import learn, learn_frontier
from pprjax.learn.stopping import Stop
from pprjax.limits import TooLargeError
from pprjax.objective import Objective
from pprjax.paths import Paths
from pprjax.result import Frontier, Recourse
from pprjax.runs import RUNS
from pprjax.search.n_best import n_best
from pprjax.search.points import WIDTH, search_points
from pprjax.stacked import Stack, check_size, each
from pprjax.task import Task

Method = Literal["auto", "exact", "search", "learn"]
"""How paths are found. "exact": with proof, in a finite deterministic world whose P_A has no memory; "search": a beam
for each number of edits, and branch and bound after it, in any deterministic world; "learn": Algorithm 1, anywhere;
"auto": the first of these that suits the world."""

CALLS = 100_000
"""Steps of the world that a search may take for one original by default, beside a first beam."""


def recourse(
    task: Task | Stack,
    originals: Paths,
    config: Config = Config(),
    *,
    key: jax.Array | None = None,
    method: Method = "auto",
    calls: int | None = None,
    beam_width: int = WIDTH,
    n_recourses: int = 1,
    min_distance: int = 1,
    stop: Literal["certified"] | int | None = None,
    ids: Int[np.ndarray, " B"] | None = None,
    chunk: int | None = None,
    runs: int = RUNS,
    progress: bool | None = None,
) -> Recourse:
    """A personalized recourse for each original path: the best path by R (Eq. 5) that is found, and a bound on all.

    A path that meets the task's goal ranks above one that does not, and then R decides. With constraints, and in every
    method but "learn", only paths that keep them and meet the goal count; where there is none the status is
    "infeasible". No result depends on the other originals or on the devices.

    Args:
        task: environment, agent and goal; or one for each original, see `pprjax.stack`.
        originals: B paths from the world's start, with actions or without.
        config: λ_path and λ_policy, which may be float[B], one for each original; habit; edit costs; and every knob of
            Algorithm 1.
        key: of "learn", which needs one; not consumed. Original i uses fold_in(key, ids[i]).
        method: see `Method`.
        calls: of "search": steps of the world that the proof of one original may take, or where nothing can be proved
            the beam, about; default 100,000.
        beam_width: of "search": prefixes of each length that its beam keeps for each number of edits, at least. Where
            little can be proved, a wider one finds better paths, and takes as many times longer.
        n_recourses: how many recourses an original gets at most, the best first. All that count meet the goal and keep
            the constraints; where fewer were found there are fewer rows, but never none.
        min_distance: δ ≥ 1, the edit distance (of unit costs) between any two of them, at least.
        stop: of "learn": when the training of an original ends before its last iteration: once its best path has not
            changed for this many iterations; or "certified", once it is worth as much as the certificate says that a
            path can be, where there is one; default never.
        ids: of "learn": the numbers from which originals derive their keys; default 0 … B - 1.
        chunk: of "learn": originals that one program trains side by side, at most; default 1 where the devices are
            cores, 64 elsewhere. It changes time and memory and no result.
        runs: where chance decides and there is a goal: the fresh runs that tell how likely each recourse is to work,
            and as many of the policy that was learned, see `Recourse.reliability`; 0: none, and it is not known.
        progress: of "search" and "learn": show a progress bar; default: on a terminal.

    Raises:
        ValueError: an original does not start where the world does, a setting is out of range, the method does not suit
            the world, or "learn" has no key; the message names it.
    """
    check_paths(originals)
    check_config(config, len(originals))
    _check_least(1, n_recourses=n_recourses, min_distance=min_distance, beam_width=beam_width)
    _check_least(0, calls=calls, runs=runs)
    objective, ends = config.objective, _stop(stop)
    apart: dict[str, int] = dict(n_recourses=n_recourses, min_distance=min_distance)
    sizes = dict(calls=calls, width=beam_width, wanted=Wanted(**apart), progress=progress)
    search = partial(_searched, objective=objective, **sizes)
    if isinstance(task, Stack):
        options: dict[str, Any] = dict(key=key, method=method, calls=calls, beam_width=beam_width, stop=stop)
        options |= dict(chunk=chunk, runs=runs, progress=progress, **apart)
        found = _side_by_side(task, originals, objective, method, search)
        if found is not None:
            return found
        return each(task, originals, config, partial(recourse, **options), ids)
    check_task(task, originals, objective)
    _check_lengths(task, originals, objective)
    for choice in _choices(task, objective, method):
        try:
            if choice == "exact":
                return exact(task, originals, config, **apart)
            if choice == "search":
                return search(task, originals)
        except TooLargeError:
            if method == choice:
                raise
    key = _needed(key)
    if stop == "certified":
        ends = Stop(bound=exact(task, originals, config).reward)
    return learn(
        task,
        originals,
        config,
        key=key,
        n_recourses=n_recourses,
        min_distance=min_distance,
        stop=ends,
        ids=ids,
        chunk=chunk,
        runs=runs,
        progress=progress,
    )


def frontier(
    task: Task | Stack,
    originals: Paths,
    config: Config = Config(),
    *,
    key: jax.Array | None = None,
    method: Method = "auto",
    max_edits: int | None = None,
    calls: int | None = None,
    beam_width: int = WIDTH,
    n_recourses: int = 1,
    min_distance: int = 1,
    ids: Int[np.ndarray, " B"] | None = None,
    progress: bool | None = None,
) -> Frontier:
    """For each original the best path for each number of edits, which answers every λ_path: see `Frontier`.

    Args:
        task: environment, agent and goal; or one for each original, see `pprjax.stack`.
        originals: B paths from the world's start, with actions or without.
        config: habit, λ_policy (one number or float[B]) and the edit costs, whole numbers or of vectors. λ_path is
            looked at by "learn" alone, which keeps the best path for each distance of those that it samples.
        key: of "learn", which needs one; not consumed.
        method: see `Method`.
        max_edits: the most edits, at least 0; default as many as there may be. Of vectors, the last bin.
        calls: of "search": steps of the world that the proof of one original may take, or where nothing can be proved
            the beam, about; default 100,000.
        beam_width: of "search": prefixes of each length that its beam keeps for each number of edits, at least. Where
            little can be proved, a wider one finds better paths, and takes as many times longer.
        n_recourses: how many paths of each number of edits on the frontier there are at most, the best first. All meet
            the goal and keep the constraints.
        min_distance: δ ≥ 1, the edit distance (of unit costs) between any two of as many edits, at least.
        ids: of "learn": the numbers from which originals derive their keys; default 0 … B - 1.
        progress: of "search" and "learn": show a progress bar; default: on a terminal.

    Raises:
        ValueError: a setting is out of range, the method does not suit the world, or "learn" has no key; the message
            names it.
    """
    check_paths(originals)
    check_config(config, len(originals))
    _check_least(0, max_edits=max_edits, calls=calls)
    _check_least(1, n_recourses=n_recourses, min_distance=min_distance, beam_width=beam_width)
    objective = config.objective
    apart: dict[str, int] = dict(n_recourses=n_recourses, min_distance=min_distance)
    every, wanted = objective.for_frontier, Wanted(**apart)
    sizes = dict(calls=calls, width=beam_width, wanted=wanted, max_edits=max_edits, progress=progress)
    search = partial(_searched, objective=every, **sizes)
    if isinstance(task, Stack):
        options: dict[str, Any] = dict(key=key, method=method, max_edits=max_edits, calls=calls, beam_width=beam_width)
        found = _side_by_side(task, originals, objective, method, search)
        if found is not None:
            return found
        return each(task, originals, config, partial(frontier, progress=progress, **options, **apart), ids)
    check_task(task, originals, objective)
    _check_lengths(task, originals, objective)
    choices = _choices(task, objective, method)
    if "exact" in choices:
        try:
            return exact_frontier(task, originals, config, max_edits=max_edits, **apart)
        except TooLargeError:
            if method == "exact":
                raise
    if "search" in choices:
        try:
            return search(task, originals)
        except TooLargeError:
            if method == "search":
                raise
    key = _needed(key)
    wanted = replace(wanted, num_distances=_num_distances(task, originals, objective, max_edits))
    return learn_frontier(task, originals, config, key=key, wanted=wanted, ids=ids, progress=progress)


def _check_least(least: int, **values: int | None) -> None:
    for name, value in values.items():
        if value is not None and value < least:
            raise UserError(f"{name}: expected at least {least}, got {value}")


def _check_lengths(task: Task, originals: Paths, objective: Objective) -> None:
    """Raise a ValueError where distances are between paths of one length, and an original has another."""
    if not isinstance(objective.costs, Norm):
        return
    expected = task.horizon + 1
    wrong = np.flatnonzero(np.asarray(originals.lengths) != expected)
    if wrong.size:
        raise UserError(
            f"distance: {objective.costs.distance!r} compares paths of one length, the world's {expected} symbols, got "
            f"{originals.lengths[wrong[0]]} in originals[{wrong[0]}]"
        )


def _stop(stop: str | int | None) -> Stop:
    """What ends a training early, but for the certificate.

    Raises:
        ValueError: it is neither "certified" nor a number of iterations.
    """
    if stop is None or stop == "certified":
        return Stop()
    if isinstance(stop, str) or stop < 1:
        raise UserError(f'stop: expected "certified" or a number of iterations, at least 1, got {stop!r}')
    return Stop(patience=int(stop))


def _needed(key: jax.Array | None) -> jax.Array:
    if key is None:
        raise UserError('key: method "learn" needs one, jax.random.key(0) for example, got None')
    check_key(key)
    return key


def _side_by_side(
    stack: Stack, originals: Paths, objective: Objective, method: str, search: Callable[[Stack, Paths], Any]
) -> Any:
    """What a search finds of all originals of a stack together; None where it does not come first, or takes too much
    memory, so that each task is looked at by itself."""
    check_size(stack, originals)
    if any(_choices(task, objective, method)[0] != "search" for task, _ in stack.groups()):
        return None
    for task, members in stack.groups():
        check_task(task, originals[members], objective)
        _check_lengths(task, originals[members], objective)
    try:
        return search(stack, originals)
    except TooLargeError:
        return None


def _searched(
    task: Task | Stack,
    originals: Paths,
    *,
    objective: Objective,
    calls: int | None,
    width: int,
    wanted: Wanted,
    progress: bool | None,
    max_edits: int | None = None,
) -> Any:
    """The frontier by search; or the best at one λ_path, where the objective has one."""
    groups = list(task.groups()) if isinstance(task, Stack) else [(task, np.arange(len(originals)))]
    sizes = [_num_distances(one, originals[members], objective, max_edits) for one, members in groups]
    wanted, calls = replace(wanted, num_distances=max(sizes)), CALLS if calls is None else calls
    points = search_points(task, originals, objective, wanted=wanted, calls=calls, width=width, progress=progress)
    goal, lambda_path = groups[0][0].goal, objective.lambda_path
    if wanted.n_recourses > 1 and lambda_path is not None:
        return n_best(points, originals, objective, goal=goal, wanted=wanted)
    every = ladder.frontier(points, originals, objective, goal=goal, answered_by="search")
    return every if lambda_path is None else every.at(lambda_path)


def _num_distances(task: Task, originals: Paths, objective: Objective, max_edits: int | None) -> int:
    """One more than the most edits that count.

    Raises:
        ValueError: distances are not whole numbers, or nothing says how large they may be.
    """
    limits = [max_edits, None if task.constraints is None else task.constraints.max_distance]
    known = [x for x in limits if x is not None]
    costs = objective.costs
    if costs == Norm(1) and not known:
        raise UserError(
            'distance: with "manhattan" expected max_edits, or Constraints(max_distance=…): how far the paths may be '
            "that are looked for, each distance by itself"
        )
    if costs != Norm(1):
        costs = UNIT if isinstance(costs, RealCosts) else whole_costs(costs)
        fewest = _fewest_steps(task) + 1
        known.append(largest_distance(np.asarray(originals.lengths), task.horizon + 1, costs, shortest=fewest))
    return 1 + int(min(known))


def _fewest_steps(task: Task) -> int:
    """The fewest steps of a path that meets the goal, as far as the world says it."""
    if not (task.deterministic and hasattr(task.env, "steps_to_go")):
        return 0
    start = task.reset(jax.random.key(0))
    return min(int(task.env.steps_to_go(start, task.params)), task.horizon)


def _choices(task: Task, objective: Objective, method: str) -> tuple[str, ...]:
    """The methods to be tried, in this order.

    Raises:
        ValueError: there is no such method, or it does not suit the world.
    """
    if method not in get_args(Method):
        raise UserError(f"method: expected one of {', '.join(get_args(Method))}, got {method!r}")
    if method == "search" and not task.deterministic:
        raise UserError(f'method: "search" needs a deterministic world, {not_deterministic(task)}')
    if method != "auto":
        return (method,)
    real = isinstance(objective.costs, RealCosts)
    if not task.deterministic or not (objective.whole or real):
        return ("learn",)
    if real:
        return ("search", "learn")
    table = task.num_states is not None and not jax.tree.leaves(task.policy.init())
    return ("exact", "search", "learn") if table else ("search", "learn")
