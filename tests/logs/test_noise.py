"""What would have happened on this trip: the noise of a logged path, in a world where chance decides."""

import dataclasses
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from log_walks import NAMED, SMALL, WALKS

import pprjax
from pprjax.baselines.counterfactual import counterfactual_probabilities
from pprjax.logs.fit import fit_log
from pprjax.logs.frames import Search, recourse_frame
from pprjax.logs.read import Columns, read_log
from pprjax.paths import PAD

SLIPS = pl.concat([WALKS, WALKS.with_columns(path="s" + pl.col("path"), state=pl.col("state").replace("den", "bath"))])


@pytest.fixture(scope="module")
def slippery():
    log = read_log(SLIPS, NAMED)
    fitted = fit_log(log, "state=garden")
    assert fitted.transition is not None
    return fitted, pl.concat(list(log.frames())).sort("agent", "path")


def numbered(row, fitted):
    tables = [{name: i for i, name in enumerate(names.tolist())} for names in (fitted.states, fitted.actions)]
    states, actions = ([t[x] for x in row[c]] for t, c in zip(tables, ("states", "actions"), strict=True))
    return np.array(states), np.array(actions)


@jax.jit
def walked(task, actions, keys):
    """The states that each key leads along these actions."""

    def one(key):
        def step(state, x):
            t, action = x
            state = task.step(jax.random.fold_in(key, t), state, action)[0]
            return state, state.id

        first = task.reset(key)
        ids = jax.lax.scan(step, first, (jnp.arange(len(actions)), jnp.asarray(actions)))[1]
        return jnp.concatenate([first.id[None], ids])

    return jax.vmap(one)(keys)


def test_who_does_what_was_done_gets_where_the_path_went(slippery):
    fitted, paths = slippery
    keys = jax.random.split(jax.random.key(0), 50)
    by_chance = 0
    for row in paths.filter(pl.col("actions").list.len() == 4).head(8).iter_rows(named=True):
        states, actions = numbered(row, fitted)
        chances = fitted.counterfactual(states, actions)
        again = pprjax.Paths(states[None], np.array([len(states)]), actions[None])
        assert fitted.probability(again, chances) == pytest.approx(1.0, abs=1e-6)
        agent = fitted.agents.tolist().index(row["agent"])
        assert (walked(fitted.task(agent, states[0], chances), actions, keys) == states).all()
        by_chance += (walked(fitted.task(agent, states[0]), actions, keys) != states).any()
        later = chances.table()[len(actions) :]
        np.testing.assert_allclose(later, np.broadcast_to(fitted.transition, later.shape), rtol=1e-6)
    assert by_chance > 3  # which without that noise is a matter of luck


def test_other_actions_lead_where_the_noise_of_the_path_would_have_led_them():
    """Against sampling the structural model: noise that does not lead along the path is thrown away."""
    rng = np.random.default_rng(3)
    true = rng.dirichlet(np.ones(3), (3, 2))
    rows = []
    for path in range(200):
        state = 0
        for step in range(4):
            action = int(rng.integers(2))
            rows.append(("ann", path, step, state, action))
            state = int(rng.choice(3, p=true[state, action]))
        rows.append(("ann", path, 4, state, None))
    schema = {"agent": str, "path": int, "step": int, "state": int, "action": int}
    fitted = fit_log(read_log(pl.DataFrame(rows, schema=schema, orient="row"), Columns(action="action")))
    assert fitted.transition.shape == (3, 2, 3)
    actions, others, states = np.array([0, 1, 1]), np.array([1, 1, 0]), np.zeros(4, int)
    for t in range(3):
        states[t + 1] = fitted.transition[states[t], actions[t]].argmax()

    noise = rng.gumbel(size=(400_000, 3, 3))  # of each step, for each next state
    with np.errstate(divide="ignore"):
        logits = np.log(fitted.transition)
    led = np.stack([(logits[states[t], actions[t]] + noise[:, t]).argmax(1) for t in range(3)], axis=1)
    noise = noise[(led == states[1:]).all(1)]
    assert len(noise) > 5_000
    here, expected = np.zeros(len(noise), int), [np.zeros(len(noise), int)]
    for t in range(3):
        here = (logits[here, others[t]] + noise[:, t]).argmax(1)
        expected.append(here)

    task = fitted.task(0, 0, fitted.counterfactual(states, actions))
    found = walked(task, others, jax.random.split(jax.random.key(1), 20_000))
    shares = [Counter(map(tuple, np.asarray(x).tolist())) for x in (np.stack(expected, axis=1), found)]
    totals = [s.total() for s in shares]
    for path in {*shares[0], *shares[1]}:
        assert shares[0][path] / totals[0] == pytest.approx(shares[1][path] / totals[1], abs=0.025)
    fresh = walked(fitted.task(0, 0), others, jax.random.split(jax.random.key(1), 20_000))
    plain = Counter(map(tuple, np.asarray(fresh).tolist()))
    assert max(abs(plain[p] / 20_000 - shares[1][p] / 20_000) for p in plain) > 0.05  # another question


