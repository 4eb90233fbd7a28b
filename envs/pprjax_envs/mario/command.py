"""Mario past what ended his games, as a player who likes coins would have got, and as one who avoids them."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from pprjax.errors import UserError
from pprjax.reward import OwnSteps
from pprjax_envs.mario.settings import CALLS, LAMBDA_PATH, LAMBDA_POLICY, ORIGINALS, PLAYERS, REACH, steps_for

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.table import Table

    from pprjax_envs.mario.agents import NetworkPolicy
    from pprjax_envs.mario.emulator import NESEmulator
    from pprjax_envs.mario.table import Play
    from pprjax_envs.mario.world import MarioEnv

BEYOND = 1200
"""Pixels: how far a player should get alive."""

FILMED = "pit"
"""The original of the ladder and of the film."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class World:
    """What is remembered of the game."""

    table: Path | None = None
    """An explored.npz to start from."""
    snapshots: float = 0.5
    """GiB that snapshots of the game may take."""

    def env(self) -> MarioEnv:
        """The world, or a ValueError that names what is wrong."""
        from pprjax_envs.mario.emulator import rom_hash

        rom_hash()
        if not self.snapshots > 0:
            raise UserError(f"snapshots: expected a number of GiB above 0, got {self.snapshots}")
        from pprjax_envs.mario.world import MarioEnv

        memory = int(self.snapshots * 2**30)
        return MarioEnv(goal_x=REACH, max_steps=steps_for(REACH), memory=memory, table=self.table)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Weights:
    """What counts."""

    lambda_path: Annotated[float, tyro.conf.arg(name="lambda-path")] = LAMBDA_PATH
    """How much closeness to the original counts: λ_path / (d + 1)."""
    lambda_policy: Annotated[float, tyro.conf.arg(name="lambda-policy")] = LAMBDA_POLICY
    """What a nat of regret costs."""
    own_steps: Annotated[OwnSteps, tyro.conf.arg(name="own-steps")] = "charged"
    """"free": a step that the original took as well costs no regret, so that more of it is kept."""


def main(
    *,
    out: Path = Path("out/mario"),
    seed: int = 0,
    cache: Path | None = None,
    video: Path | None = None,
    weights: tyro.conf.OmitArgPrefixes[Weights] = Weights(),
    calls: int = CALLS,
    game: tyro.conf.OmitArgPrefixes[World] = World(),
) -> None:
    """Edit three games of Mario that ended badly, for a coin seeker and for a coin dodger.

    Trains both players, makes both recourses of each game, prints them and whose habits they have; writes
    recourse.parquet, ladders.parquet, summary.json, jumps.png (where each jumps), level-NAME.png (the paths over the
    level), ladder.png (what each further edit buys) and explored.npz (the part of the game that was explored).

    Args:
        out: the folder to write to; made if it is missing.
        seed: of the players' training.
        cache: the folder where trained players are kept; default $PPRJAX_CACHE, or pprjax in the user's cache folder.
        video: a GIF to write of the game that ends in the pit, and of both recourses beside it.
        weights: what counts.
        calls: steps of the game that are played anew for each recourse.
        game: what is remembered of the game.
    """
    started = time.perf_counter()
    if calls < 0:
        raise UserError(f"calls: expected at least 0, got {calls}")
    env = game.env()

    from rich.console import Console

    from pprjax.config import Config, check_config
    from pprjax.io import output_folder, write_json, write_table
    from pprjax.plotting import save
    from pprjax.timing import compile_seconds
    from pprjax_envs.mario import experiment
    from pprjax_envs.mario.emulator import Game, NESEmulator
    from pprjax_envs.mario.figures import film
    from pprjax_envs.mario.settings import MOVES

    weighed = dataclasses.asdict(weights)
    check_config(Config(**weighed), 1)
    folder = output_folder(out)
    console = Console()
    with compile_seconds() as compiling:
        players, facts, seconds = train(env, console, seed=seed, cache=cache)
        since = time.perf_counter()
        originals = experiment.played_originals()
        rows, rungs = experiment.recourses(env, players, ORIGINALS, originals, calls=calls, **weighed)
        seconds["recourse"] = time.perf_counter() - since
    plays = experiment.recourse_plays(env, rows, originals)
    habits = experiment.habits(env, players, plays)
    camera = NESEmulator(Game(actions=MOVES))
    figures = draw(env, players, plays, rungs, camera)
    write_table(rows, folder / "recourse.parquet")
    write_table(rungs, folder / "ladders.parquet")
    env.save(folder / "explored.npz")
    for name, figure in figures.items():
        save(figure, folder / name)
    if video is not None:
        film(camera, [play.actions for play in plays[FILMED].values()], video)
    env.close()
    seconds |= {"total": time.perf_counter() - started, "compile": compiling.seconds}
    about = {"seconds": seconds, "seed": seed, **weighed}
    summary = {"players": facts, "recourse": rows.to_dicts(), **habits, **counts(env), **about}
    write_json(summary, folder / "summary.json")
    show(console, env, rows, summary)
    written = ["recourse.parquet", "ladders.parquet", "summary.json", "explored.npz", *figures]
    console.print(
        f"{seconds['total']:.0f} s, of which {compiling.seconds:.0f} s compiling; {env.explorer.played:,} new steps "
        f"played. Written to {folder}: {', '.join(written)}{'' if video is None else f'; and {video}'}.",
        soft_wrap=True,
    )


