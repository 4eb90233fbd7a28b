"""A simulated clinic: patients with sepsis, as the model ICU-Sepsis has them. For research; no medical advice.

Choudhary, Gupta and Thomas, ICU-Sepsis: A Benchmark MDP Built from Real Medical Data, RLC 2024. The package
`icu-sepsis` (extra `icu`) brings the tables, which were estimated from MIMIC-III: 713 clusters of what is known of a
patient, 25 treatments, where chance leads from each, and how often clinicians gave which.
"""

from __future__ import annotations

import functools
import importlib.util
from dataclasses import dataclass, replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from pprjax import goals
from pprjax.errors import UserError
from pprjax.paths import Paths
from pprjax.policy import TablePolicy
from pprjax.successors import Successors
from pprjax.tabular import TabularMDP
from pprjax.task import Task

DIED, SURVIVED, DISCHARGED = 713, 714, 715
"""States: a path ends in DISCHARGED, after one last step that pays 1 to who survived."""

LEVELS = 5
"""Of each of the two drugs: treatment 5·i + j gives the first at level i and the second at level j, 0 is none."""

MAX_STEPS = 24
"""Treatments of a path at most, the last step included; one takes four hours. Clinicians' paths have 9.2 on average."""


@dataclass(frozen=True)
class Clinic:
    """The tables of ICU-Sepsis, S = 716 states and A = 25 treatments. Arrays on the host."""

    chances: Successors  # of S states and A treatments
    clinicians: np.ndarray  # float32[S, A], how often they gave which treatment; 0: never
    admitted: np.ndarray  # float64[S], with what a patient comes
    sofa: np.ndarray  # float64[S], the mean SOFA score of a state, higher is worse

    @property
    def reward(self) -> Float[np.ndarray, "S A"]:
        """1 for the last step of who survived."""
        return np.where(np.arange(len(self.sofa)) == SURVIVED, 1.0, 0.0)[:, None] * np.ones(self.clinicians.shape[1])


@functools.cache
def tables() -> Clinic:
    """The tables of the installed package.

    Raises:
        ValueError: the extra `icu` is not installed.
    """
    package = importlib.util.find_spec("icu_sepsis")
    if package is None or package.origin is None:
        raise UserError("clinic: expected the extra `icu`, which brings icu-sepsis 2.0.1; it is not installed")
    # read, not imported: the package itself wants gym, which nothing here needs
    with np.load(Path(package.origin).parent / "envs" / "assets" / "dynamics.npz", allow_pickle=False) as data:
        transition, clinicians = data["tx_mat"], data["expert_policy"].astype(np.float32)
        admitted, sofa = data["d_0"], data["sofa_scores"]
    clinicians[[DIED, SURVIVED, DISCHARGED], 0] = 1.0  # there they do nothing; the package leaves these rows empty
    return Clinic(Successors.of(transition), clinicians, admitted, sofa)


@functools.cache
def env() -> TabularMDP:
    """The world. Its symbols are the states; a patient's task begins where that patient does."""
    clinic = tables()
    discharged = np.arange(len(clinic.sofa)) == DISCHARGED
    return TabularMDP(reward=clinic.reward, terminal=discharged, max_steps=MAX_STEPS, transition=clinic.chances)


def task(start: int, *, observed: Paths | None = None) -> Task:
    """The recourse of a patient who comes in a state: what the clinicians would do, and the goal to survive.

    Args:
        start: the patient's first state.
        observed: one path that was taken, with its treatments: then chance is what that path tells of it, the
            counterfactual world of `pprjax.baselines.counterfactual_probabilities`. None: fresh.

    Raises:
        ValueError: start is no patient's state, or observed is not one path with treatments that begins there.
    """
    if not isinstance(start, int | np.integer) or not 0 <= start < DIED:
        raise UserError(f"start: expected a patient's state in [0, {DIED - 1}], got {start!r}")
    if observed is not None:
        one = isinstance(observed, Paths) and len(observed) == 1 and observed.actions is not None
        if not one or int(np.asarray(observed.symbols)[0, 0]) != start:
            raise UserError(f"observed: expected one path with treatments that begins in {start}, got {observed!r}")
    world, params = env(), replace(env().default_params, start=jnp.int32(start))
    if observed is not None:
        from pprjax.baselines import counterfactual_probabilities  # here: plain tasks need no baselines

        padded = observed.padded_to(MAX_STEPS + 1)
        states, actions = np.asarray(padded.symbols)[0], np.asarray(padded.actions)[0]
        params = world.with_chances(params, counterfactual_probabilities(tables().chances, states, actions))
    return Task(world, TablePolicy(jnp.asarray(tables().clinicians)), goal=goals.at_least(1.0), params=params)


def patients(num: int, *, seed: int = 0, died: bool = True) -> Paths:
    """Paths of patients whom the clinicians' policy treats, simulated by the model itself.

    Args:
        num: how many.
        died: only those who died; else all. Either way only paths of at most 24 steps.

    Raises:
        ValueError: num is no integer of at least 1.
    """
    if not isinstance(num, int | np.integer) or num < 1:
        raise UserError(f"num: expected an integer of at least 1, got {num!r}")
    clinic, rng, found = tables(), np.random.default_rng(seed), []
    while len(found) < num:
        states, actions = [int(rng.choice(len(clinic.sofa), p=clinic.admitted))], []
        while states[-1] != DISCHARGED and len(actions) < MAX_STEPS:
            here, likely = states[-1], clinic.clinicians[states[-1]].astype(float)
            action = int(rng.choice(len(likely), p=likely / likely.sum()))
            cell = clinic.chances.cell(here, action)
            rows = slice(clinic.chances.first[cell], clinic.chances.first[cell + 1])
            chances = clinic.chances.probs[rows]
            after = rng.choice(clinic.chances.states[rows], p=chances / chances.sum())
            states, actions = [*states, int(after)], [*actions, action]
        if states[-1] == DISCHARGED and (DIED in states or not died):
            found.append((states, actions))
    return Paths.from_lists([states for states, _ in found], [actions for _, actions in found])


def survival(probs: Float[np.ndarray, "S A"], *, steps: int | None = None) -> Float[np.ndarray, " S"]:
    """How likely a patient in each state survives under a policy, within so many steps or ever: v = r_π + P_π v."""
    size = len(tables().sofa)
    state, action, after, prob = tables().chances.to_steps()
    moves = np.bincount(state * size + after, prob * probs[state, action], size * size).reshape(size, size)
    moves[DISCHARGED] = 0
    earned = (probs * tables().reward).sum(1)
    if steps is None:
        return np.linalg.solve(np.eye(size) - moves, earned)
    value = np.zeros(size)
    for _ in range(steps):
        value = earned + moves @ value
    return value


@functools.cache
def optimal() -> Float[np.ndarray, "S A"]:
    """A policy under which most patients survive, by policy iteration."""
    clinic = tables()
    best = np.full(clinic.clinicians.shape, 1 / clinic.clinicians.shape[1])
    value = survival(best)
    while True:
        state, action, after, prob = clinic.chances.to_steps()
        later = prob * np.where(after == DISCHARGED, 0.0, value[after])
        ahead = clinic.reward + np.bincount(state * best.shape[1] + action, later, best.size).reshape(best.shape)
        best = np.eye(ahead.shape[1])[ahead.argmax(1)]
        before, value = value, survival(best)
        if np.abs(value - before).max() < 1e-9:
            return best


def published_returns() -> dict[str, float]:
    """The mean return of three policies, which the authors give as random 0.78, clinicians 0.78, optimal 0.88."""
    clinic = tables()
    policies = {
        "random": np.full(clinic.clinicians.shape, 1 / clinic.clinicians.shape[1]),
        "clinicians": clinic.clinicians.astype(float),
        "optimal": optimal(),
    }
    return {name: float(clinic.admitted @ survival(probs)) for name, probs in policies.items()}


def changed_treatments(original: Int[np.ndarray, " T"], recourse: Int[np.ndarray, " U"]) -> int:
    """How many treatments differ, of the steps that both have, and those that one alone has; the last step is none."""
    original, recourse = (np.asarray(x)[np.asarray(x) >= 0][:-1] for x in (original, recourse))
    both = min(len(original), len(recourse))
    return int((original[:both] != recourse[:both]).sum() + abs(len(original) - len(recourse)))
