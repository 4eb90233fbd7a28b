"""The grid-world study: routes, baseline, certified optimum, sensitivity to λ, and whose habits a recourse has."""

from __future__ import annotations

import dataclasses
import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from pprjax.config import Config
from pprjax_envs.gridworld.command import DRIVERS, PAPER

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from pprjax.paths import Paths
    from pprjax.task import Task
    from pprjax_envs.gridworld.world import GridWorld

WEIGHTS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""λ_path and λ_policy of the heat maps."""

METHODS = {"PPR": "#0072b2", "BL1": "#e69f00", "optimum": "#555555"}

SCORES = {"s_policy": "s_policy: mean log P_A", "s_path": "s_path = 1 / (d + 1)", "s_goal": "s_goal = R_goal"}

ACTION_SETS = (2, 4, 10, 100, 1000)
"""Sizes of the action set for which the link function is drawn."""


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
    """Set PPR on taxi routes beside a baseline and the certified optimum, and check what the paper says of it.

    Writes routes.png, scores.png, lambdas.png and link.png, each beside the table that it shows (parquet), and
    summary.json: whether each claim holds here, with the figures that it rests on.

    Args:
        out: the folder to write to; made if it is missing.
        num: bad routes, made by a seeded generator; at least 2.
        heat: of these, how many the λ heat maps average over, for either driver.
        seed: of the bad routes and of the training.
        maps: text files with maps of your own, in the letters of `pprjax gridworld --map`; each gets a table and a
            picture of its routes, and no part in the claims.
        max_steps: the largest number of moves of a route.
        config: every knob of Algorithm 1; the heat maps set λ themselves.
    """
    started = time.perf_counter()
    from pprjax.io import output_folder, write_json, write_table

    if num < 2:
        raise ValueError(f"num: expected at least 2 routes, got {num}")
    if not 1 <= heat <= num:
        raise ValueError(f"heat: expected 1 to {num} of the routes, got {heat}")
    if len({path.stem for path in maps}) < len(maps):
        raise ValueError(f"maps: expected files of different names, got {', '.join(map(str, maps))}")

    from rich.console import Console

    from pprjax import plotting
    from pprjax.timing import compile_seconds
    from pprjax_envs.gridworld import command
    from pprjax_envs.gridworld.world import GridWorld, bad_paths

    worlds = [GridWorld(command.read_map("maps", path), max_steps) for path in maps]
    folder = output_folder(out)
    env = GridWorld(max_steps=max_steps)
    originals = bad_paths(env, num, seed)
    with compile_seconds() as compiling:
        routes, _ = command.experiment(env, originals, config, seed=seed)
        scores = methods(env, originals, routes)
        lambdas = sensitivity(env, originals[list(range(heat))], config, seed=seed)
        others = [command.experiment(world, bad_paths(world, num, seed), config, seed=seed)[0] for world in worlds]
    links = link_function()
    tables = {"routes": routes, "scores": scores, "lambdas": lambdas, "link": links}
    tables |= {f"routes-{path.stem}": table for path, table in zip(maps, others, strict=True)}
    figures: dict[str, Figure] = {
        "routes": command.routes(env, routes),
        "scores": plotting.violins(
            scores,
            SCORES,
            by="method",
            colors=METHODS,
            title=f"{num} bad routes, 2 drivers, {_at(config)}; higher is better",
        ),
        "lambdas": plotting.heat_maps(
            lambdas,
            SCORES | {"gap": "gap to the certified optimum, a share of it"},
            title=f"Means over {heat} bad route{'s' * (heat > 1)} and 2 drivers",
        ),
        "link": draw_link(links),
    }
    figures |= {
        f"routes-{path.stem}": command.routes(world, table)
        for path, world, table in zip(maps, worlds, others, strict=True)
    }
    for name, table in tables.items():
        write_table(table, folder / f"{name}.parquet")
    for name, figure in figures.items():
        plotting.save(figure, folder / f"{name}.png")
    found, gaps = claims(env, scores, lambdas), worst_gaps(routes, lambdas)
    total = time.perf_counter() - started
    write_json(
        {
            "claims": found,
            "personalization": personalization(env, scores).to_dicts(),
            "num_originals": num,
            "heat_map_originals": heat,
            "heat_map_weights": WEIGHTS,
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
    for claim in found:
        verdict = "holds" if claim["holds"] else "does NOT hold"
        whose = "" if claim["paper"] else ", which the paper does not claim"
        console.print(f"{verdict}: {claim['claim']}{whose} ({_in_words(claim['measured'])}).", soft_wrap=True)
    worst = gaps["largest"]
    console.print(
        f"Routes and scores are at {_at(config)}, the other λ those of the heat maps, of {heat} routes. s_policy is "
        "the mean log P_A of a route's moves; λ_policy pays r_policy, the sum of h, so that a route may grow longer "
        "where its driver likes to be. BL1 may change every move of an original and keeps its length.\n"
        f"Gaps to the certified optimum, as shares of it: {gaps['routes']:.2%} at most for the routes, "
        f"{worst['gap']:.1%} at λ_path {worst['lambda_path']:g} and λ_policy {worst['lambda_policy']:g} for one of the "
        f"heat maps, {gaps['mean']:.2%} on average.",
        soft_wrap=True,
    )
    console.print(
        f"{total:.0f} s, of which {compiling.seconds:.0f} s compiling. Written to {folder}: "
        f"{', '.join(f'{name}.png' for name in figures)}, a parquet beside each, summary.json.",
        soft_wrap=True,
    )


def methods(env: GridWorld, originals: Paths, routes: pl.DataFrame) -> pl.DataFrame:
    """The scores of PPR, BL1 and the certified optimum: a row for each driver, method and original.

    BL1 changes at most as many actions as serve best; its routes are as long as their originals.

    Args:
        routes: from `pprjax_envs.gridworld.command.experiment`.

    Returns:
        Also `recourse` and `actions`, `reached` (the flag), and `s_policy_other`, the route's score under the other
        driver's policy.
    """
    import polars as pl

    from pprjax import Paths, score
    from pprjax.baselines import action_changes

    frames = []
    for driver in DRIVERS:
        task, other = _task(env, driver), _task(env, _other(driver))
        mine = routes.filter(driver=driver).sort("path")
        bl1 = action_changes(task, originals, max_changes=int(max(originals.lengths)) - 1)
        found = {
            "PPR": Paths.from_lists(mine["recourse"].to_list(), mine["actions"].to_list()),
            "BL1": bl1.paths,
            "optimum": Paths.from_lists(mine["optimal"].to_list()),
        }
        for method, paths in found.items():
            own = score(task, originals, paths)
            frames.append(
                pl.DataFrame(
                    {
                        "driver": driver,
                        "method": method,
                        "path": range(len(originals)),
                        "s_policy": own.policy,
                        "s_path": own.path,
                        "s_goal": own.goal,
                        "distance": own.distance,
                        "s_policy_other": score(other, originals, paths).policy,
                        "reached": [_letter(env, path[-1]) == "F" for path in paths.to_lists()],
                        "highway_cells": [sum(_letter(env, s) == "H" for s in path) for path in paths.to_lists()],
                        "recourse": pl.Series(paths.to_lists(), dtype=pl.List(pl.Int32)),
                    }
                )
            )
    return pl.concat(frames)


def sensitivity(env: GridWorld, originals: Paths, config: Config, *, seed: int = 0) -> pl.DataFrame:
    """The scores, R_policy and certified gaps over λ_path × λ_policy: a row for each driver, cell and original.

    λ is an argument of one program, which trains an original in all cells side by side.
    """
    import jax
    import numpy as np
    import polars as pl

    from pprjax import exact, recourse
    from pprjax.metrics import relative_gap

    size = len(originals)
    weights = np.array(list(itertools.product(WEIGHTS, WEIGHTS)))
    grid = np.tile(weights, (size, 1))
    cells = dataclasses.replace(config, lambda_path=grid[:, 0], lambda_policy=grid[:, 1])
    rows = np.repeat(np.arange(size), len(weights))
    everywhere = originals[rows]
    frames = []
    for number, driver in enumerate(DRIVERS):
        task = _task(env, driver)
        key = jax.random.fold_in(jax.random.key(seed), number)
        found = recourse(task, everywhere, cells, key=key, chunk=len(weights))
        best = exact(task, everywhere, cells)
        frames.append(
            found.to_frame()
            .select("lambda_path", "lambda_policy", *SCORES, "distance", "status")
            .with_columns(
                driver=pl.lit(driver),
                path=pl.Series(rows),
                r_policy=pl.Series(found.scores.link),
                gap=pl.Series(relative_gap(found.reward, best.reward)),
            )
        )
    return pl.concat(frames)


def worst_gaps(routes: pl.DataFrame, lambdas: pl.DataFrame) -> dict[str, Any]:
    """The largest gap of the routes; the mean one of the heat maps, and where and how large their largest is."""
    worst = lambdas.sort("gap").select("lambda_path", "lambda_policy", "driver", "path", "gap").to_dicts()[-1]
    return {
        "routes": float(routes["gap"].to_numpy().max()),
        "mean": float(lambdas["gap"].to_numpy().mean()),
        "largest": worst,
    }


def personalization(env: GridWorld, scores: pl.DataFrame) -> pl.DataFrame:
    """Each driver's recourse beside both drivers' policies: mean s_policy, and the divergence of what it does.

    KL(π ‖ P_A) = Σ_s ρ(s) Σ_a π(a | s) log(π(a | s) / P_A(a | s)), with π(a | s) the shares of the actions that the
    recourses take in a state and ρ(s) how often they are there.

    Returns:
        A row for each driver whose recourse it is and each agent that it is set beside.
    """
    import polars as pl

    rows = []
    for driver, agent in itertools.product(DRIVERS, DRIVERS):
        mine = scores.filter(driver=driver, method="PPR")
        column = "s_policy" if driver == agent else "s_policy_other"
        rows.append(
            {
                "recourse": driver,
                "agent": agent,
                "s_policy": float(mine[column].to_numpy().mean()),
                "kl": divergence(_task(env, agent), mine["recourse"].to_list()),
            }
        )
    return pl.DataFrame(rows)


def divergence(task: Task, paths: list[list[int]]) -> float:
    """KL(π ‖ P_A) of the actions along these paths of symbols; see `personalization`."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from pprjax import Paths
    from pprjax.rollout import trace

    rows = Paths.from_lists(paths)
    counts = np.zeros((task.num_states or 0, task.num_actions))
    next_state = np.asarray(task.params.next_state)
    walk = jax.jit(jax.vmap(lambda symbols, length: trace(task, symbols, length, jax.random.key(0)).actions))
    for actions, length in zip(np.asarray(walk(jnp.asarray(rows.symbols), rows.lengths)), rows.lengths, strict=True):
        state = int(task.params.start)
        for action in actions[: length - 1]:
            counts[state, action] += 1
            state = next_state[state, action]
    visits = counts.sum(1, keepdims=True)
    taken = counts > 0
    ratio = np.divide(counts, visits * np.asarray(task.policy.probs), out=np.ones_like(counts), where=taken)  # pyright: ignore
    return float((counts * np.log(ratio)).sum() / counts.sum())


