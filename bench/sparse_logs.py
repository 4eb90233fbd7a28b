"""What do logs of many states take, from a file to a file, in time and memory?

python bench/sparse_logs.py                 # the four logs below, in turn
python bench/sparse_logs.py --only hub      # one of them
python bench/sparse_logs.py --only gps --make gps.parquet   # only make it

* gps: 111 trips over 5,000 cells of a map, 15,000 rows, the longest trip of 1,600; a third of them end at the depot.
* hub: 30,000 pages that one start page leads to, 15,000 visits; one of them has 100 clicks. Some end with an order.
* wide: 20,000 paths of 5 to 30 of 100,000 states, 300,000 distinct steps; a fifth of them reach the goal.
* luck: chance decides to which of 30,000 pages the start page leads; each visit sees two of them, and all but two of
  15,000 end with an order. The recourses of those two are learned.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from report import finish

ROWS = {"path": pl.Int32, "state": pl.String, "agent": pl.String}


def gps(seed: int = 0) -> pl.DataFrame:
    """Each trip goes from its driver's home to one errand after the other, mostly straight, and may stand."""
    rng = np.random.default_rng(seed)
    lengths = np.clip(np.sort(rng.lognormal(3.9, 1.25, 111)), 5, 1200).astype(int)
    lengths[-1] = 1600
    homes = rng.normal(0, 22, (30, 2)).astype(int)
    rows = []
    for trip, length in enumerate(rng.permutation(lengths).tolist()):
        driver = int(rng.integers(30))
        here, errand, to_depot = homes[driver], None, rng.random() < 1 / 3 and length < 1600
        cells = [here]
        while len(cells) < length or to_depot:
            home = len(cells) >= length
            if home and not here.any():
                break
            if home or errand is None or (here == errand).all():
                errand = np.zeros(2, int) if home else homes[rng.integers(30)] + rng.normal(0, 12, 2).astype(int)
            apart = errand - here
            axis = int(rng.random() * np.abs(apart).sum() >= np.abs(apart[0])) if apart.any() else 0
            step = np.zeros(2, int)
            step[axis] = np.sign(apart[axis]) if rng.random() < 0.93 else rng.choice((-1, 0, 1))
            here = here + step
            cells.append(here)
            if not here.any() and not home:  # the depot is passed by next door
                cells[-1] = here = here + np.array([0, 1])
        rows += [(trip, "depot" if not (x or y) else f"c{x}_{y}", f"driver{driver % 5}") for x, y in cells]
    return pl.DataFrame(rows, ROWS, orient="row")


def hub(seed: int = 0, pages: int = 30_000, visits: int = 15_000) -> pl.DataFrame:
    """Each visit goes from the start page to a page and back again."""
    rng = np.random.default_rng(seed)
    clicks = rng.integers(1, 6, visits)
    clicks[0] = 50
    often = rng.zipf(1.3, clicks.sum()) % pages
    once = rng.permutation(clicks.sum())[:pages]
    often[once] = np.arange(pages)
    rows, begin = [], 0
    for visit, count in enumerate(clicks.tolist()):
        for page in often[begin : begin + count].tolist():
            rows += [(visit, "start", "all"), (visit, f"page{page}", "all")]
        begin += count
        rows += [(visit, "start", "all")] if rng.random() < 0.3 else []
        rows += [(visit, "order" if visit and rng.random() < 0.3 else "leave", "all")]
    return pl.DataFrame(rows, ROWS, orient="row")


def wide(seed: int = 0, states: int = 105_000, paths: int = 20_000) -> pl.DataFrame:
    """Each path goes at random along the 16 ways that leave a state, not all of which are ever gone."""
    rng = np.random.default_rng(seed)
    ways = rng.integers(1, states, (states, 16))
    length, here = rng.integers(5, 31, paths), rng.integers(1, states, paths)
    rows, good = [], rng.random(paths) < 0.2
    for step in range(30):
        going = np.flatnonzero(step < length)
        here[going[good[going] & (step == length[going] - 1)]] = 0
        rows.append(pl.DataFrame({"path": going, "step": step, "state": here[going], "agent": going % 10}))
        here = ways[here, rng.integers(16, size=paths)]
    table = pl.concat(rows).sort("path", "step")
    return table.select(pl.col("path").cast(pl.Int32), pl.col("state", "agent").cast(pl.String))


def luck(seed: int = 0, pages: int = 30_000, visits: int = 15_000) -> pl.DataFrame:
    """Each visit looks for a page twice, and then orders; the last two leave."""
    rng = np.random.default_rng(seed)
    found = rng.permutation(pages).reshape(visits, 2)
    rows = []
    for visit, looked in enumerate(found.tolist()):
        for page in looked:
            rows += [(visit, "start", "all", "search"), (visit, f"page{page}", "all", "on")]
        rows.append((visit, "order" if visit < visits - 2 else "leave", "all", None))
    return pl.DataFrame(rows, ROWS | {"action": pl.String}, orient="row")


SHAPES: dict[str, tuple[Callable[[], pl.DataFrame], str]] = {
    "gps": (gps, "depot"),
    "hub": (hub, "order"),
    "wide": (wide, "0"),
    "luck": (luck, "order"),
}


def figures(name: str, scratch: Path) -> dict:
    """What the command takes for this log, and what came of it."""
    make, goal = SHAPES[name]
    log, out = scratch / f"{name}.parquet", scratch / f"{name}.recourse.parquet"
    table = make()
    table.write_parquet(log)
    command = [sys.executable, "-m", "pprjax", "recourse", str(log), "-o", str(out), "--goal", f"state={goal}"]
    command += ["--action", "action"] if "action" in table.columns else []
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, time.perf_counter()
    subprocess.run(command, check=True)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert peak > before, "a log before it took more memory: run each alone"
    found = pl.read_parquet(out)
    follows = table.select(pl.struct("state", pl.col("state").shift(-1).over("path").alias("next"))).unnest("state")
    todo = found.filter(pl.col("status") != "met")
    return {
        "rows": table.height,
        "states": table["state"].n_unique(),
        "steps": follows.drop_nulls().unique().height,
        "paths": table["path"].n_unique(),
        "longest": int(table.group_by("path").len()["len"].max()),  # pyright: ignore[reportArgumentType]
        "seconds": seconds,
        "peak_gib": peak / 2**20,
        "answered": todo.height,
        "proved": int((todo["gap"] == 0).sum()),
        "status": dict(found.group_by("status").len().sort("status").iter_rows()),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", choices=SHAPES)
    arguments.add_argument("--make", type=Path)
    args = arguments.parse_args()
    if args.make is not None:
        SHAPES[args.only or "gps"][0]().write_parquet(args.make)
        return
    for name in [args.only] if args.only else SHAPES:
        if args.only is None:  # the peak of memory is that of the largest process so far: each in one of its own
            subprocess.run([sys.executable, __file__, "--only", name], check=True)
            continue
        with tempfile.TemporaryDirectory() as scratch:
            finish(f"sparse_logs_{name}", figures(name, Path(scratch)))


if __name__ == "__main__":
    main()
