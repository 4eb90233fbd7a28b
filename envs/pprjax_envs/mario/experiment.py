"""Games that ended badly, edited for a coin seeker and a coin dodger; and whose habits each recourse has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from pprjax import Config, score
from pprjax.errors import UserError
from pprjax.paths import Paths
from pprjax.policy import Policy, TablePolicy
from pprjax.reward import OwnSteps
from pprjax_envs.mario.agents import NetworkPolicy, acted, mean_entropy, trials
from pprjax_envs.mario.emulator import Game
from pprjax_envs.mario.labels import Rung
from pprjax_envs.mario.play import look
from pprjax_envs.mario.settings import MOVES, ORIGINALS, PLAYERS, REACH, Original
from pprjax_envs.mario.table import MarioTable, Play, reached
from pprjax_envs.mario.turns import explored_frontier, play_on, worth
from pprjax_envs.mario.world import MarioEnv, task


def played_originals(originals: Mapping[str, Original] = ORIGINALS, *, symbols: str = "tile") -> dict[str, Play]:
    """What came of each original, played by an emulator that has all of `MOVES`."""
    env = MarioEnv(Game(actions=MOVES), goal_x=REACH, num_emulators=1, symbols=symbols)
    plays = {name: env.play(original.actions) for name, original in originals.items()}
    env.close()
    return plays


def recourses(
    env: MarioEnv,
    players: Mapping[str, NetworkPolicy],
    originals: Mapping[str, Original],
    plays: Mapping[str, Play],
    *,
    lambda_path: float,
    lambda_policy: float,
    calls: int,
    own_steps: OwnSteps = "charged",
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Each player's recourse of each original, under "regret": new play and the frontier of what was explored, in turn.

    All are made again once everything is played, so that each is the best path there is through all that was explored.

    Args:
        plays: what came of each original, see `played_originals`.
        calls: steps that are played anew for each recourse.
        own_steps: whether the steps of the original are charged too, as in `pprjax.Config`.

    Returns:
        A row for each original, and one for each player's recourse of it: R and its terms, the states' symbols, the
        actions, and what came of them: x, coins, survives. And the ladders: a row for each path on a frontier, with
        what it is worth and what came of it.

    Raises:
        ValueError: no path to the goal of an original was found.
    """
    weights: dict[str, Any] = dict(lambda_policy=lambda_policy, own_steps=own_steps)
    turns = {
        (name, player): play_on(
            env, players[player], plays[name], goal_x=original.goal_x, lambda_path=lambda_path, calls=calls, **weights
        )
        for name, original in originals.items()
        for player in PLAYERS
    }
    rows, rungs = [], []
    for name, original in originals.items():
        rows.append({"original": name, "player": "", **_outcome(plays[name])})
        for player in PLAYERS:
            found = explored_frontier(env, players[player], plays[name], goal_x=original.goal_x, **weights)
            best, named = found.at(lambda_path), {"original": name, "player": player}
            if best is None:
                raise UserError(f"{name}: expected a path beyond x = {original.goal_x}, found none for the {player}")
            ladder = _scored(env, players[player], found.rungs, plays[name], own_steps)
            rungs += [named | rung for rung in ladder]
            chosen = ladder[found.rungs.index(best)]
            rows.append(named | {"turns": len(turns[name, player]), "reward": worth(best, lambda_path)} | chosen)
    return pl.DataFrame(rows, infer_schema_length=None), pl.DataFrame(rungs, infer_schema_length=None)


def _scored(
    env: MarioEnv, player: NetworkPolicy, rungs: list[Rung], original: Play, own_steps: OwnSteps
) -> list[dict[str, Any]]:
    """Paths on a frontier: what each is worth, and what came of it."""
    plays = [env.play(rung.actions) for rung in rungs]
    paths = Paths.from_lists([play.symbols for play in plays], [play.actions for play in plays])
    originals = Paths.from_lists([original.symbols] * len(rungs))
    scores = score(task(env, player), originals, paths, Config(own_steps=own_steps))
    return [
        {
            "value": rung.value,
            "s_goal": float(scores.goal[i]),
            "s_path": float(scores.path[i]),
            "s_policy": float(scores.policy[i]),
            "r_policy": float(scores.r_policy[i]),
            "distance": int(scores.distance[i]),
            **_outcome(play),
        }
        for i, (rung, play) in enumerate(zip(rungs, plays, strict=True))
    ]


