"""Algorithm 1 in PyTorch, without and with the four mends of pprjax, for `reference_torch.py`.

Without them it is as printed, but that targets are one-step; the printed ones count the future twice. Both sample the
b paths of an iteration in lockstep, look the world and P_A up in tables, take distances from rapidfuzz, and have a
network as wide as pprjax's. The mends: Q knows the position in τ₀ and the time, R_path is paid where the edit is made,
some lanes follow τ₀, the best path or P_A, and half of the replay is random.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import torch
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist
from torch import nn


@dataclass(frozen=True)
class Settings:
    mended: bool
    from_policy: bool  # explore by P_A; else evenly
    num_paths: int = 256  # b
    num_best: int = 32  # k
    updates: int = 8
    half_life: float = 2560.0  # paths in which ε halves
    c_e: float = 1.0
    batch_size: int = 256
    learning_rate: float = 2e-3
    epsilon_end: float = 0.05
    memory: int = 32_768  # tuples
    width: int = 128


@dataclass(frozen=True)
class World:
    """One original in a world of S rows, A actions and horizon T. Row 0 is the start."""

    next_state: np.ndarray  # int[S, A], the next row
    available: np.ndarray  # bool[S, A]
    paid: np.ndarray  # float[S, A], what a step adds to R; R_path comes apart
    probs: np.ndarray  # float[S, A], P_A; 0 where not available
    ended: np.ndarray  # bool[S]
    letter: np.ndarray  # uint8[S], the symbol
    original: np.ndarray  # uint8[n], letters
    taken: np.ndarray  # int[n - 1], actions of the original
    horizon: int
    lambda_path: float


@dataclass
class Lanes:
    """b paths of at most T actions."""

    rows: np.ndarray  # int[b, T + 1]
    positions: np.ndarray  # int[b, T + 1], in τ₀ of the best alignment; 0 without the mends
    actions: np.ndarray  # int[b, T]
    lengths: np.ndarray  # int[b], actions
    rewards: np.ndarray  # float[b, T], what Q is taught
    reward: np.ndarray  # float[b], R (Eq. 5)
    met: np.ndarray  # bool[b]

    def best_first(self) -> np.ndarray:
        return np.lexsort((-self.reward, ~self.met))


class QNetwork(nn.Module):
    """Q(s, ·) or, mended, Q(s, j, t, ·), with a last layer of its own for each t on top of that for all."""

    def __init__(self, world: World, settings: Settings):
        super().__init__()
        (num_states, self.num_actions), width = world.next_state.shape, settings.width
        self.mended = settings.mended
        self.state, self.last = nn.Embedding(num_states, width), nn.Linear(width, self.num_actions)
        first = [self.state]
        if self.mended:
            self.position = nn.Embedding(len(world.original) + 1, width)
            self.time = nn.Embedding(world.horizon + 1, width)
            self.last_at = nn.Embedding(world.horizon + 1, self.num_actions * width)
            first += [self.position, self.time]
            for weights in (self.last_at.weight, self.last.weight):
                nn.init.zeros_(weights)
        for layer in first:
            nn.init.normal_(layer.weight, std=width**-0.5)

    def forward(self, state: torch.Tensor, position: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Q of all actions: [M, A]. `rows` is t, [M] or, the same for all, [1]."""
        if not self.mended:
            return self.last(self.state(state).relu_())
        x = (self.state(state) + self.position(position) + self.time(rows)).relu_()
        last = self.last_at(rows).view(-1, self.num_actions, x.shape[1])
        extra = x @ last[0].T if len(rows) == 1 else (last @ x[:, :, None])[:, :, 0]
        return self.last(x) + extra


