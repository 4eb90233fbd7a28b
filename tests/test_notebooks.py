"""Every notebook runs from top to bottom, at sizes of the test's own, and is kept as it ran at a reader's."""

import ast
import pathlib
import re
from contextlib import nullcontext

import nbformat
import pytest
from mario_fake import explored
from matplotlib import pyplot as plt
from optimizing import optimizing

FOLDER = pathlib.Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

# What is smaller here than for a reader: notebook -> {parameter: value}. Its cell tagged "parameters" assigns them.
SIZES: dict[str, dict[str, object]] = {
    "01-gridworld": {"iterations": 1, "num_paths": 32},
    # as the command's test has
    "02-temperature": {
        "num_train": 80,
        "num_test": 4,
        "max_edits": 1,
        "calls": 300,
        "beam_width": 16,
    },
    "03-mario": {"iterations": 2},
    "04-text": {"steps": 10, "max_edits": 2},
}

LEARNING = {"01-gridworld", "02-temperature"}
"""Notebooks whose programs run longer than it takes to optimize them."""

ABSOLUTE = r"(?<!<)/\w[\w.-]*/|site-packages"
"""A path of two parts at least, or one of installed packages; a tag that closes is none."""


def assigned(source):
    """The names that the top level of a cell assigns."""
    targets = []
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign):
            targets += statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets.append(statement.target)
    return {target.id for target in targets if isinstance(target, ast.Name)}


def with_sizes(notebook, sizes):
    """The notebook with a cell after its parameters that assigns others, as papermill does.

    Raises a ValueError where the notebook has not one cell tagged "parameters", or that cell does not assign a name.
    """
    if not sizes:
        return notebook
    tagged = [i for i, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", ())]
    if len(tagged) != 1:
        raise ValueError(f'expected one cell tagged "parameters", got {len(tagged)}')
    unknown = sorted(set(sizes) - assigned(notebook.cells[tagged[0]].source))
    if unknown:
        raise ValueError(f'{unknown}: not assigned in the cell tagged "parameters"')
    source = "\n".join(f"{name} = {value!r}" for name, value in sizes.items())
    injected = nbformat.v4.new_code_cell(source, metadata={"tags": ["injected-parameters"]})
    notebook.cells.insert(tagged[0] + 1, injected)
    return notebook


def run(notebook):
    """Its cells in one namespace, which is returned. What ends a cell is made ready to be shown, as text and picture.

    In this process: what other tests compiled is not compiled once more.
    """
    namespace = {"__name__": "__main__"}
    for number, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), 1):
        tree, place = ast.parse(cell.source), f"<cell {number}>"
        last = [tree.body.pop()] if tree.body and isinstance(tree.body[-1], ast.Expr) else []
        exec(compile(tree, place, "exec"), namespace)
        for expression in last:
            shown = eval(compile(ast.Expression(expression.value), place, "eval"), namespace)
            for form in ("__repr__", "_repr_html_", "_repr_png_"):
                getattr(shown, form, str)()
    return namespace


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")  # plt.show() without a screen
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what it writes stays out of the source tree
    if path.stem == "03-mario":
        explored().save("explored.npz")
    with optimizing() if path.stem in LEARNING else nullcontext():
        run(with_sizes(nbformat.read(path, as_version=4), SIZES.get(path.stem, {})))
    plt.close("all")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_as_it_ran(path):
    """From top to bottom, without an error, a warning or a folder of a machine, and with a picture for the gallery."""
    code = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert all(output.name == "stdout" for output in outputs if output.output_type == "stream")
    texts = [text for output in outputs for kind, text in output.get("data", output).items() if kind != "image/png"]
    assert not re.search(ABSOLUTE, str(texts))
    chosen = [cell for cell in code if "gallery" in cell.metadata.get("tags", ())]
    assert len(chosen) == 1
    assert any("image/png" in output.get("data", {}) for output in chosen[0].outputs)


def test_there_is_a_notebook_for_each_line_of_sizes():
    assert NOTEBOOKS
    assert set(SIZES) <= {path.stem for path in NOTEBOOKS}


def tagged_notebook():
    parameters = nbformat.v4.new_code_cell("num, seed = 3, 0\niterations = 100", metadata={"tags": ["parameters"]})
    return nbformat.v4.new_notebook(cells=[parameters, nbformat.v4.new_code_cell("result = iterations * 2")])


def test_a_size_is_assigned_after_the_readers():
    assert run(with_sizes(tagged_notebook(), {"iterations": 5}))["result"] == 10


def test_what_ends_a_cell_is_shown():
    """A picture that can't be drawn fails its notebook, though no line of the cell does."""
    source = "class Spoilt:\n    def _repr_png_(self):\n        raise ValueError('no picture')\n\nSpoilt()"
    with pytest.raises(ValueError, match="no picture"):
        run(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]))


@pytest.mark.parametrize("name", ["iteration", "result", "print"])
def test_a_size_that_the_notebook_does_not_have_is_named(name):
    with pytest.raises(ValueError, match=rf"\['{name}'\]: not assigned"):
        with_sizes(tagged_notebook(), {name: 5})


def test_sizes_need_a_tagged_cell():
    notebook = tagged_notebook()
    del notebook.cells[0]
    with pytest.raises(ValueError, match='one cell tagged "parameters", got 0'):
        with_sizes(notebook, {"iterations": 5})