def test_a_recourse_with_the_observed_noise_is_as_likely_as_that_trip_makes_it(slippery):
    fitted, paths = slippery
    through = pl.col("states").list.contains("cellar") & ~pl.col("states").list.contains("garden")
    few = paths.filter(through & (pl.col("actions").list.len() > 3))[:4]  # through where chance decides
    config = dataclasses.replace(SMALL, lambda_path=100.0)
    found = recourse_frame(fitted, few, config, Search(noise="observed"))
    differs = 0
    for row, original in zip(found.iter_rows(named=True), few.iter_rows(named=True), strict=True):
        old_states, old_actions = numbered(original, fitted)
        states, actions = numbered({"states": row["recourse"], "actions": row["actions"]}, fitted)
        size = max(len(actions), len(old_actions))
        padded = [np.append(x, np.full(n - len(x), PAD)) for x, n in ((old_states, size + 1), (old_actions, size))]
        chances = np.asarray(counterfactual_probabilities(fitted.transition.swapaxes(0, 1), *padded))
        likely = np.prod([chances[t, a, states[t], states[t + 1]] for t, a in enumerate(actions)])
        assert likely > 0
        assert row["probability"] == pytest.approx(likely, rel=1e-4)
        plain = np.prod([fitted.transition[states[t], a, states[t + 1]] for t, a in enumerate(actions)])
        differs += abs(plain - likely) > 1e-3
    assert differs > 0
    alone = recourse_frame(fitted, few[2:3], config, Search(noise="observed"))
    assert alone.equals(found[2:3])


def test_noise_that_takes_too_much_is_refused(slippery, monkeypatch):
    fitted, paths = slippery
    monkeypatch.setattr("pprjax.logs.fitted.MAX_CHANCES", 100)
    with pytest.raises(ValueError, match=r"noise: the observed noise of a path takes [\d,]+ chances, of 10 steps"):
        recourse_frame(fitted, paths, SMALL, Search(noise="observed"))


def chance_of_goal(transition, actions, start, goal):
    """How likely a run of these actions ends in the goal: it ends there, or where the next action is not available.

    Args:
        transition: P(s' | s, a), or one for each step.
    """
    here, ended = np.eye(transition.shape[-1])[start], 0.0
    for t, action in enumerate(actions):
        table = transition if transition.ndim == 3 else transition[t]
        ended, here[goal] = ended + here[goal], 0.0
        here = here @ table[:, action]  # who can't go on drops out
    return ended + here[goal]


@pytest.mark.parametrize("noise", ["fresh", "observed"])
def test_an_answer_says_how_likely_it_is_to_work(noise):
    """By 1,000 fresh runs, within four standard errors of what there is to be summed."""
    missed = pl.when(pl.col("action") == "door").then("state").otherwise(pl.col("state").replace("hall", "cellar"))
    log = read_log(pl.concat([WALKS, WALKS.with_columns(path="s" + pl.col("path"), state=missed)]), NAMED)
    fitted = fit_log(log, "state=garden")
    paths = pl.concat(list(log.frames())).sort("agent", "path")
    few = paths.filter(~pl.col("states").list.contains("garden"), pl.col("agent") == "ada")[:4]
    found = recourse_frame(fitted, few, SMALL, Search("learn", noise=noise))
    goal = fitted.states.tolist().index("garden")
    unsure = 0
    for row, logged in zip(found.iter_rows(named=True), few.iter_rows(named=True), strict=True):
        _, actions = numbered({"states": row["recourse"], "actions": row["actions"]}, fitted)
        states, taken = numbered(logged, fitted)
        table = fitted.counterfactual(states, taken).table() if noise == "observed" else fitted.transition
        likely = chance_of_goal(table, actions, states[0], goal)
        assert 0 < row["reliability_error"] < 0.02
        assert row["reliability"] == pytest.approx(likely, abs=4 * row["reliability_error"])
        unsure += likely < 0.95
    assert unsure or noise == "observed"
    alone = recourse_frame(fitted, few[1:2], SMALL, Search("learn", noise=noise))
    assert alone.row(0) == found.row(1)


def test_only_where_chance_decides_and_there_is_a_goal_is_it_asked(slippery):
    _, paths = slippery
    log = read_log(SLIPS, NAMED)
    anywhere = recourse_frame(fit_log(log), paths[:1], SMALL)
    certain = read_log(WALKS, NAMED)
    sure = recourse_frame(fit_log(certain, "state=garden"), pl.concat(list(certain.frames()))[:1], SMALL)
    for found in (anywhere, sure):
        assert found["method"].to_list() == ["learn"] or found["status"].to_list() == ["met"]
        assert found.select("reliability", "reliability_error").null_count().row(0) == (1, 1)