@dataclass
class Replay:
    """A ring of tuples: state, position, t, action, next state, next position, last of its path, misses the goal."""

    size: int
    stored: int = 0
    whole: torch.Tensor = field(init=False)
    reward: torch.Tensor = field(init=False)

    def __post_init__(self):
        self.whole, self.reward = torch.zeros((self.size, 8), dtype=torch.int64), torch.zeros(self.size)

    def keep(self, lanes: Lanes, which: np.ndarray, scale: float) -> None:
        steps = np.arange(lanes.actions.shape[1])
        lane, t = np.nonzero(steps < lanes.lengths[which, None])
        lane = which[lane]
        last, missed = t == lanes.lengths[lane] - 1, ~lanes.met[lane]
        here, valid = (lane, t), (lane, t + 1)
        parts = lanes.rows[here], lanes.positions[here], t, lanes.actions[here]
        whole = np.stack([*parts, lanes.rows[valid], lanes.positions[valid], last, missed], axis=1)
        rows = (self.stored + np.arange(len(t))) % self.size
        self.whole[rows] = torch.from_numpy(whole)
        self.reward[rows] = torch.from_numpy(scale * lanes.rewards[here]).float()
        self.stored += len(t)

    def draw(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.randint(min(self.stored, self.size), (count,))
        return self.whole[rows], self.reward[rows]


class Learner:
    """Q, its target network, the replay, the visit counts and the best path."""

    def __init__(self, world: World, settings: Settings, seed: int):
        torch.manual_seed(seed)
        self.rng, self.world, self.settings = np.random.default_rng(seed), world, settings
        self.net, self.target = QNetwork(world, settings), QNetwork(world, settings)
        self.target.load_state_dict(self.net.state_dict())
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=settings.learning_rate, fused=True)
        self.replays = [Replay(settings.memory) for _ in range(1 + settings.mended)]  # of the best, and of any
        self.counts = np.zeros(world.next_state.shape)
        self.sampled, self.scale = 0, 0.0
        self.best, self.best_missed = (False, -np.inf), -np.inf  # (met, R); the largest R that misses the goal
        self.best_actions = np.zeros(0, np.int64)
        self.unavailable = torch.from_numpy(~world.available)

    def epsilon(self) -> float:
        return max(self.settings.epsilon_end, 0.5 ** (self.sampled / self.settings.half_life))

    def bonus(self) -> np.ndarray:
        """c_e·√(ln t / N(s, a)), an untried action first."""
        log_t = np.log(max(self.counts.sum(), 1.0))
        return np.where(self.counts > 0, self.settings.c_e * np.sqrt(log_t / np.maximum(self.counts, 1.0)), 1e9)

    @torch.inference_mode()
    def values(self, rows: np.ndarray, positions: np.ndarray, t: int) -> np.ndarray:
        return self.net(torch.from_numpy(rows), torch.from_numpy(positions), torch.tensor([t])).numpy()

    def learn_from(self, lanes: Lanes) -> None:
        """What an iteration does with its b paths: keep the k best, update Q, synchronize the target network."""
        settings, order = self.settings, lanes.best_first()
        first = order[0]
        if (leads := (bool(lanes.met[first]), float(lanes.reward[first]))) > self.best:
            self.best, self.best_actions = leads, lanes.actions[first, : lanes.lengths[first]]
        self.best_missed = max(self.best_missed, lanes.reward[~lanes.met].max(initial=-np.inf))
        self.scale = self.scale or 10.0 / np.mean(np.abs(lanes.reward))
        chosen = order[: settings.num_best], self.rng.permutation(settings.num_paths)[: settings.num_best]
        for replay, which in zip(self.replays, chosen, strict=False):
            replay.keep(lanes, which, self.scale)
        for _ in range(settings.updates):
            self.update()
        self.target.load_state_dict(self.net.state_dict())

    def update(self) -> None:
        """One minibatch step of Adam on the Huber loss; a path that misses the goal is charged at its end."""
        count = self.settings.batch_size // len(self.replays)
        whole, reward = map(torch.cat, zip(*(replay.draw(count) for replay in self.replays), strict=True))
        state, position, rows, action, next_state, next_position, last, missed = whole.unbind(1)
        with torch.no_grad():
            q = self.target(next_state, next_position, rows + 1).masked_fill_(self.unavailable[next_state], -torch.inf)
            paid = reward - self.scale * self.miss_penalty() * (missed & last)
            target = paid + torch.where(last == 1, 0.0, q.max(1).values)
        value = self.net(state, position, rows).gather(1, action[:, None])[:, 0]
        self.optimizer.zero_grad()
        nn.functional.smooth_l1_loss(value, target).backward()
        self.optimizer.step()

    def miss_penalty(self) -> float:
        """Enough that the best path which meets the goal pays more than the best which does not, as in pprjax."""
        met, reward = self.best
        if not met or self.best_missed == -np.inf:
            return 0.0
        return max(self.best_missed - reward, 0.0) + 0.1 * (abs(self.best_missed) + abs(reward)) + 1.0


@dataclass(frozen=True)
class Behaviour:
    """How b lanes choose their T actions: the forced one; else a sampled one, where they explore; else Q's."""

    forced: np.ndarray  # int[b, T]; -1: none
    explores: np.ndarray  # bool[b, T]
    from_policy: np.ndarray  # bool[b]


def behaviour(world: World, learner: Learner) -> Behaviour:
    """ε-greedy on Q. Mended, a quarter follow Q up to a random cut and then P_A, an eighth τ₀ and an eighth the best
    path up to a cut and then Q."""
    settings, rng, horizon = learner.settings, learner.rng, world.horizon
    b, steps = settings.num_paths, np.arange(horizon)
    forced, explores = np.full((b, horizon), -1), rng.random((b, horizon)) < learner.epsilon()
    from_policy = np.full(b, settings.from_policy)
    if settings.mended:
        kind, cut = np.arange(b) * 8 // b, rng.random((b, 1))
        habit = kind < 2
        from_policy |= habit
        explores[kind < 4] = False
        explores[habit] = steps >= np.floor(cut[habit] * horizon)
        for eighth, known in ((kind == 2, world.taken), (kind == 3, learner.best_actions)):
            before = steps[: len(known)] < np.floor(cut[eighth] * (len(known) + 1))
            forced[eighth, : len(known)] = np.where(before, known, -1)
    return Behaviour(forced, explores, from_policy)