def claims(env: GridWorld, scores: pl.DataFrame, lambdas: pl.DataFrame) -> list[dict[str, Any]]:
    """What the paper says of the grid world, whether it holds here, and the means that say so.

    Two are not the `paper`'s: BL1 beside PPR in s_path, and r_policy, which is what λ_policy pays for.
    """
    import numpy as np
    import polars as pl

    means = {row["method"]: row for row in scores.group_by("method").agg(pl.col(*SCORES).mean()).to_dicts()}
    own = personalization(env, scores)
    highways = {d: float(scores.filter(driver=d, method="PPR")["highway_cells"].to_numpy().mean()) for d in DRIVERS}

    def over(score: str, weight: str) -> list[float]:
        return [float(rows[score].to_numpy().mean()) for _, rows in lambdas.group_by(weight, maintain_order=True)]

    def above(score: str, *, paper: bool = True) -> dict[str, Any]:
        pair = {method: round(means[method][score], 4) for method in ("PPR", "BL1")}
        return _claim(f"PPR's {score} is above BL1's", pair["PPR"] > pair["BL1"], pair, paper=paper)

    def rises(score: str, weight: str, *, paper: bool = True) -> dict[str, Any]:
        values = over(score, weight)
        steps = np.diff(values)
        holds = bool((steps >= -0.01 * np.ptp(values)).all() and values[-1] > values[0])
        return _claim(
            f"{score} rises with {weight}",
            holds,
            dict(zip(map(str, WEIGHTS), np.round(values, 4).tolist(), strict=True)),
            paper=paper,
        )

    def matrix(column: str) -> dict[str, dict[str, float]]:
        rows = own.to_dicts()
        return {d: {r["agent"]: round(r[column], 4) for r in rows if r["recourse"] == d} for d in DRIVERS}

    goal = lambdas.group_by("lambda_path", "lambda_policy").agg(pl.col("s_goal").mean())
    low = goal.filter(lambda_path=min(WEIGHTS), lambda_policy=min(WEIGHTS))["s_goal"].item()
    policy, kl = matrix("s_policy"), matrix("kl")
    return [
        above("s_policy"),
        above("s_goal"),
        above("s_path", paper=False),
        rises("s_path", "lambda_path"),
        rises("s_policy", "lambda_policy"),
        rises("r_policy", "lambda_policy", paper=False),
        _claim(
            "s_goal is highest when both λ are low",
            low >= goal["s_goal"].to_numpy().max(),
            {
                "both low": low,
                "largest": goal["s_goal"].max(),
                "cells that have it": int((goal["s_goal"] == goal["s_goal"].max()).sum()),
                "smallest": goal["s_goal"].min(),
            },
        ),
        _claim(
            "the experienced driver's routes use more highway cells than the newbie's",
            highways["experienced"] > highways["newbie"],
            highways,
        ),
        _claim(
            "a recourse suits its own driver better than the other",
            all(policy[d][d] > policy[d][_other(d)] for d in DRIVERS),
            policy,
        ),
        _claim(
            "a recourse diverges less from its own driver's policy than from the other's (KL)",
            all(kl[d][d] < kl[d][_other(d)] for d in DRIVERS),
            kl,
        ),
    ]


