"""The page of `pprjax report`: it holds what the log says as text, asks nobody for anything, and can be used."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest
from report_rows import mended, without, written

from pprjax.commands.report import main
from pprjax.logs import report_page
from pprjax.logs.report import read_report

NASTY = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\"quotes\" & 'more' &lt;b&gt;",
    "<img src=x onerror=alert(1)>",
    "🦊 fox",
    "שלום",
    "a\u2028b\u2029c",
    "/*DATA*/",
]


class Tags(HTMLParser):
    """The tags of a page, and what its scripts hold."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.inside = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag == "script"

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.scripts.append(data)


def nasty_rows():
    a, b, c, d, *more = NASTY
    rows = [mended(name, [a, b, c], [a, d, name, c], agent=name, actions=[name, a, b]) for name in NASTY]
    return [*rows, without("\u202eno", [a, *more], "infeasible", agent=b, reason=f"none: {a}"), without("met", [a, b])]


@pytest.fixture(scope="module")
def nasty(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nasty")
    table = written(
        folder, nasty_rows(), ladder=[mended(NASTY[0], NASTY[:2], [NASTY[0], x], NASTY[0]) for x in NASTY[2:4]]
    )
    main(table, out=folder / "page.html")
    return (folder / "page.html").read_text(encoding="utf-8")


def test_names_come_out_as_text_and_make_no_tag(nasty):
    template = (Path(report_page.__file__).parent / "report.html").read_text(encoding="utf-8")
    page, plain = Tags(nasty), Tags(template)
    assert page.tags == plain.tags
    assert [tag for tag, _ in page.tags].count("script") == len(page.scripts) == 2
    data = json.loads(page.scripts[0])
    assert page.scripts[1] == plain.scripts[1]
    assert set(NASTY) <= set(data["names"])
    assert {path["path"] for path in data["paths"]} == {*NASTY, "\u202eno"}
    assert {group["agent"] for group in data["groups"]} == {None, "ann", *NASTY}
    assert not re.search("[<>&\u2028\u2029]", page.scripts[0])


def test_the_page_asks_nobody_for_anything(nasty):
    page = Tags(nasty)
    assert "http://" not in nasty and "https://" not in nasty and "innerHTML" not in nasty
    policy = next(attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv"))
    wanted = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    assert policy.startswith(wanted)
    outside = {name: value for _, attrs in page.tags for name, value in attrs.items() if name in ("src", "href")}
    assert outside == {"href": "data:,"}
    assert "url(" not in nasty and "@import" not in nasty


def test_a_recourse_is_put_together_again_from_its_edits(nasty):
    data = json.loads(Tags(nasty).scripts[0])
    path = next(path for path in data["paths"] if path["path"] == NASTY[4])
    assert path["signs"].replace("-", "").count("=") + len(path["fresh"]) == 4
    assert [data["names"][i] for i in path["actions"]] == [NASTY[4], *NASTY[:2]]
    rungs = next(path for path in data["paths"] if path["path"] == NASTY[0])["rungs"]
    assert [rung["chosen"] for rung in rungs] == [False, True]


def test_two_thousand_long_paths_stay_small_and_the_page_says_how_many_there_are(tmp_path, monkeypatch):
    states = [f"a state with a long name {i}" for i in range(40)]
    rows = []
    for i in range(2100):
        start = i % 7
        rows.append(mended(f"path {i}", states[start:38], [*states[start : 30 + i % 5], *states[38:]]))
    report = read_report(written(tmp_path, rows))
    text = report_page.page(report, "out.parquet")
    data = json.loads(Tags(text).scripts[0])
    assert len(text.encode()) < 5e6
    assert (len(data["paths"]), data["groups"][0]["paths"]) == (2000, 2100)
    assert "Of each number of edits there are as many" in data["rule"]
    monkeypatch.setattr(report_page, "BUDGET", 400_000)
    smaller = report_page.page(report, "out.parquet")
    assert len(smaller.encode()) <= 400_000
    assert len(json.loads(Tags(smaller).scripts[0])["paths"]) in (1000, 500, 250, 125)


def test_a_table_without_a_path_that_missed_is_told_too(tmp_path):
    main(written(tmp_path, [without("met", "ab")]))
    data = json.loads(Tags((tmp_path / "out.parquet.html").read_text(encoding="utf-8")).scripts[0])
    assert (data["paths"], data["groups"][0]["met"], data["rule"]) == ([], 1, report_page.LEFT_OUT)


def broken(folder, what):
    table = written(folder, [mended("p", "ab", "axb")])
    if what == "none":
        return folder / "none.parquet"
    if what == "noise":
        table.write_bytes(b"not parquet")
    if what == "another":
        pl.DataFrame({"agent": ["ann"], "path": ["p"]}).write_parquet(table)
    if what == "kinds":
        pl.read_parquet(table).with_columns(original=pl.lit(3)).write_parquet(table)
    if what == "ladder":
        (folder / "out.parquet.ladder").write_bytes(b"not parquet")
    return table


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("none", "there is no file .*none.parquet; expected one that `pprjax recourse` wrote"),
        ("noise", "expected what `pprjax recourse` wrote, a parquet file, got .*out.parquet"),
        ("another", "out.parquet has no column 'status', 'reason', "),
        ("kinds", "expected what `pprjax recourse` wrote, a parquet file, got .*out.parquet"),
        ("ladder", "expected what `pprjax recourse` wrote, a parquet file, got .*out.parquet.ladder"),
    ],
)
def test_a_broken_table_is_named_and_nothing_is_written(tmp_path, what, said):
    with pytest.raises(ValueError, match=f"^table: .*{said}"):
        main(broken(tmp_path, what), out=tmp_path / "page.html")
    assert not list(tmp_path.glob("*page*"))