def sample(world: World, learner: Learner) -> Lanes:
    """The b paths of an iteration side by side; those that have ended are no longer stepped."""
    b, horizon, how, bonus = learner.settings.num_paths, world.horizon, behaviour(world, learner), learner.bonus()
    rows, actions = np.zeros((b, horizon + 1), np.int64), np.zeros((b, horizon), np.int64)
    positions, smallest = np.zeros((b, horizon + 1), np.int64), np.zeros((b, horizon + 1))
    lengths, active = np.full(b, horizon), np.arange(b)
    evenly, by_policy = np.cumsum(world.available, axis=1), np.cumsum(world.probs, axis=1)
    uniform = learner.rng.random((horizon, b))
    column = np.arange(len(world.original) + 1)[None]
    if learner.settings.mended:
        column = np.repeat(appended(world, column, rows[:1, 0]), b, axis=0)
        smallest[:, 0], positions[:, 0] = alignment(column)
    for t in range(horizon):
        row, forced, explores = rows[active, t], how.forced[active, t], how.explores[active, t]
        cumulative = np.where(how.from_policy[active, None], by_policy[row], evenly[row])
        action = np.sum(uniform[t, active, None] * cumulative[:, -1:] >= cumulative, axis=1)
        action = np.where(forced >= 0, forced, action)
        greedy = np.flatnonzero(~explores & (forced < 0))
        if greedy.size:
            here = row[greedy]
            values = learner.values(here, positions[active[greedy], t], t) + bonus[here]
            action[greedy] = np.argmax(np.where(world.available[here], values, -np.inf), axis=1)
        actions[active, t] = action
        rows[active, t + 1] = next_state = world.next_state[row, action]
        np.add.at(learner.counts, (row, action), 1)
        if learner.settings.mended:
            column[active] = appended(world, column[active], next_state)
            smallest[active, t + 1], positions[active, t + 1] = alignment(column[active])
        ends = world.ended[next_state]
        lengths[active[ends]] = t + 1
        active = active[~ends]
        if not active.size:
            break
    learner.sampled += b
    return paid(world, rows, actions, lengths, positions, smallest if learner.settings.mended else None)


def appended(world: World, column: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Levenshtein columns, int[b, n + 1], after one more symbol each."""
    replaced = column[:, :-1] + (world.original != world.letter[rows, None])
    column = column + 1
    np.minimum(column[:, 1:], replaced, out=column[:, 1:])
    places = np.arange(column.shape[1])
    return np.minimum.accumulate(column - places, axis=1) + places


def alignment(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The smallest entry m of each column, and the last position j that attains it."""
    return column.min(axis=1), column.shape[1] - 1 - np.argmin(column[:, ::-1], axis=1)


def paid(world: World, rows, actions, lengths, positions, smallest) -> Lanes:
    """The paths with their rewards: R_path on the last step or, with m in `smallest`, where the edit is made."""
    letters = [world.original, *(world.letter[path[: n + 1]] for path, n in zip(rows, lengths, strict=True))]
    original, *texts = (path.tobytes().decode("latin1") for path in letters)
    distance = cdist([original], texts, scorer=Levenshtein.distance)[0]
    lanes, last = np.arange(len(rows)), lengths - 1
    rewards = np.where(np.arange(world.horizon) < lengths[:, None], world.paid[rows[:, :-1], actions], 0.0)
    near = world.lambda_path / (distance + 1)
    reward = rewards.sum(1) + near
    if smallest is None:
        rewards[lanes, last] += near
    else:
        change = world.lambda_path * np.diff(1 / (smallest + 1), axis=1)
        change[lanes, last] = near - world.lambda_path / (smallest[lanes, last] + 1)
        rewards += np.where(np.arange(world.horizon) < lengths[:, None], change, 0.0)
    return Lanes(rows, positions, actions, lengths, rewards, reward, world.ended[rows[lanes, lengths]])


def seconds_to_reach(
    world: World, settings: Settings, wanted: float, *, seed: int, cap: float
) -> tuple[float | None, int, float]:
    """Seconds until a path that meets the goal has R ≥ wanted (None: the cap comes first), the paths sampled, and the
    largest R of one that meets the goal."""
    learner, best = Learner(world, settings, seed), -np.inf
    began = time.perf_counter()
    while time.perf_counter() - began < cap:
        lanes = sample(world, learner)
        best = max(best, lanes.reward[lanes.met].max(initial=-np.inf))
        if best >= wanted:
            return time.perf_counter() - began, learner.sampled, best
        learner.learn_from(lanes)
    return None, learner.sampled, best


def update_seconds(world: World, settings: Settings, threads: int, *, rounds: int = 100) -> float:
    """Seconds of a minibatch update with so many threads."""
    torch.set_num_threads(threads)
    learner = Learner(world, settings, 0)
    learner.learn_from(sample(world, learner))
    began = time.perf_counter()
    for _ in range(rounds):
        learner.update()
    return (time.perf_counter() - began) / rounds
