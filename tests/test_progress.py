"""Progress: how many paths, how fast, how much longer and how good; a bar on a terminal, lines elsewhere."""

import re
import time

import numpy as np
import pytest

from pprjax.logs.frames import gap_progress
from pprjax.progress import progress_bar


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_on_a_terminal_it_tells_speed_time_left_and_the_mean_gap(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    with gap_progress(10, np.array([0.0, np.nan, np.nan])) as advance:  # three of ten were done before
        advance(2, np.array([0.02, np.nan]))
        time.sleep(0.02)
        advance(2, np.array([0.04]))
    last = plain(capsys.readouterr().err).strip().splitlines()[-1]
    assert "7/10" in last
    assert "gap 2.00%" in last
    speed = float(re.search(r"([\d,.]+) paths/s", last)[1].replace(",", ""))
    assert 0 < speed <= 200  # four in 0.02 s or more; the three of before are none of it
    assert re.search(r"\d:\d\d:\d\d \d:\d\d:\d\d", last)  # gone, and left


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self):
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("done", [0, 800])
def test_elsewhere_it_says_a_line_now_and_then(capsys, monkeypatch, done):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    clock = Clock()
    with progress_bar("recourse", 10_000 + done, done=done, clock=clock) as advance:
        for seconds, amount in ((29.0, 1_000), (1.0, 200), (29.9, 100), (100.0, 2_000), (9.0, 6_700)):
            clock.now += seconds
            advance(amount, "gap 1%" if seconds == 100 else None)
    of = f"{10_000 + done:,}"
    assert capsys.readouterr().err.splitlines() == [
        f"recourse: {1_200 + done:,} of {of}, 40/s, about 4 min left",
        f"recourse: {3_300 + done:,} of {of}, 20.6/s, about 5 min left, gap 1%",
    ]


def test_a_part_of_the_first_path_tells_no_speed(capsys, monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    clock = Clock()
    with progress_bar("recourse", 5, clock=clock) as advance:
        clock.now += 31
        advance(0)
        clock.now += 31
        advance(0.4)
        clock.now += 12_369
        advance(1.6)
    assert capsys.readouterr().err.splitlines() == [
        "recourse: 0 of 5",
        "recourse: 0 of 5",
        "recourse: 2 of 5, 0.000161/s, about 5 h left",
    ]


def test_it_can_be_silent(capsys):
    clock = Clock()
    with progress_bar("recourse", 5, enabled=False, clock=clock) as advance:
        clock.now += 1_000
        advance(1)
    assert capsys.readouterr().err == ""
