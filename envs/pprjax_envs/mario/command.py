"""Mario past the enemy that killed him, as a player who likes coins would have, and as one who avoids them."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from pprjax.config import Config

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from pprjax.paths import Paths
    from pprjax_envs.mario.agents import NetworkPolicy
    from pprjax_envs.mario.table import MarioTable, Play
    from pprjax_envs.mario.world import MarioEnv

SETTINGS = Config(
    habit="link",
    lambda_path=100.0,
    lambda_policy=10.0,
    c_e=0.0,
    epsilon_from="policy",
    epsilon_start=0.5,
    iterations=60,
    num_paths=24,
    num_best=8,
    updates=16,
    batch_size=128,
)
"""The paper's λ. The states of the game are a tree, nearly: a UCB bonus would try each once and follow Q nowhere."""

PLAYERS = ("seeker", "dodger")


def main(
    *,
    out: Path = Path("out/mario"),
    goal_x: Annotated[int, tyro.conf.arg(name="goal-x")] = 460,
    max_steps: int | None = None,
    seed: int = 0,
    cache: Path | None = None,
    table: Path | None = None,
    snapshots: float = 1.0,
    video: Path | None = None,
    config: tyro.conf.OmitArgPrefixes[Config] = SETTINGS,
) -> None:
    """Edit a game of Mario that always walks right, and dies, for a coin seeker and for a coin dodger.

    Trains both players, makes both recourses, prints them and whose habits they have; writes recourse.parquet,
    summary.json, jumps.png (where each jumps), level.png (the paths over the level) and explored.npz (the part of the
    game that was explored).

    Args:
        out: the folder to write to; made if it is missing.
        goal_x: pixels: a recourse is alive beyond it. 460 is past the first pipe; the flag is at 3161.
        max_steps: the largest number of steps, of four frames each; default 14 and one for six pixels.
        seed: of the players' training and of the recourse.
        cache: the folder where trained players are kept; default $PPRJAX_CACHE, or pprjax in the user's cache folder.
        table: an explored.npz to start from.
        snapshots: GiB that snapshots of the game may take.
        video: a GIF of both recourses to write.
        config: every knob of Algorithm 1.
    """
    started = time.perf_counter()
    from pprjax.io import output_folder, write_json, write_table
    from pprjax_envs.mario.emulator import rom_hash

    rom_hash()
    if not snapshots > 0:
        raise ValueError(f"snapshots: expected a number of GiB above 0, got {snapshots}")

    from rich.console import Console

    from pprjax import plotting
    from pprjax.timing import compile_seconds
    from pprjax_envs import mario
    from pprjax_envs.mario import agents as mario_agents
    from pprjax_envs.mario import figures as mario_figures
    from pprjax_envs.mario.emulator import NESEmulator

    steps = mario.steps_for(goal_x) if max_steps is None else max_steps
    env = mario.MarioEnv(goal_x=goal_x, max_steps=steps, memory=int(snapshots * 2**30), table=table)
    folder = output_folder(out)
    console, seconds = Console(), {}
    with compile_seconds() as compiling:
        players = {}
        for player in PLAYERS:
            since = time.perf_counter()
            players[player], reloaded = mario_agents.trained(env, player, seed=seed, folder=cache)
            seconds[player] = time.perf_counter() - since
            console.print(f"Coin {player} {'read back' if reloaded else 'trained'}: {seconds[player]:.0f} s.")
        since = time.perf_counter()
        rows = experiment(env, players, config, seed=seed)
        seconds["recourse and bounds"] = time.perf_counter() - since
    plays = {row["player"] or "original": env.play(row["actions"]) for row in rows.iter_rows(named=True)
             if row["method"] != "best seen"}  # fmt: skip
    divergence = kl_table(env, players, plays)
    camera = NESEmulator()
    games = {name: play.actions for name, play in plays.items()}
    coins = sorted({int(x) for play in plays.values() for x, _ in play.coin_places()})
    figures = {
        "jumps.png": mario_figures.jumps(strips(env.explored(), players, plays), coins=coins),
        "level.png": mario_figures.level(
            {name: (play.x, play.y) for name, play in plays.items()},
            mario_figures.panorama(camera, list(games.values())),
            coins=[(int(x), int(y)) for play in plays.values() for x, y in play.coin_places()],
            goal_x=goal_x,
            died=[name for name, play in plays.items() if play.dead],
        ),
    }
    write_table(rows, folder / "recourse.parquet")
    env.save(folder / "explored.npz")
    for name, figure in figures.items():
        plotting.save(figure, folder / name)
    if video is not None:
        mario_figures.film(camera, [games[player] for player in PLAYERS], video)
    total = time.perf_counter() - started
    write_json(
        {
            "recourse": rows.to_dicts(),
            "kl": divergence,
            "states": len(env.explorer),
            "played": env.explorer.played,
            "goal_x": goal_x,
            "max_steps": steps,
            "seconds": {"total": total, "compile": compiling.seconds, **seconds},
            "seed": seed,
            "config": dataclasses.asdict(config),
        },
        folder / "summary.json",
    )
    env.close()
    console.print(_as_rich(rows))
    console.print(_kl_as_rich(divergence))
    console.print(
        f"The goal: alive beyond x = {goal_x} pixels. R is Eq. 5 at λ_path = {config.lambda_path:g} and λ_policy = "
        f"{config.lambda_policy:g}: s_goal, which the game pays, + λ_path / (d + 1) + λ_policy·Σ h(P_A), a sum over "
        f"steps. best seen: the largest R of all paths to the goal through the {len(env.explorer):,} "
        "states known by now. A divergence is the mean of -log P_A of the recourse's actions: the smaller, the more "
        "like that player; to its own player it is -s_policy.",
        soft_wrap=True,
    )
    console.print(
        f"{total:.0f} s, of which {compiling.seconds:.0f} s compiling; {env.explorer.played:,} new steps played. "
        f"Written to {folder}: recourse.parquet, summary.json, explored.npz, "
        f"{', '.join(figures)}{'' if video is None else f'; and {video}'}.",
        soft_wrap=True,
    )


