"""How near is a trace to a model, and how long does it take to say? Beside Ebi, a tool of process mining.

python -m pip install --no-deps ebi-pm==0.3.14
python bench/alignments.py [--traces 200] [--activities 20] [--length 30]

The model is a Markov chain over activities, of few steps each, with a start and an end. Traces are drawn from it, and a
fifth of their activities is then left out, put in or changed. An alignment has the fewest deviations: activities of the
trace that the model does not do, and activities of the model that the trace lacks; to replace one takes both. That is
the first point of a frontier where an insertion and a deletion cost 1 and a replacement 2, and the goal is the model's
end. Both must name the same number for every trace (`same_optimum`). Of all paths of so few deviations a frontier takes
the one of the least regret; `nats` is the mean log probability under the model of what each names.

Ebi's stochastic alignments ("explain-trace") are not part of its Python module in this version, and weigh deviations
and probability otherwise: (1 - p)·deviations, whatever balance is asked for. So they are not compared.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from fractions import Fraction

import numpy as np
from jaxtyping import Float, Int
from report import finish

import pprjax
from pprjax.certify.graph import Graph, weigh
from pprjax.certify.near import near
from pprjax.edit_distance import EditCosts
from pprjax.objective import Objective
from pprjax.result import Frontier

BRANCHES = 4
"""Steps that leave an activity."""

START = 0
"""The state before the first activity; the last state is the end, and no activity either."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--traces", type=int, default=200)
    arguments.add_argument("--activities", type=int, default=20)
    arguments.add_argument("--length", type=int, default=30, help="activities of a trace, at most, before its noise")
    options = arguments.parse_args()
    try:
        import ebi
    except ImportError:
        sys.exit("alignments: expected ebi-pm: python -m pip install --no-deps ebi-pm==0.3.14")
    rng = np.random.default_rng(0)
    counts = chain(rng, options.activities)
    traces: list[tuple[int, ...]] = []
    while len(traces) < options.traces:
        trace = tuple(noisy(rng, walk(rng, counts, options.length), options.activities))
        traces += [] if trace in traces else [trace]
    model, logged = automaton(counts), language(traces)
    ebi.conformance_non_stochastic_alignments(language(traces[:2]), model)
    begin = time.perf_counter()
    aligned = ebi.conformance_non_stochastic_alignments(logged, model)
    theirs_s = time.perf_counter() - begin
    found = {trace: rest for trace, *rest in map(read, aligned.split("# alignment ")[1:])}
    theirs, their_paths = zip(*(found[trace] for trace in traces), strict=True)

    originals = pprjax.Paths.from_lists([[START, *trace, options.activities + 1] for trace in traces])
    fewest(counts, originals[[0]])
    begin = time.perf_counter()
    best = fewest(counts, originals)
    ours_s = time.perf_counter() - begin
    ours, our_paths = best.distance, [path[1:-1] for path in best.paths.to_lists()]
    figures = {
        "traces": len(traces),
        "same_optimum": float(np.mean(ours == np.array(theirs))),
        "deviations": float(ours.mean()),
        "ours_s_per_trace": ours_s / len(traces),
        "ebi_s_per_trace": theirs_s / len(traces),
        "times": theirs_s / ours_s,
        "nats": float(np.mean([log_prob(counts, path) for path in our_paths])),
        "ebi_nats": float(np.mean([log_prob(counts, path) for path in their_paths])),
    }
    finish("alignments", figures)


def chain(rng: np.random.Generator, activities: int) -> Int[np.ndarray, "S S"]:
    """How often each state follows each: rows sum to 100, and the end can be reached from every activity."""
    size = activities + 2
    counts = np.zeros((size, size), int)
    for state in range(size - 1):
        after = rng.choice(np.arange(1, activities + 1), BRANCHES, replace=False)
        counts[state, after] = rng.multinomial(90 if state else 100, rng.dirichlet(np.ones(BRANCHES)))
        counts[state, -1] = 10 if state else 0
    return counts


