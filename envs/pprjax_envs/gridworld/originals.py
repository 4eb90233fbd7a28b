"""Originals of the grid world: routes that went badly."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int

from pprjax.errors import UserError
from pprjax.paths import Paths
from pprjax_envs.gridworld.maps import distances_from, distances_to
from pprjax_envs.gridworld.world import GridWorld, action_values, tables

BAD_KINDS = (*["past money", "detour", "past money"] * 3, "lost")
"""What went wrong on each of ten routes."""

_DRAWS = 60  # for each path wanted; then paths are repeated


def bad_paths(env: GridWorld, num: int, seed: int = 0) -> Paths:
    """Routes that went badly, with their actions: walks from the start, all different where the map has enough of them.

    Of ten, about six miss the money, three make a detour over two places, and one never arrives. Those that arrive
    earn less than the best route. All take at least as many moves as the shortest way, and at most 2.5 times as many.

    Args:
        num: how many, at least 1.
        seed: of NumPy's generator; the same seed gives the same routes.

    Raises:
        ValueError: num is below 1, or seed below 0.
    """
    if num < 1:
        raise UserError(f"num: expected at least 1 path, got {num}")
    if seed < 0:
        raise UserError(f"seed: expected at least 0, got {seed}")
    rng = np.random.default_rng(seed)
    next_state, reward, terminal = tables(env)
    cells, start, limit = env.cells, int(env.default_params.start), int(env.default_params.max_steps_in_episode)
    anywhere = np.where(next_state >= 0, next_state % cells.size, -1)[: cells.size]
    anywhere[cells == "F"] = -1  # the trip ends there
    past_money = np.where((anywhere >= 0) & (cells[anywhere] == "$"), -1, anywhere)
    reach = distances_from(anywhere, start)
    flags, places = (np.flatnonzero(here & np.isfinite(reach)) for here in (cells == "F", cells != "F"))
    shortest = int(reach[flags].min())
    longest = min(limit, 5 * shortest // 2)
    best = action_values(next_state, reward, terminal, num_steps=limit)[start].max()

    roads = {False: anywhere, True: past_money}
    moves_left = functools.cache(lambda avoids, target: distances_to(roads[avoids], target))
    found: dict[tuple[int, ...], list[int]] = {}
    for kind in itertools.islice(itertools.cycle(BAD_KINDS), _DRAWS * num):
        if len(found) == num:
            break
        avoids = kind == "past money"
        between = rng.choice(places, rng.integers(1, 3) if avoids else 2)
        stops = [*between.tolist(), int(rng.choice(places if kind == "lost" else flags))]
        actions = _walk(rng, roads[avoids], functools.partial(moves_left, avoids), start, stops)
        if kind == "lost":
            actions = actions[: rng.integers(shortest, longest + 1)]
        states, earned = _follow(next_state, reward, start, actions)
        worse = not terminal[states[-1]] or earned < best - 1e-6
        if worse and shortest <= len(actions) <= longest:
            found.setdefault(tuple(actions), [s % cells.size for s in states])
    found = found or {(): [start]}  # a map with a single way and no room to turn round
    chosen = list(itertools.islice(itertools.cycle(found.items()), num))
    return Paths.from_lists([symbols for _, symbols in chosen], [actions for actions, _ in chosen])


def _walk(
    rng: np.random.Generator,
    moves: Int[np.ndarray, "C 4"],
    distances: Callable[[int], Float[np.ndarray, " C"]],
    cell: int,
    stops: Sequence[int],
) -> list[int]:
    """The actions from stop to stop, by a random shortest way to each. A stop that is out of reach is left out."""
    actions = []
    for stop in stops:
        left = distances(stop)
        while cell != stop and np.isfinite(left[cell]):
            closer = np.flatnonzero((moves[cell] >= 0) & (left[moves[cell]] < left[cell]))
            actions.append(int(rng.choice(closer)))
            cell = int(moves[cell, actions[-1]])
    return actions


def _follow(next_state: np.ndarray, reward: np.ndarray, start: int, actions: list[int]) -> tuple[list[int], float]:
    """The states that these actions lead through, and what they earn."""
    states, earned = [start], 0.0
    for action in actions:
        earned += reward[states[-1], action]
        states.append(int(next_state[states[-1], action]))
    return states, earned
