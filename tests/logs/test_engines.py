"""The same file comes out, whether one process does the chunks of a log or several, and even if one is killed."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from log_walks import job, walks

from pprjax.logs import jobs
from pprjax.logs.chunks import Fitting

OPTIONS = ["--action", "action", "--reward", "reward", "--goal", "state=garden", "--deterministic", "--chunk", "100"]


def start(log, out, *options, **environment):
    command = [sys.executable, "-m", "pprjax", "recourse", str(log), "-o", str(out), *OPTIONS, *options]
    return subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.PIPE, text=True)


def left_of(out):
    return sorted(p.name for p in out.parent.iterdir() if p.name.startswith(out.stem))


@pytest.mark.slow
def test_a_run_that_is_killed_gives_the_same_output(tmp_path):
    log, outs = tmp_path / "log.csv", [tmp_path / "once.parquet", tmp_path / "killed.parquet"]
    walks(3000, 5).write_csv(log)
    assert start(log, outs[0]).wait() == 0
    process = start(log, outs[1])
    for pause in (4.0, 6.0, 8.0):
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process = start(log, outs[1])
    assert process.wait() == 0
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert left_of(outs[1]) == ["killed.parquet", "killed.parquet.fit"]


def test_without_ray_the_sentence_says_what_brings_it(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"engine: there is no Ray here; .* the extra `cluster`: python3 -m pip"):
        jobs.run(job(tmp_path), engine="ray")
    assert not job(tmp_path).work.exists()


@pytest.mark.slow
def test_ray_gives_the_same_output_though_a_worker_is_killed(tmp_path):
    pytest.importorskip("ray")
    log, outs = tmp_path / "log.csv", [tmp_path / "local.parquet", tmp_path / "ray.parquet"]
    walks(3000, 5).write_csv(log)
    assert start(log, outs[0]).wait() == 0
    process = start(log, outs[1], "--engine", "ray", "--workers", "2")
    done = Path(f"{outs[1]}.work") / "done"
    while len(list(done.glob("[0-9]*"))) < 3:
        assert process.poll() is None
        time.sleep(0.05)
    before = sorted(p.name for p in done.glob("[0-9]*"))
    workers = descendants(process.pid, "_Worker")
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    assert len(before) < 20  # of 30: it was in the middle
    assert process.wait() == 0
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert left_of(outs[1]) == ["ray.parquet", "ray.parquet.fit"]


def descendants(root: int, name: str) -> list[int]:
    """The processes under `root` that are called so."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            title = (folder / "cmdline").read_bytes().decode()
            line = [int(folder.name)]
            while line[-1] > 1:
                line.append(int((Path("/proc") / str(line[-1]) / "stat").read_text().rpartition(")")[2].split()[1]))
        except (OSError, ValueError):
            continue  # it has just ended
        if root in line and name in title:
            found.append(int(folder.name))
    return found


def test_processes_share_the_chunks_and_the_first_joins_them(tmp_path, monkeypatch):
    alone = jobs.run(job(tmp_path, "alone.parquet"))
    doing, solve = threading.local(), jobs.solve_chunk
    did: dict[int, list[int]] = {0: [], 1: []}

    def seen(own, fitted, number, advance=None):
        did[doing.process].append(number)
        solve(own, fitted, number, advance)

    monkeypatch.setattr(jobs, "solve_chunk", seen)
    summaries = {}

    def run(i):
        doing.process = i
        summaries[i] = jobs.run(job(tmp_path), process=(i, 2))

    threads = [threading.Thread(target=run, args=(i,)) for i in (1, 0)]
    for thread in threads:
        thread.start()
        time.sleep(0.3)  # the second process comes first, and waits
    for thread in threads:
        thread.join()
    assert summaries == {0: alone, 1: None}
    both = sorted(did[0] + did[1])
    assert len(both) >= 4
    assert did == {0: both[::2], 1: both[1::2]}
    assert (tmp_path / "out.parquet").read_bytes() == (tmp_path / "alone.parquet").read_bytes()


def test_a_process_does_not_wait_for_one_that_gave_up(tmp_path):
    failed = []

    def waits():
        with pytest.raises(ValueError, match="another process gave up"):
            jobs.run(job(tmp_path, fitting=Fitting(("win",))), process=(1, 2))
        failed.append(1)

    thread = threading.Thread(target=waits)
    thread.start()
    time.sleep(0.1)
    work = job(tmp_path).work
    work.mkdir()
    time.sleep(3 * jobs.POLL)
    with pytest.raises(ValueError, match="goal: expected"):
        jobs.run(job(tmp_path, fitting=Fitting(("win",))), process=(0, 2))
    thread.join()
    assert failed == [1]


@pytest.mark.slow
def test_two_processes_of_jax_distributed_give_the_output_of_one(tmp_path):
    log, outs = tmp_path / "log.csv", [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    walks(400, 5).write_csv(log)
    assert start(log, outs[0]).wait() == 0
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    slurm = {"SLURM_JOB_ID": "1", "SLURM_STEP_NODELIST": "127.0.0.1", "SLURM_NTASKS": "2"}
    both = [
        start(
            log,
            outs[1],
            "--process",
            "jax",
            JAX_COORDINATOR_ADDRESS=f"127.0.0.1:{port}",
            SLURM_PROCID=str(i),
            SLURM_LOCALID="0",
            **slurm,
        )
        for i in range(2)
    ]
    said = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert "\n400 paths, goal state=garden: " in said[0]
    assert said[1].startswith("process 1 of 2 is done")
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert left_of(outs[1]) == ["two.parquet", "two.parquet.fit"]
