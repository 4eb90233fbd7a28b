"""Which edits of years can be proved to be the best? `python bench/years.py [--learned]`

Years of the temperature world, edited at single λ. "published" counts an insertion, a deletion and a replacement as one
edit each; "months" the months with another value.
"""

import argparse
import time

import jax
import numpy as np
from pprjax_envs import temperature
from pprjax_envs.sequence import class_probs
from pprjax_envs.temperature.settings import INDEL, SETTINGS
from report import finish, table

from pprjax import recourse
from pprjax.config import Config
from pprjax.ladder import Wanted
from pprjax.paths import Paths
from pprjax.search.points import search_points
from pprjax.task import Task

PAIRS = [(10.0, 0.1), (10.0, 0.3), (10.0, 1.0), (100.0, 0.3), (1.0, 0.3), (1.0, 1.0)]  # λ_path, λ_policy
DISTANCES = {"published": {}, "months": dict(w_ins=INDEL, w_del=INDEL)}
CALLS = 3_000_000
BEAMED = 3
"""Years in each direction that are given to the wide beam as well: it ranks a million children in each layer."""

EQUAL = 2e-6  # a share of R: float32 tells no more


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--years", type=int, default=10, help="in each direction")
    arguments.add_argument("--calls", type=int, default=CALLS, help="classifier steps of a proof")
    arguments.add_argument("--distance", choices=DISTANCES, default="published")
    arguments.add_argument("--learned", action="store_true", help="and train the learner, which takes minutes")
    options = arguments.parse_args()
    data = temperature.split(temperature.simulate())
    models, _ = temperature.trained(data)
    rows = []
    for wanted in (1, 0):
        task = temperature.task(data, models, wanted)
        told = np.argmax(class_probs(models.classifier, data.test_symbols), 1)
        years = data.test_symbols[(data.test_labels != wanted) & (told != wanted)][: options.years]
        for lambda_path, lambda_policy in PAIRS:
            config = Config(lambda_path=lambda_path, lambda_policy=lambda_policy, **DISTANCES[options.distance])
            row = proved(task, task.env.paths(years), config, options.calls, learned=options.learned)
            rows.append({"direction": f"{data.cities[1 - wanted]} → {data.cities[wanted]}"} | row)
    gaps = [gap for row in rows for gap in row.pop("gaps")]
    table(f"{options.distance}: at most {options.calls:,} classifier steps a year; simulated years", rows)
    num = sum(row["years"] for row in rows)
    finish(
        "years",
        {
            "distance": options.distance,
            "calls": options.calls,
            "cases": rows,
            "share_proved": sum(row["proved"] for row in rows) / num,
            "median_gap": float(np.median(gaps)),
        },
    )


def proved(task: Task, originals: Paths, config: Config, calls: int, *, learned: bool) -> dict:
    """One λ pair: how many years are proved, at what cost, and how many of the learner's answers are that optimum; and
    of a beam's that takes as many steps of the classifier as the learner does."""
    num_distances, size = task.horizon + 1, len(originals)
    close = config.lambda_path / (1.0 + np.arange(num_distances))
    wanted, objective = Wanted(num_distances=num_distances), config.objective
    begin = time.perf_counter()
    found = search_points(task, originals, objective, wanted=wanted, calls=calls)
    seconds = time.perf_counter() - begin
    reward, bound = ((x + close).max(1) for x in (np.asarray(found.best.value), found.limit))
    gap = np.where(bound - reward <= EQUAL * (1 + np.abs(bound)), 0.0, bound - reward)
    equal = (SETTINGS.num_paths * (SETTINGS.iterations + 1) + 1) * task.horizon  # b paths an iteration, and some more
    width = equal // (num_distances * task.horizon)
    beam = search_points(task, originals[:BEAMED], objective, wanted=wanted, calls=0, width=width)
    row = {
        "λ_path": config.lambda_path,
        "λ_policy": config.lambda_policy,
        "years": size,
        "proved": int((gap == 0).sum()),
        "gaps": gap.tolist(),
        "largest_gap": float(gap.max()),
        "median_calls": float(np.median(found.calls)),
        "seconds_a_year": seconds / size,
        "beam_calls": int(np.max(beam.calls)),
        "beam_years": len(beam.calls),
        "beam_reaches": int(reaches((np.asarray(beam.best.value) + close).max(1), reward[:BEAMED])),
    }
    if learned:
        knobs = SETTINGS.replace(
            habit=config.habit,
            lambda_path=config.lambda_path,
            lambda_policy=config.lambda_policy,
            **{name: getattr(config, name) for name in ("w_ins", "w_del", "w_sub")},
        )
        best = recourse(task, originals, knobs, method="learn", key=jax.random.key(0))
        met = np.where(best.scores.goal > 0.5, best.reward, -np.inf)
        row |= {"learned_calls": equal, "learned_reaches": int(reaches(met, reward))}
    return row


def reaches(reward: np.ndarray, best: np.ndarray) -> int:
    return int((reward >= best - 1e-4).sum())


if __name__ == "__main__":
    main()
