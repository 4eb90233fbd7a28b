"""What fails late costs itself alone: finished chunks stay, the other paths go on, and a row says why."""

import threading
import time

import polars as pl
import pytest
from log_walks import CONFIG, NAMED, WALKS, job

from pprjax.limits import TooLargeError
from pprjax.logs import chunks, frames, jobs
from pprjax.logs.fit import fit_log
from pprjax.logs.frames import Search, recourse_frame
from pprjax.logs.read import read_log


@pytest.fixture
def late(tmp_path):
    """The states of a path of the last chunk that misses the goal."""
    layout = job(tmp_path, "layout.parquet")
    chunks.begin(layout)
    number = max(int(folder.name) for folder in (layout.work / "chunks").iterdir())
    paths = pl.read_parquet(layout.work / "chunks" / str(number) / "*.parquet")
    return paths.filter(~pl.col("states").list.contains("garden")).sort("path")["states"].to_list()[-1]


def refuse(monkeypatch, states, error):
    """Certificates of paths with these states take too much."""
    names = sorted(WALKS["state"].unique())
    solve = frames.near

    def refuses(weighed, originals, start, *rest, **options):
        if [names.index(state) for state in states] in originals.to_lists():
            raise error
        return solve(weighed, originals, start, *rest, **options)

    monkeypatch.setattr(frames, "near", refuses)


def check_that_only_they_failed(found, expected, states, reason):
    failed = pl.col("original") == pl.Series([states] * found.height)
    assert 0 < found.filter(failed).height < found.height / 2
    assert set(found.filter(failed)["status"]) == {"failed"}
    assert set(found.filter(failed)["reason"]) == {reason}
    assert found.filter(failed).select("recourse").explode("recourse")["recourse"].drop_nulls().is_empty()
    rest = found.filter(~failed)
    assert rest.equals(expected.join(rest.select("agent", "path"), on=["agent", "path"], maintain_order="left"))


def both(job):
    """Two processes, the second first."""
    threads = [threading.Thread(target=jobs.run, args=(job,), kwargs={"process": (i, 2)}) for i in (1, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


OUT_OF_MEMORY = "out of memory, for this path of {} states alone: 9 GiB; ask for less, see --calls and --max-steps"


@pytest.mark.parametrize("error", [TooLargeError("task: too much"), MemoryError("9 GiB")], ids=["told", "memory"])
@pytest.mark.parametrize("run", [jobs.run, both], ids=["alone", "two processes"])
def test_a_path_that_fails_late_is_a_row_that_says_why(tmp_path, monkeypatch, late, run, error):
    jobs.run(job(tmp_path, "all.parquet"))
    expected = pl.read_parquet(tmp_path / "all.parquet").sort("agent", "path")
    refuse(monkeypatch, late, error)
    run(job(tmp_path, search=Search("exact")))
    found = pl.read_parquet(tmp_path / "out.parquet").sort("agent", "path")
    reason = OUT_OF_MEMORY.format(len(late)) if isinstance(error, MemoryError) else str(error)
    check_that_only_they_failed(found, expected, late, reason)
    assert not job(tmp_path).work.exists()


@pytest.fixture
def asked(monkeypatch):
    """How many paths Algorithm 1 is asked for; it is not run."""
    sizes = []
    monkeypatch.setattr(frames, "_learn", lambda answers, fitted, task, config, search, rows: sizes.append(len(rows)))
    return sizes


def test_costs_that_are_not_whole_are_learned(asked):
    log = read_log(WALKS, NAMED)
    few = next(log.frames()).filter(~pl.col("states").list.contains("garden"))[:3]
    recourse_frame(fit_log(log, "state=garden", deterministic=True), few, CONFIG.replace(w_sub=1.5))
    assert sum(asked) == 3


def test_what_another_process_has_finished_stays_when_one_dies(tmp_path, monkeypatch):
    jobs.run(job(tmp_path, "alone.parquet"))
    solve, doing, died = jobs.solve_chunk, threading.local(), threading.Event()

    def dies(own, fitted, number, advance):
        if getattr(doing, "dies", 0):
            doing.dies += 1
            if doing.dies == 3:
                raise MemoryError
        solve(own, fitted, number, advance)

    def second():
        doing.dies = 1
        with pytest.raises(MemoryError):
            jobs.run(job(tmp_path), process=(1, 2))
        died.set()

    monkeypatch.setattr(jobs, "solve_chunk", dies)
    first = threading.Thread(target=jobs.run, args=(job(tmp_path),), kwargs={"process": (0, 2)})
    threads = [threading.Thread(target=second), first]
    for thread in threads:
        thread.start()
    died.wait()
    numbers = sorted(int(folder.name) for folder in (job(tmp_path).work / "chunks").iterdir())
    while not all(job(tmp_path).done(number).exists() for number in numbers[::2]):
        time.sleep(0.05)
    assert job(tmp_path).done(numbers[1]).exists()  # the one that the dead process had finished
    assert not (tmp_path / "out.parquet").exists()
    jobs.run(job(tmp_path), process=(1, 2))
    for thread in threads:
        thread.join()
    assert (tmp_path / "out.parquet").read_bytes() == (tmp_path / "alone.parquet").read_bytes()


def test_settings_that_suit_no_path_are_a_mistake_before_any_work(tmp_path):
    mistakes = {
        "^lambda_path: expected": {"config": CONFIG.replace(lambda_path=-1.0)},
        "^method: a log can't show": {"search": Search("exact"), "fitting": chunks.Fitting(("state=garden",))},
        "^w_sub: .* whole": {"search": Search("exact"), "config": CONFIG.replace(w_sub=1.5)},
    }
    for said, options in mistakes.items():
        with pytest.raises(ValueError, match=said):
            jobs.run(job(tmp_path, **options))
        assert [p.name for p in tmp_path.iterdir()] == ["log.csv"]
