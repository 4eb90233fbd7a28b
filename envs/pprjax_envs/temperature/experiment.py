"""Years of either city edited to pass for the other's: PPR and its variants, two baselines, and who is convinced."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import jax
import numpy as np
import polars as pl
from jaxtyping import Int

from pprjax import recourse
from pprjax.baselines import native_guide
from pprjax.config import Config
from pprjax.paths import Paths
from pprjax.result import Recourse
from pprjax.reward import total
from pprjax.scoring import score
from pprjax.task import Task
from pprjax_envs.sequence import class_probs
from pprjax_envs.temperature import settings
from pprjax_envs.temperature.agents import Models
from pprjax_envs.temperature.baselines import gradient_importance, observed, symbol_changes
from pprjax_envs.temperature.judges import YearJudge
from pprjax_envs.temperature.world import task
from pprjax_envs.temperature.years import Data, Scale


def both_directions(
    data: Data,
    models: Models,
    judges: Sequence[YearJudge],
    config: Config,
    *,
    calls: int = settings.CALLS,
    seed: int = 0,
) -> tuple[pl.DataFrame, list[int]]:
    """Every test year edited towards the other city: by PPR, searched and learned, and by the two baselines.

    "PPR" is searched, and may be proved to be the best; "learned" is what Algorithm 1 makes of the same task.
    "published" is Algorithm 1 with the paper's settings, where no goal stands beside Eq. 5. That is largest where
    nothing is changed, and the published search too weak to find it.

    Args:
        judges: of whom nothing was asked; what they think of each edit stands beside it.
        calls: steps of the classifier that the proof of one year may take.

    Returns:
        A row for each year and method: `wanted`, `path`, `method`, `proved` and the columns of `outcomes`; and BL1's k
        in either direction.
    """
    frames, chosen_k = [], []
    for wanted in (1, 0):
        aim = task(data, models, wanted)
        originals = aim.env.paths(data.test_symbols[data.test_labels != wanted])
        key = jax.random.fold_in(jax.random.key(seed), wanted)
        found = {
            "PPR": recourse(aim, originals, config, key=key, calls=calls, beam_width=settings.BEAM_WIDTH),
            "learned": recourse(aim, originals, config, key=key, method="learn"),
            "published": recourse(aim.replace(goal=None), originals, settings.PAPER, key=key, method="learn"),
        }
        sequences = {method: edited(aim, result) for method, result in found.items()}
        sequences["BL1"], k = few_changes(aim, data, aim.env.sequences(originals))
        sequences["BL2"] = windows(aim, data, aim.env.sequences(originals))
        chosen_k.append(k)
        frames += [
            outcomes(aim, data.scale, originals, symbols, config, judges).with_columns(
                wanted=pl.lit(wanted, pl.Int32), method=pl.lit(method), proved=_proved(found.get(method))
            )
            for method, symbols in sequences.items()
        ]
    return pl.concat(frames), chosen_k


def edited(task: Task, found: Recourse) -> Int[np.ndarray, "B 12"]:
    """The year that each recourse is, of as many as there are originals; where none was found the original."""
    originals = task.env.sequences(found.originals)
    symbols = np.asarray(found.paths.symbols)[:, 1 : originals.shape[1] + 1]
    return np.where((found.status == "infeasible")[:, None], originals, symbols)


def _proved(found: Recourse | None) -> pl.Expr | pl.Series:
    """Whether each year is proved to be the best; null where nothing could be."""
    if found is None or np.isinf(found.bound).all():
        return pl.lit(None, pl.Boolean)
    return pl.Series(found.gap == 0)


def few_changes(task: Task, data: Data, sequences: Int[np.ndarray, "B 12"]) -> tuple[Int[np.ndarray, "B 12"], int]:
    """BL1: at most k months changed, each to a value that it has in some training year; and k, which serves best.

    That is the k with the most years taken for the wanted city, and the smallest of several.
    """
    allowed = observed(data.train_symbols, task.num_actions)
    wanted = int(task.params.wanted)
    found = symbol_changes(task.params.classifier, wanted, sequences, allowed, max_changes=settings.MAX_CHANGES)
    k = int(np.argmax((found.prob > 0.5).mean(0)))
    return found.sequences[:, k], k


def windows(task: Task, data: Data, sequences: Int[np.ndarray, "B 12"]) -> Int[np.ndarray, "B 12"]:
    """BL2: Native Guide with the LSTM's input gradients at the neighbour; the original where it finds nothing."""
    classifier = task.params.classifier
    return native_guide(
        sequences,
        data.train_symbols,
        lambda x: np.argmax(class_probs(classifier, x), 1),
        lambda _, neighbours: gradient_importance(classifier, neighbours),
        wanted=int(task.params.wanted),
    ).sequences


