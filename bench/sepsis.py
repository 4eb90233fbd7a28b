"""How few edits turn the outcome of a patient's trace, and how many into one that patients have?

`python bench/sepsis.py FOLDER K [--plain] [--show N]`, where FOLDER has the public benchmark of "REVISED+" (Stevens, De
Smedt, Peeperkorn and De Weerdt, arXiv 2403.09232) on the log of Sepsis Cases: `sepsis_K.npz` with traces and the
weights of their judge, `sepsis_K_declare.json` with mined rules, `sepsis_K_published.csv` with what was published.

An original is to become a trace that the judge takes for outcome 0 and that breaks no rule. P_A is estimated from the
training traces that the judge takes for 0, each with the share of its 5 nearest training traces that it takes for 0 as
its weight; `--plain`: from all, evenly. How much is smoothed is chosen by held-out training traces. ORDER, the weights
and λ_policy were chosen on training traces that are no originals.

* `fewest_edits`: the first rung of an original's ladder; `proved`: no path of fewer edits does it.
* `edits`: of the rung that is chosen, the one of the largest v of at most MAX_EDITS edits, the last of the ladder.
* `dl_edit`: the same as the published figures count it, of padded rows, where a shorter trace costs its padding too.
* `y_nn`: of the 5 nearest training traces, the share that the judge takes for 0, with an even share of those that tie
  for the last places; `y_nn_range` is the least and the most that it may be, by how ties are broken.
"""

import argparse
import csv
import json
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import traces
from jaxtyping import Float, Int
from pprjax_envs.sequence import SequenceEnv
from report import finish
from traces import END, Contexts, LSTMJudge

import pprjax
from pprjax.declare import Rule
from pprjax.goals import class_is
from pprjax.result import Frontier

NUM_SYMBOLS = 17
MAX_EDITS = 8
LAMBDA_POLICY = 0.2
CALLS = 8000
ORDER = 4
STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)
FOLDS = 5


@dataclass(frozen=True)
class Data:
    """One outcome of the benchmark. Traces are int[N, L]."""

    train: np.ndarray
    originals: np.ndarray
    judge: LSTMJudge
    told: np.ndarray  # bool[N], which training traces the judge takes for 0
    rules: list[Rule]
    published: list[dict[str, str]]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("outcome", type=int, metavar="K")
    arguments.add_argument("--plain", action="store_true", help="P_A of all training traces")
    arguments.add_argument("--show", type=int, default=0, metavar="N", help="originals and what they become, on stderr")
    options = arguments.parse_args()
    data = load(options.folder, options.outcome)
    weights = np.ones(len(data.train)) if options.plain else typical(data)
    strength = chosen_strength(data.train, weights)
    agent = traces.contexts(data.train, weights, num_symbols=NUM_SYMBOLS, order=ORDER, strength=strength)
    task = task_of(data, agent)
    ladders(data, task)  # compiles
    begin = time.perf_counter()
    front = ladders(data, task)
    seconds = time.perf_counter() - begin
    first = np.unique(front.path, return_index=True)[1]
    chosen = np.append(first[1:], len(front)) - 1
    changed = np.maximum(task.env.sequences(front.paths[chosen]), END)
    originals = data.originals[front.path[chosen]]
    for before, after in list(zip(originals, changed, strict=True))[: options.show]:
        print(*(" ".join(map(str, row[row != END])) for row in (before, after)), "", sep="\n", file=sys.stderr)
    size = len(data.originals)
    figures = {
        "originals": size,
        **scores(data, originals, changed),
        "flipped": len(chosen) / size,
        "fewest_edits": float(front.distance[first].mean()),
        "edits": float(front.distance[chosen].mean()),
        "proved": sum(is_proved(front, row) for row in first) / size,
        "seconds_per_original": seconds / size,
        "strength": strength,
        "published": scores(data, *(parsed(data.published, name) for name in ("original", "counterfactual")))
        | {"reported": {name: reported(data, name) for name in ("dl_edit", "y_nn", "violations_percent")}},
    }
    finish(f"sepsis_{options.outcome}{'_plain' * options.plain}", figures)


