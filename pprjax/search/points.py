"""The best path for each number of edits, found by search: a beam, and after it branch and bound where it can prove."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float

from pprjax import metrics
from pprjax.config import Config
from pprjax.constraints import kept_symbols, without_keep
from pprjax.metrics import Scores
from pprjax.paths import PAD, Paths
from pprjax.result import Frontier
from pprjax.rollout import Original, trace
from pprjax.search.beam import Beam, search_beam
from pprjax.search.nodes import Best, Search, tolerated
from pprjax.search.proof import prove
from pprjax.task import Task

WIDTH = 16
"""Nodes that a beam keeps for each number of edits."""

WEIGHT = 1.0
"""Of the world's `promise` of a prefix beside v."""

SIDE_BY_SIDE = 2**22
"""Children that all beams of one program may have in a layer."""


@struct.dataclass
class Points:
    """What is known of B originals, for e = 0 … E - 1. Arrays on the host."""

    best: Best  # leading axis of B
    limit: np.ndarray  # float[B, E], no path of at most e edits has a larger v; inf where nothing is known
    calls: np.ndarray  # int[B], steps of the world
    original_goal: np.ndarray  # float[B], R_goal of the original; -inf where the world can't follow it


def search_points(
    task: Task, originals: Paths, config: Config, *, num_distances: int, calls: int, width: int = WIDTH
) -> Points:
    """The best path of exactly e edits that was found, and a bound on all there are, for each original and e < E.

    Args:
        task: deterministic.
        config: habit, λ_policy (one number or float[B]) and the edit costs, whole numbers.
        calls: steps of the world that the proof of one original may take after the beam.
        width: nodes that the beam keeps of each layer for each number of edits, at least.
    """
    kept = kept_symbols(task.constraints, originals)
    task = task.replace(constraints=without_keep(task.constraints))
    lambdas = np.broadcast_to(np.asarray(config.lambda_policy, np.float32), len(originals))
    inputs = (originals.symbols, originals.lengths, originals.actions, kept, lambdas)
    together = max(1, SIDE_BY_SIDE // (num_distances * width * task.num_actions))
    parts = []
    for low in range(0, len(originals), together):
        part = jax.tree.map(lambda x, low=low: jnp.asarray(x[low : low + together]), inputs)
        parts.append(_beams(task, replace(config, lambda_policy=0.0), part, num_distances=num_distances, width=width))
    traced, beams = jax.device_get(jax.tree.map(lambda *x: jnp.concatenate(x), *parts))
    best, used = beams.best, np.asarray(beams.calls, np.int64)
    limit = _limit(best, beams.dropped)
    proofs = []
    for i in range(len(originals)):
        own = jax.tree.map(lambda x, i=i: x[i], (traced, best))
        if np.isposinf(limit[i]).any() or (limit[i] <= best.at_most[i]).all():
            proofs.append(own[1])
            continue
        search = Search(task, own[0], replace(config, lambda_policy=jnp.float32(lambdas[i])))
        found = prove(search, own[1], calls=calls)
        proofs.append(jax.device_get(found.best))
        limit[i] = _limit(proofs[-1], found.open)
        used[i] += found.calls
    best = jax.tree.map(lambda *rows: np.stack(rows), *proofs)
    return Points(best=best, limit=limit, calls=used, original_goal=traced.reward_goal)


def _limit(best: Best, dropped: Float[np.ndarray, "*B E"]) -> Float[np.ndarray, "*B E"]:
    """What v can be at most with at most e edits: what was found, or what was dropped and might have been better."""
    at_most = np.asarray(best.at_most)
    matters = dropped > tolerated(at_most)
    return np.maximum(at_most, np.maximum.accumulate(np.where(matters, dropped, -np.inf), axis=-1))


@partial(jax.jit, static_argnames=("num_distances", "width"))
def _beams(task: Task, config: Config, inputs, *, num_distances: int, width: int) -> tuple[Original, Beam]:
    def one(symbols, length, actions, kept, lambda_policy: Float[Array, ""]):
        own = replace(config, lambda_policy=lambda_policy)
        original = replace(trace(task, symbols, length, jax.random.key(0), actions), kept=kept)
        search = Search(task, original, own)
        return original, search_beam(search, num_distances=num_distances, width=width, weight=WEIGHT)

    return jax.vmap(one)(*inputs)


def search_frontier(task: Task, originals: Paths, config: Config, *, num_distances: int, calls: int) -> Frontier:
    """`pprjax.frontier` by search; see `search_points`."""
    points = search_points(task, originals, config, num_distances=num_distances, calls=calls)
    best = points.best
    before = np.concatenate([np.full((len(originals), 1), -np.inf), np.asarray(best.at_most)[:, :-1]], axis=1)
    path, distance = np.nonzero(best.value > tolerated(before))
    at = jax.tree.map(lambda x: np.asarray(x)[path, distance], best)
    num_actions = (at.actions != PAD).sum(1).astype(np.int32)
    status = metrics.status(
        distance=distance,
        reached=at.reached,
        terminated=at.terminated,
        met=None if task.goal is None else at.value > -np.inf,
    )
    return Frontier(
        originals=originals,
        path=path.astype(np.int32),
        distance=distance.astype(np.int32),
        value=at.value.astype(float),
        bound=np.maximum(points.limit[path, distance], at.value).astype(float),
        paths=Paths(at.symbols, num_actions + 1, at.actions),
        scores=Scores(
            goal=at.goal,
            path=1.0 / (distance + 1.0),
            r_policy=at.charged,
            policy=at.log_prob / np.maximum(num_actions, 1),
            distance=distance.astype(np.int32),
            violations=np.zeros(len(path), np.int32),
        ),
        status=status,
        method=np.full(len(path), "search"),
        limit=points.limit.astype(float),
        original_goal=np.asarray(points.original_goal, float),
        lambda_policy=np.broadcast_to(np.asarray(config.lambda_policy, float), len(originals)),
    )
