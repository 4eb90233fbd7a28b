"""What a report counts, by hand, and which paths it shows."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_rows import frame, mended, without, written

from pprjax.logs import report
from pprjax.logs.answers import NOT_FOUND
from pprjax.logs.report import Changes, most, quotas, read_report, strata, tallied, tally

ROWS = [
    mended("p1", "abc", "abxc"),  # + bx xc, − bc
    mended("p2", "abbc", "abc", gap=0.1),  # − bb
    mended("p3", "ab", "axb", agent="bob"),  # + ax xb, − ab
    mended("p4", "abc", "abyd", agent="bob", gap=None),  # + by yd, − bc
    without("p5", "ab"),
    without("p6", "ab", "infeasible", reason="no path of this world reaches the goal from here"),
    without("p7", "ab", "infeasible", agent="bob", reason=NOT_FOUND),
    without("p8", "ab", "failed", reason="it is too long"),
    mended("p9", "abc", "abc", status="unchanged"),
]


@pytest.fixture
def told(tmp_path):
    return read_report(written(tmp_path, ROWS))


def test_paths_are_counted_by_what_became_of_them(told):
    everyone, ann, bob = told.tallies
    kinds = {"met": 1, "unchanged": 1, "infeasible": 2, "failed": 1, "mended": 4}
    assert (everyone.agent, everyone.paths, everyone.kinds) == (None, 9, kinds)
    assert (everyone.proved, everyone.proved_infeasible, everyone.edits) == (2, 1, {1: 3, 2: 1})
    assert (ann.agent, ann.paths, ann.proved, ann.proved_infeasible, ann.edits) == ("ann", 6, 1, 1, {1: 2})
    assert (bob.agent, bob.paths, bob.proved, bob.proved_infeasible, bob.edits) == ("bob", 3, 1, 0, {1: 1, 2: 1})


def test_steps_that_come_and_go_are_counted_by_hand(told):
    everyone, ann, bob = told.changes
    assert ann == Changes([("b", "x", 1), ("x", "c", 1)], [("b", "b", 1), ("b", "c", 1)])
    assert bob.added == [("a", "x", 1), ("b", "y", 1), ("x", "b", 1), ("y", "d", 1)]
    assert bob.dropped == [("a", "b", 1), ("b", "c", 1)]
    assert everyone.dropped == [("b", "c", 2), ("a", "b", 1), ("b", "b", 1)]
    assert sorted(everyone.added) == sorted(ann.added + bob.added)


letters = st.text("abc", min_size=1, max_size=6)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(letters, letters, st.sampled_from(["ann", "bob"])), min_size=1, max_size=5))
def test_steps_are_what_a_plain_count_finds(pairs):
    added, dropped = {}, {}
    for original, recourse, _ in pairs:
        steps = [[path[i : i + 2] for i in range(len(path) - 1)] for path in (original, recourse)]
        for step in set(steps[0] + steps[1]):
            more = steps[1].count(step) - steps[0].count(step)
            for found, times in ((added, more), (dropped, -more)):
                if times > 0:
                    found[step] = found.get(step, 0) + times
    rows = frame([mended(f"p{i}", a, b, agent) for i, (a, b, agent) in enumerate(pairs)])
    found = most(report.changed(rows, ["ann"]), None, size=100)
    assert {a + b: times for a, b, times in found.added} == added
    assert {a + b: times for a, b, times in found.dropped} == dropped


def test_an_agent_of_few_paths_is_told_of_only_among_all():
    rows = frame([mended(f"p{i}", "ab", "axb", "ann" if i else "bob") for i in range(3)]).lazy()
    agents, number = report.busiest(rows, size=1)
    assert (agents, number) == (["ann"], 2)
    counts = tallied(rows, agents)
    assert (tally(counts, "ann").paths, tally(counts, None).paths) == (2, 3)


@settings(deadline=None)
@given(st.dictionaries(st.integers(-1, 30), st.integers(1, 50), min_size=1), st.integers(1, 200))
def test_each_number_of_edits_has_as_many_as_any_other_as_far_as_there_are(has, size):
    taken = quotas(has, size)
    assert sum(taken.values()) == min(size, sum(has.values()))
    assert all(taken[key] <= has[key] for key in has)
    cut = [taken[key] for key in has if taken[key] < has[key]]
    assert not cut or max(taken.values()) - min(cut) <= 1  # nobody has more who is not one ahead


@pytest.mark.parametrize("batch", [7, 1000])
def test_the_sample_is_the_same_in_batches_and_lies_at_even_distances(tmp_path, monkeypatch, batch):
    monkeypatch.setattr(report, "BATCH", batch)
    rows = [mended(f"p{i:03}", "ab", "axb" if i % 4 else "axyb") for i in range(100)]
    rows += [without("bad", "ab", "failed", reason="why"), without("good", "ab")]
    told = read_report(written(tmp_path, rows), size=11)
    assert strata(tallied(frame(rows).lazy(), ["ann"])) == {-1: 1, 1: 75, 2: 25}
    names = told.sample["path"].to_list()
    assert told.sample["distance"].to_list() == [1] * 5 + [2] * 5 + [None]
    assert names[5:] == ["p016", "p036", "p056", "p076", "p096", "bad"]
    assert told.tallies[0].paths == 102  # all of them


def test_the_graph_has_the_steps_of_all_agents_the_most_frequent_first(told):
    assert told.edges.rows()[:2] == [("a", "b", 9.0), ("b", "c", 4.0)]
    assert told.habits.filter(agent="bob", state="b").select("action", "count").rows() == [("c", 1)]


def test_states_and_agents_may_be_numbers(tmp_path):
    rows = [mended(f"p{i}", "12", "132", agent="7") for i in range(2)]
    table = written(tmp_path, rows)
    whole = pl.col("original", "recourse", "actions").cast(pl.List(pl.Int64))
    pl.read_parquet(table).with_columns(whole, pl.col("agent").cast(pl.Int64)).write_parquet(table)
    for name in ("policies", "transitions"):
        file = tmp_path / "out.parquet.fit" / f"{name}.parquet"
        known = pl.read_parquet(file)
        known.with_columns(pl.col(set(known.columns) & {"agent", "state", "next"}).cast(pl.Int64)).write_parquet(file)
    told = read_report(table)
    assert told.changes[0] == Changes([(1, 3, 2), (3, 2, 2)], [(1, 2, 2)])
    assert told.edges.rows() == [(1, 2, 2.0)]
