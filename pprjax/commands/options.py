"""How the options of commands are shown: in groups, the usual ones first.

tyro shows the fields of a nested dataclass as a group. Here `Config` becomes three. A command's own dataclass joins one
of them by its annotation: `Annotated[tyro.conf.OmitArgPrefixes[Mine], GOAL]`.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import typing
from typing import Annotated, Any

import tyro
from tyro.constructors import ConstructorRegistry, StructConstructorSpec, StructFieldSpec, StructTypeInfo

from pprjax.config import Config


def group(name: str, description: str) -> Any:
    """The annotation that puts the fields of a parameter into a group, under their own names."""
    return tyro.conf.arg(name=name, prefix_name=False, help=description)


GOAL = group("goal", "What you want.")
SEARCH = group("search", "How hard to search.")
ALGORITHM = group("Algorithm 1", "How Algorithm 1 works: the paper's settings, or better ones.")

KNOBS = {
    "lambda_path lambda_policy habit own_steps distance w_ins w_del w_sub": GOAL,
    "iterations num_paths num_best updates batch_size memory width depth": SEARCH,
}
"""Which knobs of `Config` stand in which group; all others are Algorithm 1's."""


def registry() -> ConstructorRegistry:
    """What makes tyro show the knobs of a `Config` in groups, and what a field says of itself as one paragraph."""
    rules = ConstructorRegistry()

    @rules.struct_rule
    def _(info: StructTypeInfo) -> StructConstructorSpec | None:
        if info.type is Config:
            return _groups_of(info.default)
        if isinstance(info.type, type) and issubclass(info.type, _Knobs):
            return info.type.spec
        own = dataclasses.is_dataclass(info.type) and info.type.__module__.startswith("pprjax")
        return _fields_of(info.default if isinstance(info.default, info.type) else info.type()) if own else None

    return rules


class _Knobs:
    """Some knobs of a Config, as tyro wants them."""

    spec: StructConstructorSpec


def _groups_of(config: Config) -> StructConstructorSpec:
    hints, docs = typing.get_type_hints(Config), _docs(Config)
    knobs = {
        field.name: StructFieldSpec(field.name, hints[field.name], getattr(config, field.name), docs[field.name])
        for field in dataclasses.fields(config)
    }
    groups = [(group, [knobs.pop(name) for name in names.split()]) for names, group in KNOBS.items()]
    fields = []
    for number, (group, rows) in enumerate([*groups, (ALGORITHM, list(knobs.values()))]):
        kind = type(f"Knobs{number}", (_Knobs,), {"spec": StructConstructorSpec(dict, tuple(rows))})
        annotation: Any = Annotated[kind, group]
        fields.append(StructFieldSpec(f"knobs{number}", annotation, tyro.MISSING))
    return StructConstructorSpec(
        lambda **parts: Config(**{name: value for part in parts.values() for name, value in part.items()}),
        tuple(fields),
    )


def _fields_of(options: Any) -> StructConstructorSpec:
    kind = type(options)
    hints, docs = typing.get_type_hints(kind, include_extras=True), _docs(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    fields = [StructFieldSpec(name, hints[name], getattr(options, name), docs.get(name)) for name in names]
    return StructConstructorSpec(kind, tuple(fields))


def _docs(kind: type) -> dict[str, str]:
    """The docstring of each field of a class."""
    (definition,) = ast.parse(inspect.getsource(kind)).body
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in itertools.pairwise(typing.cast(ast.ClassDef, definition).body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }
