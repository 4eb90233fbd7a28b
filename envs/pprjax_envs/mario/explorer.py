"""Explorer: a deterministic game, and a table that remembers every step ever taken in it.

A node is a state of the game, `step` a pure function of (node, action): what is not in the table is played by one of
several emulators, each on a thread of its own, and stored.
"""

from __future__ import annotations

import threading
import zlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int, UInt8

from pprjax.errors import UserError
from pprjax_envs.mario.emulator import SIDE, STACK, Emulator, Facts

MEMORY = 2**30
"""Bytes that snapshots may take."""

DEAD, CLEARED, DONE = 1, 2, 4
"""Bits of a node's flags."""

FINE, FAILED = 0, 1
"""The status of a step."""

ROOT = 0
UNKNOWN = -1

_BATCH = 64  # steps played before snapshots are trimmed


class Step(NamedTuple):
    """What B steps lead to."""

    node: np.ndarray  # int32[B]
    reward: np.ndarray  # float32[B]
    coins: np.ndarray  # int32[B], taken in this step
    x: np.ndarray  # int32[B], pixels
    y: np.ndarray  # int32[B], pixels
    flags: np.ndarray  # int32[B], DEAD | CLEARED | DONE
    features: np.ndarray  # float32[B, F]
    status: np.ndarray  # int32[B], FINE or FAILED


@dataclass
class Nodes:
    """N nodes in the order in which they were found, node 0 the start; as many rows or more."""

    next_state: np.ndarray  # int32[N, A], UNKNOWN where it was not tried
    reward: np.ndarray  # float32[N, A]
    coins: np.ndarray  # int32[N, A]
    x: np.ndarray  # int32[N]
    y: np.ndarray  # int32[N]
    flags: np.ndarray  # int32[N]
    features: np.ndarray  # float32[N, F]
    parent: np.ndarray  # int32[N], a node from which one action leads here; UNKNOWN for the start
    parent_action: np.ndarray  # int32[N]
    key: np.ndarray  # uint8[N, 16]
    pictures: list[bytes]  # one a node, compressed; empty where none are wanted

    @classmethod
    def empty(cls, num_actions: int, num_features: int, size: int = 0) -> Nodes:
        return cls(
            next_state=np.full((size, num_actions), UNKNOWN, np.int32),
            reward=np.zeros((size, num_actions), np.float32),
            coins=np.zeros((size, num_actions), np.int32),
            x=np.zeros(size, np.int32),
            y=np.zeros(size, np.int32),
            flags=np.zeros(size, np.int32),
            features=np.zeros((size, num_features), np.float32),
            parent=np.full(size, UNKNOWN, np.int32),
            parent_action=np.zeros(size, np.int32),
            key=np.zeros((size, 16), np.uint8),
            pictures=[],
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """All fields but the pictures."""
        return {name: value for name, value in vars(self).items() if name != "pictures"}

    def map(self, function: Callable[[np.ndarray], np.ndarray]) -> Nodes:
        """The same change to each array; a copy of the list of pictures."""
        return Nodes(**{name: function(x) for name, x in self.arrays().items()}, pictures=list(self.pictures))

    def observations(self, nodes: Int[np.ndarray, " B"]) -> UInt8[np.ndarray, "B 3 84 84"]:
        """The last three pictures at each node, grey; before the start its own."""
        shown, rows = np.unique(self.stack(nodes), return_inverse=True)
        return self.frames(shown)[rows.reshape(-1, STACK)]

    def stack(self, nodes: Int[np.ndarray, " B"]) -> Int[np.ndarray, "B 3"]:
        """The nodes whose pictures are observed at each node."""
        older = np.maximum(self.parent[nodes], ROOT)
        return np.stack([np.maximum(self.parent[older], ROOT), older, nodes], 1).astype(np.int32)

    def frames(self, nodes: Int[np.ndarray, " B"]) -> UInt8[np.ndarray, "B 84 84"]:
        """The picture of each node."""
        frames = [np.frombuffer(zlib.decompress(self.pictures[i]), np.uint8) for i in nodes]
        return np.stack(frames).reshape(-1, SIDE, SIDE)


class Explorer:
    """All that was found of a game, and the emulators that find more. Safe to call from several threads.

    Nodes are numbered as they are found; nothing else depends on that order. Snapshots of the nodes used last are kept;
    a node without one is played again from the nearest node on its way that has one.

    Args:
        make: makes an emulator; called `num_emulators` times.
        num_emulators: threads that play, at least 1.
        memory: bytes that snapshots may take, but never less than some hundred steps need.
        known: nodes that were found before, as `Explorer.nodes` gave them.

    Raises:
        ValueError: num_emulators is below 1, or the known nodes are of another game.
    """

    def __init__(
        self,
        make: Callable[[], Emulator],
        *,
        num_emulators: int = 2,
        memory: int = MEMORY,
        known: Nodes | None = None,
    ):
        if num_emulators < 1:
            raise UserError(f"num_emulators: expected at least 1, got {num_emulators}")
        self._emulators = [make() for _ in range(num_emulators)]
        self._pool = ThreadPoolExecutor(num_emulators, thread_name_prefix="emulator")
        self._lock = threading.RLock()
        first = self._emulators[0]
        self.num_actions, self.num_features = first.num_actions, first.num_features
        self._capacity = max(memory // first.snapshot_bytes - 2 * _BATCH, 1)  # a step adds two at most
        self._snapshot_bytes = first.snapshot_bytes
        self._snapshots: dict[int, Any] = {}
        self._failure: BaseException | None = None
        self._clock, self.played = 0, 0
        self._table = Nodes.empty(self.num_actions, self.num_features, 1024)
        self._used = np.zeros(1024, np.int64)  # when a node was last stepped from
        self._numbers: dict[bytes, int] = {}
        first.start()
        facts = first.facts()
        self._root = _Found(first.key(), first.save(), facts, _packed(facts), 0.0, 0)
        self._add(self._root, UNKNOWN, 0)
        if known is not None:
            self._take(known)

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def nodes(self) -> Nodes:
        """What was found so far: a copy."""
        with self._lock:
            size = len(self)
            return self._table.map(lambda x: x[:size].copy())

    @property
    def snapshot_bytes(self) -> int:
        """Bytes that snapshots take now, about."""
        return len(self._snapshots) * self._snapshot_bytes

    def step(self, nodes: Int[np.ndarray, " B"], actions: Int[np.ndarray, " B"]) -> Step:
        """Where each action leads. Below 0 an action is none and stays, as every action does where the game is done.

        Never raises: where an emulator does, the status is FAILED, the node the one that it came from, and `check`
        raises what was raised.
        """
        nodes, actions = np.asarray(nodes, np.int64), np.asarray(actions, np.int64)
        with self._lock:
            self._clock += 1
            self._used[nodes] = self._clock
            stays = (actions < 0) | (self._table.flags[nodes] & DONE > 0)
            taken = np.where(stays, 0, actions)
            missing = ~stays & (self._table.next_state[nodes, taken] == UNKNOWN)
            if missing.any():
                self._discover(np.unique(np.stack([nodes[missing], taken[missing]], 1), axis=0))
            after = self._table.next_state[nodes, taken]
            failed = ~stays & (after == UNKNOWN)
            stays |= failed
            after = np.where(stays, nodes, after).astype(np.int32)
            table = self._table
            return Step(
                node=after,
                reward=np.where(stays, 0, table.reward[nodes, taken]).astype(np.float32),
                coins=np.where(stays, 0, table.coins[nodes, taken]).astype(np.int32),
                x=table.x[after],
                y=table.y[after],
                flags=table.flags[after],
                features=table.features[after],
                status=np.where(failed, FAILED, FINE).astype(np.int32),
            )

    def observations(self, nodes: Int[np.ndarray, " B"]) -> UInt8[np.ndarray, "B 3 84 84"]:
        """The last three pictures at each node; see `Nodes.observations`."""
        with self._lock:
            return self._table.observations(np.asarray(nodes, np.int64))

    def check(self) -> None:
        """Raise, once, what an emulator raised since the last check."""
        with self._lock:
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown()

    def _discover(self, pairs: Int[np.ndarray, "M 2"]) -> None:
        """Play these different steps, and add what they lead to, in their order."""
        for low in range(0, len(pairs), _BATCH):
            batch = pairs[low : low + _BATCH].tolist()
            found: list[_Found | None] = [None] * len(batch)
            replayed: dict[int, Any] = {}
            queue = deque(enumerate(batch))
            workers = [
                self._pool.submit(self._play, emulator, queue, found, replayed)
                for emulator in self._emulators[: len(batch)]
            ]
            for worker in workers:
                failure = worker.exception()
                self._failure = self._failure or failure
            self._snapshots |= replayed
            self._used[list(replayed)] = self._clock
            for (node, action), result in zip(batch, found, strict=True):
                if result is not None:
                    self._link(node, action, result)
            self._trim()

    def _play(self, emulator: Emulator, queue: deque, found: list, replayed: dict[int, Any]) -> None:
        """Take steps from the queue until it is empty. Runs on a thread; the table does not change meanwhile."""
        while True:
            try:
                i, (node, action) = queue.popleft()
            except IndexError:
                return
            self._go_to(emulator, node, replayed)
            reward, coins = emulator.act(action)
            facts = emulator.facts()
            snapshot = None if facts.done else emulator.save()
            found[i] = _Found(emulator.key(), snapshot, facts, _packed(facts), reward, coins)

    def _go_to(self, emulator: Emulator, node: int, replayed: dict[int, Any]) -> None:
        """Bring the emulator to a node; `replayed` takes its snapshot where it had to be played again."""
        way = [node]
        while way[-1] not in self._snapshots and way[-1] not in replayed:
            way.append(int(self._table.parent[way[-1]]))
        known = way.pop()
        emulator.restore(self._snapshots[known] if known in self._snapshots else replayed[known])
        for passed in reversed(way):
            emulator.act(int(self._table.parent_action[passed]))
            if emulator.key() != self._table.key[passed].tobytes():
                raise RuntimeError(f"node {passed}: played again, the game went another way")
        if way:
            replayed[node] = emulator.save()

    def _link(self, node: int, action: int, found: _Found) -> None:
        after = self._numbers.get(found.key)
        if after is None:
            after = self._add(found, node, action)
        self._table.next_state[node, action] = after
        self._table.reward[node, action] = found.reward
        self._table.coins[node, action] = found.coins
        self.played += 1

    def _add(self, found: _Found, parent: int, action: int) -> int:
        node = len(self._numbers)
        if node == len(self._used):
            blank = Nodes.empty(self.num_actions, self.num_features, node)
            grown = {k: np.concatenate([x, getattr(blank, k)]) for k, x in self._table.arrays().items()}
            self._table = Nodes(**grown, pictures=self._table.pictures)
            self._used = np.concatenate([self._used, np.zeros(node, np.int64)])
        table, facts = self._table, found.facts
        self._numbers[found.key] = node
        table.key[node] = np.frombuffer(found.key, np.uint8)
        table.x[node], table.y[node] = facts.x, facts.y
        table.flags[node] = DEAD * facts.dead | CLEARED * facts.cleared | DONE * facts.done
        table.features[node] = facts.features
        table.parent[node], table.parent_action[node] = parent, action
        if found.picture is not None:
            table.pictures.append(found.picture)
        self._used[node] = self._clock
        if found.snapshot is not None:
            self._snapshots[node] = found.snapshot
        return node

    def _trim(self) -> None:
        """Drop the snapshots of the nodes not used for longest, a tenth more than needed; never the start's."""
        if len(self._snapshots) <= self._capacity:
            return
        kept = np.fromiter(self._snapshots, np.int64)
        kept = kept[kept != ROOT]
        excess = len(kept) + 1 - max(int(0.9 * self._capacity), 1)
        for node in kept[np.lexsort((kept, self._used[kept]))[:excess]].tolist():
            del self._snapshots[node]

    def _take(self, known: Nodes) -> None:
        if known.next_state.shape[1] != self.num_actions or known.features.shape[1] != self.num_features:
            raise UserError(
                f"known: expected nodes with {self.num_actions} actions and {self.num_features} features, got "
                f"{known.next_state.shape[1]} and {known.features.shape[1]}"
            )
        if known.key[ROOT].tobytes() != self._root.key:
            raise UserError("known: expected nodes of the same game, got another start")
        self._table = known.map(np.array)
        self._used = np.zeros(len(known.x), np.int64)
        self._numbers = {key.tobytes(): i for i, key in enumerate(known.key)}


class _Found(NamedTuple):
    key: bytes
    snapshot: Any
    facts: Facts
    picture: bytes | None
    reward: float
    coins: int


def _packed(facts: Facts) -> bytes | None:
    return None if facts.frame is None else zlib.compress(facts.frame.tobytes(), 1)
