"""A task for each original: worlds that differ in parameters, start, agent or goal, and share their programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Int

from pprjax.config import Config
from pprjax.errors import UserError
from pprjax.limits import MAX_BYTES, TooLargeError
from pprjax.paths import Paths
from pprjax.result import Frontier, Recourse
from pprjax.task import Task


@dataclass(frozen=True)
class Stack:
    """B tasks, one for each original. See `stack`."""

    tasks: tuple[Task, ...]

    def __len__(self) -> int:
        return len(self.tasks)

    def groups(self) -> Iterator[tuple[Task, Int[np.ndarray, " b"]]]:
        """Each different task, and the originals that have it."""
        members: dict[int, list[int]] = {}
        for i, task in enumerate(self.tasks):
            members.setdefault(id(task), []).append(i)
        for rows in map(np.array, members.values()):
            yield self.tasks[rows[0]], rows


def stack(tasks: Sequence[Task]) -> Stack:
    """One task for B originals that each have a world of their own: `pprjax.recourse(pprjax.stack(tasks), originals)`.

    Their worlds are of one class and their arrays of the same shapes, so that each method compiles once for all. They
    may differ in parameters, start, agent, goal and constraints. The same task may stand there several times.

    Args:
        tasks: B tasks, in the order of the originals.

    Raises:
        ValueError: there is no task, or one of another class or shape; the message names task and field.
    """
    tasks = tuple(tasks)
    if not tasks:
        raise UserError("tasks: expected at least one, got none")
    first, leaves = jax.tree.structure(tasks[0]), _leaves(tasks[0])
    for i, task in enumerate(tasks[1:], start=1):
        for name, leaf in _leaves(task).items():
            if name in leaves and np.shape(leaf) != np.shape(leaves[name]):
                raise UserError(
                    f"tasks[{i}]{name}: expected shape {np.shape(leaves[name])} as in tasks[0], got {np.shape(leaf)}"
                )
        if jax.tree.structure(task) != first:
            differs = {name: getattr(task, name) != getattr(tasks[0], name) for name in ("env", "horizon")}
            differs["constraints"] = jax.tree.structure(task.constraints) != jax.tree.structure(tasks[0].constraints)
            name = next((f".{name}" for name, other in differs.items() if other), "")
            raise UserError(f"tasks[{i}]{name}: expected a task like tasks[0], of the same classes and settings")
    return Stack(tasks)


def _leaves(task: Task) -> dict[str, Any]:
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(task)}


@struct.dataclass
class Spread:
    """B pytrees as one: an array that they all share stands there once, of the others there are B."""

    own: tuple[jax.Array, ...]  # leaves of [B, ...]
    shared: tuple[Any, ...]
    is_shared: tuple[bool, ...] = struct.field(pytree_node=False)  # of each leaf
    structure: Any = struct.field(pytree_node=False)  # of each of them

    @classmethod
    def of(cls, trees: Sequence[Any]) -> Spread:
        """Of pytrees of one structure, as the tasks of a `Stack` are. What is shared is so by identity, so that which
        leaves are does not hang on their numbers, and stacks that were made alike share a program.

        Raises:
            TooLargeError: what differs takes more than MAX_BYTES.
        """
        columns = list(zip(*map(jax.tree.leaves, trees), strict=True))
        taken = sum(sum(np.size(leaf) for leaf in column if leaf is not column[0]) for column in columns)
        if 4 * taken > MAX_BYTES:
            raise TooLargeError(f"tasks: side by side they take {taken / 2**28:.1f} GiB; share arrays among them")
        is_shared = tuple(all(leaf is column[0] for leaf in column) for column in columns)
        return cls(
            own=tuple(jnp.stack(column) for column, same in zip(columns, is_shared, strict=True) if not same),
            shared=tuple(column[0] for column, same in zip(columns, is_shared, strict=True) if same),
            is_shared=is_shared,
            structure=jax.tree.structure(trees[0]),
        )

    def one(self, own: Sequence[Any]) -> Any:
        """One of them, given the leaves that are its own."""
        its, shared = iter(own), iter(self.shared)
        return jax.tree.unflatten(self.structure, [next(shared if same else its) for same in self.is_shared])


def each(
    stack: Stack, originals: Paths, config: Config, solve: Callable[..., Any], ids: Int[np.ndarray, " B"] | None
) -> Any:
    """Solve the originals of each different task together, and put the results in the order of the originals.

    Args:
        solve: a function of task, originals, config, and the `ids` of these originals, to their `Recourse` or
            `Frontier`.
        ids: of all originals; default 0 … B - 1.
    """
    check_size(stack, originals)
    ids = np.arange(len(stack)) if ids is None else np.asarray(ids)
    parts, index = [], []
    for task, members in stack.groups():
        own = {name: getattr(config, name) for name in ("lambda_path", "lambda_policy")}
        own = {name: np.asarray(x)[members] if np.ndim(x) else x for name, x in own.items()}
        parts.append(solve(task, originals[members], replace(config, **own), ids=ids[members]))
        index.append(members)
    return _merged(originals, parts, index)


def check_size(stack: Stack, originals: Paths) -> None:
    """Raise a ValueError where there is not one original for each task."""
    if len(originals) != len(stack):
        raise UserError(f"originals: expected one for each of {len(stack)} tasks, got {len(originals)}")


ROWS = (
    *("index", "rank", "paths", "reward", "bound", "method", "scores", "status", "distance", "value"),
    *("reliability", "reliability_error"),
)
"""Fields of a result that have a row a path; the others have a row an original."""


def _merged(originals: Paths, parts: list[Any], index: list[Int[np.ndarray, " b"]]) -> Recourse | Frontier:
    """The results of some originals each, as one of all. Rows stay in the order that they have in their part."""
    number = np.concatenate([members[part.index] for members, part in zip(index, parts, strict=True)])
    rows, places = np.argsort(number, kind="stable"), np.argsort(np.concatenate(index))
    width = max(np.asarray(part.paths.symbols).shape[1] for part in parts)
    fields: dict[str, Any] = {"originals": originals, "index": number[rows].astype(np.int32)}
    if isinstance(parts[0], Frontier):
        fields["apart"] = parts[0].apart  # one for all
    for name in parts[0].__dataclass_fields__:
        values = [getattr(part, name) for part in parts]
        if name == "paths":
            values = [value.padded_to(width) for value in values]
        elif name == "limit":  # what holds of at most E - 1 edits, all that there may be, holds of more
            edits = max(value.shape[1] for value in values)
            values = [np.pad(value, ((0, 0), (0, edits - value.shape[1])), mode="edge") for value in values]
        order = rows if name in ROWS else places
        if name not in fields:
            fields[name] = jax.tree.map(lambda *x, order=order: np.concatenate(x)[order], *values)
    return type(parts[0])(**fields)
