"""P_A from demonstrations: how often an agent did what, with what everyone did as a prior.

    P_all(a | s) = (c(s, a) + 1 / A(s)) / (c(s) + 1)              of the A(s) actions that anyone took there
    P_i(a | s)   = (c_i(s, a) + m·P_all(a | s)) / (c_i(s) + m)

An agent with few steps acts like everyone, one with many like itself. m, the steps of its own that weigh as much as
everyone's, is chosen by the likelihood of held-out paths.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

SMOOTHINGS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
"""The values of m that are tried."""


def shared_policy(times: Int[np.ndarray, " E"], state: Int[np.ndarray, " E"]) -> Float[np.ndarray, " E"]:
    """P_all of the E distinct steps.

    Args:
        times: how often everyone took each, at least once.
        state: the state that each leaves.
    """
    kinds, total = np.bincount(state), np.bincount(state, times)
    return (times + 1.0 / kinds[state]) / (total[state] + 1.0)


def smoothed(
    count: Int[np.ndarray, "*b"], total: Int[np.ndarray, "*b"], shared: Float[np.ndarray, "*b"], smoothing: float
) -> Float[np.ndarray, "*b"]:
    """P_i(a | s), of c_i(s, a), c_i(s) and P_all(a | s)."""
    return (count + smoothing * shared) / (total + smoothing)


def held_out_log_likelihood(
    trained: Int[np.ndarray, " K"],
    state_total: Int[np.ndarray, " K"],
    shared: Float[np.ndarray, " K"],
    held: Int[np.ndarray, " K"],
    smoothing: float,
) -> float:
    """The mean log P_i of the held-out steps, one entry for each (agent, state, action) that has some.

    Args:
        trained: c_i(s, a) without the held-out paths.
        state_total: c_i(s) without them.
        shared: P_all(a | s) without them; entries of 0 (nobody else did that) are left out.
        held: how often it was done in the held-out paths.
    """
    known = (shared > 0) & (held > 0)
    if not known.any():
        return float("nan")
    probs = smoothed(trained, state_total, shared, smoothing)[known]
    return float((held[known] * np.log(probs)).sum() / held[known].sum())
