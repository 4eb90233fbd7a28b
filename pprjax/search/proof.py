"""Branch and bound in blocks: what a beam dropped is looked at until nothing is left that could be better.

A prefix is dropped for good where its bound on v is not above what is `needed`: for the frontier the best path of at
most m edits, for one λ_path what more edits than m would have to be worth. Prefixes wait on a stack, deepest first, so
that memory stays bounded. When the budget of steps ends, those that still wait say how much better the unknown best may
be (exact decoding needs monotone scores: Stahlberg and Byrne, arXiv 1908.10090; anytime with bounded memory: Zhou and
Hansen, ICAPS 2005).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Num

from pprjax.errors import UserError
from pprjax.ladder import Ladder
from pprjax.reward import closeness
from pprjax.search import nodes as layers
from pprjax.search.nodes import Children, Edges, Nodes, Search, rung_of

BLOCK = 1024
"""Prefixes that take a step side by side, at most."""

CHILDREN = 2**22
"""Children that they may have together."""


class Proof(NamedTuple):
    """What is known of one original when the search ends. E as in `Ladder`."""

    best: Ladder
    unseen: list[Float[np.ndarray, " E"]]  # each holds alone: the largest bound of an unseen path of m = e; -inf: none
    calls: int  # steps of the world


class _Waiting(NamedTuple):
    """Children of one block that are still to be stepped, the most promising first. On the host, but for the block."""

    t: int  # actions before the step
    nodes: Nodes
    children: Children
    parent: Int[np.ndarray, " M"]
    action: Int[np.ndarray, " M"]
    smallest: Num[np.ndarray, " M"]
    bound: Float[np.ndarray, " M"]

    def __getitem__(self, rows) -> _Waiting:
        fields = ("parent", "action", "smallest", "bound")
        return self._replace(**{name: getattr(self, name)[rows] for name in fields})


def prove(search: Search, best: Ladder, *, calls: int, block: int = BLOCK) -> Proof:
    """The best path for each number of edits, starting from those that are known; and what stays unseen.

    For the frontier one pass looks at the prefixes of m = 0, the next at those of m ≤ 1, and so on: few edits are
    proved before many are looked at, and what a pass sees again is a small part of it. For one λ_path there is one
    pass, since R itself puts few edits first.

    Args:
        search: of a world with a `goal_bound` or a `goal_to_go`, with habits that are charged as regret.
        best: what a beam found.
        calls: steps of the world at most, roughly: the last block is finished.
        block: prefixes that take a step side by side; fewer where there are many actions.
    """
    last = len(best.value) - 1
    block = max(1, min(block, CHILDREN // search.task.num_actions))
    unseen, used = [], 0
    for most in range(last + 1) if search.objective.lambda_path is None else [last]:
        best, left, count, complete = _pass(search, best, most, calls - used, block)
        used += count
        unseen = [left] if complete else [*unseen, left]
        if not (complete and search.matters(np.asarray(best.value), left, np.arange(last + 1)).any()):
            break
    return Proof(best, unseen, used)


def _pass(search: Search, best: Ladder, most: int, calls: int, block: int):
    """The best paths after all prefixes of m ≤ most were seen, or as many as the calls allow; for each e the largest
    bound of a prefix of m = e that was not; the steps taken, and whether all were seen."""
    beyond = np.full(len(best.value), -np.inf)

    def leave(waiting: _Waiting) -> None:
        np.maximum.at(beyond, rung_of(waiting.smallest), search.at_rung(waiting.bound, waiting.smallest))

    def within(waiting: _Waiting) -> _Waiting:
        rung = rung_of(waiting.smallest)
        out = rung > most
        leave(waiting[out & (rung < len(beyond))])
        return waiting[~out]

    best, waiting = _opened(search, best, _rooted(search, block), 0)
    stack, used = [within(waiting)], 0
    while stack and used < calls:
        top = stack.pop()
        top = top[search.matters(np.asarray(best.value), top.bound, top.smallest)]
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
            valid=jnp.asarray(np.arange(block) < count),
        )
        best, nodes = _stepped(search, best, now.nodes, now.children, edges, now.t)
        best, waiting = _opened(search, best, nodes, now.t + 1)
        stack.append(within(waiting))
    for waiting in stack:
        leave(waiting)
    return best, beyond, used, not stack


def _opened(search: Search, best: Ladder, nodes: Nodes, t: int) -> tuple[Ladder, _Waiting]:
    """The best paths after those that end in these nodes, and the children that may lead to better ones: at one λ_path
    those that may have the largest R first, for the frontier those of the fewest edits, and of these the best."""
    best, children = _expanded(search, best, nodes)
    valid, bound, smallest = map(np.asarray, (children.available, children.bound, children.smallest))
    if np.isnan(bound[valid]).any():
        raise UserError("policy.step, env: expected log-probabilities and rewards, got NaN after a prefix of an edit")
    parent, action = np.nonzero(valid & search.matters(np.asarray(best.value), bound, smallest))
    bound, smallest = bound[parent, action], smallest[parent, action]
    if search.objective.lambda_path is None:
        order = np.lexsort((-bound, smallest))
    else:
        order = np.argsort(-(bound + closeness(smallest, float(search.objective.lambda_path))), kind="stable")
    return best, _Waiting(t, nodes, children, parent[order], action[order], smallest[order], bound[order])


@partial(jax.jit, static_argnames="room")
def _rooted(search: Search, room: int) -> Nodes:
    return layers.root(search, room)


@jax.jit
def _expanded(search: Search, best: Ladder, nodes: Nodes) -> tuple[Ladder, Children]:
    children = layers.expand(search, nodes)
    return layers.record(search, best, layers.dead_ends(nodes, children)), children


@jax.jit
def _stepped(search: Search, best: Ladder, nodes: Nodes, children: Children, edges: Edges, t) -> tuple[Ladder, Nodes]:
    longer = layers.step(search, nodes, children, edges, t)
    return layers.record(search, best, longer), longer
