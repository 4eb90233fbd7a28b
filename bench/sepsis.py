"""How few edits turn the outcome of a patient's trace, and how many into one that patients have?

`python bench/sepsis.py FOLDER K [--plain] [--own-steps free] [--show N]`, where FOLDER has the public benchmark of
"REVISED+" (Stevens, De Smedt, Peeperkorn and De Weerdt, arXiv 2403.09232) on the log of Sepsis Cases: `sepsis_K.npz`
with traces and the weights of their judge, `sepsis_K_declare.json` with mined rules, `sepsis_K_published.csv` with what
was published.

An original is to become a trace that the judge takes for outcome 0 and that breaks no rule. P_A is estimated from the
training traces that the judge takes for 0, weighted by the share of each one's nearest training traces that it takes
for 0 as well, to some power; `--plain`: from all, evenly. SETTINGS were chosen by y_nn on 40 (K = 1) and 92 (K = 4)
training traces of label 1 that the judge takes for 1, as if they were originals.

With `--own-steps free` a trace keeps more of what is its own, and y_nn falls: what is rare in an original stays rare.

* `fewest_edits`: of a search among all paths of at most 1, then 2, … edits; `proved`: no path of fewer edits does it.
* `edits`: of the path that is chosen, the one of the largest v of at most MAX_EDITS edits. No rule asks what is near.
* `dl_edit`: the same as the published figures count it, of padded rows, where a shorter trace costs its padding too.
* `y_nn`: of the 5 nearest training traces, the share that the judge takes for 0, with an even share of those that tie
  for the last places; `y_nn_range` is the least and the most that it may be, by how ties are broken, and
  `y_nn_in_order` with the earlier in the file first.
"""

