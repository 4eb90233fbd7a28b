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

from pprjax.search import nodes as layers
from pprjax.search.nodes import Best, Children, Edges, Nodes, Search, tolerated

BLOCK = 1024
"""Prefixes that take a step side by side."""


class Proof(NamedTuple):
    """What is known of one original when the search ends. E as in `Best`."""

    best: Best
    open: Float[np.ndarray, " E"]  # the largest bound of a prefix of m = e that still waits; -inf: none
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

    def __getitem__(self, rows) -> _Waiting:
        fields = ("parent", "action", "smallest", "bound")
        return self._replace(**{name: getattr(self, name)[rows] for name in fields})


def prove(search: Search, best: Best, *, calls: int, block: int = BLOCK) -> Proof:
    """The best path for each number of edits, starting from those that are known; and what stays open.

    Args:
        search: of a world with a `goal_bound`, with habits that are charged as regret.
        best: what a beam found.
        calls: steps of the world at most, roughly: the last block is finished.
        block: prefixes that take a step side by side.
    """
    best, waiting = _opened(search, best, layers.root(search, block), 0)
    stack, used = [waiting], 0
    while stack and used < calls:
        top = _hopeful(stack.pop(), best)
        if not top.parent.size:
            continue
        now = top[:block]
        if len(top.parent) > block:
            stack.append(top[block:])
        count = len(now.parent)
        used += count
        edges = Edges(
            parent=jnp.asarray(np.resize(now.parent, block)),
            action=jnp.asarray(np.resize(now.action, block)),
            there=jnp.asarray(np.arange(block) < count),
        )
        best, nodes = _stepped(search, best, now.nodes, now.children, edges, now.t)
        best, waiting = _opened(search, best, nodes, now.t + 1)
        stack.append(waiting)
    still = np.full(len(best.value), -np.inf)
    for waiting in stack:
        left = _hopeful(waiting, best)
        np.maximum.at(still, left.smallest, left.bound)
    return Proof(best, still, used)


def _opened(search: Search, best: Best, nodes: Nodes, t: int) -> tuple[Best, _Waiting]:
    """The best paths after those that end in these nodes, and the children that may lead to better ones."""
    best, children = _expanded(search, best, nodes)
    there, bound, smallest = map(np.asarray, (children.available, children.bound, children.smallest))
    parent, action = np.nonzero(there)
    order = np.argsort(-bound[parent, action], kind="stable")
    parent, action = parent[order], action[order]
    return best, _Waiting(t, nodes, children, parent, action, smallest[parent, action], bound[parent, action])


def _hopeful(waiting: _Waiting, best: Best) -> _Waiting:
    """`Best.hopeful`, in NumPy: the number of children differs from block to block."""
    least = tolerated(np.maximum.accumulate(np.asarray(best.value)))
    known = waiting.smallest < len(least)
    return waiting[known & (waiting.bound > least[np.minimum(waiting.smallest, len(least) - 1)])]


@jax.jit
def _expanded(search: Search, best: Best, nodes: Nodes) -> tuple[Best, Children]:
    children = layers.expand(search, nodes)
    return layers.record(search, best, layers.dead_ends(nodes, children)), children


@jax.jit
def _stepped(search: Search, best: Best, nodes: Nodes, children: Children, edges: Edges, t) -> tuple[Best, Nodes]:
    longer = layers.step(search, nodes, children, edges, t)
    return layers.record(search, best, longer), longer
