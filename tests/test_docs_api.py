"""Every public name has a place in the API reference."""

import ast
import importlib
import inspect
import pathlib
import re

import pytest

import pprjax

ROOT = pathlib.Path(__file__).parents[1]
STUBS = [ROOT / "pprjax" / "__init__.pyi", *sorted((ROOT / "envs" / "pprjax_envs").glob("**/__init__.pyi"))]
DIRECTIVE = re.compile(r"^\.\. auto(module|class|function|data|exception):: (\S+)\n((?:   :.*\n)*)", re.MULTILINE)


def package(stub):
    return ".".join(stub.parent.relative_to(ROOT / "envs" if "envs" in stub.parts else ROOT).parts)


def public():
    """(what a user may write, where it is defined) of every public name."""
    names = []
    for stub in STUBS:
        home = package(stub)
        for statement in ast.parse(stub.read_text()).body:
            assert isinstance(statement, ast.ImportFrom)
            module = f"{home}.{statement.module}" if statement.module else home
            names += [(f"{home}.{alias.name}", f"{module}.{alias.name}") for alias in statement.names]
    return names + [(f"pprjax.baselines.{name}",) * 2 for name in importlib.import_module("pprjax.baselines").__all__]


def documented(pages):
    """The names that these pages of directives show."""
    shown = set()
    for kind, name, options in DIRECTIVE.findall(pages):
        shown.add(name)
        if kind != "module" or ":no-members:" in options:
            continue
        module = importlib.import_module(name)
        left_out = re.findall(r"\w+", "".join(re.findall(r":exclude-members:(.*)", options)))
        for member, value in vars(module).items():
            defined_here = getattr(value, "__module__", name) == name and inspect.getdoc(value)
            if not member.startswith("_") and member not in left_out and defined_here:
                shown.add(f"{name}.{member}")
    return shown


@pytest.fixture(scope="module")
def shown():
    return documented("".join(page.read_text() for page in sorted((ROOT / "docs" / "api").glob("*.rst"))))


@pytest.mark.parametrize("places", public(), ids=lambda places: places[0])
def test_a_public_name_is_in_the_reference(places, shown):
    assert shown & set(places), f"{places[0]}: expected a directive for it in docs/api/"


def test_what_the_reference_names_is_there(shown):
    for name in shown:
        home, _, member = name.rpartition(".")
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            assert hasattr(importlib.import_module(home), member), name


def test_what_the_pages_call_is_there_after_the_import_alone():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    called = {name for page in pages for name in re.findall(r"\bpprjax\.([A-Za-z_]+)", page.read_text())}
    assert called - {"commands"} <= set(pprjax.__all__)  # an entry point's group


def test_a_directive_shows_its_name_and_a_module_its_members():
    pages = ".. autofunction:: a.b\n.. automodule:: pprjax.goals\n   :exclude-members: AtLeast, Condition\n"
    shown = documented(pages)
    assert {"a.b", "pprjax.goals", "pprjax.goals.class_is"} <= shown
    assert not {"pprjax.goals.AtLeast", "pprjax.goals.Condition", "pprjax.goals.jax"} & shown
    assert documented(".. automodule:: pprjax.goals\n   :no-members:\n") == {"pprjax.goals"}
