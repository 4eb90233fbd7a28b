"""One Q-network for many originals: trained once, it answers an original that it never saw, without further training.

In a finite deterministic world Q of a step is known but for what the original decides: with V the best R_goal +
λ_policy·R_policy still to come,

    Q(s, a) = r(s, a) + λ_policy·h(P_A(s, a)) + V(s′) + λ_path·u,        0 ≤ u ≤ 1,

and u depends on the original around its alignment position j, on the Levenshtein column, on the time, on the agent and
on both λ. The network learns u in the states that its own paths visit, where the certificates' dynamic programme knows
it for each action (`optimum`; DAgger: Ross, Gordon and Bagnell, AISTATS 2011). Asked about an original, it walks a few
lanes that trade closeness for reward at different rates, and the best of them by R is taken.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from jaxtyping import Array, Float, Int

from pprjax import edit_distance, goals, marks, metrics, optimum
from pprjax.config import Config, check_config
from pprjax.metrics import Scores
from pprjax.networks import AmortizedQNetwork
from pprjax.paths import PAD, Paths
from pprjax.progress import progress_bar
from pprjax.reward import link, similarity
from pprjax.solve import LENGTHS, Recourse, check_starts
from pprjax.tables import UNAVAILABLE, tabulate
from pprjax.task import Task

if TYPE_CHECKING:
    from pprjax.fitted import Fitted

WALKS = (1.0, 0.0), (0.0, 0.0), (0.5, 0.0), (2.0, 0.0), (1.0, 0.5), (1.0, 0.75), (1.0, 1.0)
"""Of each lane of an answer: what λ_path is multiplied by when it decides, and the part of the original that it follows
before. The second takes the best path that heeds no original. Eight lanes take LLVM minutes to compile."""

LAMBDAS = 0.1, 1000.0
"""The range of λ_path and of λ_policy in training, evenly on a logarithmic scale."""

BUDGETS = 16
"""Edits still to come that training tells apart."""

ORIGINALS, CASES, LANES = 32, 4, 4
"""Originals of a round of training, values of λ_path for each, and lanes through each of these cases."""

BATCH, MEMORY = 64, 4096
"""Cases in a minibatch, and those that are remembered."""

NOISE = 0.1
"""The chance of a random action in a training lane: from 0 in the first up to almost this in the last."""

TEMPERATURE, REGRET = 0.02, 1.0
"""Of the softmax of Q / λ_path whose regret is part of the loss, and that part's weight."""

SEEN, SLOPES = tuple(range(-1, 6)), tuple(range(-4, 3))
"""From the position j: the original's symbols that each action's next one is compared with, and the differences of the
column that the network sees."""

WIDTH = 64
"""Units of each layer of the network."""

PIECE = 512
"""Originals that are answered side by side."""


@struct.dataclass
class World:
    """A finite deterministic world of S states, at most D actions in each, and M symbols."""

    following: jax.Array  # int32[S, D], where each action leads, or UNAVAILABLE
    action: jax.Array  # int32[S, D], the world's number of it
    reward: jax.Array  # float[S, D]
    symbol: jax.Array  # int32[S], its place among `symbols`
    met: jax.Array  # bool[S], a path that ends here meets the goal; all without one
    reached: jax.Array  # bool[S], the same; without a goal the world's own
    ended: jax.Array  # bool[S], the world ends a path here
    symbols: jax.Array  # int32[M], sorted
    starts: jax.Array  # int32[M], the state in which a path starts that begins with it; UNAVAILABLE: none does
    num_actions: jax.Array  # int32[], A, all that there are


@struct.dataclass
class _Case:
    """An original, and what its recourse is to heed. N symbols."""

    symbols: jax.Array  # int32[N], their places; M + 1 behind the end, M for what the world has not
    actions: jax.Array  # int32[N - 1], PAD where not known
    length: jax.Array  # int32[]
    prob: jax.Array  # float[S, D], P_A
    lambda_path: jax.Array  # float[]
    lambda_policy: jax.Array  # float[]


@struct.dataclass
class _Reading:
    """What is read of an original once. P = N + 1 positions."""

    symbols: jax.Array  # int32[P]
    steps: jax.Array  # float[P, F], what the step to each symbol costs
    weights: jax.Array  # float[K]


@struct.dataclass
class _Known:
    """What the world tells of a case before any network is asked."""

    start: jax.Array  # int32[], the state
    edges: jax.Array  # float[S, D], r + λ_policy·h; -inf where there is no action
    ahead: jax.Array  # float[T + 1, S], V: the best still to come after t actions; -inf where the goal can't be met


def _known(world: World, case: _Case, horizon: int) -> _Known:
    there = world.following != UNAVAILABLE
    edges = world.reward + case.lambda_policy * link(case.prob, world.num_actions)
    edges = jnp.where(there, edges, -jnp.inf)
    ending = jnp.where(world.met, 0.0, -jnp.inf)

    def layer(value, _):
        here = jnp.where(there.any(1), jnp.max(edges + value[world.following], axis=1), ending)
        return here, here

    _, ahead = jax.lax.scan(layer, ending, None, length=horizon)
    start = world.starts[jnp.minimum(case.symbols[0], len(world.starts) - 1)]
    return _Known(start=start, edges=edges, ahead=jnp.concatenate([ahead[::-1], ending[None]]))


