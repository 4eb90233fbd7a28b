"""Always walking right, edited for a coin seeker and a coin dodger; and whose habits each recourse has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import polars as pl

from pprjax import exact, recourse, score
from pprjax.config import Config
from pprjax.paths import Paths
from pprjax.policy import Policy, TablePolicy
from pprjax_envs.mario.settings import PLAYERS
from pprjax_envs.mario.table import MarioTable, Play
from pprjax_envs.mario.world import MarioEnv, always_right, task


def both_players(env: MarioEnv, players: Mapping[str, Any], config: Config, *, seed: int = 0) -> pl.DataFrame:
    """Each player's recourse of always walking right, beside the best of all paths through the states seen by then.

    Args:
        players: the policies of `PLAYERS`, as `agents.trained` gives them.
        seed: of the recourse.

    Returns:
        The original, and for each player the rows "PPR" and "best seen": R and its terms, the states' symbols, the
        actions, and what came of them: x, coins, survives.
    """
    originals = always_right(env)
    found = {}
    for number, player in enumerate(PLAYERS):
        key = jax.random.fold_in(jax.random.key(seed), number)
        found[player] = recourse(task(env, players[player]), originals, config, method="learn", key=key)
        env.check()
    world = env.explored()  # both recourses are in it
    rows = [{"player": "", "method": "original", **_outcome(env, originals)}]
    for player, result in found.items():
        best = exact(task(world, players[player].table(world)), originals, config)
        rows += [
            {"player": player, "method": method, **_scores(answer), **_outcome(env, answer.paths)}
            for method, answer in (("PPR", result), ("best seen", best))
        ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _scores(answer: Any) -> dict[str, float | int]:
    scores = answer.scores
    return {
        "reward": float(answer.reward[0]),
        "s_goal": float(scores.goal[0]),
        "s_path": float(scores.path[0]),
        "s_policy": float(scores.policy[0]),
        "r_policy": float(scores.r_policy[0]),
        "distance": int(scores.distance[0]),
    }


def _outcome(env: MarioEnv, paths: Paths) -> dict[str, Any]:
    play = env.play(paths.actions_to_lists()[0])
    return {
        "x": int(play.x[-1]),
        "coins": int(play.coins.sum()),
        "survives": not play.dead,
        "symbols": play.symbols,
        "actions": play.actions,
    }


def plays(env: MarioEnv, rows: pl.DataFrame) -> dict[str, Play]:
    """What comes of the original, and of each player's recourse, in the rows of `both_players`."""
    shown = rows.filter(pl.col("method") != "best seen")
    return {row["player"] or "original": env.play(row["actions"]) for row in shown.iter_rows(named=True)}


def habits(env: MarioEnv, players: Mapping[str, Any], plays: Mapping[str, Play]) -> dict[str, Any]:
    """Whose habits the recourses have, and how far apart the players are: `path_cross_entropy` and `policy_kl`."""
    world = env.explored()
    tables = {player: policy.table(world) for player, policy in players.items()}
    return {
        "path_cross_entropy": path_cross_entropy(env, players, plays),
        "policy_kl": policy_kl(world, tables),
    }


def path_cross_entropy(
    env: MarioEnv | MarioTable, players: Mapping[str, Policy], plays: Mapping[str, Play]
) -> dict[str, dict[str, float]]:
    """-(1/T) Σ_t log P_A(s_t, a_t) of each player's recourse of T actions, under each player.

    To its own player it is -s_policy. A smaller number: more like that player.
    """
    original = plays["original"].path

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
