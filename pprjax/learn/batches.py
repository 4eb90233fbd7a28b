"""Algorithm 1 for many originals: in chunks, on all devices, with progress."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, partial
from threading import Event, Lock
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.sharding import Mesh
from jaxtyping import Int

from pprjax import devices, ladder
from pprjax.checks import check_numbers
from pprjax.config import Config
from pprjax.constraints import kept_symbols, without_keep
from pprjax.errors import UserError
from pprjax.ladder import Ladder, Points, Wanted
from pprjax.learn import archive, learner
from pprjax.learn.reliable import measured, row_keys
from pprjax.learn.stopping import LOOKS, Stop, kept_where
from pprjax.objective import Objective
from pprjax.paths import Paths
from pprjax.progress import progress_bar
from pprjax.result import Frontier, Recourse, surely
from pprjax.rollout import Trajectory, trace
from pprjax.ruled import with_rules
from pprjax.runs import RUNS
from pprjax.tally import Tally, recourse_of
from pprjax.task import Task

CHUNK = 64
"""Originals that one program trains side by side at most, by default."""

CPU_CHUNK = 1
"""The same where the devices are cores: one stays in a core's cache, and each of eight takes 1.6 times as long."""

ROUNDS = 10
"""Calls in which a chunk is trained at most; between them progress shows and an interrupt is heard."""


def learn(
    task: Task,
    originals: Paths,
    config: Config,
    *,
    key: jax.Array,
    n_recourses: int = 1,
    min_distance: int = 1,
    stop: Stop = Stop(),
    ids: Int[np.ndarray, " B"] | None = None,
    chunk: int | None = None,
    runs: int = RUNS,
    progress: bool | None = None,
) -> Recourse:
    """`pprjax.recourse` by Algorithm 1: the best of all paths that were sampled. Its arguments were checked there."""
    runs = runs if task.goal is not None and not task.deterministic else 0
    wanted = Wanted(n_recourses=n_recourses, min_distance=min_distance, runs=runs)
    numbers = _numbers(ids, len(originals))
    result = _trained(task, originals, config, _keys(key, numbers), wanted, stop=stop, chunk=chunk, progress=progress)

    def told(path, rank, best):
        keys = row_keys(key, numbers[path], rank)
        reacting = np.asarray(result.reacting, float)
        return measured(task, best, np.asarray(result.original_goal)[path], reacting, keys, runs)

    return _assemble(task, originals, config, result, n_recourses, told)


def learn_frontier(
    task: Task,
    originals: Paths,
    config: Config,
    *,
    key: jax.Array,
    wanted: Wanted,
    ids: Int[np.ndarray, " B"] | None = None,
    progress: bool | None = None,
) -> Frontier:
    """`pprjax.frontier` by Algorithm 1: the best paths of each number of edits below E of all that were sampled.

    Some lanes are edits of the rungs that there are, whether or not config has edited_lanes: a grid world's points that
    are within 1 % of the certified ones are 68 % without such lanes, and 96 % with them, at λ_policy 1.
    """
    config = replace(config, edited_lanes=True)
    keys = _keys(key, _numbers(ids, len(originals)))
    result = _trained(task, originals, config, keys, wanted, progress=progress)
    assert result.ladder is not None  # it was wanted
    unknown = np.full((len(originals), wanted.num_distances), np.inf)
    points = Points(
        best=result.ladder,
        limit=unknown,
        unseen=unknown,
        calls=np.zeros(len(originals), int),
        original_goal=np.asarray(result.original_goal),
    )
    return ladder.frontier(points, originals, config.objective, goal=task.goal, answered_by="learn")


def _numbers(ids: Int[np.ndarray, " B"] | None, size: int) -> Int[np.ndarray, " B"]:
    """The number that each original's key is made of: its own, or its place."""
    numbers = np.arange(size) if ids is None else np.asarray(ids)
    if numbers.shape != (size,):
        raise UserError(f"ids: expected one for each of {size} originals, got shape {numbers.shape}")
    return numbers


def _keys(key: jax.Array, numbers: Int[np.ndarray, " B"]) -> jax.Array:
    """A key for each original, the same in whatever batch it comes."""
    return jax.vmap(partial(jax.random.fold_in, key))(jnp.asarray(numbers, jnp.uint32))