def walk(rng: np.random.Generator, counts: Int[np.ndarray, "S S"], length: int) -> list[int]:
    """The activities of a walk from the start to the end, cut after `length` of them."""
    trace, state = [], START
    while len(trace) < length:
        state = int(rng.choice(len(counts), p=counts[state] / counts[state].sum()))
        if state == len(counts) - 1:
            break
        trace.append(state)
    return trace


def noisy(rng: np.random.Generator, trace: list[int], activities: int) -> list[int]:
    """A trace of which a fifth was left out, put in or changed."""
    found = []
    for activity in trace:
        what = rng.random()
        if what >= 1 / 15:  # else left out
            found.append(activity if what >= 2 / 15 else int(rng.integers(1, activities + 1)))
        if what > 14 / 15:
            found.append(int(rng.integers(1, activities + 1)))
    return found or trace


def fewest(counts: Int[np.ndarray, "S S"], originals: pprjax.Paths) -> Frontier:
    """The paths of the fewest deviations, of these the one of the least regret, as in a log's world."""
    size, (row, target) = len(counts), np.nonzero(counts)
    log_prob = np.log(counts[row, target] / counts[row].sum(1))
    favourite = np.full(size, -np.inf)
    np.maximum.at(favourite, row, log_prob)
    graph = Graph(
        first=np.searchsorted(row, np.arange(size + 1)),
        target=target.astype(np.int32),
        reward=np.zeros(len(row)),
        habit=log_prob - favourite[row],
        log_prob=log_prob,
        action=target.astype(np.int32),
        symbol=np.arange(size, dtype=np.int32),
        ends=np.arange(size) == size - 1,
        cut=np.zeros(size, bool),
        horizon=3 * int(np.max(originals.lengths)),
    )
    start = np.zeros(len(originals), np.int64)
    objective = Objective(lambda_path=1e3, lambda_policy=1e-4, costs=EditCosts(1, 1, 2))
    front = near(weigh(graph, objective.lambda_policy), originals, start, objective)
    assert (front.answered_by == "exact").all()
    return front


def automaton(counts: Int[np.ndarray, "S S"]) -> str:
    """The chain as Ebi reads it: what is missing to 1 in a state is the chance to end there."""
    steps = [
        f'{{"from":{s},"to":{a},"label":"{a}","prob":"{Fraction(int(counts[s, a]), int(counts[s].sum()))}"}}'
        for s, a in np.argwhere(counts[:, :-1] > 0)
    ]
    return f'{{"initialState":{START},"transitions":[{",".join(steps)}]}}'


def language(traces: list[tuple[int, ...]]) -> str:
    """Traces as Ebi reads them."""
    lines = ["finite stochastic language", str(len(traces))]
    for trace in traces:
        lines += [f"1/{len(traces)}", str(len(trace)), *map(str, trace)]
    return "\n".join(lines) + "\n"


def read(alignment: str) -> tuple[tuple[int, ...], int, list[int]]:
    """Of an alignment the trace, the deviations, and the activities that its model does."""
    lines = [line for line in alignment.splitlines() if line.endswith(" move") or line.startswith("label ")]
    moves = [(kind, int(label[6:])) for kind, label in itertools.pairwise(lines) if label.startswith("label ")]
    trace = tuple(activity for kind, activity in moves if kind != "model move")
    path = [activity for kind, activity in moves if kind != "log move"]
    return trace, sum(kind != "synchronous move" for kind, _ in moves), path


def log_prob(counts: Int[np.ndarray, "S S"], path: list[int]) -> Float[np.ndarray, ""]:
    """log P of a walk through the model."""
    states = np.array([START, *path, len(counts) - 1])
    return np.log(counts[states[:-1], states[1:]] / counts[states[:-1]].sum(1)).sum()


if __name__ == "__main__":
    main()
