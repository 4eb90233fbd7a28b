"""One page of what became of a log: a file that a browser opens, and that asks nobody for anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from pprjax.errors import UserError
from pprjax.logs.outputs import beside


def main(
    table: tyro.conf.Positional[Path],
    *,
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None,
) -> None:
    """Write one HTML file that tells of all paths of a table of recourses, and shows some of them edit by edit.

    It needs no other file and no network. What is counted is counted over all paths; at most 2,000 of them can be
    looked at.

    Args:
        table: what `pprjax recourse` wrote. What lies beside it, TABLE.ladder and TABLE.fit, is shown too.
        out: the HTML file to write; by default TABLE.html.
    """
    from pprjax.io import output_folder, replacing
    from pprjax.logs.report import read_report, readable
    from pprjax.logs.report_page import page

    out = beside(table, "html") if out is None else out
    if out.suffix != ".html":
        raise UserError(f"out: expected a name that ends in .html, got {out}")
    output_folder(out.parent)
    with readable(table):
        text = page(read_report(table), table.name)
    with replacing(out) as aside:
        aside.write_text(text, encoding="utf-8")
    print(f"Written to {out}, {len(text.encode()) / 1e6:.1f} MB. Open it in a browser; it needs no network.")
