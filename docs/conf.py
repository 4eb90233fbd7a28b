"""How Sphinx builds these pages: `python3 -m uv run --group docs sphinx-build -W docs out/docs`.

Notebooks stand outside this folder. They are copied in before a build, with the outputs that they were committed with.
"""

from __future__ import annotations

import base64
import importlib.metadata
import inspect
import json
import re
import shutil
from pathlib import Path

HERE = Path(__file__).resolve().parent
NOTEBOOKS = HERE / "_notebooks"

project = "pprjax"
version = release = importlib.metadata.version("pprjax")
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_design"]
exclude_patterns = ["_build"]
html_theme = "sphinx_book_theme"
html_title = "pprjax"
html_theme_options = {"show_toc_level": 2, "home_page_in_toc": True}
html_static_path = []

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off"

default_role = "code"  # `name` in a docstring is code

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 100
napoleon_google_docstring = True
napoleon_use_rtype = False


def copy_notebooks() -> None:
    """Put the notebooks, and the pictures beside them, where Sphinx looks for them; and for the gallery the picture of
    each notebook, the output of its cell tagged "gallery"."""
    NOTEBOOKS.mkdir(exist_ok=True)
    folder = HERE.parent / "notebooks"
    for file in sorted([*folder.glob("*.ipynb"), *folder.glob("*.png")]):
        shutil.copy(file, NOTEBOOKS)
    for file in sorted(folder.glob("*.ipynb")):
        for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
            if "gallery" in cell["metadata"].get("tags", ()):
                pictures = [output["data"]["image/png"] for output in cell["outputs"] if "image/png" in output["data"]]
                (NOTEBOOKS / file.with_suffix(".png").name).write_bytes(base64.b64decode(pictures[0]))


FIELD = re.compile(r"^    (\w+): ([^#=]+?)(?: = .*?)?  # (?:pyright: ignore\S*\s+# )?(.+)$", re.MULTILINE)
"""A field of a dataclass whose comment says its shape and what it is."""


def as_rst(app, what, name, obj, options, lines: list[str]) -> None:
    """Make a docstring fit for reStructuredText: bars stand for themselves, a constant has no docstring of its type,
    and a dataclass has its fields, with what their comments say."""
    del app, name, options
    if what == "data" and lines[:1] == (inspect.getdoc(type(obj)) or "").splitlines()[:1]:
        lines.clear()
    lines[:] = [line.replace("|", "\\|") for line in lines]
    if what == "class" and "__dataclass_fields__" in vars(obj):
        fields = [(field, comment) for field, _, comment in FIELD.findall(inspect.getsource(obj))]
        escaped = [(field, re.sub(r"([*|])", r"\\\1", comment)) for field, comment in fields]
        lines += ["", *(f":ivar {field}: {comment}" for field, comment in escaped), ""]


def setup(app) -> None:
    copy_notebooks()
    app.connect("autodoc-process-docstring", as_rst)
