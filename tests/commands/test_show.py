"""What `pprjax show` says a traveller should do otherwise."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pprjax.commands.show import advice, closer, custom
from pprjax.logs.edits import alignments
from pprjax.paths import Paths


def row(original, recourse):
    names = sorted({*original, *recourse})
    pair = [Paths.from_lists([[names.index(state) for state in path]]) for path in (original, recourse)]
    return {"original": original, "recourse": recourse, "edits": alignments(*pair)[0]}


@pytest.mark.parametrize(
    ("original", "recourse", "said"),
    [
        (
            "home cart address exit",
            "home cart address pay thanks",
            "after address: pay, then thanks instead of exit (2",
        ),
        ("home cart", "home cart pay", "after cart: pay (1 edit)."),
        ("home shop shop cart", "home shop cart", ": without shop (1 edit)."),
        ("a b c d e", "x b c y z e", "at the start: x instead of a; after c: y, then z instead of d (3 edits)."),
        ("a b", "a b", "Nothing to do otherwise"),
    ],
)
def test_in_a_sentence(original, recourse, said):
    assert said in advice(row(original.split(), recourse.split()))


letters = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(letters, letters)
def test_every_state_that_comes_or_goes_is_named_once(original, recourse):
    found = row(original, recourse)
    text = advice(found)
    ahead, behind, added, dropped = list(recourse), list(original), [], []
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
]


@pytest.mark.parametrize(
    ("original", "recourse", "actions", "said"),
    [
        (
            "cart address exit",
            "cart address pay thanks",
            "address pay thanks",
            "After address, ann did so 6 of 9 times.",
        ),
        ("cart address", "cart pay", "pay", "After cart, ann did so 0 of 9 times."),
        ("cart x address exit", "cart address exit", "address exit", "After cart, ann did so 9 of 9 times."),
        ("home exit", "home pay", "pay", ""),  # ann was never at home
        ("exit pay", "cart pay", "pay", ""),  # the start
        ("cart address", "cart", "", ""),  # nothing is done instead
    ],
)
def test_how_often_the_agent_does_so(original, recourse, actions, said):
    changed = row(original.split(), recourse.split()) | {"agent": "ann", "actions": actions.split()}
    assert custom(changed, STEPS) == said


def test_fewer_edits_are_told_and_that_there_are_none():
    near = row(["a", "b", "c"], ["a", "b", "d"]) | {"distance": 1, "proved": True}
    far = row(["a", "b", "c"], ["a", "x", "y", "d"]) | {"distance": 3, "proved": True}
    assert closer(far, [near, far]) == "The fewest edits that reach the goal: after b: d instead of c (1)."
    assert closer(near, [near, far]) == "Nothing closer reaches the goal."
    assert closer(near, [near | {"proved": False}, far]) == closer(near, []) == ""
