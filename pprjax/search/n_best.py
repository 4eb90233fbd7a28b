"""The n best paths of each original at one λ_path, of the best for each number of edits that a search found."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int, Num

from pprjax.certify.edits import distinct, levenshtein
from pprjax.edit_distance import EditCosts, RealCosts
from pprjax.ladder import Ladder, Points, Wanted, listed
from pprjax.metrics import real_edits
from pprjax.objective import Objective
from pprjax.paths import PAD, Paths
from pprjax.result import ROUNDING, Recourse
from pprjax.reward import closeness


def n_best(
    points: Points,
    originals: Paths,
    objective: Objective,
    *,
    goal: Any,
    wanted: Wanted,
) -> Recourse:
    """The n best by R, any two δ edits apart, and a bound on R in each place.

    With δ = 1 the k-th best is worth no more than the larger of the k-th that was found and of the best that was not
    seen. With a larger δ the bound of the first holds for all.

    Args:
        points: of more than one path for each distance, searched at this λ_path.
        goal: the task's; None: it has none.
        wanted: n and δ.
    """
    weights = np.broadcast_to(np.asarray(objective.lambda_path, float), len(originals))
    close = closeness(np.arange(points.limit.shape[1]), weights[:, None])
    ladders = jax.tree.map(np.asarray, points.best)
    each = [jax.tree.map(lambda x, b=b: x[b], ladders) for b in range(len(originals))]
    places = [_chosen(found, close[b], wanted, objective.apart) for b, found in enumerate(each)]
    path = np.repeat(np.arange(len(originals)), [len(place) for place in places])
    distance, place = np.concatenate(places).T
    front = listed(points, originals, objective, (path, distance, place), goal=goal, answered_by="search")
    reward = front.value + closeness(front.distance, weights[path])
    limit, unseen = ((x + close).max(1) for x in (points.limit, np.minimum(points.limit, points.unseen)))
    is_first = np.append(True, path[1:] != path[:-1])[: len(path)]
    bound = np.where(is_first, limit[path], unseen[path])
    proved = bound - reward <= ROUNDING * (1.0 + np.abs(bound))
    return front.rows_at(np.arange(len(path)), weights, np.where(proved, reward, bound), limit)


def _chosen(
    found: Ladder, close: Float[np.ndarray, " E"], wanted: Wanted, apart: EditCosts | RealCosts
) -> Int[np.ndarray, "r 2"]:
    """Distance and place of the chosen paths of one original, the best first."""
    worth = found.value + close[:, None]
    order = np.argsort(-worth, axis=None, kind="stable")[: int((worth > -np.inf).sum())]
    ranked = zip(*np.unravel_index(order, worth.shape), strict=True)
    between = levenshtein if isinstance(apart, EditCosts) else partial(_between, apart)
    chosen = distinct(ranked, partial(_symbols, found), wanted.n_recourses, wanted.min_distance, between)
    return np.array(chosen, int).reshape(-1, 2)


def _between(costs: RealCosts, one: Float[np.ndarray, "n k"], other: Float[np.ndarray, "T k"]) -> float:
    both = Paths.from_lists([one, other]).padded()  # to few sizes, each of which is compiled
    (own, path), (length, end) = both.symbols, both.lengths
    return float(real_edits(own, path, costs.scale, original_length=length, lengths=end))


def _symbols(found: Ladder, rows: tuple[int | np.integer, int | np.integer]) -> Num[np.ndarray, "T ..."]:
    return np.asarray(found.symbols[rows])[: 1 + (found.actions[rows] != PAD).sum()]
