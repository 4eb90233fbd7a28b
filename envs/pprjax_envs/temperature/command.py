"""A year of one city edited until it passes for another city's, beside two baselines."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import tyro

from pprjax.config import Config
from pprjax.errors import UserError
from pprjax_envs.temperature.settings import CALLS, INDEL, METHODS, PAPER, SETTINGS

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from pprjax_envs.temperature.files import Dropped
    from pprjax_envs.temperature.judges import YearJudge
    from pprjax_envs.temperature.years import Data, Years

OTHER_SEED = 1_000_003
"""Added to the seed for the simulated years of the second judges, which neither LSTM has seen."""


class Source(NamedTuple):
    """Where the years come from, and who judges them unasked."""

    years: Years
    judges: tuple[YearJudge, YearJudge]
    dropped: Dropped | None  # of a file


def main(
    *,
    out: Path = Path("out/temperature"),
    data: Path | None = None,
    cities: tuple[str, str] = ("Rome", "Columbia"),
    num_train: Annotated[int, tyro.conf.arg(name="num-train")] = 200,
    num_test: Annotated[int, tyro.conf.arg(name="num-test")] = 20,
    resolution: float = 1.0,
    calls: int = CALLS,
    seed: int = 0,
    cache: Path | None = None,
    heat_maps: bool = True,
    config: tyro.conf.OmitArgPrefixes[Config] = SETTINGS,
) -> None:
    """Edit years of monthly temperatures until a classifier takes them for the other city's, in both directions.

    Prints the scores of PPR, which is searched and, where it can be, proved; of what Algorithm 1 learns at these
    settings and at the paper's; and of two baselines; and how many of their years convince two judges that were not
    asked. Writes recourse.parquet, summary.json, years.png, scores.png and lambdas.png.

    An edit replaces a month. `--w-ins 1 --w-del 1` gives the paper's edit distance, which also inserts and deletes;
    `--distance manhattan` the sum of all changes, which is learned and not searched.

    Args:
        out: the folder to write to; made if it is missing.
        data: daily temperatures, a file in the layout of Kaggle's city_temperature.csv. Default: simulated years. A
            third of its years is set aside for the judges that were not asked.
        cities: which two, as they are named there; "City, State" or "City, Country" where a name is not unique.
            Simulated years are of Rome and Columbia.
        num_train: training years, half of each city.
        num_test: test years, half of each city; each is edited.
        resolution: °F a symbol.
        calls: steps of the classifier that the proof of one year may take.
        seed: for the simulation, the split, the models and the training.
        cache: the folder where trained models are kept; default $PPRJAX_CACHE, or pprjax in the user's cache folder.
        heat_maps: draw the λ heat maps.
        config: what is wanted, and every knob of Algorithm 1, for the row learned.
    """
    clock = [time.perf_counter()]
    from pprjax.io import output_folder, write_table

    folder = output_folder(out)

    from rich.console import Console

    from pprjax.timing import compile_seconds
    from pprjax_envs import temperature
    from pprjax_envs.temperature import experiment

    console = Console()
    with compile_seconds() as compiling:
        source = _read(data, cities, seed)
        parts = temperature.split(
            source.years, num_train=num_train, num_test=num_test, resolution=resolution, seed=seed
        )
        models, reloaded = temperature.trained(parts, seed=seed, folder=cache)
        quality = temperature.quality(parts, models) | _accuracies(source.judges, parts)
        console.print(_as_sentence(quality, reloaded, source), soft_wrap=True)
        clock.append(time.perf_counter())
        table, chosen_k = experiment.both_directions(parts, models, source.judges, config, calls=calls, seed=seed)
        clock.append(time.perf_counter())
        heat = experiment.heat_map(parts, models, config, seed=seed) if heat_maps else None
        clock.append(time.perf_counter())
    write_table(table, folder / "recourse.parquet")
    drawn = _draw(folder, parts, table, heat)
    summary = experiment.summarize(parts, table, source.judges)
    told = {"models": quality, "bl1_changes": chosen_k, "calls": calls, "seed": seed}
    told["degrees_by_month"] = experiment.degrees_by_month(parts, table)
    told["heat_map"] = None if heat is None else heat.to_dicts()
    told["seconds"] = _seconds(clock) | {"compile": compiling.seconds}
    _write(folder, source, parts, summary, config, told)
    console.print(_as_rich(summary, parts, source.judges))
    console.print(_notes(config, told, source.judges), soft_wrap=True)
    console.print(
        f"{told['seconds']['total']:.0f} s, of which {compiling.seconds:.0f} s compiling. "
        f"Written to {folder}: recourse.parquet, summary.json, {', '.join(drawn)}.",
        soft_wrap=True,
    )


def _seconds(clock: list[float]) -> dict[str, float]:
    """What each part took, from the times at which it began, and all up to now."""
    names = ("models", "recourse and baselines", "heat maps")
    parts = {name: after - before for name, (before, after) in zip(names, itertools.pairwise(clock), strict=True)}
    return {"total": time.perf_counter() - clock[0]} | parts


def _write(
    folder: Path, source: Source, parts: Data, summary: pl.DataFrame, config: Config, told: dict[str, Any]
) -> None:
    """summary.json."""
    from pprjax.io import write_json

    facts = {
        "source": parts.source,
        "dropped": None if source.dropped is None else dataclasses.asdict(source.dropped),
        "cities": parts.cities,
        "scale": dataclasses.asdict(parts.scale),
        "judges": [judge.name for judge in source.judges],
        "methods": summary.to_dicts(),
        "config": dataclasses.asdict(config),
    }
    write_json(facts | told, folder / "summary.json")


def _read(data: Path | None, cities: tuple[str, str], seed: int) -> Source:
    from pprjax_envs import temperature
    from pprjax_envs.temperature.judges import Bayes, NearestYears

    if data is not None:
        from pprjax_envs.temperature.files import read_years

        found, dropped = read_years(data, cities)
        years, others = temperature.set_aside(found)
        return Source(years, (Bayes.fitted(others), NearestYears.among(others)), dropped)
    if tuple(cities) != tuple(temperature.NORMALS):
        raise UserError(
            f"cities: without --data there are only {' '.join(temperature.NORMALS)}, got {' '.join(cities)}"
        )
    others = temperature.simulate(seed=seed + OTHER_SEED)
    judges = Bayes.of_the_simulator(others.cities), NearestYears.among(others)
    return Source(temperature.simulate(seed=seed), judges, None)


def _accuracies(judges: Sequence[YearJudge], parts: Data) -> dict[str, float]:
    from pprjax_envs.temperature.judges import accuracy

    return {f"test_accuracy_{judge.name}": accuracy(judge, parts.test_degrees, parts.test_labels) for judge in judges}


def _draw(folder: Path, parts: Data, table: pl.DataFrame, heat: pl.DataFrame | None) -> list[str]:
    """The figures' file names."""
    from pprjax import plotting
    from pprjax_envs.temperature import figures

    drawn = {
        "years.png": figures.years(parts, table, METHODS),
        "scores.png": figures.scores(parts, table, METHODS),
    }
    if heat is not None:
        drawn["lambdas.png"] = figures.heat_maps(parts, heat)
    for name, figure in drawn.items():
        plotting.save(figure, folder / name)
    return list(drawn)


