"""The command line: `pprjax COMMAND`, with commands found through the entry-point group `pprjax.commands`.

A command is a function whose parameters are its options (read by tyro) and the first line of whose module's docstring
says what it does. Installed packages add commands by naming them in that group.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.metadata
import importlib.util
import os
import sys
import traceback
from importlib.metadata import EntryPoint

from pprjax.errors import UserError

GROUP = "pprjax.commands"

FAULT = 70
"""The exit status of a fault of ours, as sysexits.h has it."""


def main(argv: list[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit status: 0; 1 where nobody reads on, as in `pprjax … | head`; 2 for a mistake of the user's; 70 for a
        fault of ours; 130 when interrupted.
    """
    try:
        try:
            return _main(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # which Python flushes at its end
        return 1


def _main(argv: list[str]) -> int:
    commands = {entry.name: entry for entry in sorted(importlib.metadata.entry_points(group=GROUP))}
    if not argv or argv[0] in ("-h", "--help"):
        print(_help(commands))
        return 0
    if argv[0] == "--version":
        print(importlib.metadata.version("pprjax"))
        return 0
    name, *rest = argv
    if name not in commands:
        print(f"pprjax: no command {name!r}; there are: {', '.join(commands)}", file=sys.stderr)
        return 2
    return _run(commands[name], rest)


def _keep_compiled() -> None:
    """Have JAX keep what it compiles for the next run, unless the user says where, or there is no place for it."""
    from pprjax.io import cache_folder

    folder = cache_folder() / "compiled"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder))


def _run(command: EntryPoint, argv: list[str]) -> int:
    _keep_compiled()  # before anything imports JAX
    import tyro

    from pprjax.commands.options import registry

    try:
        options = (tyro.conf.DisallowNone,)
        tyro.cli(command.load(), args=argv, prog=f"pprjax {command.name}", config=options, registry=registry())
    except BrokenPipeError:
        raise
    except (UserError, OSError) as error:
        print(f"pprjax {command.name}: {error}", file=sys.stderr)
        return 2
    except MemoryError as error:
        print(f"pprjax {command.name}: out of memory: {error or 'no more can be had'}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"pprjax {command.name}: interrupted; no half-written file was left behind", file=sys.stderr)
        return 130
    except Exception:
        traceback.print_exc()
        print(
            f"pprjax {command.name}: this is a fault of pprjax and not of yours; with the lines above it can be mended",
            file=sys.stderr,
        )
        return FAULT
    return 0


def _help(commands: dict[str, EntryPoint]) -> str:
    width = max(map(len, commands), default=0)
    lines = [f"  {name:{width}}  {_summary(entry)}" for name, entry in commands.items()]
    return "\n".join(
        [
            "usage: pprjax COMMAND [OPTIONS]",
            "",
            "Edit paths that ended badly so that they reach the goal, stay close, and are what the agent would do.",
            "",
            "commands:",
            *lines,
            "",
            "`pprjax COMMAND --help` explains a command's options; `pprjax --version` prints the version.",
        ]
    )


def _summary(entry: EntryPoint) -> str:
    """The first line of the docstring of a command's module, read and not imported: imports take seconds."""
    spec = importlib.util.find_spec(entry.module)
    if spec is None or spec.origin is None:
        return ""
    with open(spec.origin, encoding="utf-8") as source:
        docstring = ast.get_docstring(ast.parse(source.read())) or ""
    return docstring.partition("\n")[0]