def _in_words(measured: dict[str, Any]) -> str:
    parts = (f"{k}: {_in_words(v)}" if isinstance(v, dict) else f"{k} {v:.4g}" for k, v in measured.items())
    return ("; " if any(isinstance(v, dict) for v in measured.values()) else ", ").join(parts)


def link_function() -> pl.DataFrame:
    """h(p) for several sizes of the action set."""
    import numpy as np
    import polars as pl

    from pprjax import link

    p = np.linspace(0.002, 0.998, 250)
    return pl.concat(
        [pl.DataFrame({"num_actions": a, "p": p, "h": np.asarray(link(p, a), float)}) for a in ACTION_SETS]
    )


def draw_link(links: pl.DataFrame) -> Figure:
    """The link function, a line for each size of the action set."""
    from matplotlib import pyplot as plt

    figure, ax = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
    shades = plt.get_cmap("viridis")
    sizes = links["num_actions"].unique().sort()
    for i, size in enumerate(sizes):
        rows = links.filter(num_actions=size)
        ax.plot(rows["p"], rows["h"], label=f"A = {size}", color=shades(i / len(sizes)))
    ax.axhline(0, color="#999999", linewidth=0.8)
    ax.set(xlabel="p = P_A(s, a)", ylabel="h(p)", title="The link function is 0 where the agent is indifferent")
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    plt.close(figure)
    return figure


def _task(env: GridWorld, driver: str) -> Task:
    from pprjax import goals
    from pprjax.task import Task
    from pprjax_envs.gridworld.world import agent

    return Task(env, agent(env, driver), goal=goals.reached)


def _other(driver: str) -> str:
    return DRIVERS[1 - DRIVERS.index(driver)]


def _letter(env: GridWorld, symbol: int) -> str:
    return str(env.cells[symbol])


def _claim(claim: str, holds: bool, measured: Any, *, paper: bool = True) -> dict[str, Any]:
    return {"claim": claim, "paper": paper, "holds": bool(holds), "measured": measured}


def _at(config: Config) -> str:
    return f"λ_path {config.lambda_path:g}, λ_policy {config.lambda_policy:g}"
