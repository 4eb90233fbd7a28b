"""The grid-world study: routes, baseline, certified optimum, sensitivity to λ, and whose habits a recourse has."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from pprjax.config import PAPER, Config
from pprjax.errors import UserError

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure
    from rich.console import Console

    from pprjax_envs.gridworld.claims import Claim
    from pprjax_envs.gridworld.world import GridWorld


def main(
    *,
    out: Path = Path("out/gridworld-study"),
    num: Annotated[int, tyro.conf.arg(name="num")] = 10,
    heat: int = 2,
    seed: int = 0,
    maps: tuple[Path, ...] = (),
    max_steps: int = 40,
    config: tyro.conf.OmitArgPrefixes[Config] = PAPER,
) -> None:
    """Compare PPR on taxi routes with a baseline and the certified optimum, and check what the paper says of it.

    Writes routes.png, scores.png, lambdas.png and link.png, each with the table that it shows (parquet), and
    summary.json: whether each claim holds here, with the figures that it rests on.

    Args:
        out: the folder to write to; made if it is missing.
        num: how many bad routes to make; at least 2.
        heat: how many of them the λ heat maps average over, for either driver.
        seed: for the bad routes and the training.
        maps: text files with maps of your own, in the letters of `pprjax gridworld --map`. Each gets a table and a
            picture of its routes; the claims do not use them.
        max_steps: the largest number of moves of a route.
        config: every knob of Algorithm 1; the heat maps set λ themselves.
    """
    started = time.perf_counter()
    from pprjax.io import output_folder, write_json

    _check(num, heat, maps)

    from rich.console import Console

    from pprjax.timing import compile_seconds
    from pprjax_envs.gridworld import comparison
    from pprjax_envs.gridworld.claims import check
    from pprjax_envs.gridworld.command import read_map
    from pprjax_envs.gridworld.world import GridWorld

    env = GridWorld(max_steps=max_steps)
    worlds = {"routes": env} | {f"routes-{path.stem}": GridWorld(read_map("maps", path), max_steps) for path in maps}
    folder = output_folder(out)
    with compile_seconds() as compiling:
        tables = _tables(worlds, config, num=num, heat=heat, seed=seed)
    routes = tables["routes"]
    pictured = _write(folder, tables, worlds, title=f"{num} bad routes, 2 drivers, {_at(config)}")
    found = check(env, tables["scores"], tables["lambdas"])
    gaps = comparison.worst_gaps(routes, tables["lambdas"])
    total = time.perf_counter() - started
    write_json(
        {
            "claims": found,
            "personalization": comparison.personalization(env, tables["scores"]).to_dicts(),
            "num_originals": num,
            "heat_map_originals": heat,
            "heat_map_weights": comparison.WEIGHTS,
            "gaps": gaps,
            "max_steps": max_steps,
            "maps": [str(path) for path in maps],
            "seconds": {"total": total, "compile": compiling.seconds},
            "seed": seed,
            "config": dataclasses.asdict(config),
        },
        folder / "summary.json",
    )
    console = Console()
    _print_claims(console, found)
    _print_notes(console, config, heat, gaps)
    console.print(
        f"{total:.0f} s, of which {compiling.seconds:.0f} s compiling. Written to {folder}: "
        f"{', '.join(f'{name}.png' for name in pictured)}, a parquet with each, summary.json.",
        soft_wrap=True,
    )


def _check(num: int, heat: int, maps: tuple[Path, ...]) -> None:
    if num < 2:
        raise UserError(f"num: expected at least 2 routes, got {num}")
    if not 1 <= heat <= num:
        raise UserError(f"heat: expected 1 to {num} of the routes, got {heat}")
    if len({path.stem for path in maps}) < len(maps):
        raise UserError(f"maps: expected files of different names, got {', '.join(map(str, maps))}")


def _tables(worlds: dict[str, GridWorld], config: Config, *, num: int, heat: int, seed: int) -> dict[str, pl.DataFrame]:
    """The routes of each world, and what is compared on those of the first, which is named routes."""
    from pprjax_envs.gridworld import comparison
    from pprjax_envs.gridworld.experiment import both_drivers
    from pprjax_envs.gridworld.originals import bad_paths

    originals = {name: bad_paths(world, num, seed) for name, world in worlds.items()}
    routes = {
        name: both_drivers(world, originals[name], config, goal="flag", seed=seed, method="learn")[0]
        for name, world in worlds.items()
    }
    env, own = worlds["routes"], originals["routes"]
    return routes | {
        "scores": comparison.methods(env, own, routes["routes"]),
        "lambdas": comparison.sensitivity(env, own[list(range(heat))], config, seed=seed),
        "link": comparison.link_function(),
    }


def _write(folder: Path, tables: dict[str, pl.DataFrame], worlds: dict[str, GridWorld], *, title: str) -> list[str]:
    """Each table, and the figure that shows it; returns their names.

    Args:
        worlds: of the tables that hold routes.
        title: of the scores.
    """
    from pprjax import plotting
    from pprjax.io import write_table
    from pprjax_envs.gridworld import figures

    drawn: dict[str, Figure] = {
        **{name: figures.routes(world, tables[name]) for name, world in worlds.items()},
        "scores": figures.scores(tables["scores"], f"{title}; higher is better"),
        "lambdas": figures.heat_maps(tables["lambdas"]),
        "link": figures.link(tables["link"]),
    }
    for name, table in tables.items():
        write_table(table, folder / f"{name}.parquet")
        plotting.save(drawn[name], folder / f"{name}.png")
    return list(tables)


def _print_claims(console: Console, found: list[Claim]) -> None:
    from pprjax_envs.gridworld.claims import count

    for claim in found:
        verdict = "holds" if claim["holds"] else "does NOT hold"
        notes = "" if claim["paper"] else "; the paper does not claim it"
        notes += "; at an optimum it follows from Eq. 5, and is not counted" if claim["follows"] else ""
        console.print(f"{verdict}: {claim['claim']}{notes} ({_in_words(claim['measured'])}).", soft_wrap=True)
    console.print("{} of the paper's {} claims that could fail hold here.".format(*count(found)), soft_wrap=True)


def _print_notes(console: Console, config: Config, heat: int, gaps: dict[str, Any]) -> None:
    worst = gaps["largest"]
    console.print(
        f"Routes and scores are at {_at(config)}. The claims about λ are from the heat maps, which average over {heat} "
        f"route{'s' * (heat > 1)} and train each cell by itself. s_policy is the mean log P_A of a route's moves. "
        "λ_policy pays r_policy, the sum of h: a route may grow longer where its driver likes to be. BL1 may change "
        "every move of an original, and keeps its length.\n"
        f"Gaps to the certified optimum, as shares of it: at most {gaps['routes']:.2%} for the routes. For the heat "
        f"maps {gaps['mean']:.2%} on average, and at most {worst['gap']:.1%}, at λ_path {worst['lambda_path']:g} and "
        f"λ_policy {worst['lambda_policy']:g}.",
        soft_wrap=True,
    )


def _in_words(measured: dict[str, Any]) -> str:
    parts = (f"{k}: {_in_words(v)}" if isinstance(v, dict) else f"{k} {v:.4g}" for k, v in measured.items())
    return ("; " if any(isinstance(v, dict) for v in measured.values()) else ", ").join(parts)


def _at(config: Config) -> str:
    return f"λ_path {config.lambda_path:g}, λ_policy {config.lambda_policy:g}"