import argparse
import csv
import json
import sys
import time
from dataclasses import dataclass, replace
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
CALLS = 100_000


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Of P_A and of v."""

    power: float  # of a trace's weight
    order: int  # the most symbols of a context
    strength: float  # of smoothing
    lambda_policy: float


SETTINGS = {
    1: Settings(power=4.0, order=12, strength=0.3, lambda_policy=0.3),
    4: Settings(power=2.0, order=6, strength=1.0, lambda_policy=0.3),
}


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
    arguments.add_argument("--own-steps", choices=("charged", "free"), default="charged", help="see pprjax.Config")
    arguments.add_argument("--show", type=int, default=0, metavar="N", help="originals and what they become, on stderr")
    options = arguments.parse_args()
    data, settings = load(options.folder, options.outcome), SETTINGS[options.outcome]
    weights = np.ones(len(data.train)) if options.plain else typical(data) ** settings.power * data.told
    agent = traces.contexts(
        data.train, weights, num_symbols=NUM_SYMBOLS, order=settings.order, strength=settings.strength
    )
    task = task_of(data, agent)
    config = pprjax.Config(lambda_policy=settings.lambda_policy, own_steps=options.own_steps)
    answers(data, task, config)  # compiles
    begin = time.perf_counter()
    found = answers(data, task, config)
    seconds = (time.perf_counter() - begin) / len(data.originals)
    turned = [answer for answer in found if answer is not None]
    before = np.array([row for row, answer in zip(data.originals, found, strict=True) if answer is not None])
    after = np.array([answer.trace for answer in turned])
    for pair in list(zip(before, after, strict=True))[: options.show]:
        print(*(" ".join(map(str, row[row != END])) for row in pair), "", sep="\n", file=sys.stderr)
    figures = {
        "originals": len(found),
        "flipped": len(turned) / len(found),
        **scores(data, before, after),
        "fewest_edits": float(np.mean([answer.fewest for answer in turned])),
        "edits": float(np.mean([answer.edits for answer in turned])),
        "proved": sum(answer.proved for answer in turned) / len(found),
        "seconds_per_original": seconds,
        "published": scores(data, *(parsed(data.published, name) for name in ("original", "counterfactual"))),
        "reported": {name: reported(data, name) for name in ("dl_edit", "y_nn", "violations_percent")},
    }
    finish(f"sepsis_{options.outcome}{'_plain' * options.plain}{'_free' * (options.own_steps == 'free')}", figures)


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
    """For each training trace the share of its nearest others that are told 0, over the largest of those told 0."""
    apart = traces.distances(data.train, data.train)
    np.fill_diagonal(apart, apart.max() + 1)
    share = traces.near(apart, data.told.astype(float))[0]
    return share / share[data.told].max()


def task_of(data: Data, agent: Contexts) -> pprjax.Task:
    """A trace is a sequence whose end is the activity 0."""
    env = SequenceEnv(data.judge, 0, num_symbols=NUM_SYMBOLS, length=data.train.shape[1], end=END)
    rules = traces.in_paths(data.rules, start=NUM_SYMBOLS)
    return pprjax.Task(env, agent, goal=class_is(0), constraints=pprjax.Constraints(rules=rules))


@dataclass(frozen=True)
class Answer:
    """What an original becomes."""

    trace: np.ndarray  # int[L]
    edits: int
    value: float  # v
    fewest: int  # the edits of the best path of the fewest
    proved: bool  # no path of fewer meets the goal and keeps the rules


def answers(data: Data, task: pprjax.Task, config: pprjax.Config) -> list[Answer | None]:
    """For each original the path of the largest v of at most MAX_EDITS edits that was found; None: there was none.

    A ladder has no proof: its beam follows v. So the fewest edits are searched for apart, with more edits for those
    originals alone that fewer did not turn.
    """
    paths = task.env.paths([row[row != END] for row in data.originals])
    search = partial(pprjax.frontier, config=config, method="search")
    found: list[Answer | None] = [None] * len(paths)
    open_ = np.arange(len(paths))
    for most in range(1, MAX_EDITS + 1):
        if open_.size:
            front = search(task, paths[open_], max_edits=most, calls=CALLS)
            for i, place in enumerate(open_):
                found[place] = best(task, front, i)
            open_ = np.array([place for place in open_ if found[place] is None], int)
    ladders = search(task, paths, max_edits=MAX_EDITS, calls=0)
    return [better(answer, best(task, ladders, i)) for i, answer in enumerate(found)]


def best(task: pprjax.Task, front: Frontier, i: int) -> Answer | None:
    """The last rung of an original's ladder, whose v is the largest."""
    rungs = np.flatnonzero(front.index == i)
    if not rungs.size:
        return None
    first, last = rungs[0], rungs[-1]
    return Answer(
        trace=np.maximum(task.env.sequences(front.paths[[last]])[0], END),
        edits=int(front.distance[last]),
        value=float(front.value[last]),
        fewest=int(front.distance[first]),
        proved=bool((front.limit[i, : front.distance[first]] == -np.inf).all()),
    )


def better(one: Answer | None, other: Answer | None) -> Answer | None:
    """That of the larger v, with the fewest edits of both."""
    if one is None or other is None:
        return one or other
    fewest = min((one, other), key=lambda answer: answer.fewest)
    return replace(max((one, other), key=lambda a: a.value), fewest=fewest.fewest, proved=fewest.proved)


def scores(data: Data, originals: Int[np.ndarray, "N L"], changed: Int[np.ndarray, "N L"]) -> dict:
    """What the benchmark says of traces and their originals."""
    to_train = traces.distances(changed, data.train)
    mean, least, most = traces.near(to_train, data.told.astype(float))
    in_order = np.argsort(to_train, axis=1, kind="stable")[:, : traces.NEAREST]
    apart = [traces.distances(one[None], other[None])[0, 0] for one, other in zip(originals, changed, strict=True)]
    return {
        "convinces": float((np.asarray(traces.opinions(data.judge, changed)) > 0.5).mean()),
        "violations_percent": 100 * float(np.mean([traces.broken(row.tolist(), data.rules) for row in changed])),
        "dl_edit": float(np.mean(apart)),
        "y_nn": float(mean.mean()),
        "y_nn_range": [float(least.mean()), float(most.mean())],
        "y_nn_in_order": float(data.told[in_order].mean()),
    }


if __name__ == "__main__":
    main()
