"""Progress: how many paths, how fast, how much longer and how good; on a terminal only."""

import re
import time

import numpy as np

from pprjax.logs import jobs


def told(capsys) -> str:
    with jobs._progress(10, np.array([0.0, np.nan, np.nan])) as advance:  # three of ten were done before
        advance(2, np.array([0.02, np.nan]))
        time.sleep(0.02)
        advance(2, np.array([0.04]))
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)


def test_on_a_terminal_it_tells_speed_time_left_and_the_mean_gap(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    last = told(capsys).strip().splitlines()[-1]
    assert "7/10" in last
    assert "gap 2.00%" in last
    speed = float(re.search(r"([\d,.]+) paths/s", last)[1].replace(",", ""))
    assert 0 < speed <= 200  # four in 0.02 s or more; the three of before are none of it
    assert re.search(r"\d:\d\d:\d\d \d:\d\d:\d\d", last)  # gone, and left


def test_elsewhere_it_says_nothing(capsys, monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert told(capsys) == ""
