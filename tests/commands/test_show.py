"""What `pprjax show` says a traveller should do otherwise."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from pprjax.cli import main
from pprjax.commands.show import drawing, ladder
from pprjax.logs.advice import advice, closer, custom, numbered
from pprjax.logs.edits import alignments
from pprjax.paths import Paths


def row(original, recourse):
    names = sorted({*original, *recourse})
    pair = [Paths.from_lists([[names.index(state) for state in path]]) for path in (original, recourse)]
    return {"original": original, "recourse": recourse, "actions": recourse[1:], "edits": alignments(*pair)[0]}


@pytest.mark.parametrize(
    ("original", "recourse", "said"),
    [
        (
            "home cart address exit",
            "home cart address pay thanks",
            "after address: pay, then thanks instead of exit (2",
        ),
        ("home cart", "home cart pay", "after cart: pay (1 edit)."),
        ("home shop cart shop exit", "home shop cart shop pay", "after shop (2): pay instead of exit (1 edit)."),
        ("home shop cart shop", "home shop cart", "after cart: without shop (2) (1 edit)."),
        ("a b c d e", "x b c y z e", "at the start: x instead of a; after c: y, then z instead of d (3 edits)."),
        ("a b", "a b", "Nothing to do otherwise"),
    ],
)
def test_in_a_sentence(original, recourse, said):
    assert said in advice(row(original.split(), recourse.split()))


def test_where_actions_have_names_of_their_own_they_are_what_to_do():
    said = advice(row(["home", "late"], ["home", "stop", "work"]) | {"actions": ["walk", "take, bus"]})
    assert 'after home: walk → stop, then "take, bus" → work instead of late (2 edits).' in said


def test_names_that_would_mislead_stand_in_quotes():
    said = advice(row(["call", "X-ray "], ["call", "talk, doctor", "X-ray", "X-ray "]))
    assert 'after call: "talk, doctor", then X-ray (2 edits).' in said
    assert 'after call: X-ray instead of "X-ray " (1 edit).' in advice(row(["call", "X-ray "], ["call", "X-ray"]))


def test_a_state_is_numbered_from_its_second_time_on():
    assert numbered(["pay", "exit", "pay", 3, "pay"]) == ["pay", "exit", "pay (2)", "3", "pay (3)"]
    lines = printed(drawing(whole("shop cart shop", "shop cart shop pay")))
    assert [line.split()[:2] for line in lines[4:7]] == [["shop", "shop"], ["cart", "cart"], ["shop", "(2)"]]


letters = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(letters, letters)
def test_every_state_that_comes_or_goes_is_named_once(original, recourse):
    found = row(original, recourse)
    text = advice(found)
    ahead, behind, added, dropped = list(recourse), numbered(original), [], []
    for edit in found["edits"]:
        new = ahead.pop(0) if edit != "-" else None
        old = behind.pop(0) if edit != "+" else None
        added += [new] if edit in "+~" else []
        dropped += [old] if edit in "-~" else []
    if not added and not dropped:
        assert text.startswith("Nothing")
        return
    said_added, said_dropped = [], []
    for part in text.removeprefix("What to do otherwise: ").rpartition(" (")[0].split("; "):
        what = part.partition(": ")[2]
        if what.startswith("without "):
            said_dropped += what.removeprefix("without ").split(", ")
            continue
        more, _, less = what.partition(" instead of ")
        said_added += more.split(", then ")
        said_dropped += less.split(", ") if less else []
    assert (said_added, said_dropped) == (added, dropped)


STEPS = [
    {"state": "address", "action": "pay", "count": 6},
    {"state": "address", "action": "exit", "count": 3},
    {"state": "cart", "action": "address", "count": 9},
    {"state": "pay", "action": "thanks", "count": 1},
    {"state": "pay", "action": "exit", "count": 3},
    {"state": "park", "action": "left", "count": 1},
]


@pytest.mark.parametrize(
    ("original", "recourse", "actions", "said"),
    [
        (
            "cart address exit",
            "cart address pay",
            "address pay",
            "After address, ann went to pay next 6 of 9 times.",
        ),
        (  # the step that she takes most seldom
            "cart address exit",
            "cart address pay thanks",
            "address pay thanks",
            "After pay, ann went to thanks next 1 of 4 times.",
        ),
        (
            "address pay thanks",
            "address exit thanks",
            "exit thanks",
            "After address, ann went to exit next 3 of 9 times.",
        ),
        ("cart address", "cart pay", "pay", "After cart, ann went to pay next 0 of 9 times."),
        (
            "cart x address exit",
            "cart address exit",
            "address exit",
            "After cart, ann went to address next 9 of 9 times.",
        ),
        ("park home", "park mall", "left", "After park, ann did left 1 of 1 time."),
        ("home exit", "home pay", "pay", ""),  # ann was never at home
        ("cart address", "cart", "", ""),  # nothing is done instead
    ],
)
def test_how_often_the_agent_does_so(original, recourse, actions, said):
    changed = row(original.split(), recourse.split()) | {"agent": "ann", "actions": actions.split()}
    assert custom(changed, STEPS) == said


def test_fewer_edits_are_told_and_that_there_are_none():
    near = row(["a", "b", "c"], ["a", "b", "d"]) | {"distance": 1, "proved": True}
    far = row(["a", "b", "c"], ["a", "x", "y", "d"]) | {"distance": 3, "proved": True}
    assert closer(far, [near, far]) == "The fewest edits that reach the goal: after b: d instead of c (1 edit)."
    assert closer(far, [near | {"proved": False}, far]).startswith("Fewer edits that reach the goal: after b: d")
    assert closer(near, [near, far]) == "Nothing closer reaches the goal."
    assert closer(near, [near, far], "init(a)") == "Nothing closer reaches the goal and keeps init(a)."
    assert closer(near, [near | {"proved": False}, far]) == closer(near, []) == ""


def whole(original, recourse, **given):
    """A row of a table of recourses, as far as it is shown."""
    found = row(original.split(), recourse.split())
    found |= {"agent": "ann", "path": "a", "status": "reached_goal", "reason": None, "gap": 0.0, "probability": 1.0}
    found["reliability"] = None
    found |= {"distance": sum(edit != "=" for edit in found["edits"]), "actions": found["recourse"][1:]}
    return found | {"reward_before": 0.0, "reward_after": 0.0, "s_policy": -0.5} | given


def printed(drawn, width=100):
    console = Console(width=width)
    with console.capture() as caught:
        console.print(drawn)
    return caught.get().splitlines()


@pytest.mark.parametrize(
    ("gap", "chance", "share", "said"),
    [
        (0.0, 1.0, None, ", proved best"),
        (0.0321, 1.0, None, ", within 3.21 % of the best"),
        (1e-7, 1.0, None, ", within 0.01 % of the best"),  # and not within 0 %
        (None, 1.0, None, ""),
        (None, 0.25, None, "; the world leads along it with probability 0.25"),
        (None, 1.0, 0.999, "; its actions meet the goal in 99.9 % of fresh runs"),
        (
            None,
            0.25,
            0.64,
            "; the world leads along it with probability 0.25; its actions meet the goal in 64 % of fresh runs",
        ),
    ],
)
def test_how_good_a_recourse_is_stands_in_one_line_above_it(gap, chance, share, said):
    lines = printed(drawing(whole("a b", "a c", gap=gap, probability=chance, reliability=share)), width=200)
    assert lines[0] == f"path a of agent ann: reached_goal{said}"  # the table itself is narrower


@pytest.mark.parametrize(
    ("recourse", "rewarded", "last"),
    [("a c", True, "R_goal 0 → 2, 1 edit"), ("a c", False, "1 edit"), ("a c d", False, "2 edits")],
)
def test_rewards_are_told_where_there_are_any_and_edits_are_counted(recourse, rewarded, last):
    assert printed(drawing(whole("a b", recourse, reward_after=2.0), rewarded))[-1] == last


def test_a_log_without_rewards_has_none_in_its_ladder_either(tmp_path):
    rungs = [whole("a b", "a" + " c" * n, chosen=n == 2) for n in range(1, 9)]
    plain, paid = (printed(ladder(rungs, tmp_path / "x.ladder", rewarded), 200) for rewarded in (False, True))
    assert "mean log P" in plain[3] and "R_goal" not in plain[3] and "R_goal" in paid[3]
    assert plain[1] == "For each number of edits:"
    assert plain[-1] == paid[-1] == f"→ is the one above; 3 more in {tmp_path / 'x.ladder'}"


def test_names_in_brackets_are_not_taken_for_colours():
    assert any("[bold]" in line for line in printed(drawing(whole("[red] b", "[red] [bold]"))))


@pytest.mark.parametrize("earned", [0.0, 3.0])
def test_the_command_looks_whether_anybody_earns_anything(tmp_path, capsys, earned):
    rows = [whole("a b", "a c"), whole("a b", "a c", path="b", reward_after=earned)]
    pl.DataFrame(rows).write_parquet(tmp_path / "out.parquet")
    assert main(["show", str(tmp_path / "out.parquet"), "--path", "a"]) == 0
    assert ("R_goal" in capsys.readouterr().out) == (earned > 0)


def test_a_file_that_is_not_there_is_named(tmp_path, capsys):
    assert main(["show", str(tmp_path / "none.parquet"), "--path", "a"]) == 2
    assert capsys.readouterr().err.startswith(f"pprjax show: table: there is no file {tmp_path / 'none.parquet'};")