def experiment(env: MarioEnv, players: dict[str, NetworkPolicy], config: Config, *, seed: int = 0) -> pl.DataFrame:
    """Each player's recourse of always walking right, and beside it the best of all paths through states seen.

    Returns:
        The original, and for each player the rows "PPR" and "best seen": R and its terms, the states' symbols, the
        actions, and what came of them: x, coins, survived.
    """
    import jax
    import polars as pl

    from pprjax import exact, recourse
    from pprjax_envs import mario

    originals = mario.always_right(env)
    found = {}
    for number, player in enumerate(PLAYERS):
        key = jax.random.fold_in(jax.random.key(seed), number)
        found[player] = recourse(mario.task(env, players[player]), originals, config, method="learn", key=key)
        env.check()
    world = env.explored()  # both recourses are in it
    rows = [{"player": "", "method": "original", **_outcome(env, originals)}]
    for player, result in found.items():
        best = exact(mario.task(world, players[player].table(world)), originals, config)
        for method, paths, reward, scores in (
            ("PPR", result.paths, result.reward, result.scores),
            ("best seen", best.paths, best.reward, best.scores),
        ):
            rows.append(
                {
                    "player": player,
                    "method": method,
                    "reward": float(reward[0]),
                    "s_goal": float(scores.goal[0]),
                    "s_path": float(scores.path[0]),
                    "s_policy": float(scores.policy[0]),
                    "r_policy": float(scores.r_policy[0]),
                    "distance": int(scores.distance[0]),
                    **_outcome(env, paths),
                }
            )
    return pl.DataFrame(rows, infer_schema_length=None)


def _outcome(env: MarioEnv, paths: Paths) -> dict[str, Any]:
    play = env.play(paths.actions_to_lists()[0])
    return {
        "x": int(play.x[-1]),
        "coins": int(play.coins.sum()),
        "survives": not play.dead,
        "symbols": play.symbols,
        "actions": play.actions,
    }


def kl_table(env: MarioEnv, players: dict[str, NetworkPolicy], plays: dict[str, Play]) -> dict[str, dict[str, float]]:
    """KL(π ‖ P_A) of each player's recourse to each player, the mean over its states.

    π takes the recourse's action in each of its states, so the divergence there is -log P_A of that action, and the
    mean is -s_policy.
    """
    from pprjax import score
    from pprjax_envs import mario

    def divergence(path, player):
        return -float(score(mario.task(env, players[player]), plays["original"].path, path).policy[0])

    return {recourse: {player: divergence(plays[recourse].path, player) for player in PLAYERS} for recourse in PLAYERS}


def strips(world: MarioTable, players: dict[str, NetworkPolicy], plays: dict[str, Play]) -> dict[str, Any]:
    """The rows of the strip figure: how likely each player, and each recourse, is to jump at each position."""
    import numpy as np

    from pprjax_envs.mario import figures as mario_figures

    rows = {}
    for player in PLAYERS:
        probs = np.asarray(players[player].table(world).probs)
        rows[f"coin {player}"] = mario_figures.jump_share(world, probs)
        rows[f"PPR for the {player}"] = mario_figures.path_share(plays[player].x[:-1], plays[player].actions)
    return rows


def _as_rich(rows: pl.DataFrame) -> Table:
    from rich import box
    from rich.table import Table

    shown = Table(title="Always walking right, edited", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("player", "path", "lives", "x", "coins", "steps", "R", "s_goal", "Σ h", "s_policy", "d"):
        shown.add_column(name, justify="left" if name in ("player", "path", "lives") else "right", no_wrap=True)
    for row in rows.iter_rows(named=True):
        scores = {"reward": ".0f", "s_goal": ".0f", "link": ".0f", "s_policy": ".3f", "distance": "d"}
        shown.add_row(
            row["player"], row["method"], "yes" if row["survives"] else "no", str(row["x"]), str(row["coins"]),
            str(len(row["actions"])), *("" if row[k] is None else f"{row[k]:{form}}" for k, form in scores.items()),
        )  # fmt: skip
    return shown


def _kl_as_rich(divergence: dict[str, dict[str, float]]) -> Table:
    from rich import box
    from rich.table import Table

    shown = Table(title="KL divergence from each player", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", *(f"coin {player}" for player in PLAYERS)):
        shown.add_column(name, justify="right" if name else "left")
    for player, row in divergence.items():
        shown.add_row(f"PPR for the {player}", *(f"{row[other]:.3f}" for other in PLAYERS))
    return shown