def heat_map(data: Data, models: Models, config: Config, *, seed: int = 0) -> pl.DataFrame:
    """The scores of the first city's first test year over a grid of λ_path and λ_policy.

    Each cell is searched by itself and shows its own recourse, whatever other cells found.
    """
    grid = list(itertools.product(settings.HEAT_PATH, settings.HEAT_POLICY))
    paths, policies = np.array(grid).T
    aim = task(data, models, wanted=1)
    first = aim.env.paths(data.test_symbols[data.test_labels == 0])[[0] * len(grid)]
    cells = dataclasses.replace(config, lambda_path=paths, lambda_policy=policies)
    found = recourse(aim, first, cells, key=jax.random.key(seed), calls=settings.CALLS, beam_width=settings.BEAM_WIDTH)
    return pl.DataFrame(
        {
            "lambda_path": paths,
            "lambda_policy": policies,
            "status": found.status.tolist(),
            "reward": found.reward,
            "s_goal": found.scores.goal,
            "s_path": found.scores.path,
            "s_policy": found.scores.policy,
            "r_policy": found.scores.r_policy,
            "distance": found.scores.distance,
        }
    )


def outcomes(
    task: Task,
    scale: Scale,
    originals: Paths,
    sequences: Int[np.ndarray, "B 12"],
    config: Config,
    judges: Sequence[YearJudge] = (),
) -> pl.DataFrame:
    """One row an edit of a year.

    Returns:
        `reward` (Eq. 5 at the λ of `config`); `flipped`, whether the classifier takes it for the wanted city's; the
        scores; `distance`, under the edit costs of `config`; `months` with another value and by how many `degrees`, °F,
        in all; for each judge, by its name, the probability of the wanted city; and the symbols before and after.
    """
    before = task.env.sequences(originals)
    scores = score(task, originals, task.env.paths(sequences), config)
    lambdas = dict(lambda_path=config.lambda_path, lambda_policy=config.lambda_policy)
    old, new = (scale.decode(symbols) for symbols in (before, sequences))
    return pl.DataFrame(
        {
            "path": range(len(originals)),
            "reward": [float(x) for x in total(scores.goal, scores.path, scores.r_policy, **lambdas)],
            "flipped": scores.goal > 0.5,
            "s_goal": scores.goal,
            "s_path": scores.path,
            "s_policy": scores.policy,
            "distance": np.asarray(scores.distance, float),
            "months": (np.asarray(sequences) != before).sum(1),
            "degrees": np.abs(new - old).sum(1),
            **{judge.name: judge.probs(new)[:, int(task.params.wanted)] for judge in judges},
            "original": pl.Series(before.tolist(), dtype=pl.List(pl.Int32)),
            "recourse": pl.Series(sequences.tolist(), dtype=pl.List(pl.Int32)),
        }
    )


def summarize(data: Data, table: pl.DataFrame, judges: Sequence[YearJudge]) -> pl.DataFrame:
    """The means of each method in either direction; of each judge, the share of the years that convince it; and the
    share that is proved, null where nothing could be."""
    names = ("flipped", "reward", "s_goal", "s_path", "s_policy", "distance", "months", "degrees")
    return (
        table.group_by("wanted", "method", maintain_order=True)
        .agg(
            pl.col(*names).mean(),
            *((pl.col(judge.name) > 0.5).mean() for judge in judges),
            pl.col("proved").mean(),
            years=pl.len(),
        )
        .with_columns(direction=pl.col("wanted").replace_strict({1: arrow(data, 1), 0: arrow(data, 0)}))
    )


def degrees_by_month(data: Data, table: pl.DataFrame) -> dict[str, list[float]]:
    """By how many °F PPR changes each month on average, January to December, in either direction."""
    shifts = {}
    for wanted in (1, 0):
        rows = table.filter(wanted=wanted, method="PPR")
        before, after = (data.scale.decode(np.array(rows[name].to_list())) for name in ("original", "recourse"))
        shifts[arrow(data, wanted)] = np.abs(after - before).mean(0).round(2).tolist()
    return shifts


def arrow(data: Data, wanted: int) -> str:
    """A direction, as "Rome → Columbia"."""
    return f"{data.cities[1 - wanted]} → {data.cities[wanted]}"
