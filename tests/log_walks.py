"""A log of two agents that walk through five rooms; and as a program, `answers` written to a folder."""

import sys
from pathlib import Path

import jax
import numpy as np
import polars as pl

import pprjax
from pprjax.logs.chunks import Fitting, Job
from pprjax.logs.frames import Search, recourse_frame

CONFIG = pprjax.Config(lambda_path=2.0, lambda_policy=0.3, habit="link")
SMALL = pprjax.Config(iterations=4, num_paths=32, num_best=8, width=16, updates=1, batch_size=32)
# a ring of five rooms: forth, back, and from "hall" a door to the "garden", which pays 10
ROOMS = ["attic", "bath", "cellar", "den", "hall"]


def walks(num, seed, agents=("ada", "bob")):
    """A log of random walks: ada goes forth, bob back."""
    rng = np.random.default_rng(seed)
    rows = []
    for path in range(num):
        agent = agents[path % len(agents)]
        room, step = 0, 0
        for step in range(int(rng.integers(1, 7))):
            name = ROOMS[room]
            forth = rng.random() < (0.8 if agent == agents[0] else 0.2)
            if name == "hall" and rng.random() < 0.3:
                rows.append((agent, f"p{path}", step, name, "door", 10.0))
                room = None
                break
            rows.append((agent, f"p{path}", step, name, "forth" if forth else "back", -1.0))
            room = (room + (1 if forth else -1)) % len(ROOMS)
        rows.append((agent, f"p{path}", step + 1, "garden" if room is None else ROOMS[room], None, None))
    schema = {"agent": str, "path": str, "step": int, "state": str, "action": str, "reward": float}
    return pl.DataFrame(rows, schema=schema, orient="row")


WALKS = walks(60, 0)
NAMED = pprjax.Columns(action="action", reward="reward")


def regrets_of(fitted, agent):
    """What each step costs an agent: of each state and next state."""
    probs, steps = fitted.probs(agent), fitted.steps
    best = np.zeros(len(fitted.states))
    np.maximum.at(best, steps.state, probs)
    costs = np.log(probs / best[steps.state])
    return {(s, t): c for s, t, c in zip(steps.state.tolist(), steps.target.tolist(), costs.tolist(), strict=True)}


def job(folder, out="out.parquet", **options) -> Job:
    """The log in a file and in chunks, certified."""
    file = folder / "log.csv"
    if not file.exists():
        WALKS.write_csv(file)
    settings = {"fitting": Fitting(("state=garden",), deterministic=True), "config": CONFIG, "chunk": 8} | options
    return Job(file, folder / out, NAMED, **settings)


def answers() -> dict[str, pl.DataFrame]:
    """Certified for all paths, and learned for three, which two devices can't share evenly."""
    log = pprjax.read_log(WALKS, NAMED)
    fitted = pprjax.fit_log(log, "state=garden", deterministic=True)
    paths = pl.concat(list(log.frames()))
    few = paths.filter(~pl.col("states").list.contains("garden") & (pl.col("agent") == "ada"))[:3]
    return {
        "exact": recourse_frame(fitted, paths, CONFIG),
        "learn": recourse_frame(fitted, few, SMALL, Search("learn")),
    }


if __name__ == "__main__":
    print(jax.local_device_count())
    for name, frame in answers().items():
        frame.write_parquet(Path(sys.argv[1]) / f"{name}.parquet")
