"""The best path for each number of edits, found by search: a beam, and after it branch and bound where it can prove."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from pprjax import ladder
from pprjax.checks import check_numbers
from pprjax.constraints import kept_symbols, without_keep
from pprjax.errors import UserError
from pprjax.ladder import Ladder, Points, Wanted, tolerated
from pprjax.limits import TooLargeError
from pprjax.objective import Objective
from pprjax.paths import PAD, Paths
from pprjax.progress import progress_bar
from pprjax.rollout import Original, trace
from pprjax.ruled import with_rules
from pprjax.search.beam import Beam, Shape, search_beam
from pprjax.search.nodes import Search, guesses, guides, knows_next, needed
from pprjax.search.proof import prove
from pprjax.search.to_come import most_to_come, provable, tabulated
from pprjax.stacked import Spread, Stack
from pprjax.task import Task

WIDTH = 16
"""Nodes that a beam keeps for each number of edits."""

BREADTH = 8
"""Children that a beam steps for each node that it keeps, where the world has a `promise`, does not guess it before the
step, and nothing can be proved."""

WEIGHTS = (0.0, 1.0)
"""Of the world's `promise` beside v, by which a beam ranks."""

WIDE_WEIGHTS = (0.0, 1.0, 3.0, 10.0)
"""The same where it steps BREADTH."""

GUESSED_WEIGHTS = (0.0, 0.5)
"""The same where nothing can be proved and the world guesses."""

MAX_BYTES = 2**31
"""The most memory that the prefixes of one original may take, by what is known before they are made."""

SIDE_BY_SIDE = 2**22
"""Children that all beams of one program may have in a layer."""


def search_points(
    task: Task | Stack,
    originals: Paths,
    objective: Objective,
    *,
    wanted: Wanted,
    calls: int,
    width: int = WIDTH,
    progress: bool | None = False,
) -> Points:
    """The best paths of exactly e edits that were found, and a bound on all there are, for each original and e < E.

    Args:
        task: deterministic; or one for each original, which are then searched side by side.
        objective: of edit costs in whole numbers or of vectors. At one λ_path, a number or float[B], only what may be
            the best there is looked for, and the limits bound R at it alone; at None the whole frontier is.
        wanted: E, and how many paths of each distance.
        calls: steps of the world that the proof of one original may take after the beam; where nothing bounds what a
            prefix leads to, those that the beam may take, about: then it is as wide as they allow.
        width: nodes that the beam keeps of each layer for each number of edits, at least.
        progress: show a progress bar; None: on a terminal.

    Raises:
        ValueError: the world's `promise`, P_A or a symbol is NaN, a path earns more than its `goal_bound` or
            `goal_to_go` says that may still come, or meets the goal after fewer steps than its `steps_to_go`, or the
            beam of one original takes more than MAX_BYTES.
    """
    size, tasks = len(originals), _tasks(task)
    first, kept = tasks[0], _kept(task, originals)
    known = {id(task): (task, most_to_come(task) if tabulated(task) else None) for task in tasks}
    worlds = [known[id(task)] for task in tasks]
    spread = Spread.of(worlds)
    each = jax.tree.map(lambda x: np.broadcast_to(np.asarray(x, np.float32), size), objective)
    padded = originals.padded()
    inputs = (spread.own, padded.symbols, padded.lengths, padded.actions, kept, each)
    shape = _shape(first, objective, wanted.num_distances, width, calls)
    together = _together(first, shape.room, int(np.max(originals.lengths)))
    parts, nothing = [], ladder.empty(first, wanted)
    with progress_bar("beams", size, enabled=progress) as advance:
        for low in range(0, size, together):
            # all parts share a program
            now = np.resize(np.arange(low, min(low + together, size)), min(together, size))
            part = jax.tree.map(lambda x, now=now: jnp.asarray(x[now]), inputs)
            parts.append(jax.device_get(_beams(spread, part, nothing, shape=shape)))
            advance(min(together, size - low))
    traced, beams = jax.tree.map(lambda *x: np.concatenate(x)[:size], *parts)
    used = np.asarray(beams.calls, np.int64)
    rows, limits, rest = [], [], []
    for i in range(size):
        original, beam, own = jax.tree.map(lambda x, i=i: x[i], (traced, beams, each))
        world, most = worlds[i % len(worlds)]
        search = Search(world, original, own, most)
        best, unseen = beam.best, [beam.dropped]
        if np.isnan(beam.dropped).any():
            raise UserError(_no_number(world, i))
        limit = _limit(search, best, unseen)
        if calls and search.bounded and _is_open(best, limit, _unseen(search, best, unseen)):
            found = prove(search, best, calls=calls)
            best, unseen = jax.device_get(found.best), [*unseen, *found.unseen]
            limit = _limit(search, best, unseen)
            used[i] += found.calls
        if np.isposinf(best.value).any():
            check_numbers(best.symbols, f"an edit of originals[{i}]")
            raise UserError(_contradiction(world, i))
        rows.append(best)
        limits.append(limit)
        every = wanted.min_distance == 1 and not search.real  # two paths are never nearer
        rest.append(_unseen(search, best, unseen) if every else np.full_like(limit, np.inf))
    best = jax.tree.map(lambda *rows: np.stack(rows), *rows)
    limit, rest = np.stack(limits), np.stack(rest)
    return Points(best=best, limit=limit, unseen=rest, calls=used, original_goal=traced.r_goal)


def _tasks(task: Task | Stack) -> list[Task]:
    """The tasks as a search takes them: that of all originals, or one for each."""
    tasks = task.tasks if isinstance(task, Stack) else (task,)
    ready = {id(task): with_rules(task).replace(constraints=without_keep(task.constraints)) for task in tasks}
    return [ready[id(task)] for task in tasks]


def _kept(task: Task | Stack, originals: Paths) -> Int[np.ndarray, "B K"] | None:
    """The symbols that must stay, as in `kept_symbols`."""
    if isinstance(task, Task):
        return kept_symbols(task.constraints, originals)
    symbols: dict[int, list[int]] = {}
    for one, members in task.groups():
        kept = kept_symbols(one.constraints, originals[members])
        symbols |= {} if kept is None else dict(zip(members.tolist(), kept.tolist(), strict=True))
    if not symbols:
        return None
    width = max(map(len, symbols.values()))
    rows = [symbols.get(i, []) for i in range(len(originals))]
    return np.array([row + [PAD] * (width - len(row)) for row in rows], np.int32)


def _no_number(task: Task, i: int) -> str:
    """What to say where the world's opinion of a prefix, or P_A after it, is NaN. Raises what the world's `check` does,
    where it has one: what went wrong on the host."""
    if hasattr(task.env, "check"):
        task.env.check()
    index = "env.promise, policy.step: expected numbers" if guides(task) else "policy.step: expected log-probabilities"
    return f"{index}, got NaN after a prefix of an edit of originals[{i}]"


def _contradiction(task: Task, i: int) -> str:
    """What to say of a world of which a path of originals[i] shows that what it says may still come is not so."""
    found = f"a path that was found for originals[{i}]"
    timed, bounded = hasattr(task.env, "steps_to_go"), hasattr(task.env, "goal_bound")
    if hasattr(task.env, "goal_to_go") or (timed and not bounded):
        return f"goal_to_go, steps_to_go: {found} earns more than may still come, or meets the goal earlier"
    if tabulated(task):
        return f"env.state_from_id: {found} earns more than its states may still earn: states of one id must act alike"
    most = float(task.env.goal_bound(task.params))
    sooner = ", or meets the goal in fewer steps than steps_to_go" if timed else ""
    return f"env.goal_bound: {most:g} is not the most R_goal that may still come: {found} earns more{sooner}"


def _together(task: Task, room: int, length: int) -> int:
    """How many originals go side by side.

    Raises:
        TooLargeError: the nodes of one layer, with their children, take more than MAX_BYTES.
    """
    vector = task.symbol_type.size
    each = (1 + vector) * task.horizon + vector * length
    stepped = 2 if knows_next(task) else 1 + task.num_actions  # else every child is stepped first
    needed = 4 * room * (stepped * each + 2 * task.num_actions)
    if needed > MAX_BYTES:
        raise TooLargeError(
            f"task: the beam of an original of {length:,} symbols takes {needed / 2**30:.1f} GiB, more than "
            f"{MAX_BYTES / 2**30:.1f}: {room:,} prefixes of {task.horizon:,} actions, and {task.num_actions:,} "
            "that may follow each; allow fewer edits (max_edits) or a smaller horizon"
        )
    return max(1, SIDE_BY_SIDE // (room * task.num_actions))


def _limit(search: Search, best: Ladder, unseen: list[Float[np.ndarray, " E"]]) -> Float[np.ndarray, " E"]:
    """What v can be at most with at most e edits: what was found, or what was not seen and might have been better."""
    value = np.asarray(best.first)
    least = tolerated(needed(value, search.objective.lambda_path))
    limits = [np.maximum.accumulate(np.maximum(value, np.where(x > least, x, -np.inf))) for x in unseen]
    return np.minimum.reduce(limits)


def _unseen(search: Search, best: Ladder, unseen: list[Float[np.ndarray, " E"]]) -> Float[np.ndarray, " E"]:
    """What v a path of e edits may have at most that was not seen and might be `needed`; -inf: there is none."""
    least = tolerated(search.needed(np.asarray(best.value)))
    return np.minimum.reduce([np.maximum.accumulate(np.where(x > least, x, -np.inf)) for x in unseen])


def _is_open(best: Ladder, limit: Float[np.ndarray, " E"], unseen: Float[np.ndarray, " E"]) -> bool:
    """Whether a path that was not seen might be `needed`."""
    if best.min_distance is not None:
        return bool((unseen > -np.inf).any())
    return bool((limit > np.maximum.accumulate(best.value)).any())


def _shape(task: Task, objective: Objective, num_distances: int, width: int, calls: int) -> Shape:
    """What the beam looks at: what no proof can use of the calls makes it wider."""
    shape = Shape(num_distances, width, weights=WEIGHTS if guides(task) else (0.0,))
    if provable(task, objective):
        return shape
    if knows_next(task) and guesses(task):
        shape = shape._replace(weights=GUESSED_WEIGHTS, thorough=objective.lambda_path is not None)
    elif knows_next(task) and guides(task):
        shape = shape._replace(breadth=min(BREADTH, task.num_actions), weights=WIDE_WEIGHTS)
    stepped = shape.breadth if knows_next(task) else task.num_actions  # for each node that is kept
    wider = calls // (task.horizon * num_distances * stepped)
    most = min(SIDE_BY_SIDE // (num_distances * task.num_actions), task.num_actions ** (task.horizon - 1))
    return shape._replace(width=max(width, min(wider, most)))


@partial(jax.jit, static_argnames="shape")
def _beams(spread: Spread, inputs, nothing: Ladder, *, shape: Shape) -> tuple[Original, Beam]:
    def one(own, symbols, length, actions, kept, objective):
        task, most = spread.one(own)
        original = replace(trace(task, symbols, length, jax.random.key(0), actions), kept=kept)
        return original, search_beam(Search(task, original, objective, most), nothing, shape)

    return jax.vmap(one)(*inputs)
