"""Mario past the enemy that killed him, as a player who likes coins would have, and as one who avoids them."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from pprjax.config import Config
from pprjax_envs.mario.settings import GOAL_X, PLAYERS, SETTINGS, steps_for

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.table import Table

    from pprjax_envs.mario.agents import NetworkPolicy
    from pprjax_envs.mario.emulator import NESEmulator
    from pprjax_envs.mario.table import Play
    from pprjax_envs.mario.world import MarioEnv


@dataclasses.dataclass(frozen=True, kw_only=True)
class World:
    """How far to play, and what is remembered of the game."""

    goal_x: Annotated[int, tyro.conf.arg(name="goal-x")] = GOAL_X
    """Pixels: a recourse is alive beyond it. 460 is past the first pipe; the flag is at 3161."""
    max_steps: int | None = None
    """The largest number of steps, of four frames each; default 14 and one for six pixels."""
    table: Path | None = None
    """An explored.npz to start from."""
    snapshots: float = 1.0
    """GiB that snapshots of the game may take."""

    def env(self) -> MarioEnv:
        """The world, or a ValueError that names what is wrong."""
        from pprjax_envs.mario.emulator import rom_hash

        rom_hash()
        if not self.snapshots > 0:
            raise ValueError(f"snapshots: expected a number of GiB above 0, got {self.snapshots}")
        from pprjax_envs.mario.world import MarioEnv

        steps = steps_for(self.goal_x) if self.max_steps is None else self.max_steps
        memory = int(self.snapshots * 2**30)
        return MarioEnv(goal_x=self.goal_x, max_steps=steps, memory=memory, table=self.table)


def main(
    *,
    out: Path = Path("out/mario"),
    seed: int = 0,
    cache: Path | None = None,
    video: Path | None = None,
    game: tyro.conf.OmitArgPrefixes[World] = World(),
    config: tyro.conf.OmitArgPrefixes[Config] = SETTINGS,
) -> None:
    """Edit a game of Mario that always walks right, and dies, for a coin seeker and for a coin dodger.

    Trains both players, makes both recourses, prints them and whose habits they have; writes recourse.parquet,
    summary.json, jumps.png (where each jumps), level.png (the paths over the level) and explored.npz (the part of the
    game that was explored).

    Args:
        out: the folder to write to; made if it is missing.
        seed: of the players' training and of the recourse.
        cache: the folder where trained players are kept; default $PPRJAX_CACHE, or pprjax in the user's cache folder.
        video: a GIF of both recourses to write.
        game: how far to play, and what is remembered.
        config: every knob of Algorithm 1.
    """
    started = time.perf_counter()
    env = game.env()

    from rich.console import Console

    from pprjax.io import output_folder, write_json, write_table
    from pprjax.plotting import save
    from pprjax.timing import compile_seconds
    from pprjax_envs.mario import experiment
    from pprjax_envs.mario.emulator import NESEmulator
    from pprjax_envs.mario.figures import film

    folder = output_folder(out)
    console = Console()
    with compile_seconds() as compiling:
        players, seconds = train(env, console, seed=seed, cache=cache)
        since = time.perf_counter()
        rows = experiment.both_players(env, players, config, seed=seed)
        seconds["recourse and bounds"] = time.perf_counter() - since
    plays = experiment.plays(env, rows)
    habits = experiment.habits(env, players, plays)
    camera = NESEmulator()
    figures = draw(env, players, plays, camera)
    write_table(rows, folder / "recourse.parquet")
    env.save(folder / "explored.npz")
    for name, figure in figures.items():
        save(figure, folder / name)
    if video is not None:
        film(camera, [plays[player].actions for player in PLAYERS], video)
    env.close()
    seconds |= {"total": time.perf_counter() - started, "compile": compiling.seconds}
    about = {"seconds": seconds, "seed": seed, "config": dataclasses.asdict(config)}
    write_json({"recourse": rows.to_dicts(), **habits, **counts(env), **about}, folder / "summary.json")
    show(console, env, config, rows, habits)
    written = ["recourse.parquet", "summary.json", "explored.npz", *figures]
    console.print(
        f"{seconds['total']:.0f} s, of which {compiling.seconds:.0f} s compiling; {env.explorer.played:,} new steps "
        f"played. Written to {folder}: {', '.join(written)}{'' if video is None else f'; and {video}'}.",
        soft_wrap=True,
    )


def train(
    env: MarioEnv, console: Console, *, seed: int, cache: Path | None
) -> tuple[dict[str, NetworkPolicy], dict[str, float]]:
    """Both players, read back if they were trained before, and the seconds that each took."""
    from pprjax_envs.mario import agents

    players, seconds = {}, {}
    for player in PLAYERS:
        since = time.perf_counter()
        players[player], reloaded = agents.trained(env, player, seed=seed, folder=cache)
        seconds[player] = time.perf_counter() - since
        console.print(f"Coin {player} {'read back' if reloaded else 'trained'}: {seconds[player]:.0f} s.")
    return players, seconds


def draw(
    env: MarioEnv, players: dict[str, NetworkPolicy], plays: dict[str, Play], camera: NESEmulator
) -> dict[str, Figure]:
    """The figures by their file names: where each jumps, and the paths over the level as this emulator shows it."""
    import numpy as np

    from pprjax_envs.mario import figures

    world = env.explored()
    probs = {player: np.asarray(policy.table(world).probs) for player, policy in players.items()}
    coins = [(int(x), int(y)) for play in plays.values() for x, y in play.coin_places()]
    return {
        "jumps.png": figures.jumps(figures.strips(world, probs, plays), coins=sorted({x for x, _ in coins})),
        "level.png": figures.level(
            {name: (play.x, play.y) for name, play in plays.items()},
            figures.panorama(camera, [play.actions for play in plays.values()]),
            coins=coins,
            goal_x=world.goal_x,
            died=[name for name, play in plays.items() if play.dead],
        ),
    }


def counts(env: MarioEnv) -> dict[str, int]:
    """What was explored, and up to where."""
    params = env.default_params
    return {
        "states": len(env.explorer),
        "played": env.explorer.played,
        "goal_x": int(params.goal_x),
        "max_steps": int(params.max_steps_in_episode),
    }


def show(console: Console, env: MarioEnv, config: Config, rows: pl.DataFrame, habits: dict[str, Any]) -> None:
    """Print the recourses, whose habits they have, and what the columns mean."""
    console.print(_as_rich(rows))
    console.print(
        _by_player("Cross-entropy of each recourse under each player", "recourse for the", habits["path_cross_entropy"])
    )
    console.print(_by_player("KL divergence of each player's policy from each player's", "coin", habits["policy_kl"]))
    console.print(
        f"The goal: alive beyond x = {int(env.default_params.goal_x)} pixels. R is Eq. 5 at λ_path = "
        f"{config.lambda_path:g} and λ_policy = {config.lambda_policy:g}: s_goal, which the game pays, + λ_path / "
        "(d + 1) + λ_policy·Σ h(P_A), a sum over steps. best seen: the largest R of all paths to the goal through the "
        f"{len(env.explorer):,} states known by now. The cross-entropy of a recourse is the mean of -log P_A of its "
        "actions: the smaller, the more like that player; under its own player it is -s_policy. The KL divergence is "
        "that of the row's policy from the column's, over the states that the row's player visits.",
        soft_wrap=True,
    )


def _as_rich(rows: pl.DataFrame) -> Table:
    from rich import box
    from rich.table import Table

    shown = Table(title="Always walking right, edited", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("player", "path", "lives", "x", "coins", "steps", "R", "s_goal", "Σ h", "s_policy", "d"):
        shown.add_column(name, justify="left" if name in ("player", "path", "lives") else "right", no_wrap=True)
    for row in rows.iter_rows(named=True):
        scores = {"reward": ".0f", "s_goal": ".0f", "r_policy": ".0f", "s_policy": ".3f", "distance": "d"}
        shown.add_row(
            row["player"], row["method"], "yes" if row["survives"] else "no", str(row["x"]), str(row["coins"]),
            str(len(row["actions"])), *("" if row[k] is None else f"{row[k]:{form}}" for k, form in scores.items()),
        )  # fmt: skip
    return shown


def _by_player(title: str, row_label: str, values: dict[str, dict[str, float]]) -> Table:
    from rich import box
    from rich.table import Table

    shown = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", *(f"coin {player}" for player in PLAYERS)):
        shown.add_column(name, justify="right" if name else "left")
    for player, row in values.items():
        shown.add_row(f"{row_label} {player}", *(f"{row[other]:.3f}" for other in PLAYERS))
    return shown