def test_another_ending_and_a_folder_that_is_none_are_told(tmp_path):
    table = written(tmp_path, [mended("p", "ab", "axb")])
    with pytest.raises(ValueError, match=r"^out: expected a name that ends in \.html, got page\.pdf"):
        main(table, out=Path("page.pdf"))
    with pytest.raises(OSError, match=r"^out: can't write to the folder .*out\.parquet"):
        main(table, out=table / "page.html")


def in_node(folder, text, expression):
    """What an expression about the functions of a page comes to."""
    script = folder / "page.js"
    script.write_text(Tags(text).scripts[1], encoding="utf-8")
    program = f"const page = require({json.dumps(str(script))}); console.log(JSON.stringify({expression}))"
    done = subprocess.run(["node", "-e", program], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here")


@needs_node
def test_the_functions_of_the_page(nasty, tmp_path):
    assert in_node(tmp_path, nasty, "page.bins([[1, 5], [3, 2], [90, 1]], 40)[0]") == [1, 3, 7]
    assert in_node(tmp_path, nasty, "page.bins([[1, 5], [3, 2]], 40)") == [[1, 1, 5], [2, 2, 0], [3, 3, 2]]
    lines = in_node(tmp_path, nasty, "page.aligned([7, 8, 9], '=~-+', [5, 6])")
    assert [(line["old"], line["fresh"]) for line in lines] == [(7, 7), (8, 5), (9, None), (None, 6)]
    steps = in_node(tmp_path, nasty, "page.stepsOf(page.aligned([7, 8, 7, 8], '==--', []))")
    assert steps == [{"from": 7, "to": 8, "before": 2, "after": 1}, {"from": 8, "to": 7, "before": 1, "after": 0}]
    rows = "[{R: 2, path: 'p10'}, {R: null, path: 'p2'}, {R: -1, path: 'p1'}]"
    for key, up, order in (
        ("R", "true", [-1, 2, None]),
        ("R", "false", [2, -1, None]),
        ("path", "true", [-1, None, 2]),
    ):
        assert [row["R"] for row in in_node(tmp_path, nasty, f"page.sorted({rows}, '{key}', {up})")] == order


@needs_node
@pytest.mark.parametrize("length", [3, 60])
def test_the_layout_is_the_same_each_time_and_nothing_lies_on_anything_else(nasty, tmp_path, length):
    edges = [[i, (i * 7 + k) % 100, 100 - i + k / 10] for i in range(100) for k in range(3)]
    call = f"page.layout(page.aligned([...Array({length}).keys()], '{'=' * (length - 1)}~', [99]), {json.dumps(edges)})"
    found, again = (in_node(tmp_path, nasty, call) for _ in range(2))
    assert found == again
    assert len(found["states"]) == min(length + 1 + 12, 40)
    places = [(state["x"], state["y"]) for state in found["states"]]
    for i, (x, y) in enumerate(places):
        assert 55 <= x <= found["width"] - 55 and 15 <= y <= found["height"] - 15
        assert all(abs(x - p) >= 110 or abs(y - q) >= 30 for p, q in places[:i])
    drawn = {state["state"] for state in found["states"]}
    assert {0, 99, length - 1} <= drawn  # the start, and what changes
    assert found["left"] == max(0, length + 1 - 40)


def test_in_a_browser_it_searches_sorts_and_shows_edits(nasty, tmp_path):
    sync = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    file = tmp_path / "page.html"
    file.write_text(nasty, encoding="utf-8")
    with sync.sync_playwright() as play:
        try:
            browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        except sync.Error as error:
            pytest.skip(f"no browser starts: {error}")
        page = browser.new_page()
        asked, wrong = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on("console", lambda message: wrong.append(message.text))
        page.goto(file.as_uri())
        assert page.locator("#rows tr").count() == 9
        page.fill("#search", "🦊 FOX")
        assert page.locator("#rows tr").count() >= 1
        page.fill("#search", "infeasible")
        assert page.locator("#rows tr").count() == 1
        page.fill("#search", "")
        page.click("#heads button:has-text('path')")
        up = page.locator("#rows tr td:nth-child(2)").all_inner_texts()
        page.click("#heads button:has-text('path')")
        assert page.locator("#rows tr td:nth-child(2)").all_inner_texts() == up[::-1]
        page.locator("#rows tr", has=page.get_by_role("button", name=NASTY[0], exact=True)).click()
        assert page.locator("#aligned tr.s-inserted, #aligned tr.s-replaced").count() >= 1
        assert page.locator("#aligned td").first.inner_text() == NASTY[0]
        assert page.locator("#rungs tr").count() == 3
        assert page.locator("#graph .node").count() >= 4
        page.locator("#rungs button").first.click()
        page.select_option("#agent", "1")
        assert page.locator("#counts dd").first.inner_text() != "10"
        assert (asked, wrong) == ([file.as_uri()], [])
        assert page.locator("img").count() == 0 and page.locator("script").count() == 2
        browser.close()
