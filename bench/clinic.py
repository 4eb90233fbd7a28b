"""Patients of a simulated clinic who died: would other treatments have saved them, and how likely is that to work?

python bench/clinic.py                   # 10 patients, about 20 minutes on two cores
python bench/clinic.py --patients 3

Needs the extra `icu`. Everything is simulated by the model ICU-Sepsis, the patients included. First the three published
returns. Then, for each patient, how often fresh runs survive: of the patient's own treatments as a fixed plan; of the
treatments of the recourse, and of the learned policy, which reacts; the same where a plan must work in 60 % of the
runs; with the noise of the patient's own path; and BL1, at most three changed treatments with that noise.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import jax
import numpy as np
from pprjax_envs import clinic
from report import finish, table

import pprjax
from pprjax.baselines import action_changes
from pprjax.runs import RUNS

CONFIG = pprjax.Config(lambda_path=1.0, lambda_policy=0.1, num_best=256, memory=8)
"""All paths are replayed: the best of them are the lucky ones, from which Q learns to hope."""

PUBLISHED = {"random": 0.78, "clinicians": 0.78, "optimal": 0.88}
MAX_CHANGES = 3
LEAST = 0.6
"""The least share of fresh runs in which a `sure` plan must work."""


def of_patient(original: pprjax.Paths, key: jax.Array) -> dict[str, Any]:
    """What is found for one patient: shares of fresh runs that survive, treatments that change, edits."""
    start = int(np.asarray(original.symbols)[0, 0])
    fresh, own = clinic.task(start), clinic.task(start, observed=original)
    sure = fresh.replace(constraints=pprjax.Constraints(min_reliability=LEAST))
    row: dict[str, Any] = {
        "steps": int(np.asarray(original.lengths)[0]) - 2,
        "clinicians": float(clinic.survival(clinic.tables().clinicians, steps=clinic.MAX_STEPS)[start]),
        "optimal": float(clinic.survival(clinic.optimal(), steps=clinic.MAX_STEPS)[start]),
        "plan_own": float(pprjax.reliability(fresh, original, key=jax.random.fold_in(key, 1)).share[0]),
    }
    for name, task in {"fresh": fresh, "sure": sure, "observed": own}.items():
        found = pprjax.recourse(task, original, CONFIG, key=key, progress=False)
        valid = bool(found.status[0] != "infeasible")
        row |= {
            f"plan_{name}": float(found.reliability[0]) if valid else None,
            f"changed_{name}": _changed(original, found.paths) if valid else None,
            f"edits_{name}": int(found.scores.distance[0]) if valid else None,
            f"policy_{name}": float(found.policy_reliability[0]),
        }
    bl1 = action_changes(fresh, original, max_changes=MAX_CHANGES, key=key, num_samples=None)
    return row | {"bl1": float(bl1.reward[0, -1]), "changed_bl1": int(bl1.changes[0])}


def _changed(original: pprjax.Paths, recourse: pprjax.Paths) -> int:
    return clinic.changed_treatments(np.asarray(original.actions)[0], np.asarray(recourse.actions)[0])


def mean(values: list[float | None]) -> float:
    """Of those that there are."""
    return float(np.mean([value for value in values if value is not None] or [np.nan]))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--patients", type=int, default=10)
    arguments.add_argument("--seed", type=int, default=0)
    args = arguments.parse_args()
    returns = clinic.published_returns()
    assert all(abs(returns[name] - value) < 0.01 for name, value in PUBLISHED.items()), returns
    originals, key = clinic.patients(args.patients, seed=args.seed), jax.random.key(args.seed)
    rows, started = [], time.perf_counter()
    for i in range(args.patients):
        rows.append({"patient": i, **of_patient(originals[i : i + 1], jax.random.fold_in(key, i))})
        for start, end in ((0, 5), (5, 13), (13, 19)):  # as wide as a terminal
            cut = [{name: row[name] for name in ("patient", *list(row)[1:][start:end])} for row in rows]
            table(f"patients after {time.perf_counter() - started:.0f} s", cut)
    figures = {
        "returns": returns,
        "published": PUBLISHED,
        "patients": args.patients,
        "config": {"lambda_path": CONFIG.lambda_path, "lambda_policy": CONFIG.lambda_policy},
        "runs": RUNS,
        "least": LEAST,
        "answered_sure": sum(row["plan_sure"] is not None for row in rows),
        "mean": {name: mean([row[name] for row in rows]) for name in rows[0] if name != "patient"},
        "rows": rows,
        "seconds": time.perf_counter() - started,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    finish("clinic", figures)


if __name__ == "__main__":
    main()