def _trained(
    task: Task,
    originals: Paths,
    config: Config,
    keys: jax.Array,
    wanted: Wanted,
    *,
    stop: Stop = Stop(),
    chunk: int | None = None,
    progress: bool | None = None,
) -> _Result:
    """What remains of each original's training, on the host."""
    size = len(originals)
    side_by_side = CPU_CHUNK if jax.local_devices()[0].platform == "cpu" else CHUNK
    side_by_side = side_by_side if chunk is None else chunk
    if side_by_side < 1:
        raise UserError(f"chunk: expected at least 1, got {side_by_side}")
    lambdas = _lambdas(config, size)
    padded = originals.padded()
    kept = kept_symbols(task.constraints, originals)
    inputs = (padded.symbols, padded.lengths, padded.actions, kept, keys, *lambdas)
    program = with_rules(task).replace(constraints=without_keep(task.constraints))

    workers, together = _workers()
    pieces = _pieces(size, side_by_side, together)
    interrupted, turn = Event(), Lock()
    with progress_bar("recourse", size, enabled=progress) as advance, ThreadPoolExecutor(len(workers)) as pool:

        def listen(amount: float) -> None:
            if interrupted.is_set():
                raise KeyboardInterrupt
            advance(amount)

        def solve(worker: int) -> list[_Result]:
            return [
                _solve_piece(
                    program,
                    config,
                    jax.tree.map(lambda x, rows=piece: x[rows], inputs),
                    wanted,
                    stop.of(piece),
                    workers[worker],
                    turn,
                    listen,
                )
                for piece in pieces[worker :: len(workers)]
            ]

        try:
            solved = list(pool.map(solve, range(len(workers))))
        finally:  # whatever ended the wait, the other threads stop at their next round
            interrupted.set()
    results = [solved[i % len(workers)][i // len(workers)] for i in range(len(pieces))]
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:size], *results)