def _squash(x: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """x / (1 - x), from 0 to -1, for x ≤ 0 or -inf."""
    finite = jnp.maximum(x, -1e6)
    return finite / (1 - finite)


def _reading(world: World, case: _Case, known: _Known) -> tuple[_Reading, Int[Array, " T"], Float[Array, ""]]:
    """The inputs of the encoder; the moves that follow the original, PAD from where it ends or can't be followed; and
    its own R_goal, -inf where it can't be followed."""
    horizon, (n,) = len(known.ahead) - 1, case.symbols.shape

    def step(lane, i):
        row, followed, lost, earned = lane
        targets = world.following[row]
        next_symbol = jnp.append(case.symbols, len(world.symbols) + 1)[i + 1]
        given = jnp.append(case.actions, PAD)[i]
        leads = (targets != UNAVAILABLE) & (world.symbol[targets] == next_symbol)
        leads &= (given == PAD) | (world.action[row] == given)
        onward = known.edges[row] + known.ahead[jnp.minimum(i + 1, horizon)][targets]
        best = known.ahead[jnp.minimum(i, horizon), row]
        chosen = jnp.argmax(jnp.where(leads, case.prob[row], -1.0))
        goes = followed & leads.any() & (i + 1 < case.length)
        alive = goes & (i < horizon) & (onward[chosen] > -jnp.inf)
        step_loss = jnp.where(alive, onward[chosen] - best, -jnp.inf)
        lost = lost + step_loss
        earned = earned + jnp.where(goes, world.reward[row, chosen], 0.0)
        moved = (jnp.where(goes, targets[chosen], row), followed & (goes | (i + 1 >= case.length)), lost, earned)
        scaled = jnp.stack([step_loss, lost]) / jnp.maximum(case.lambda_path, 1e-6)
        features = jnp.concatenate([_squash(scaled), jnp.exp(scaled), jnp.stack([goes, alive]).astype(float)])
        return moved, (features, jnp.where(goes, chosen, PAD))

    lane = (known.start, jnp.bool_(True), jnp.zeros(()), jnp.zeros(()))
    (_, followed, _, earned), (steps, moves) = jax.lax.scan(step, lane, jnp.arange(n))
    steps = jnp.concatenate([jnp.zeros((1, steps.shape[1])), steps])[: n + 1]  # position j: the step to its last symbol
    left = (case.length - jnp.arange(n + 1)) / horizon
    steps = jnp.concatenate([steps, left[:, None], (left > 0)[:, None]], axis=1)
    best = known.ahead[0, known.start]
    weights = jnp.stack(
        [
            _log(case.lambda_path),
            _log(case.lambda_policy),
            case.length / horizon,
            _log(jnp.abs(jnp.where(best > -jnp.inf, best, 0.0))) - _log(case.lambda_path),
        ]
    )
    reading = _Reading(jnp.append(case.symbols, len(world.symbols) + 1), steps, weights)
    moves = jnp.append(moves, jnp.full(horizon, PAD))[:horizon]
    return reading, moves, jnp.where(followed, earned, -jnp.inf)


def _log(x: Float[Array, ""]) -> Float[Array, ""]:
    return jnp.log(jnp.maximum(x, 1e-3)) / 5


def _encode(net: AmortizedQNetwork, params: Any, reading: _Reading) -> Float[Array, "P width"]:
    return jnp.asarray(net.apply(params, reading.symbols, reading.steps, reading.weights, method="encode"))


def _decide(net: AmortizedQNetwork, params: Any, *seen: Array) -> Float[Array, " D"]:
    return jnp.asarray(net.apply(params, *seen, method="decide"))


def _numbers(world: World, case: _Case, known: _Known, lane: _Lane, t, lead: Float[Array, " D"]) -> Float[Array, " G"]:
    """What a step sees beside embeddings: how far each action's value lags behind without the original, where its next
    symbol stands in the original, and the column around j."""
    horizon, (n,) = len(known.ahead) - 1, case.symbols.shape
    nearby = lane.position + jnp.array(SEEN)
    padded = jnp.append(case.symbols, len(world.symbols) + 1)
    near = jnp.where(nearby >= 0, padded[jnp.clip(nearby, 0, n)], len(world.symbols) + 1)
    targets = world.following[lane.row]
    matches = (world.symbol[targets][:, None] == near) & (targets != UNAVAILABLE)[:, None]
    bits = lane.position + jnp.array(SLOPES)
    word, bit = jnp.clip(bits, 0, n - 1) // 32, (jnp.clip(bits, 0, n - 1) % 32).astype(jnp.uint32)
    plus, minus = (((v[word] >> bit) & 1).astype(float) for v in (lane.column.plus, lane.column.minus))
    slopes = jnp.where((bits >= 0) & (bits < case.length), plus - minus, 0.0)
    m = lane.smallest.astype(float)
    clocks = [similarity(m), similarity(m) - similarity(m + 1), m / 10, (horizon - t) / horizon]
    clocks += [(case.length - lane.position) / horizon, (case.length - lane.position - horizon + t) / horizon]
    return jnp.concatenate([_squash(lead), jnp.exp(lead), matches.ravel().astype(float), slopes, jnp.stack(clocks)])


@struct.dataclass
class _Lane:
    row: jax.Array  # int32[], the state
    column: Any  # BitColumn
    smallest: jax.Array  # m
    position: jax.Array  # j
    earned: jax.Array  # float[], R_goal + λ_policy·R_policy so far


@struct.dataclass
class _Step:
    """What a step leaves behind."""

    taken: jax.Array  # bool[]
    move: jax.Array  # int32[], of D
    lane: Any  # _Lane, before it, and what the network saw; None where nobody learns from it
    numbers: Any  # float[G]
    lead: Any  # float[D]


def _walk(
    net: AmortizedQNetwork,
    params: Any,
    world: World,
    case: _Case,
    known: _Known,
    context: Float[Array, "P width"],
    rate: Float[Array, ""],
    forced: Int[Array, " T"],
    noise: Float[Array, "T D"] | None = None,
) -> tuple[_Lane, _Step]:
    """One lane: the forced move, unless it is PAD or leads where the goal can't be met; else greedy on Q with
    λ_path·rate, or, where `noise` is above 0, on the noise."""
    horizon = len(known.ahead) - 1
    matches = jax.vmap(partial(edit_distance.matches, case.symbols))(world.symbol)
    weight = jnp.maximum(case.lambda_path, 1e-6)

    def read(row, column, earned):
        column = edit_distance.append(column, matches[row])
        smallest, position = edit_distance.alignment(column, case.symbols, case.length)
        return _Lane(row=row, column=column, smallest=smallest, position=position, earned=earned)

    def step(lane, x):
        t, ahead, given, luck = x
        targets = world.following[lane.row]
        value = known.edges[lane.row] + ahead[targets]  # -inf: no action, or no way from there to the goal
        best = value.max()
        taken = best > -jnp.inf
        lead = jnp.where(taken, (value - best) / weight, -jnp.inf)
        numbers = _numbers(world, case, known, lane, t, lead)
        share = _decide(net, params, lane.row, t, context[lane.position], numbers)
        q = lead + rate * share
        if luck is not None:
            q = jnp.where((lead > -jnp.inf) & (luck > 0), 1e6 + luck, q)
        follows = (given != PAD) & (lead[given] > -jnp.inf)
        move = jnp.where(follows, given, jnp.argmax(q)).astype(jnp.int32)
        moved = read(targets[move], lane.column, lane.earned + known.edges[lane.row, move])
        record = _Step(taken=taken, move=move, lane=None, numbers=None, lead=None)
        if luck is not None:
            record = replace(record, lane=lane, numbers=numbers, lead=lead)
        return jax.tree.map(lambda new, old: jnp.where(taken, new, old), moved, lane), record

    lane = read(known.start, edit_distance.start(case.symbols), jnp.zeros(()))
    return jax.lax.scan(step, lane, (jnp.arange(horizon), known.ahead[1:], forced, noise))


@struct.dataclass
class _Answer:
    """The best lane of an original."""

    feasible: jax.Array  # bool[], some path meets the goal
    symbols: jax.Array  # int32[T + 1]; PAD behind the end
    actions: jax.Array  # int32[T]
    last: jax.Array  # int32[], the final state
    goal: jax.Array  # float[], R_goal
    link: jax.Array  # float[], R_policy
    log_prob: jax.Array  # float[]
    distance: jax.Array  # int32[]
    reward: jax.Array  # float[], R
    greedy_reward: jax.Array  # float[], R of the first lane
    original_goal: jax.Array  # float[], R_goal of the original


def _followed(moves: Int[Array, " T"], case: _Case, part: Float[Array, ""]) -> Int[Array, " T"]:
    """The first moves of the original, this part of them; PAD behind."""
    return jnp.where(jnp.arange(len(moves)) < part * (case.length - 1), moves, PAD)


def _answer(net: AmortizedQNetwork, params: Any, world: World, case: _Case, walks: Float[Array, "L 2"]) -> _Answer:
    known = _known(world, case, net.num_times - 1)
    reading, moves, original_goal = _reading(world, case, known)
    context = _encode(net, params, reading)

    def walk(rate, part):
        return _walk(net, params, world, case, known, context, rate, _followed(moves, case, part))

    last, steps = jax.vmap(walk)(*walks.T)
    distance = jax.vmap(lambda column: edit_distance.distance(column, case.length))(last.column)
    reward = last.earned + case.lambda_path * similarity(distance)
    best = jnp.argmax(reward)
    moves = jnp.where(steps.taken[best], steps.move[best], PAD)

    def step(lane, move):
        row, goal, habit, log_prob = lane
        goes = move != PAD
        prob = case.prob[row, move]
        paid = jnp.stack([world.reward[row, move], link(prob, world.num_actions), jnp.log(prob)])
        action, row = world.action[row, move], jnp.where(goes, world.following[row, move], row)
        sums = jnp.stack([goal, habit, log_prob]) + jnp.where(goes, paid, 0.0)
        symbol = jnp.where(goes, world.symbols[world.symbol[row]], PAD)
        return (row, *sums), (symbol, jnp.where(goes, action, PAD))

    zero = jnp.zeros(())
    (row, goal, habit, log_prob), (symbols, actions) = jax.lax.scan(step, (known.start, zero, zero, zero), moves)
    return _Answer(
        feasible=known.ahead[0, known.start] > -jnp.inf,
        symbols=jnp.append(world.symbols[world.symbol[known.start]], symbols),
        actions=actions,
        last=row,
        goal=goal,
        link=habit,
        log_prob=log_prob,
        distance=distance[best],
        reward=reward[best],
        greedy_reward=reward[0],
        original_goal=original_goal,
    )


def _best_values(world: World, case: _Case, known: _Known) -> Float[Array, "layers S positions E"]:
    """G of `optimum`: the best still to come from each state, with each number of symbols read and of edits left."""
    layers = len(known.ahead)
    there = world.following != UNAVAILABLE
    stops = (~there.any(1)) | (jnp.arange(layers) == layers - 1)[:, None]
    pruned = optimum.Pruned(
        symbol=jnp.broadcast_to(world.symbol, (layers, *world.symbol.shape)),
        following=jnp.broadcast_to(jnp.where(there, world.following, len(there)), (layers, *there.shape)),
        edges=jnp.broadcast_to(known.edges, (layers, *there.shape)),
        ending=jnp.where(stops & world.met, 0.0, -jnp.inf),
    )
    n = case.symbols.shape[0]
    aligned = jnp.roll(jnp.where(case.symbols > len(world.symbols), PAD, case.symbols), n - case.length)
    return optimum.edit_values(pruned, aligned, BUDGETS, optimum.WholeCosts(1, 1, 1))


def _labels(world: World, case: _Case, known: _Known, values, lane: _Lane, t, lead) -> Float[Array, " D"]:
    """u of each action: (Q* - r - λ_policy·h - V(s′)) / λ_path, with Q* the best of all paths that go on with it."""
    (n,) = case.symbols.shape
    weight = jnp.maximum(case.lambda_path, 1e-6)
    index = jnp.arange(n + 1) - (n - case.length)
    words, bits = np.divmod(np.arange(n), 32)
    longest = max(n, len(known.ahead))

    def share(target):
        match = edit_distance.matches(case.symbols, world.symbol[target])
        column = cast(edit_distance.BitColumn, edit_distance.append(lane.column, match))
        slopes = [((v[words] >> bits) & 1).astype(jnp.int32) for v in (column.plus, column.minus)]
        entries = column.t + jnp.append(0, jnp.cumsum(slopes[0] - slopes[1]))
        used = jnp.where(index >= 0, entries[jnp.maximum(index, 0)], 10**6)
        after = values[t + 1, target] - known.ahead[t + 1, target]
        paid = similarity(used[:, None] + jnp.arange(BUDGETS))
        return jnp.maximum(jnp.max(after / weight + paid), similarity(longest))

    return jnp.where(lead > -jnp.inf, jax.vmap(share)(world.following[lane.row]), 0.0)


@struct.dataclass
class _Experience:
    """What the network learns from: L lanes through one case, and what every action would have been worth there."""

    reading: _Reading
    row: jax.Array  # int32[L, T]
    position: jax.Array  # int32[L, T]
    numbers: jax.Array  # float[L, T, G]
    lead: jax.Array  # float[L, T, D]
    share: jax.Array  # float[L, T, D], u
    taken: jax.Array  # bool[L, T]


def _experience(net: AmortizedQNetwork, params: Any, world: World, case: _Case, key: jax.Array) -> _Experience:
    """Several cases of one original, which differ in λ_path: a leading axis of CASES."""
    horizon = net.num_times - 1
    known = _known(world, case, horizon)
    values = _best_values(world, case, known)
    num_moves = world.following.shape[1]

    def one(case, key):
        keys = jax.random.split(key, 4)
        reading, moves, _ = _reading(world, case, known)
        context = _encode(net, params, reading)
        rates = jnp.exp2(jax.random.uniform(keys[0], (LANES,), minval=-1.0, maxval=1.0)).at[0].set(1.0)
        noise = jax.random.uniform(keys[1], (LANES, horizon, num_moves))
        explores = jax.random.uniform(keys[2], (LANES, horizon, 1)) < (NOISE * jnp.arange(LANES) / LANES)[:, None, None]
        noise = jnp.where(explores, noise, 0.0)
        parts = jax.random.uniform(keys[3], (LANES,)).at[: LANES // 2].set(0.0)
        forced = jax.vmap(lambda part: _followed(moves, case, part))(parts)
        walk = partial(_walk, net, params, world, case, known, context)
        _, steps = jax.vmap(walk)(rates, forced, noise)
        label = partial(_labels, world, case, known, values)
        share = jax.vmap(jax.vmap(label), in_axes=(0, None, 0))(steps.lane, jnp.arange(horizon), steps.lead)
        at = steps.lane.row, steps.lane.position
        return _Experience(reading, *at, steps.numbers, steps.lead, share, steps.taken)

    weights = _spread(jax.random.fold_in(key, 0), (CASES,))
    cases = jax.vmap(lambda w: replace(case, lambda_path=w))(weights)
    return jax.vmap(one)(cases, jax.random.split(jax.random.fold_in(key, 1), CASES))


def _spread(key: jax.Array, shape: tuple[int, ...]) -> Array:
    low, high = np.log(LAMBDAS)
    return jnp.exp(jax.random.uniform(key, shape, minval=low, maxval=high))


def _loss(net: AmortizedQNetwork, params: Any, seen: _Experience) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The squared error of u of the actions that could be the best, and the regret of the softmax of Q, in units of
    λ_path; summed over the steps, with their number."""
    context = _encode(net, params, seen.reading)
    times = jnp.broadcast_to(jnp.arange(seen.row.shape[1]), seen.row.shape)

    def decide(row, t, position, numbers):
        return _decide(net, params, row, t, context[position], numbers)

    share = jax.vmap(jax.vmap(decide))(seen.row, times, seen.position, seen.numbers)
    there = seen.lead > -jnp.inf
    lead = jnp.where(there, seen.lead, -1e6)
    best = jnp.max(lead + seen.share, axis=-1, keepdims=True)
    squared = jnp.where(there & (lead + 1 >= best), (share - seen.share) ** 2, 0.0)
    chance = jax.nn.softmax((lead + share) / TEMPERATURE, axis=-1)
    regret = chance * jnp.minimum(best - lead - seen.share, 1.0)
    return jnp.sum(jnp.where(seen.taken, (squared + REGRET * regret).sum(-1), 0.0)), seen.taken.sum()


@struct.dataclass
class _Trainer:
    """What training carries from round to round."""

    params: Any
    optimizer: Any
    memory: _Experience  # a leading axis of MEMORY, a ring


def _optimizer(config: Config) -> optax.GradientTransformation:
    total = config.iterations * config.updates
    share = optax.warmup_cosine_decay_schedule(0.0, 1.0, max(total // 50, 1), max(total, 2))
    steps = optax.scale_by_schedule(share), optax.scale(-config.learning_rate)
    return optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam(), *steps)


def _initial(net: AmortizedQNetwork, world: World, case: _Case, key: jax.Array) -> Any:
    """Untrained weights; `case` is any."""
    known = _known(world, case, net.num_times - 1)
    zero = jnp.int32(0)
    column = edit_distance.start(case.symbols)
    lane = _Lane(row=zero, column=column, smallest=zero, position=zero, earned=jnp.zeros(()))
    numbers = _numbers(world, case, known, lane, zero, jnp.zeros(world.following.shape[1]))
    reading, _, _ = _reading(world, case, known)
    return net.init(key, reading.symbols, reading.steps, reading.weights, zero, zero, numbers)


@partial(jax.jit, static_argnames="net")
def _begin(net: AmortizedQNetwork, world: World, case: _Case, config: Config, key: jax.Array) -> _Trainer:
    """Before the first round; `case` is any."""
    params = _initial(net, world, case, key)
    seen = jax.eval_shape(lambda: _experience(net, params, world, case, key))
    memory = jax.tree.map(lambda x: jnp.zeros((MEMORY, *x.shape[1:]), x.dtype), seen)
    return _Trainer(params=params, optimizer=_optimizer(config).init(params), memory=memory)


@partial(jax.jit, static_argnames="net", donate_argnames="trainer")
def _round(
    net: AmortizedQNetwork, trainer: _Trainer, world: World, cases: _Case, config: Config, key: jax.Array, number
) -> tuple[_Trainer, Float[Array, ""]]:
    """Walk through new cases, remember them, and update the network; also the mean loss."""
    size = cases.length.shape[0]
    keys = jax.random.split(key, 3)
    cases = replace(cases, lambda_policy=_spread(keys[0], (size,)))
    lanes = jax.vmap(lambda case, k: _experience(net, trainer.params, world, case, k))
    seen = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), lanes(cases, jax.random.split(keys[1], size)))
    new = size * CASES

    def put(ring, x):
        return jax.lax.dynamic_update_slice_in_dim(ring, x, number % (MEMORY // new) * new, 0)

    memory = jax.tree.map(put, trainer.memory, seen)
    filled = jnp.minimum(number + 1, MEMORY // new) * new

    def update(lane, key):
        params, state = lane
        entries = jax.tree.map(lambda x: x[jax.random.randint(key, (BATCH,), 0, filled)], memory)

        def loss(params):
            sums, counts = jax.vmap(lambda entry: _loss(net, params, entry))(entries)
            return sums.sum() / jnp.maximum(counts.sum(), 1)

        value, gradient = jax.value_and_grad(loss)(params)
        change, state = _optimizer(config).update(gradient, state, params)
        return (optax.apply_updates(params, change), state), value

    keys = jax.random.split(keys[2], config.updates)
    (params, state), losses = jax.lax.scan(update, (trainer.params, trainer.optimizer), keys)
    return _Trainer(params=params, optimizer=state, memory=memory), losses.mean()


@struct.dataclass
class Amortized:
    """A trained network and the world that it knows. A pytree."""

    params: Any  # of the Q-network
    world: World
    prob: jax.Array  # float[1, S, D], P_A of the agent that it was trained for; of a log, of the first
    horizon: int = struct.field(pytree_node=False)
    width: int = struct.field(pytree_node=False)

    def recourse(
        self,
        originals: Paths,
        config: Config = Config(),
        *,
        progress: bool | None = None,
    ) -> Recourse:
        """A recourse for each original, without any training, as `pprjax.recourse` gives one.

        All meet the goal; where no path does, the status is "infeasible", as in `pprjax.exact`. There is no curve.

        Args:
            originals: B paths from the world's start, with actions or without.
            config: λ_path and λ_policy, one number or float[B]; edits cost 1 each, and the rest is not looked at.
            progress: show a progress bar; default: on a terminal.

        Raises:
            ValueError: no path of this world starts where an original does, an edit does not cost 1, or a λ is out of
                range.
        """
        return self._recourse(originals, config, np.asarray(self.prob), np.zeros(len(originals), int), progress)

    def recourse_log(
        self,
        fitted: Fitted,
        originals: Paths,
        agents: Int[np.ndarray, " B"],
        config: Config = Config(),
        *,
        progress: bool | None = False,
    ) -> Recourse:
        """`recourse` in the world of a log, whose network this is: `agents` are the numbers of its agents, whether the
        network was trained on paths of theirs or not."""
        return self._recourse(originals, config, *_policies(self.world, fitted, agents), progress)

    def _recourse(self, originals, config, prob, agents, progress) -> Recourse:
        size = len(originals)
        _check(config, size)
        places = _places(self.world, originals)
        nowhere = np.flatnonzero(np.append(np.asarray(self.world.starts), [UNAVAILABLE] * 2)[places[:, 0]] < 0)
        if nowhere.size:
            first = np.asarray(originals.symbols)[nowhere[0], 0]
            raise ValueError(f"originals[{nowhere[0]}]: no path of this world starts with symbol {first}")
        lambdas = [np.broadcast_to(np.float32(x), (size,)) for x in (config.lambda_path, config.lambda_policy)]
        length, actions = np.asarray(originals.lengths, np.int32), _actions(originals, places.shape[1])
        net = _network(self.world, self.horizon, self.width)
        pieces = np.array_split(np.arange(size), -(-size // PIECE))

        def solve(piece):
            at = np.resize(piece, min(PIECE, _power_of_two(size)))  # the first ones fill up
            case = _cases(places[at], actions[at], length[at], prob[agents[at]], lambdas[0][at], lambdas[1][at])
            found = jax.device_get(_answers(net, self.params, self.world, case, jnp.array(WALKS)))
            advance(len(piece))
            return jax.tree.map(lambda x: x[: len(piece)], found)

        with progress_bar("recourse", size, enabled=progress) as advance, ThreadPoolExecutor(_threads()) as pool:
            best = jax.tree.map(lambda *parts: np.concatenate(parts), *pool.map(solve, pieces))
        return _as_recourse(self.world, originals, best, lambdas)

    def save(self, folder: str | Path) -> None:
        """Write all of it into a new folder, which `load` reads; whole or not at all."""
        import orbax.checkpoint as ocp  # takes a second to import

        sizes = {"horizon": np.array(self.horizon), "width": np.array(self.width)}
        tree = {"params": self.params, "world": self.world.__dict__, "prob": self.prob, **sizes}
        with ocp.PyTreeCheckpointer() as checkpointer:
            checkpointer.save(Path(folder).absolute(), jax.tree.map(np.asarray, tree), force=True)


def load(folder: str | Path) -> Amortized:
    """What `Amortized.save` wrote.

    Raises:
        ValueError: there is none in this folder.
    """
    import orbax.checkpoint as ocp  # takes a second to import

    with ocp.PyTreeCheckpointer() as checkpointer:
        try:
            tree = checkpointer.restore(Path(folder).absolute())
            world = World(**jax.tree.map(jnp.asarray, tree.pop("world")))
            horizon, width = int(tree.pop("horizon")), int(tree.pop("width"))
        except (FileNotFoundError, KeyError, TypeError) as error:
            raise ValueError(f"folder: expected what Amortized.save wrote, got {folder}: {error}") from None
    return Amortized(**jax.tree.map(jnp.asarray, tree), world=world, horizon=horizon, width=width)


def amortize(
    task: Task,
    originals: Paths,
    config: Config = Config(),
    *,
    key: jax.Array,
    width: int = WIDTH,
    progress: bool | None = None,
) -> Amortized:
    """Train one network on many originals, for all λ_path and λ_policy from 0.1 to 1000.

    Training looks at the best continuations that there are, which the certificates' dynamic programme finds; what the
    network then answers carries no certificate.

    Args:
        task: a finite deterministic world; a P_A without memory; a goal on the final state, or none.
        originals: paths from the world's start; a few thousand that differ, where there are so many.
        config: iterations (rounds of 32 originals), updates (of the network in each round) and learning_rate.
        key: not consumed; the same key gives the same network.
        width: units of each layer.
        progress: show a progress bar; default: on a terminal.

    Raises:
        ValueError: the world isn't finite or not deterministic, P_A has a memory, the goal reads R_goal, there are
            constraints, an original does not start where the world does, or a setting is out of range.
        TooLargeError: the best continuations of one original would take more than 1 GiB.
    """
    if task.constraints is not None:
        raise ValueError("task.constraints: a network for many originals keeps to none; expected a task without any")
    if task.goal is not None and task.goal.uses_reward:
        raise ValueError("task.goal: a network for many originals needs a goal on the final state, got one on R_goal")
    tables = tabulate(task)
    check_starts(task, originals)
    rows, zeros = np.arange(tables.num_rows, dtype=np.int32), np.zeros(tables.num_rows)
    reached = optimum.judge(task, task.goal or goals.reached, tables, rows, zeros, zeros[:1])[0]
    met = np.ones(len(rows), bool) if task.goal is None else reached
    symbols = np.unique(tables.symbol)
    starts = np.where(symbols == tables.symbol[0], 0, UNAVAILABLE)
    world = _world(tables.following, tables.reward, tables.symbol, met, reached, tables.ended, starts)
    prob = _moves(world, np.exp(tables.log_prob))[None]
    return _train(world, task.horizon, originals, prob, np.zeros(len(originals), int), config, key, width, progress)


def amortize_log(
    fitted: Fitted,
    originals: Paths,
    agents: Int[np.ndarray, " B"],
    config: Config = Config(),
    *,
    key: jax.Array,
    width: int = WIDTH,
    progress: bool | None = None,
) -> Amortized:
    """`amortize` for the world of a log, all its agents and starts; `agents` are their numbers.

    Raises:
        ValueError: as `amortize`.
    """
    if fitted.next_state is None:
        raise ValueError("method: chance decides in this log's world, so it can't be amortized; expected learned")
    if fitted.goal is not None and fitted.ends is None:
        raise ValueError("goal: a network for many originals needs a goal on the final state, got one on R_goal")
    tables = jax.tree.map(np.asarray, fitted.env.default_params)
    reached = tables.terminal if fitted.ends is None else fitted.ends
    met = np.ones(len(reached), bool) if fitted.ends is None else reached
    rows = np.arange(len(fitted.states))
    starts = marks.visited(rows[:, None], fitted.marks)[:, 0] * len(rows) + rows
    world = _world(tables.next_state, tables.reward, tables.symbols, met, reached, tables.terminal, starts)
    return _train(world, fitted.max_steps, originals, *_policies(world, fitted, agents), config, key, width, progress)


def _policies(
    world: World, fitted: Fitted, agents: Int[np.ndarray, " B"]
) -> tuple[Float[np.ndarray, "K S D"], Int[np.ndarray, " B"]]:
    """P_A of those who are among these agents, and which of them each is."""
    known, whose = np.unique(agents, return_inverse=True)
    return np.stack([_moves(world, fitted.world_probs(agent)) for agent in known.tolist()]), whose


def _moves(world: World, probs: Float[np.ndarray, "S A"]) -> Float[np.ndarray, "S D"]:
    """P_A of the actions that there are."""
    return np.take_along_axis(probs, np.asarray(world.action), 1).astype(np.float32)


def _world(following, reward, symbol, met, reached, ended, starts) -> World:
    """The world with the actions of each state moved together."""
    there = following != UNAVAILABLE
    order = np.argsort(~there, axis=1, kind="stable")[:, : max(int(there.sum(1).max()), 1)]
    symbols, place = np.unique(symbol, return_inverse=True)
    arrays = {
        "following": np.take_along_axis(following, order, 1).astype(np.int32),
        "action": order.astype(np.int32),
        "reward": np.take_along_axis(reward, order, 1).astype(np.float32),
        "symbol": place.astype(np.int32),
        "met": met,
        "reached": reached,
        "ended": ended,
        "symbols": symbols.astype(np.int32),
        "starts": starts.astype(np.int32),
        "num_actions": np.int32(following.shape[1]),
    }
    return World(**jax.tree.map(jnp.asarray, arrays))


def _network(world: World, horizon: int, width: int) -> AmortizedQNetwork:
    num_states, num_actions = world.following.shape
    return AmortizedQNetwork(
        num_actions=num_actions,
        num_states=max(num_states, 2),  # flax takes the only row of a table for all
        num_symbols=len(world.symbols),
        num_times=horizon + 1,
        width=width,
    )


def _places(world: World, originals: Paths) -> Int[np.ndarray, "B N"]:
    """The symbols' places among the world's; N is a multiple of 8, so that batches share a compilation."""
    known = np.asarray(world.symbols)
    longest = int(np.max(originals.lengths))
    symbols = originals.padded_to(-(-longest // LENGTHS) * LENGTHS).symbols
    place = np.minimum(np.searchsorted(known, symbols), len(known) - 1)
    place = np.where(known[place] == symbols, place, len(known))
    inside = np.arange(symbols.shape[1]) < np.asarray(originals.lengths)[:, None]
    return np.where(inside, place, len(known) + 1).astype(np.int32)


def _cases(*arrays: np.ndarray) -> _Case:
    return _Case(*(jnp.asarray(x, jnp.int32 if x.dtype.kind == "i" else jnp.float32) for x in arrays))


def _check(config: Config, size: int) -> None:
    check_config(config, size)
    if not config.costs.unit:
        raise ValueError(f"w_ins, w_del, w_sub: a network for many originals counts edits, got {tuple(config.costs)}")


def _actions(originals: Paths, width: int) -> Int[np.ndarray, "B N-1"]:
    given = originals.padded_to(width).actions
    return np.full((len(originals), width - 1), PAD, np.int32) if given is None else np.asarray(given, np.int32)


def _train(world, horizon, originals, prob, agents, config: Config, key, width, progress) -> Amortized:
    size = len(originals)
    settings = replace(config, lambda_path=0.0, lambda_policy=0.0)
    _check(settings, size)
    places, lengths = _places(world, originals), np.asarray(originals.lengths, np.int32)
    actions = _actions(originals, places.shape[1])
    num_bytes = 4 * (horizon + 1) * len(world.symbol) * (places.shape[1] + 1) * BUDGETS
    if num_bytes > optimum.MAX_BYTES:
        raise optimum.TooLargeError(
            f"task: the best continuations of one original would take {num_bytes / 2**30:.1f} GiB, more than "
            f"{optimum.MAX_BYTES / 2**30:.1f}: {len(world.symbol)} states, {horizon} actions"
        )
    together = min(ORIGINALS, optimum.MAX_BYTES // num_bytes)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())
    net = _network(world, horizon, width)

    def cases(at):
        nothing = np.zeros(len(at), np.float32)
        return _cases(places[at], actions[at], lengths[at], prob[agents[at]], nothing, nothing)

    first = jax.tree.map(lambda x: x[0], cases(np.zeros(1, int)))
    trainer = _begin(net, world, first, settings, key)
    with progress_bar("training", config.iterations, enabled=progress) as advance:
        for number in range(config.iterations):
            at = rng.choice(size, together, replace=size < together)
            trainer, _ = _round(net, trainer, world, cases(at), settings, jax.random.fold_in(key, number), number)
            advance(1)
    return Amortized(params=trainer.params, world=world, prob=jnp.asarray(prob[:1]), horizon=horizon, width=width)


@partial(jax.jit, static_argnames="net")
def _answers(net: AmortizedQNetwork, params: Any, world: World, cases: _Case, walks: Float[Array, "L 2"]) -> _Answer:
    return jax.vmap(lambda case: _answer(net, params, world, case, walks))(cases)


def _power_of_two(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()


def _threads() -> int:
    """A thread a core, where the device is the CPU."""
    return min(len(os.sched_getaffinity(0)), 8) if jax.default_backend() == "cpu" else 1


def _as_recourse(world: World, originals: Paths, best: _Answer, lambdas: list[np.ndarray]) -> Recourse:
    size, there = len(originals), best.feasible
    num_actions = np.where(there, (best.actions != PAD).sum(1), 0).astype(np.int32)
    width = int(num_actions.max()) + 1
    inside = np.arange(width) <= num_actions[:, None]
    ended = metrics.status(
        distance=best.distance,
        reached=np.asarray(world.reached)[best.last],
        terminated=np.asarray(world.ended)[best.last],
        met=None,
    )

    def number(x):
        return np.where(there, x, np.nan)

    paths = Paths(
        symbols=np.where(inside, best.symbols[:, :width], PAD),
        lengths=num_actions + 1,
        actions=np.where(inside[:, 1:], best.actions[:, : width - 1], PAD),
    )
    return Recourse(
        originals=originals,
        path=np.arange(size, dtype=np.int32),
        rank=np.ones(size, np.int32),
        paths=paths,
        reward=np.where(there, best.reward, -np.inf),
        scores=Scores(
            goal=number(best.goal),
            path=number(1.0 / (best.distance + 1.0)),
            link=number(best.link),
            policy=number(best.log_prob / np.maximum(num_actions, 1)),
            distance=np.where(there, best.distance, -1),
            violations=np.where(there, 0, -1).astype(np.int32),
        ),
        status=np.where(there, ended, "infeasible"),
        original_goal=np.asarray(best.original_goal),
        greedy_reward=np.where(there, best.greedy_reward, -np.inf),
        curve=np.zeros((size, 0)),
        lambda_path=lambdas[0],
        lambda_policy=lambdas[1],
        diversity=np.full(size, np.nan),
    )
