"""Branch and bound in blocks: what a beam dropped is looked at until nothing is left that could be better.

A prefix is dropped for good where its bound on v is not above the best path of at most m edits: no point of the
frontier goes through it. Prefixes wait on a stack, deepest first, so that memory stays bounded. When the budget of
steps ends, those that still wait say how much better the unknown best may be (exact decoding needs monotone scores:
Stahlberg and Byrne, arXiv 1908.10090; anytime with bounded memory: Zhou and Hansen, ICAPS 2005).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from pprjax.config import Config
from pprjax.rollout import Original
from pprjax.search import nodes as search
from pprjax.search.nodes import Best, Children, Nodes
from pprjax.task import Task

BLOCK = 1024
"""Prefixes that take a step side by side."""


class Proof(NamedTuple):
    """What is known of one original when the search ends. E as in `Best`."""

    best: Best
    open: Float[np.ndarray, " E"]  # the largest bound of a prefix of at least e edits that still waits; -inf: none
    calls: int  # steps of the world


class _Waiting(NamedTuple):
    """Children of one block that are still to be stepped, the most promising first. On the host, but for the block."""

    t: int  # actions before the step
    nodes: Nodes
    children: Children
    parent: Int[np.ndarray, " M"]
    action: Int[np.ndarray, " M"]
    smallest: Int[np.ndarray, " M"]
    bound: Float[np.ndarray, " M"]


def prove(task: Task, original: Original, config: Config, best: Best, *, calls: int, block: int = BLOCK) -> Proof:
    """The best path for each number of edits, starting from those that are known; and what stays open.

    Args:
        task: deterministic, with a `goal_bound`; habits are charged as regret.
        best: what a beam found.
        calls: steps of the world at most, roughly: the last block is finished.
        block: prefixes that take a step side by side.
    """
    limit = search.goal_bound(task, config)
    nodes = search.alone(search.root(task, original, config), block)
    best, waiting = _opened(task, original, config, limit, nodes, best, 0)
    stack, used = [waiting], 0
    at_most = np.asarray(best.at_most)
    while stack and used < calls:
        top = _hopeful(stack.pop(), at_most)
        if not top.parent.size:
            continue
        now, later = (top._replace(**{k: getattr(top, k)[part] for k in _EDGES}) for part in _parts(block))
        if later.parent.size:
            stack.append(later)
        count = len(now.parent)
        used += count
        filled = [np.resize(now.parent, block), np.resize(now.action, block), np.arange(block) < count]
        best, nodes = _advanced(task, original, config, now.nodes, now.children, best, filled, now.t)
        best, waiting = _opened(task, original, config, limit, nodes, best, now.t + 1)
        at_most = np.asarray(best.at_most)
        stack.append(waiting)
    return Proof(best, _still_open([_hopeful(w, at_most) for w in stack], len(at_most)), used)


_EDGES = ("parent", "action", "smallest", "bound")


def _parts(block: int) -> tuple[slice, slice]:
    return slice(0, block), slice(block, None)


def _opened(task, original, config, limit, nodes: Nodes, best: Best, t: int) -> tuple[Best, _Waiting]:
    """The best paths after those that end in these nodes, and the children that may lead to better ones."""
    best, children = _expanded(task, original, config, nodes, best, limit)
    there, bound, smallest = map(np.asarray, (children.available, children.bound, children.smallest))
    parent, action = np.nonzero(there)
    order = np.argsort(-bound[parent, action], kind="stable")
    parent, action = parent[order], action[order]
    return best, _Waiting(t, nodes, children, parent, action, smallest[parent, action], bound[parent, action])


def _hopeful(waiting: _Waiting, at_most: Float[np.ndarray, " E"]) -> _Waiting:
    """Those whose bound is above the best path of at most m edits."""
    known = waiting.smallest < len(at_most)
    least = at_most[np.minimum(waiting.smallest, len(at_most) - 1)]
    chosen = known & (waiting.bound > np.asarray(search.tolerated(jnp.asarray(least))))
    return waiting._replace(**{name: getattr(waiting, name)[chosen] for name in _EDGES})


def _still_open(stack: list[_Waiting], num_distances: int) -> Float[np.ndarray, " E"]:
    found = np.full(num_distances, -np.inf)
    for waiting in stack:
        np.maximum.at(found, waiting.smallest, waiting.bound)
    return np.maximum.accumulate(found)


@jax.jit
def _expanded(task: Task, original: Original, config: Config, nodes: Nodes, best: Best, limit):
    children = search.expand(task, original, config, nodes, limit)
    ends = search.dead_ends(nodes, children)
    return search.record(task, original, config, best, nodes, ends, jnp.zeros_like(ends)), children


@jax.jit
def _advanced(task: Task, original: Original, config: Config, nodes: Nodes, children: Children, best: Best, edges, t):
    parent, action, alive = edges
    longer, complete, terminated = search.step(task, original, config, nodes, children, parent, action, alive, t)
    return search.record(task, original, config, best, longer, complete, terminated), longer
