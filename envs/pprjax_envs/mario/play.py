"""Many games at once on what an explorer remembers: by a policy, and by beams that look for the best way on.

A game is over beyond the goal, where the game itself is done, or where Mario has got no further for `STUCK` steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from pprjax_envs.mario.explorer import DEAD, DONE, Explorer, Step
from pprjax_envs.mario.table import reached

STUCK = 16
"""Steps, of about a second together, after which who got no further is stuck: a walker does 110 pixels in them."""

CELL = 8
"""Pixels: of two ways to a place of this size, a beam keeps the better one."""


class Games(NamedTuple):
    """B games of at most T steps, side by side."""

    nodes: np.ndarray  # int64[T + 1, B]; a game that is over stays where it is
    actions: np.ndarray  # int64[T, B], -1 where it is over

    def steps(self) -> dict[tuple[int, int], None]:
        """The different steps (node, action), in the order in which they are first taken."""
        taken = self.actions >= 0
        return dict.fromkeys(zip(self.nodes[:-1][taken].tolist(), self.actions[taken].tolist(), strict=True))

    def way(self, game: int) -> tuple[list[int], list[int]]:
        """The nodes of one game, the last one included, and its actions."""
        count = int((self.actions[:, game] >= 0).sum())
        return self.nodes[: count + 1, game].tolist(), self.actions[:count, game].tolist()


def look(explorer: Explorer, nodes: Int[np.ndarray, " B"]) -> Step:
    """What is seen at these nodes."""
    return explorer.step(nodes, np.full(np.shape(nodes), -1))


def over(step: Step, goal_x: int) -> Bool[np.ndarray, " B"]:
    """Beyond the goal, or done."""
    return reached(step, goal_x) | (step.flags & DONE > 0)


def games(
    explorer: Explorer,
    choose: Callable[[Step, int], Int[np.ndarray, " B"]],
    nodes: Int[np.ndarray, " B"],
    *,
    goal_x: int,
    steps: int,
) -> Games:
    """A game from each of these nodes.

    Args:
        choose: from what is seen at the B nodes, and the number of steps taken, to an action for each.
        steps: the largest number of steps of a game.
    """
    way, actions = [np.asarray(nodes, np.int64)], []
    seen = look(explorer, way[0])
    furthest, since = seen.x.astype(int), np.zeros(len(nodes), int)
    for t in range(steps):
        stopped = over(seen, goal_x) | (since >= STUCK) | (seen.status != 0)
        if stopped.all():
            break
        taken = np.where(stopped, -1, choose(seen, t))
        seen = explorer.step(way[-1], taken)
        since = np.where(seen.x > furthest, 0, since + 1)
        furthest = np.maximum(furthest, seen.x)
        way.append(seen.node.astype(np.int64))
        actions.append(taken)
    return Games(np.stack(way), np.array(actions, np.int64).reshape(-1, len(nodes)))


class _Front(NamedTuple):
    """What a beam goes on from: K nodes."""

    root: np.ndarray  # int[K], the number of the root that each comes from
    node: np.ndarray  # int[K]
    earned: np.ndarray  # float[K], since the root
    coins: np.ndarray  # int[K], since the root


def beams(
    explorer: Explorer,
    roots: Int[np.ndarray, " R"],
    worth: Callable[[Step, np.ndarray], Float[np.ndarray, " M"]],
    *,
    goal_x: int,
    width: int,
    steps: int,
) -> dict[tuple[int, int], None]:
    """A beam from each root: every action from the `width` nodes that earned most, layer by layer.

    Of the nodes of a layer that are alike (near each other, moving alike, with the same button held and as many coins)
    only the best goes on; of equals the higher up is better. All beams take their steps together.

    Args:
        worth: what steps earn, from what they lead to and their actions.
        steps: layers, at most; the beam of a root ends where its best node is beyond the goal.

    Returns:
        The steps (node, action) that were taken, in their order.
    """
    size = len(roots)
    front = _Front(np.arange(size), np.asarray(roots, np.int64), np.zeros(size), np.zeros(size, int))
    taken: dict[tuple[int, int], None] = {}
    for _ in range(steps):
        if not len(front.node):
            break
        nodes = np.repeat(front.node, explorer.num_actions)
        actions = np.tile(np.arange(explorer.num_actions), len(front.node))
        before, after = look(explorer, nodes), explorer.step(nodes, actions)
        playable = ~over(before, goal_x) & (after.status == 0)
        taken |= dict.fromkeys((int(n), int(a)) for n, a in zip(nodes[playable], actions[playable], strict=True))
        root, earned, coins = (np.repeat(x, explorer.num_actions) for x in (front.root, front.earned, front.coins))
        earned, coins = earned + worth(after, actions), coins + after.coins
        valid = reached(after, goal_x)
        finished = np.unique(root[valid])
        cell = np.stack([root, after.x // CELL, after.y // CELL, (after.y - before.y) // 4, actions, coins], 1)
        alive = ~over(after, goal_x) & ~np.isin(root, finished) & playable
        candidates = np.flatnonzero(alive)
        order = np.lexsort((-after.y[candidates], -earned[candidates]))
        kept = _best(candidates[order], cell, root, width)
        front = _Front(root[kept], after.node[kept].astype(np.int64), earned[kept], coins[kept])
    return taken


def _best(candidates: Int[np.ndarray, " M"], cell: np.ndarray, root: np.ndarray, width: int) -> list[int]:
    """The first `width` candidates of each root, one a cell."""
    kept, cells, count = [], set(), dict[int, int]()
    for i in candidates.tolist():
        at_cell, index = tuple(cell[i].tolist()), int(root[i])
        if at_cell not in cells and count.get(index, 0) < width:
            cells.add(at_cell)
            count[index] = count.get(index, 0) + 1
            kept.append(i)
    return kept


def failures(explorer: Explorer, played: Games, goal_x: int, back: tuple[int, ...]) -> list[int]:
    """Nodes some steps before games failed: so many before Mario died, or before he got no further.

    Args:
        back: steps before the failure.
    """
    found: dict[int, None] = {}
    for game in range(played.nodes.shape[1]):
        way, _ = played.way(game)
        seen = look(explorer, np.array(way))
        if reached(seen, goal_x)[-1]:
            continue
        end = len(way) - 1 if seen.flags[-1] & DEAD else int(np.argmax(seen.x))
        found |= dict.fromkeys(way[max(end - b, 0)] for b in back)
    return list(found)
