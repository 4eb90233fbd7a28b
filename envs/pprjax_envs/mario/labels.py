"""The frontier of an original in the part of the game that was explored, whole and exact, by labels.

A way to a node is told by a label: what it earned, v, and its Levenshtein column. Whatever goes on from there, a label
is of no use beside another of the same node that earned as much and whose column is nowhere larger: adding a symbol
keeps that order, and so does the end. The explored part is nearly a tree, so a node has hardly more than one label
(multi-criteria shortest paths: Martins, European Journal of Operational Research 16, 1984).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from pprjax.certify.edits import UNIT, append
from pprjax_envs.mario.explorer import ROOT, UNKNOWN
from pprjax_envs.mario.table import MarioTable, reached, symbol


class Rung(NamedTuple):
    """A path on the frontier."""

    distance: int  # d, unit costs
    value: float  # v = R_goal + λ_policy·R_policy
    actions: list[int]


class _Layer(NamedTuple):
    """L labels of nodes after as many steps."""

    node: np.ndarray  # int[L]
    value: np.ndarray  # float[L]
    column: np.ndarray  # int16[L, n + 1]


def frontier_of(
    world: MarioTable, charges: Float[np.ndarray, "S A"], original: Int[np.ndarray, " n"], *, lambda_policy: float
) -> list[Rung]:
    """Of all paths to the goal through the explored part, those worth more than each with fewer edits, fewest first.

    Args:
        charges: nats of regret that each action costs in each state, of all that the game offers, tried or not.
        original: the symbols of τ₀, which starts where the world does.
    """
    nodes, past = world.nodes, reached(world.nodes, world.goal_x)
    weight = nodes.reward.astype(float) - lambda_policy * charges
    symbols = symbol(nodes.x, nodes.y, world.symbols)
    leads = _leads(nodes.next_state, past)
    start = np.arange(len(original) + 1, dtype=np.int16)[None]
    layer = _Layer(np.array([ROOT]), np.zeros(1), append(start, original, symbols[[ROOT]], UNIT))
    back: list[tuple[np.ndarray, np.ndarray]] = []
    best: dict[int, tuple[float, int, int]] = {}
    for t in range(int(world.default_params.max_steps_in_episode)):
        rows, action = np.nonzero(leads[layer.node])
        if not len(rows):
            break
        node = nodes.next_state[layer.node[rows], action]
        value = layer.value[rows] + weight[layer.node[rows], action]
        longer = _Layer(node, value, append(layer.column[rows], original, symbols[node], UNIT))
        kept = _useful(longer)
        back.append((rows[kept], action[kept]))
        layer = _Layer(*(x[kept] for x in longer))
        for i in np.flatnonzero(past[layer.node]).tolist():
            distance, worth = int(layer.column[i, -1]), float(layer.value[i])
            if worth > best.get(distance, (-np.inf,))[0]:
                best[distance] = worth, t, i
    rungs, most = [], -np.inf
    for distance, (value, t, i) in sorted(best.items()):
        if value > most:
            most = value
            rungs.append(Rung(distance, value, _actions(back, t, i)))
    return rungs


def _leads(next_state: Int[np.ndarray, "S A"], past: Bool[np.ndarray, " S"]) -> Bool[np.ndarray, "S A"]:
    """Which steps the goal can be reached by, through what was explored."""
    valid, can, before = next_state != UNKNOWN, past, None
    while before is None or (can != before).any():
        before = can
        can = past | (valid & can[next_state]).any(1)
    return valid & can[next_state] & ~past[:, None]


def _useful(layer: _Layer) -> Int[np.ndarray, " K"]:
    """The labels that no other of the same node makes useless; of equals the first."""
    order = np.lexsort((np.arange(len(layer.node)), -layer.value, layer.node))
    kept: list[int] = []
    begin = 0
    for i in order.tolist():
        if not kept or layer.node[kept[-1]] != layer.node[i]:
            begin = len(kept)
        if begin == len(kept) or not (layer.column[kept[begin:]] <= layer.column[i]).all(1).any():
            kept.append(i)
    return np.array(kept, np.int64)


def _actions(back: list[tuple[np.ndarray, np.ndarray]], t: int, i: int) -> list[int]:
    """What was done on the way to label i of layer t."""
    actions = []
    for rows, action in reversed(back[: t + 1]):
        actions.append(int(action[i]))
        i = int(rows[i])
    return actions[::-1]