def train(
    env: MarioEnv, console: Console, *, seed: int, cache: Path | None
) -> tuple[dict[str, NetworkPolicy], dict[str, dict[str, float]], dict[str, float]]:
    """Both players, read back if they were trained before; what 20 games say of each; and the seconds that it took."""
    from pprjax_envs.mario import agents, experiment

    players, seconds = {}, {}
    for player in PLAYERS:
        since = time.perf_counter()
        players[player], reloaded = agents.trained(env, player, seed=seed, folder=cache)
        seconds[player] = time.perf_counter() - since
        console.print(f"Coin {player} {'read back' if reloaded else 'trained'}: {seconds[player]:.0f} s.")
    since = time.perf_counter()
    facts = {
        name: experiment.player_facts(env, player, seed=seed + 1, beyond=BEYOND) for name, player in players.items()
    }
    seconds["trial games"] = time.perf_counter() - since
    return players, facts, seconds


def draw(
    env: MarioEnv,
    players: dict[str, NetworkPolicy],
    plays: dict[str, dict[str, Play]],
    rungs: pl.DataFrame,
    camera: NESEmulator,
) -> dict[str, Figure]:
    """The figures by their file names: where each jumps, the paths over the level as this emulator shows it, and the
    ladder of one original."""
    import numpy as np

    from pprjax_envs.mario import figures

    world = env.explored()
    probs = {player: np.asarray(policy.table(world).probs) for player, policy in players.items()}
    every = [play for found in plays.values() for play in found.values()]
    taken = sorted({int(x) for play in every for x, _ in play.coin_places()})
    background = figures.panorama(camera, [play.actions for play in every])
    levels = {
        f"level-{name}.png": figures.level(
            {who: (play.x, play.y) for who, play in found.items()},
            background,
            coins=[(int(x), int(y)) for play in found.values() for x, y in play.coin_places()],
            goal_x=ORIGINALS[name].goal_x,
            died=[who for who, play in found.items() if play.dead],
            title=f"The original {ORIGINALS[name].title}",
        )
        for name, found in plays.items()
    }
    return {
        "jumps.png": figures.jumps(figures.strips(world, probs, plays), coins=taken),
        **levels,
        "ladder.png": figures.ladder(rungs.filter(original=FILMED)),
    }


def counts(env: MarioEnv) -> dict[str, int]:
    """What was explored, and up to where."""
    params = env.default_params
    return {
        "states": len(env.explorer),
        "played": env.explorer.played,
        "reach": int(params.goal_x),
        "max_steps": int(params.max_steps_in_episode),
    }


def show(console: Console, env: MarioEnv, rows: pl.DataFrame, summary: dict[str, Any]) -> None:
    """Print the players, the recourses, whose habits they have, and what the columns mean."""
    for player, found in summary["players"].items():
        console.print(
            f"Coin {player}: {found['alive_beyond']} of {found['games']} games alive beyond x = {found['beyond']}, "
            f"{found['coins']:.1f} coins a game, entropy of P_A {found['entropy']:.2f} nats (even: 0.69), softmax at "
            f"{found['temperature']:g}.",
            soft_wrap=True,
        )
    console.print(_as_rich(rows))
    entropies = {
        f"{original}, for the {player}": values
        for original, found in summary["path_cross_entropy"].items()
        for player, values in found.items()
    }
    console.print(_by_player("Cross-entropy of each recourse under each player", entropies))
    kl = {f"coin {player}": values for player, values in summary["policy_kl"].items()}
    console.print(_by_player("KL divergence of each player's policy from each player's", kl))
    goals = ", ".join(f"{original.goal_x} ({name})" for name, original in ORIGINALS.items())
    console.print(
        f"The goal: alive beyond x = {goals} pixels. R is Eq. 5 at λ_path = {summary['lambda_path']:g} and λ_policy = "
        f"{summary['lambda_policy']:g}: s_goal, which the game pays, + λ_path / (d + 1) + λ_policy·regret, the nats by "
        "which actions are less likely than the player's favourites. Of all paths to the goal through "
        f"the {len(env.explorer):,} states known by now none has a larger R, which is proved; of the rest of the game "
        "that says nothing. The cross-entropy of a recourse is the mean of -log P_A of its actions: the smaller, the "
        "more like that player; under its own player it is -s_policy. The KL divergence is that of the row's policy "
        "from the column's, over the states that the row's player visits.",
        soft_wrap=True,
    )


def _as_rich(rows: pl.DataFrame) -> Table:
    from rich import box
    from rich.table import Table

    shown = Table(title="Three games, edited", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("original", "for", "lives", "x", "coins", "steps", "R", "s_goal", "regret", "d"):
        shown.add_column(name, justify="left" if name in ("original", "for", "lives") else "right", no_wrap=True)
    for row in rows.iter_rows(named=True):
        scores = {
            "reward": ".1f",
            "s_goal": ".0f",
            "r_policy": ".1f",
            "distance": "d",
        }
        shown.add_row(
            "" if row["player"] else row["original"], row["player"], "yes" if row["survives"] else "no",
            str(row["x"]), str(row["coins"]), str(len(row["actions"])),
            *("" if row[k] is None else f"{row[k]:{form}}" for k, form in scores.items()),
        )  # fmt: skip
    return shown


def _by_player(title: str, rows: dict[str, dict[str, float]]) -> Table:
    from rich import box
    from rich.table import Table

    shown = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", *(f"coin {player}" for player in PLAYERS)):
        shown.add_column(name, justify="right" if name else "left")
    for label, row in rows.items():
        shown.add_row(label, *(f"{row[other]:.3f}" for other in PLAYERS))
    return shown
