"""The certified optimum of Eq. 5, and a path that attains it, for finite deterministic worlds.

Since 1 / (d + 1) falls as d grows,

    max_τ R(τ) = max_e [ max { R_goal(τ) + λ_policy·R_policy(τ) : d(τ, τ₀) ≤ e } + λ_path / (e + 1) ]

and the inner maximum F(e) is a longest path through the product of the world, unrolled over time, with the Levenshtein
automaton of τ₀ (regular-language-constrained paths: Barrett, Jacob and Marathe, SIAM J. Comput. 30(3), 2000).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import numpy as np
from jaxtyping import Int

from pprjax import goals
from pprjax.certify.best import best_paths
from pprjax.certify.grading import Graded
from pprjax.certify.n_best import n_best_paths
from pprjax.certify.problem import Block, Problem, blocks
from pprjax.certify.unrolled import Earned, goal_met
from pprjax.config import Config
from pprjax.errors import UserError
from pprjax.objective import Objective
from pprjax.paths import Paths
from pprjax.result import Recourse
from pprjax.ruled import with_rules
from pprjax.tally import Tally, recourse_of
from pprjax.task import Task


def exact(task: Task, originals: Paths, config: Config, *, n_recourses: int = 1, min_distance: int = 1) -> Recourse:
    """The best path there is for each original (Eq. 5), with proof: a bound that the returned path attains.

    A path starts at the world's start, takes at most task.horizon actions, and ends where the world ends it, at the
    horizon, or where no action is available. With a goal only paths that meet it count, and with constraints only paths
    that keep them; each other sequence of kept steps unrolls the world anew. R_goal, and an original's own
    R_goal, are summed in float64 and then rounded to the goal's precision.

    Args:
        task: a finite deterministic world, and a P_A without memory.
        originals: B paths from the world's start. Their actions, if given, tell which way an original went.
        config: lambda_path and lambda_policy, one number or float[B]; w_ins, w_del and w_sub, whole numbers.
        n_recourses: how many paths an original gets: the best, and then each time the best that is far enough from
            those before. Fewer, where no other path is far enough.
        min_distance: δ ≥ 1, the edit distance (of unit costs) between any two of them, at least.

    Returns:
        Each bound is the reward itself, and each gap 0. The status is "unchanged" at distance 0; else "reached_goal"
        where the path meets the goal (without one: the world's own); else "ended" by the world; else "cut" by the
        horizon or a dead end. "infeasible": no path meets the goal and keeps the constraints.

    Raises:
        ValueError: the world isn't finite or not deterministic, P_A has a memory, an original is empty or does not
            start where the world does, a λ is negative, NaN or of the wrong shape, an edit cost is no whole number, an
            original is too short for a kept step, a layer of the unrolled world has more than 20,000 nodes, one
            original needs more than 1 GiB, or more than 100,000 prefixes of paths rank before its last recourse.

    Source: Eq. 5 of arXiv 2312.08724; the dynamic programme as in this module's head.
    """
    for name, least in {"n_recourses": n_recourses, "min_distance": min_distance}.items():
        if least < 1:
            raise UserError(f"{name}: expected at least 1, got {least}")
    several = partial(n_best_paths, n_recourses=n_recourses, min_distance=min_distance)
    objective = config.objective
    graded, path, problem = solved(task, originals, objective, best_paths if n_recourses == 1 else several)
    found = tallied(problem, graded, path)
    earned = problem.original_reward
    return recourse_of(found, originals, objective, proved=True, original_goal=earned, method="exact")


def solved(
    task: Task,
    originals: Paths,
    objective: Objective,
    solve: Callable[[Problem, Block], tuple[Graded, Int[np.ndarray, " R"]]],
) -> tuple[Graded, Int[np.ndarray, " R"], Problem]:
    """`solve` of every block: its rows in the order of the originals, which original each answers, and a problem of
    theirs, for the tables."""
    found, path, problem = [], [], None
    for rows, problem, block in blocks(with_rules(task), originals, objective):
        graded, answers = solve(problem, block)
        found.append(graded)
        path.append(rows[answers])
    assert problem is not None  # there is at least one original
    path = np.concatenate(path)
    order = np.argsort(path, kind="stable")
    return jax.tree.map(lambda *parts: np.concatenate(parts)[order], *found), path[order].astype(np.int32), problem


def tallied(problem: Problem, graded: Graded, path: Int[np.ndarray, " R"]) -> Tally:
    """The graded paths that there are, each with the original that it answers."""
    rows = np.flatnonzero(graded.reward > -np.inf)
    graded, path = graded[rows], path[rows]
    task, tables = problem.task, problem.tables
    met = reached = np.ones(len(rows), bool)
    if task.goal is None:
        everywhere = np.arange(tables.num_rows, dtype=np.int32)
        nothing, origin = Earned(*np.zeros((2, tables.num_rows))), Earned(*np.zeros((2, 1)))
        met, reached = None, goal_met(task, goals.reached, tables, everywhere, nothing, origin)[0, graded.row]
    return Tally(
        index=path,
        paths=Paths(symbols=graded.symbols, lengths=graded.num_actions + 1, actions=graded.actions),
        value=graded.value,
        goal=graded.goal,
        r_policy=graded.r_policy,
        log_prob=graded.log_prob,
        distance=graded.distance,
        reached=reached,
        terminated=tables.ended[graded.row],
        met=met,
    )