def _as_sentence(quality: dict[str, float], reloaded: bool, source: Source) -> str:
    """The years, what was dropped from their file, and how good the models are."""
    right, likely = (
        f"{quality[f'test_{name}']:{form}} (in training {quality[f'train_{name}']:{form}})"
        for name, form in (("accuracy", ".0%"), ("log_prob", ".2f"))
    )
    others = " and ".join(f"{quality[f'test_accuracy_{judge.name}']:.0%} ({judge.name})" for judge in source.judges)
    name = source.years.source + ("" if source.dropped is None else f"; {source.dropped}")
    return (
        f"Years: {name}. Models {'read back' if reloaded else 'trained'}: the classifier is right on {right} of the "
        f"held-out years; the generator gives a month of them log probability {likely}. The judges that are not asked "
        f"are right on {others}."
    )


def _notes(config: Config, told: dict[str, Any], judges: Sequence[YearJudge]) -> str:
    """What the rows and columns of the table are."""
    bl1_k = " and ".join(map(str, told["bl1_changes"]))
    habits = {"regret": "how much less likely each month is than the likeliest", "link": "h(P_A)"}[config.habit]
    return (
        f"LSTM, {', '.join(judge.name for judge in judges)}: how many years each of them takes for the wanted city's. "
        "Only the LSTM was asked. Bayes knows the normal distributions of both cities; k-NN compares a year with years "
        "that no other model has seen.\n"
        f"d is {_distance(config)}; °F the sum of all changes of a year. s_policy is the mean log P_A of a month; a "
        f"held-out year has {told['models']['test_log_prob']:.2f}. R is Eq. 5, s_goal + λ_path·s_path + "
        f"λ_policy·R_policy, at λ_path = {config.lambda_path:g} and λ_policy = {config.lambda_policy:g}; R_policy sums "
        f"{habits}.\n"
        "PPR must reach the wanted city. It is searched; proved: no year has a larger R, as up to "
        f"{told['calls']:,} steps of the classifier show. Learned: the same by Algorithm 1. Published: "
        "Eq. 5 alone, by the paper's plain algorithm, habits and edit distance, at λ_policy = "
        f"{PAPER.lambda_policy:g}. BL1: at most k = {bl1_k} months changed, whatever P_A says, with the k that flips "
        "most years. BL2: Native Guide, with a window of the most similar training year of the wanted city."
    )


def _distance(config: Config) -> str:
    """What d is, in words."""
    if config.distance != "edit":
        return f"the {config.distance.capitalize()} distance, in steps of the scale"
    if config.w_ins < INDEL or config.w_del < INDEL:
        return "the edit distance, in which a run of months that is shifted by one is two edits"
    return "the number of months with another value"


def _as_rich(summary: pl.DataFrame, data: Data, judges: Sequence[YearJudge]) -> Table:
    from rich import box
    from rich.table import Table

    title = f"Means over {summary['years'][0]} test years each way ({data.source})"
    shown = Table(
        title=title, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True, padding=(0, 0)
    )
    names = [judge.name for judge in judges]
    edits = ["distance"] if (summary["distance"] == summary["months"]).all() else ["distance", "months"]
    for name in ("", "LSTM", *names, "s_goal", "s_path", "s_policy", "d", *edits[1:], "°F", "R", "proved"):
        shown.add_column(name, justify="right" if name else "left", no_wrap=True)
    for _, rows in summary.group_by("wanted", maintain_order=True):
        shown.add_section()
        shown.add_row(f"[bold]{rows['direction'][0]}[/]")
        for row in rows.iter_rows(named=True):
            figures: list[Any] = [f"{row[name]:.0%}" for name in ("flipped", *names)]
            figures += [f"{row[name]:.2f}" for name in ("s_goal", "s_path", "s_policy")]
            figures += [f"{row[name]:.1f}" for name in edits]
            figures += [f"{row['degrees']:.0f}", f"{row['reward']:.2f}"]
            shown.add_row(f" {row['method']}", *figures, "" if row["proved"] is None else f"{row['proved']:.0%}")
    return shown