def _pieces(size: int, side_by_side: int, together: int) -> Int[np.ndarray, "P width"]:
    """Which originals each call of the program trains, on so many devices together; the first ones fill up."""
    num_pieces = -(-size // side_by_side)
    chunk = -(-size // num_pieces)  # of one device, whatever their number: the programs, and the results, are the same
    width = chunk * together
    return (np.arange(-(-num_pieces // together) * width) % size).reshape(-1, width)


def _lambdas(config: Config, size: int) -> list[np.ndarray]:
    return [np.broadcast_to(np.asarray(x, np.float32), (size,)) for x in (config.lambda_path, config.lambda_policy)]


@struct.dataclass
class _Result:
    """What remains of an original's training. A leading axis of originals."""

    best: Trajectory
    greedy: Trajectory
    original_goal: jax.Array
    curve: jax.Array
    archive: archive.Archive | None
    ladder: Ladder | None
    reacting: jax.Array  # float[], the share of fresh runs of the trained Q's policy that meet the goal; NaN: no runs


def _workers() -> tuple[list[Any], int]:
    """Where each thread computes, and on how many devices: on all of them at once; or on the only one, where that is
    the CPU a thread for each of its cores."""
    mesh = devices.local_mesh()
    if mesh is not None:
        return [mesh], mesh.size
    only = jax.local_devices()
    return only * (min(len(os.sched_getaffinity(0)), 8) if only[0].platform == "cpu" else 1), 1


def _solve_piece(
    task: Task,
    config: Config,
    inputs: tuple,
    wanted: Wanted,
    stop: Stop,
    place: Any,
    turn: Lock,
    advance: Callable[[float], None],
) -> _Result:
    """Train a piece. Programs are called first in turn, so that one thread compiles them and the others find them."""
    traced_settings = replace(config, lambda_path=0.0, lambda_policy=0.0)  # each original has its own
    shared, inputs = devices.put((task, traced_settings), inputs, place)
    mesh = place if isinstance(place, Mesh) else None
    size, total = len(inputs[0]), config.iterations
    rounds = np.linspace(0, total, min(ROUNDS if stop.never else LOOKS, total) + 1).astype(np.int32)
    last = np.full(size, total)  # how many iterations each was trained
    with turn:
        original, keys, trained = _start(*shared, inputs, wanted=wanted, mesh=mesh)
    for start, end in itertools.pairwise([*rounds, np.int32(total + 1)]):
        ended = (last < total) & (start < total)
        advance(size * (min(end, total) - start) / total)
        if ended.all():
            continue
        with turn if start == 0 else nullcontext():
            state = original, keys, trained
            *_, new = jax.block_until_ready(_train(*shared, inputs, state, start=start, stop=end, mesh=mesh))
        trained = kept_where(ended, trained, new)
        check_numbers(np.asarray(trained.best.symbols), "a sampled edit of an original")
        if not stop.never and end < total:
            done = stop.reached(np.asarray(trained.curve)[:, :end], np.asarray(trained.best.met))
            last = np.where(done & ~ended, end, last)
    reacting = np.full(size, np.nan)
    if wanted.runs:
        with turn:
            *_, reacting = _reacting(wanted.runs)(*shared, inputs, (original, keys, trained), mesh=mesh)
    curve = np.asarray(trained.curve)
    settled = np.take_along_axis(curve, last[:, None] - 1, axis=1)
    return jax.device_get(
        _Result(
            best=trained.best,
            greedy=trained.greedy,
            original_goal=original.r_goal,
            curve=jnp.asarray(np.where(np.arange(total) < last[:, None], curve, settled)),
            archive=trained.archive,
            ladder=trained.ladder,
            reacting=jnp.asarray(reacting),
        )
    )


def _each(function):
    """The function of one original, jitted and mapped over a piece of them, and that over the devices of a mesh."""

    @partial(jax.jit, static_argnames=("wanted", "mesh"))
    def mapped(task, settings, inputs, state=None, *, start=0, stop=0, wanted=Wanted(), mesh=None):
        def piece(shared, batch):
            task, settings, start, stop = shared

            def one(symbols, length, actions, kept, key, lambda_path, lambda_policy, state):
                config = replace(settings, lambda_path=lambda_path, lambda_policy=lambda_policy)
                if state is None:
                    keys = jax.random.split(key, 4)
                    original = replace(trace(task, symbols, length, keys[0], actions), kept=kept)
                    return original, keys[2:], function(task, original, config, keys[1], wanted)
                original, keys, state = state
                return original, keys, function(task, original, config, state, keys, start, stop)

            return jax.vmap(cast(Any, one))(*batch)

        return devices.sharded(piece, mesh)((task, settings, start, stop), (*inputs, state))

    return mapped


_start = _each(learner.init)
_train = _each(learner.train)


@cache
def _reacting(runs: int):
    """The program that tells how likely the trained Q's policy is to work."""

    def one(task, original, config, state, keys, start, stop):
        del start, stop
        return learner.reliability(task, original, config, state, jax.random.fold_in(keys[1], 0), runs)

    return _each(one)


def _assemble(
    task: Task,
    originals: Paths,
    config: Config,
    result: _Result,
    n_recourses: int,
    reliability: Callable[..., dict[str, np.ndarray]],
) -> Recourse:
    size, objective = len(originals), config.objective
    best, greedy = jax.tree.map(np.asarray, (result.best, result.greedy))
    path, rank = np.arange(size, dtype=np.int32), np.ones(size, np.int32)
    if result.archive is not None:
        best, path, rank = _ranked(best, result.archive, n_recourses)
    counts = np.ones(len(rank), bool) if task.constraints is None else np.asarray(best.met)
    works = surely(np.asarray(best.met), size) if task.deterministic else reliability(path, rank, best)
    least = None if task.constraints is None else task.constraints.min_reliability
    if least is not None:
        counts = counts & ~(works["reliability"] < np.asarray(least))  # NaN, where it was not measured, is no less
    rows = np.flatnonzero(counts & (best.reward > -np.inf))  # which a path has whose rewards are no numbers
    found = recourse_of(
        _tallied(task, objective, jax.tree.map(lambda x: x[rows], best), path[rows]),
        originals,
        objective,
        proved=False,
        original_goal=np.asarray(result.original_goal),
        method="learn",
    )
    for name in ("reliability", "reliability_error"):
        own = np.full(len(found), np.nan)
        own[found.status != "infeasible"] = works[name][rows]
        works[name] = own
    worth = objective.of(np.arange(size)).reward(greedy.r_goal, greedy.r_policy, greedy.distance)
    greedy_reward = np.where(greedy.met, worth, -np.inf)
    return replace(found, greedy_reward=greedy_reward, curve=np.asarray(result.curve), **works)


def _tallied(task: Task, objective: Objective, best: Any, path: Int[np.ndarray, " R"]) -> Tally:
    """These trajectories, each with the original that it answers."""
    width = int(best.num_actions.max(initial=0)) + 1
    return Tally(
        index=path,
        paths=Paths(best.symbols[:, :width], best.num_actions + 1, best.actions[:, : width - 1]),
        value=objective.of(path).value(best.r_goal, best.r_policy),
        goal=best.r_goal,
        r_policy=best.r_policy,
        log_prob=best.log_prob,
        distance=best.distance,
        reached=best.reached,
        terminated=best.terminated,
        met=None if task.goal is None else best.met,
    )


def _ranked(
    best: Trajectory, found: archive.Archive, n_recourses: int
) -> tuple[Any, Int[np.ndarray, " R"], Int[np.ndarray, " R"]]:
    """The best path of each original and after it the others of its archive, whose first it is; path and rank."""
    valid = np.asarray(found.filled)[:, :n_recourses].copy()
    valid[:, 0] = True  # the best path, even where it misses the goal
    path, place = np.nonzero(valid)
    slim = jax.tree.map(np.asarray, found.paths)

    def rows(first, others):
        return np.where((place == 0).reshape(-1, *[1] * (first.ndim - 1)), first[path], others[path, place])

    best = replace(best, observations=None, available=None, rows=None, positions=None, rewards=None)
    return jax.tree.map(rows, best, slim), path.astype(np.int32), place.astype(np.int32) + 1