def load(folder: Path, outcome: int) -> Data:
    """The originals are those that were published, of the variant that was trained to keep the rules."""
    with np.load(folder / f"sepsis_{outcome}.npz") as arrays:
        train, judge = np.asarray(arrays["train"], np.int32), traces.judge_of(arrays)
    mined = json.loads((folder / f"sepsis_{outcome}_declare.json").read_text())
    with open(folder / f"sepsis_{outcome}_published.csv", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["constraints"] == "joint"]
    return Data(
        train=train,
        originals=np.unique(parsed(rows, "original"), axis=0),
        judge=judge,
        told=np.asarray(traces.opinions(judge, train)) > 0.5,
        rules=traces.rules_of(mined["joint"] + mined["of_label"]["0"]),
        published=rows,
    )


def parsed(rows: list[dict[str, str]], name: str) -> Int[np.ndarray, "N L"]:
    return np.array([row[name].split() for row in rows], np.int32)


def reported(data: Data, name: str) -> float:
    return float(np.mean([float(row[name]) for row in data.published]))


def typical(data: Data) -> Float[np.ndarray, " N"]:
    """For each training trace that is told 0 the share of its nearest others that are; 0 for the rest."""
    apart = traces.distances(data.train, data.train)
    np.fill_diagonal(apart, apart.max() + 1)
    return data.told * traces.near(apart, data.told.astype(float))[0]


def chosen_strength(rows: Int[np.ndarray, "N L"], weights: Float[np.ndarray, " N"]) -> float:
    """The strength of smoothing under which the traces of positive weight are likeliest, each fold held out in turn."""
    fold = np.random.default_rng(0).permutation(len(rows)) % FOLDS

    def held_out(strength: float) -> float:
        fit = partial(traces.contexts, num_symbols=NUM_SYMBOLS, order=ORDER, strength=strength)
        agents = [fit(rows, weights * (fold != k)) for k in range(FOLDS)]
        return sum(weights[fold == k] @ traces.log_likelihood(agent, rows[fold == k]) for k, agent in enumerate(agents))

    return max(STRENGTHS, key=held_out)


def task_of(data: Data, agent: Contexts) -> pprjax.Task:
    """A trace is a sequence whose end is the activity 0."""
    env = SequenceEnv(data.judge, 0, num_symbols=NUM_SYMBOLS, length=data.train.shape[1], end=END)
    rules = traces.in_paths(data.rules, start=NUM_SYMBOLS)
    return pprjax.Task(env, agent, goal=class_is(0), constraints=pprjax.Constraints(rules=rules))


def ladders(data: Data, task: pprjax.Task) -> Frontier:
    paths = task.env.paths([row[row != END] for row in data.originals])
    config = pprjax.Config(lambda_policy=LAMBDA_POLICY)
    return pprjax.frontier(task, paths, config, method="search", max_edits=MAX_EDITS, calls=CALLS)


def is_proved(front: Frontier, row: int) -> bool:
    """Whether no path of fewer edits than this rung meets the goal and keeps the rules."""
    fewer = front.limit[front.path[row], : front.distance[row]]
    return bool((fewer == -np.inf).all())


def scores(data: Data, originals: Int[np.ndarray, "N L"], changed: Int[np.ndarray, "N L"]) -> dict:
    """What the benchmark says of traces and their originals."""
    mean, least, most = traces.near(traces.distances(changed, data.train), data.told.astype(float))
    apart = [traces.distances(one[None], other[None])[0, 0] for one, other in zip(originals, changed, strict=True)]
    return {
        "convinces": float((np.asarray(traces.opinions(data.judge, changed)) > 0.5).mean()),
        "violations_percent": 100 * float(np.mean([traces.broken(row.tolist(), data.rules) for row in changed])),
        "dl_edit": float(np.mean(apart)),
        "y_nn": float(mean.mean()),
        "y_nn_range": [float(least.mean()), float(most.mean())],
    }


if __name__ == "__main__":
    main()
