"""What README and docs show is so: Python blocks run, page by page, and commands have the options that are named."""

import functools
import importlib.metadata
import re
import shlex
from contextlib import nullcontext
from pathlib import Path

import pytest
import tyro
from matplotlib import pyplot as plt
from optimizing import optimizing

from pprjax.cli import GROUP, main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LEARNING = {"getting-started.md", "frontier.md", "README.md"}
"""Pages whose programs run longer than it takes to optimize them."""

LANGUAGES = {"python", "console", "sh", "text"}
FENCE = re.compile(r"^(```+)(.*?)\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)


def blocks(page):
    """(language, number of its first line, text) of each fenced block of a page."""
    text = page.read_text(encoding="utf-8")
    return [(m[2].strip(), text[: m.start(3)].count("\n") + 1, m[3]) for m in FENCE.finditer(text)]


def commands(text):
    """The arguments of each `pprjax NAME …` in the code of a page: in blocks, in indented lines, in the text."""
    prose = FENCE.sub("", text)
    code = [m[3] for m in FENCE.finditer(text) if m[2].strip() != "python"]
    code += [line[4:] for line in prose.replace("\\\n", " ").splitlines() if line.startswith("    ")]
    lines = [line for block in code for line in block.replace("\\\n", " ").splitlines()]
    lines = [m[1] for line in lines for m in [re.search(r"^(?:\$ )?(?:.*(?:uv run|&&) )?pprjax (.+)", line)] if m]
    lines += [" ".join(span.split()) for span in re.findall(r"`pprjax ([^`]+)`", prose)]
    for line in lines:
        words = shlex.split(re.split(r" [|>&#]", line)[0])
        if re.fullmatch(r"[a-z][a-z-]*", words[0]):  # not `pprjax COMMAND`, `pprjax --help`
            yield [word for word in words if word != "…"]


ENTRIES = {entry.name: entry for entry in importlib.metadata.entry_points(group=GROUP)}
NAMED = sorted({tuple(words) for page in PAGES for words in commands(page.read_text(encoding="utf-8"))})


def parse(name, arguments):
    """What a command does with its arguments before it runs. Raises a SystemExit with 2 where it does not take them."""
    command = ENTRIES[name].load()
    tyro.cli(functools.wraps(command)(lambda *args, **options: None), args=arguments)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(language == "python" for language, *_ in blocks(page))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    with optimizing() if page.name in LEARNING else nullcontext():
        for language, line, source in blocks(page):
            if language == "python":
                exec(compile("\n" * (line - 1) + source, str(page), "exec"), namespace)
    plt.close("all")


@pytest.mark.parametrize("words", NAMED, ids=" ".join)
def test_a_command_has_the_options_that_are_named(words):
    name, *arguments = words
    assert name in ENTRIES
    try:
        parse(name, arguments)
    except SystemExit as done:
        required = not arguments  # `pprjax recourse` alone names the command and leaves its file out
        assert not done.code or required


def words_of(printed):
    """The lines of an output, without the blanks at their ends and the seconds that it took."""
    return [re.sub(r"^[\d.]+ s\.", "", line.rstrip()) for line in printed.strip("\n").splitlines()]


def test_the_first_log_gives_what_its_page_prints(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    page = (ROOT / "docs" / "your-own" / "logs.md").read_text(encoding="utf-8")
    log = re.search(r"`(\w+\.csv)`:\n\n```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / log[1]).write_text(log[2], encoding="utf-8")
    shown = re.findall(r"^    pprjax ([^\n]+)\n\n```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert [command.split()[0] for command, _ in shown] == ["recourse", "show"]
    for command, expected in shown:
        assert main(shlex.split(command)) == 0
        assert words_of(capsys.readouterr().out) == words_of(expected)


def test_no_block_is_in_a_language_that_is_not_read():
    languages = {language for page in PAGES for language, *_ in blocks(page) if not language.startswith("{")}
    assert languages <= LANGUAGES
    assert "python" in languages
    assert NAMED


@pytest.mark.parametrize("option", ["--no-such-option 3", "--num many"])
def test_an_option_that_a_command_does_not_have_is_seen(option, capsys):
    text = f"Try\n\n    python3 -m uv run pprjax gridworld {option} | head\n\nor `pprjax gridworld\n{option}`."
    first, second = commands(text)
    assert first == second == ["gridworld", *option.split()]
    with pytest.raises(SystemExit, match="2"):
        parse("gridworld", first[1:])
