"""Rules of a log, in words or mined: what is held is kept by every recourse, and by all good paths if it was mined."""

import itertools
import json

import numpy as np
import polars as pl
import pytest
from declare_oracle import MEANING, keeps
from hypothesis import given, settings
from hypothesis import strategies as st

import pprjax
from pprjax import declare
from pprjax.cli import main
from pprjax.declare import Rule
from pprjax.logs import mining
from pprjax.logs.chunks import Fitting, Job
from pprjax.logs.jobs import run
from pprjax.logs.rules import meets, parsed

CLAIMS = [
    "register check pay",
    "register check check pay",
    "register phone check pay",
    "register check reject",
    "register phone cancel check reject",
]
CONFIG = pprjax.Config(lambda_path=10.0, lambda_policy=0.01)


def frame(paths):
    return pl.DataFrame(
        [{"path": f"p{p}", "step": t, "state": s} for p, path in enumerate(paths) for t, s in enumerate(path.split())]
    )


def held(fitted):
    return fitted.named_rules(), fitted.rules_left_out


MINED = [
    "init(register)",
    "exactly(register, 1)",
    "succession(check, pay)",
    "chain_response(phone, check)",
    "chain_precedence(check, pay)",
    "chain_precedence(register, phone)",
]
"""By hand. `last(pay)` is the goal; all else that the three good paths keep follows: `succession(register, check)`,
say, since they start with register, and end with a pay before which there is a check."""


def test_what_is_mined_is_known_and_every_recourse_keeps_it():
    log = pprjax.read_log(frame(CLAIMS))
    fitted = pprjax.fit_log(log, "state=pay", mine_rules=True)
    assert held(fitted) == (MINED, 0)
    free = pprjax.recourse_log(pprjax.fit_log(log, "state=pay"), log, CONFIG)
    table = pprjax.recourse_log(fitted, log, CONFIG)
    assert table["status"].to_list() == free["status"].to_list() == ["met"] * 3 + ["reached_goal"] * 2
    assert free["recourse"][4].to_list() == ["register", "phone", "cancel", "check", "pay"]
    assert table["recourse"][4].to_list() == ["register", "phone", "check", "pay"]
    assert table["gap"][3] == table["gap"][4] == 0
    assert table["reward"][3] == pytest.approx(free["reward"][3])  # whose best path keeps the rules anyway
    assert table["reward"][4] < free["reward"][4] - 0.1


def test_too_many_are_left_out_and_counted(monkeypatch):
    log = pprjax.read_log(frame(CLAIMS))
    monkeypatch.setattr(mining, "MOST_RULES", 2)
    rules, left_out = held(pprjax.fit_log(log, "state=pay", mine_rules=True))
    assert rules == MINED[:2] and left_out > 3
    monkeypatch.setattr(mining, "MOST_RULES", 12)
    monkeypatch.setattr(mining, "MOST_STATES", 3)
    fitted = pprjax.fit_log(log, "state=pay", mine_rules=True)
    assert declare.product(fitted.rules).num_states <= 3 and fitted.rules_left_out > 0
    monkeypatch.setattr(mining, "MOST_STATES", 32)
    monkeypatch.setattr(mining, "MOST_MINED", 2)  # register and check
    assert held(pprjax.fit_log(log, "state=pay", mine_rules=True))[0] == [
        *MINED[:2],
        "succession(register, check)",
    ]


def test_a_rule_that_few_good_paths_are_about_is_not_mined():
    rare = [*CLAIMS[:2] * 8, *CLAIMS[2:]]  # one of 17 good paths phones
    assert all(
        "phone" not in rule
        for rule in held(pprjax.fit_log(pprjax.read_log(frame(rare)), "state=pay", mine_rules=True))[0]
    )


def every_rule(states):
    for a in states:
        yield from (Rule("init", (a,)), Rule("last", (a,)), Rule("absence", (a,), 2))
        yield from (Rule(name, (a,), n) for name in ("exactly", "existence") for n in (1, 2, 3))
        yield from (Rule(name, (a, b)) for name in MEANING for b in states if a != b)


@settings(max_examples=40, deadline=None)
@given(
    paths=st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=6), min_size=1, max_size=5),
    others=st.lists(st.lists(st.sampled_from("abcd"), min_size=2, max_size=4), max_size=2),
)
def test_all_good_paths_keep_what_is_mined_and_whatever_else_they_keep_follows(paths, others):
    good = [[*path, "z"] for path in paths]
    log = pprjax.read_log(frame([" ".join(path) for path in good + others]))
    fitted = pprjax.fit_log(log, "state=z", smoothing=1.0, mine_rules=True)
    number = {name: i for i, name in enumerate(fitted.states.tolist())}
    numbered = [tuple(number[s] for s in path) for path in good]
    assert all(keeps(rule, path) for rule in fitted.rules for path in numbered)
    told = [declare.last(number["z"]), declare.exactly(number["z"]), *fitted.rules]
    automaton = declare.product(tuple(told))
    missing = 0
    for rule in every_rule(sorted(number.values())):
        about = sum(set(rule.symbols) <= set(path) for path in numbered)
        if about and all(keeps(rule, path) for path in numbered):
            missing += not automaton <= declare.automaton(rule)
        elif not all(keeps(rule, path) for path in numbered):
            assert not automaton <= declare.automaton(rule)
    assert (missing > 0) == (fitted.rules_left_out > 0)


def test_a_path_that_meets_the_goal_and_breaks_a_rule_is_repaired():
    log = pprjax.read_log(frame([*CLAIMS, "register check pay phone cancel"]))  # what comes after the goal counts not
    fitted = pprjax.fit_log(log, "state=pay", rules=["absence(phone)", "chain_response( check ,'pay', vacuous=False)"])
    assert fitted.named_rules() == ["absence(phone, 1)", "chain_response(check, pay, vacuous=False)"]
    table = pprjax.recourse_log(fitted, log, CONFIG)
    assert table["status"].to_list() == ["met"] + ["reached_goal"] * 4 + ["met"]
    rules = fitted.rules
    number = {name: i for i, name in enumerate(fitted.states.tolist())}
    for row in table.filter(pl.col("status") != "met")["recourse"].to_list():
        assert all(keeps(rule, [number[s] for s in row]) for rule in rules)
    never = pprjax.fit_log(log, "state=pay", rules=["init(check)"])
    table = pprjax.recourse_log(never, log, CONFIG)
    assert table["status"].to_list() == ["infeasible"] * 6 and table["method"].to_list() == ["exact"] * 6


def test_a_command_holds_rules_says_which_and_works_in_chunks(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    frame(CLAIMS).write_csv("claims.csv")
    words = ["recourse", "claims.csv", "--goal", "state=pay", "--rules", "mined", "--rule", "absence(check, 2)"]
    words += ["--rule", "co_existence(register, 'check')"]
    assert main([*words, "--chunk", "2", "-o", "out.parquet"]) == 0
    told = capsys.readouterr().out
    rules = json.loads((tmp_path / "out.parquet.fit" / "fit.json").read_text())["rules"]
    assert rules[:2] == ["absence(check, 2)", "co_existence(register, check)"] and len(rules) > 4
    assert f"Every recourse keeps {', '.join(rules)}." in told
    table = pl.read_parquet("out.parquet").sort("path")
    assert table["recourse"][1].to_list() == ["register", "check", "pay"]
    log = pprjax.read_log(frame(CLAIMS))
    fitted = pprjax.fit_log(
        log, "state=pay", rules=["absence(check, 2)", "co_existence(register, check)"], mine_rules=True
    )
    assert table["recourse"].to_list() == pprjax.recourse_log(fitted, log)["recourse"].to_list()
    assert main([*words, "--dry-run"]) == 0
    assert f"Every recourse keeps {', '.join(rules)}." in capsys.readouterr().out
    assert main(["recourse", "claims.csv", "--goal", "state=pay", "--dry-run"]) == 0
    assert "Every recourse keeps" not in capsys.readouterr().out
    job = Job(tmp_path / "claims.csv", tmp_path / "out.parquet", fitting=Fitting(("state=pay",), rule=("init(pay)",)))
    assert run(job)["rules"] == ["init(pay)"]


@pytest.mark.parametrize(
    ("text", "symbols", "count"),
    [
        ("response(\"pay, late\", 'a(b)')", ("pay, late", "a(b)"), 1),
        ("response(it's, 'say \"so\"')", ("it's", 'say "so"'), 1),
        ("exactly(7, 2)", ("7",), 2),
        ('exactly( "7" )', ("7",), 1),
    ],
)
def test_names_of_all_kinds_are_understood(text, symbols, count):
    states = np.array(["7", "a(b)", "it's", "pay, late", 'say "so"'], object)
    (rule,) = parsed([text], states)
    assert [states[s] for s in rule.symbols] == list(symbols) and rule.count == count


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (
            ["succesion(register, pay)"],
            r"rule 'succesion\(register, pay\)': there is no template 'succesion'; expected one of init, last, ",
        ),
        (["register before pay"], "expected a template and its states, such as .* templates: init, last"),
        (["absence(pay"], "expected a template and its states"),
        (["precedence(pay)"], r"rule 'precedence\(pay\)': expected 2 states, as in precedence\(a, b\); got 1"),
        (["init()"], r"expected 1 state, as in init\(a\); got 0"),
        (["init(register, 2)"], r"expected nothing after the state, as in init\(a\); got 2"),
        (["exactly(pay, often)"], r"a whole number after the state, as in exactly\(a\) or exactly\(a, 2\); got often"),
        (["exactly(pay, 0)"], r"rule 'exactly\(pay, 0\)': expected a count in \[1, 1000\], got 0"),
        (["response(pay, check, 3)"], r"expected vacuous=False after the states, as in response\(a, b\); got 3"),
        (["response(pay, pay)"], r"rule 'response\(pay, pay\)': expected 2 symbols that differ"),
        (
            ["absence(chek)"],
            r"rule 'absence\(chek\)': no path .* the state 'chek'; did you mean 'check'\? The log has 6 s",
        ),
        (["absence(zoo)"], r"the state 'zoo'; the log has 6 states, such as 'cancel', 'check' and 'pay'$"),
        (
            ["init(pay)", "last(check)", "absence(pay)"],
            r"^rules: no path at all keeps init\(pay\) and absence\(pay\)$",
        ),
    ],
)
def test_mistakes_are_named(rules, message):
    with pytest.raises(ValueError, match=message):
        pprjax.fit_log(pprjax.read_log(frame(CLAIMS)), "state=pay", rules=rules)


