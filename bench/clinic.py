"""Patients of a simulated clinic who died: would other treatments have saved them, and how likely is that to work?

python bench/clinic.py                   # 10 patients, about 15 minutes on two cores
python bench/clinic.py --patients 3

Needs the extra `icu`. Everything is simulated by the model ICU-Sepsis, the patients included. First the three published
returns. Then, for each patient: the treatments of the recourse as a fixed plan, and the learned policy that reacts,
both in fresh runs; the same with the noise of the patient's own path; and BL1, at most three changed treatments with
that noise.
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

CONFIG = pprjax.Config(lambda_path=1.0, lambda_policy=0.1)
PUBLISHED = {"random": 0.78, "clinicians": 0.78, "optimal": 0.88}
MAX_CHANGES = 3


def of_patient(original: pprjax.Paths, key: jax.Array) -> dict[str, Any]:
    """What is found for one patient."""
    start = int(np.asarray(original.symbols)[0, 0])
    fresh, own = clinic.task(start), clinic.task(start, observed=original)
    own_plan = pprjax.reliability(fresh, original, key=jax.random.fold_in(key, 1))
    row: dict[str, Any] = {"steps": int(np.asarray(original.lengths)[0]) - 2}
    row["clinicians"] = float(clinic.survival(clinic.tables().clinicians.astype(float))[start])
    row["optimal"] = float(clinic.survival(clinic.optimal())[start])
    row["own plan"] = float(own_plan.share[0])
    for name, task in {"fresh": fresh, "observed": own}.items():
        found = pprjax.recourse(task, original, CONFIG, key=key, progress=False)
        row |= {
            f"{name} plan": float(found.reliability[0]),
            f"{name} policy": float(found.policy_reliability[0]),
            f"{name} changed": _changed(original, found.paths),
            f"{name} edits": int(found.scores.distance[0]),
        }
    bl1 = action_changes(fresh, original, max_changes=MAX_CHANGES, key=key, num_samples=None)
    row |= {"BL1": float(bl1.reward[0, -1]), "BL1 changed": int(bl1.changes[0])}
    return row


def _changed(original: pprjax.Paths, recourse: pprjax.Paths) -> int:
    return clinic.changed_treatments(np.asarray(original.actions)[0], np.asarray(recourse.actions)[0])


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
        table(f"patients after {time.perf_counter() - started:.0f} s", rows)
    means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0] if name != "patient"}
    figures = {
        "returns": returns,
        "published": PUBLISHED,
        "patients": args.patients,
        "config": {"lambda_path": CONFIG.lambda_path, "lambda_policy": CONFIG.lambda_policy},
        "runs": RUNS,
        "mean": means,
        "rows": rows,
        "seconds": time.perf_counter() - started,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    finish("clinic", figures)


if __name__ == "__main__":
    main()
