"""Recourse in a game that is too large to search: the certified frontier of what was explored, and new play, in turn.

Where a path of the frontier leads past a step that nobody ever tried, it is tried, and the player goes on from there by
its favourite actions, which under "regret" cost nothing. The paths found lie in a larger explored part, whose frontier
is made again. So an answer is never worse than the best path through all that was explored, and its bound is on that
part alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from pprjax.certify.own_steps import pairs
from pprjax.policy import TablePolicy
from pprjax.reward import OwnSteps, closeness
from pprjax_envs.mario.agents import NetworkPolicy, favourites
from pprjax_envs.mario.explorer import ROOT, UNKNOWN, Step
from pprjax_envs.mario.labels import Rung, frontier_of
from pprjax_envs.mario.play import Games, games
from pprjax_envs.mario.table import MarioTable, Play, symbol
from pprjax_envs.mario.world import MarioEnv

LANES, TURNS = 24, 3
"""Games of a turn, and turns at most."""


class Explored(NamedTuple):
    """What was explored up to a goal, a player's policy there, and the frontier of an original."""

    world: MarioTable
    policy: TablePolicy
    rungs: list[Rung]

    def at(self, lambda_path: float) -> Rung | None:
        """The best path at this λ_path, of equals the one of fewer edits; None where no path to the goal is known."""
        return max(self.rungs, key=lambda rung: worth(rung, lambda_path), default=None)


def worth(rung: Rung, lambda_path: float) -> float:
    """R, Eq. 5."""
    return rung.value + closeness(rung.distance, lambda_path)


def explored_frontier(
    env: MarioEnv,
    player: NetworkPolicy,
    original: Play,
    *,
    goal_x: int,
    lambda_policy: float,
    own_steps: OwnSteps = "charged",
) -> Explored:
    """The certified frontier of one original in what was explored so far; own_steps as in `pprjax.Config`."""
    world = env.explored(goal_x=goal_x)
    policy, symbols = player.table(world), np.array(original.symbols)
    charges = _charges(world, policy, symbols, own_steps)
    return Explored(world, policy, frontier_of(world, charges, symbols, lambda_policy=lambda_policy))


def _charges(
    world: MarioTable, policy: TablePolicy, original: Int[np.ndarray, " n"], own_steps: OwnSteps
) -> Float[np.ndarray, "S A"]:
    """The regret of each action, in nats; none where it is a step of the original and these are free."""
    log_probs = np.log(np.asarray(policy.probs, float))
    charges = log_probs.max(1, keepdims=True) - log_probs
    if own_steps == "charged":
        return charges
    symbols = symbol(world.nodes.x, world.nodes.y, world.symbols)
    taken = pairs(symbols[:, None], symbols[world.nodes.next_state])
    return np.where(np.isin(taken, pairs(original[:-1], original[1:])), 0.0, charges)


def play_on(
    env: MarioEnv,
    player: NetworkPolicy,
    original: Play,
    *,
    goal_x: int,
    lambda_path: float,
    lambda_policy: float,
    calls: int,
    own_steps: OwnSteps = "charged",
) -> list[float]:
    """Play new games where an original's frontier says so, until `calls` new steps are played, or `TURNS` are over.

    Returns:
        The largest R after each turn; -inf before a path to the goal is known.
    """
    before, tried, best = env.explorer.played, set[tuple[int, int]](), []
    strange = [t for t, action in enumerate(original.actions) if action >= env.num_actions]
    own = _follow(env, original.actions[: min(strange, default=None)])  # what the player's game has too
    ways = [own]
    while len(best) < TURNS and env.explorer.played - before < calls:
        steps = _untried(env, player, ways, tried)
        if not steps:
            break
        tried |= set(steps)
        _play(env, player, steps, goal_x)
        env.check()
        found = explored_frontier(
            env, player, original, goal_x=goal_x, lambda_policy=lambda_policy, own_steps=own_steps
        )
        first = found.at(lambda_path)
        best.append(-np.inf if first is None else worth(first, lambda_path))
        ways = [_follow(env, rung.actions) for rung in found.rungs] + [own]
    return best


def _untried(
    env: MarioEnv, player: NetworkPolicy, ways: list[list[int]], tried: set[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The `LANES` steps from the nodes of these ways that were not gone on from, the likeliest for the player first."""
    nodes = np.array(list(dict.fromkeys(node for way in ways for node in way)), np.int64)
    charge = player.charges(env.explorer.nodes, nodes)
    every = [(int(node), action) for node in nodes for action in range(env.num_actions)]
    order = np.argsort(charge.ravel(), kind="stable")
    return [every[i] for i in order.tolist() if every[i] not in tried][:LANES]


def _play(env: MarioEnv, player: NetworkPolicy, steps: list[tuple[int, int]], goal_x: int) -> Games:
    """Take each step, and go on by the player's favourite actions."""
    first = np.array([action for _, action in steps])
    choose = favourites(env, player)

    def chosen(seen: Step, t: int) -> Int[np.ndarray, " B"]:
        return first if t == 0 else choose(seen, t)

    nodes = np.array([node for node, _ in steps], np.int64)
    horizon = int(env.default_params.max_steps_in_episode)
    return games(env.explorer, chosen, nodes, goal_x=goal_x, steps=horizon)


def _follow(env: MarioEnv, actions: list[int]) -> list[int]:
    """The nodes that these actions lead to, from the start on, until the game is done."""
    way = [ROOT]
    for action in actions:
        after = int(env.explorer.step(np.array(way[-1:]), np.array([action])).node[0])
        if after in (way[-1], UNKNOWN):
            break
        way.append(after)
    return way