def fits(goal, rules, paths=CLAIMS):
    return pprjax.fit_log(pprjax.read_log(frame(paths)), goal, rules=rules)


@pytest.mark.parametrize(
    ("goal", "rules", "named"),
    [
        ("state=pay", ["absence(check, 9)", "absence('pay')"], "absence('pay')"),
        ("state=pay", ["last(reject)"], "last(reject)"),
        ("state=pay", ["response(pay, check)"], "response(pay, check)"),  # for its path ends there
        ("state=pay", ["init(phone)", "precedence(check, phone)"], None),  # one of which contradicts the other
        ("state=pay", ["precedence(check, pay)", "absence(check)"], "precedence(check, pay) and absence(check)"),
        ("state=pay, visits=phone", ["init(check)", "absence(phone)"], "absence(phone)"),
        ("state=pay, avoids=phone", ["existence(phone)"], "existence(phone)"),
        ("visits=phone", ["last(check)"], "last(check)"),  # which something follows
    ],
)
def test_rules_that_no_path_to_the_goal_can_keep_are_named(goal, rules, named):
    said = f"meets the goal {goal!r} and keeps {named}" if named else "no path at all keeps"
    with pytest.raises(ValueError) as error:
        fits(goal, rules)
    assert str(error.value).startswith("rules: no path at all ") and said in str(error.value)
    assert named is None or str(error.value).endswith(f" and keeps {named}")


def test_a_dry_run_tells_that_a_rule_contradicts_the_goal(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    frame(CLAIMS).write_csv("claims.csv")
    assert main(["recourse", "claims.csv", "--goal", "state=pay", "--rule", "absence(pay)", "--dry-run"]) == 2
    assert "no path at all meets the goal 'state=pay' and keeps absence(pay)\n" in capsys.readouterr().err


def reaches(path, ends, marks):
    """Whether a path meets the goal where it ends, and not before."""
    met = [bool(ends[sum((m in path[: t + 1]) << j for j, m in enumerate(marks)), s]) for t, s in enumerate(path)]
    return met[-1] and not any(met[:-1])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_goal_as_an_automaton_accepts_what_meets_it_and_nothing_else(data):
    marks = np.array(data.draw(st.lists(st.integers(0, 3), unique=True, max_size=2)), np.int32)
    ends = np.array(data.draw(st.lists(st.booleans(), min_size=4 << len(marks), max_size=4 << len(marks))))
    told = data.draw(st.lists(st.integers(0, 3), unique=True, max_size=4))
    automaton = meets(ends, marks, told)
    known = set(automaton.symbols.tolist())
    assert {*told, *marks.tolist()} <= known
    for size in (1, 2, 3, 4):
        paths = np.array([*itertools.product(sorted(known), repeat=size)])
        expected = [reaches(path, ends.reshape(-1, 4), marks.tolist()) for path in paths.tolist()]
        assert automaton.accepts(paths).tolist() == expected
    columns = {tuple(column) for column in ends.reshape(-1, 4).T.tolist()}
    assert columns == {tuple(ends.reshape(-1, 4)[:, s]) for s in known}  # those left out are like one that is not


def test_mining_needs_good_paths():
    log = pprjax.read_log(frame(CLAIMS))
    with pytest.raises(ValueError, match="to mine them takes a goal"):
        pprjax.fit_log(log, mine_rules=True)
    with pytest.raises(ValueError, match="no path of the log meets the goal and keeps the rules that were given"):
        pprjax.fit_log(log, "state=pay", rules=["init(check)"], mine_rules=True)