def _outcome(play: Play) -> dict[str, Any]:
    return {
        "x": int(play.x[-1]),
        "coins": int(play.coins.sum()),
        "survives": not play.dead,
        "symbols": play.symbols,
        "actions": play.actions,
    }


def recourse_plays(env: MarioEnv, rows: pl.DataFrame, plays: Mapping[str, Play]) -> dict[str, dict[str, Play]]:
    """By original: what came of it, and of each player's recourse in the rows of `recourses`."""
    found = {name: {"original": play} for name, play in plays.items()}
    for row in rows.filter(pl.col("player") != "").iter_rows(named=True):
        found[row["original"]][row["player"]] = env.play(row["actions"])
    return found


def habits(
    env: MarioEnv, players: Mapping[str, NetworkPolicy], plays: Mapping[str, Mapping[str, Play]]
) -> dict[str, Any]:
    """Whose habits the recourses of each original have, and how far apart the players are: `path_cross_entropy` and
    `policy_kl`."""
    world = env.explored()
    tables = {player: policy.table(world) for player, policy in players.items()}
    return {
        "path_cross_entropy": {name: path_cross_entropy(world, tables, found) for name, found in plays.items()},
        "policy_kl": policy_kl(world, tables),
    }


def path_cross_entropy(
    env: MarioEnv | MarioTable, players: Mapping[str, Policy], plays: Mapping[str, Play]
) -> dict[str, dict[str, float]]:
    """-(1/T) Σ_t log P_A(s_t, a_t) of each player's recourse of T actions, under each player.

    To its own player it is -s_policy. A smaller number: more like that player.
    """
    original = Paths.from_lists([plays["original"].symbols])

    def cross_entropy(recourse: str, player: str) -> float:
        return -float(score(task(env, players[player]), original, plays[recourse].path).policy[0])

    return {recourse: {player: cross_entropy(recourse, player) for player in PLAYERS} for recourse in PLAYERS}


def policy_kl(world: MarioTable, players: Mapping[str, TablePolicy]) -> dict[str, dict[str, float]]:
    """KL(P ‖ Q) = Σ_s ρ(s) Σ_a P(s, a) log(P(s, a) / Q(s, a)), of each player P from each player Q.

    ρ(s) is the share of P's actions that it takes in state s, over the explored part of the game.
    """
    probs = {player: np.asarray(players[player].probs, float) for player in PLAYERS}

    def divergence(p: np.ndarray, q: np.ndarray) -> float:
        visits = world.visits(p)
        ratio = np.divide(p, q, out=np.ones_like(p), where=p > 0)
        return float((visits / visits.sum()) @ (p * np.log(ratio)).sum(1))

    return {player: {other: divergence(probs[player], probs[other]) for other in PLAYERS} for player in PLAYERS}


def player_facts(env: MarioEnv, player: NetworkPolicy, *, seed: int, beyond: int) -> dict[str, float]:
    """How a player plays, in new games: how many get beyond here alive, coins and steps of a game, and the mean entropy
    of P_A, in nats, over the states that it acts in."""
    played = trials(env, player, np.random.default_rng(seed))
    env.check()
    taken = played.actions >= 0
    coins = env.explorer.nodes.coins[played.nodes[:-1][taken], played.actions[taken]]
    probs = acted(env, player, played)
    ends = look(env.explorer, played.nodes[-1])
    num = played.nodes.shape[1]
    return {
        "games": num,
        "alive_beyond": int(reached(ends, beyond).sum()),
        "beyond": beyond,
        "coins": float(coins.sum() / num),
        "steps": float(taken.sum() / num),
        "entropy": mean_entropy(probs),
        "jumps": float(probs[:, 1].mean()),
        "temperature": float(player.temperature),
    }
