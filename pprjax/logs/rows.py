"""From rows to paths: what each row says, what is wrong with it, and which rows are a whole path."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from pprjax.errors import UserError
from pprjax.logs.bins import Edges, binned
from pprjax.logs.columns import Columns
from pprjax.logs.log import CLOSE, END
from pprjax.logs.sources import LINE
from pprjax.logs.times import KIND, NUMBER, REST, WHOLE, ordered

REJECTED = ("file", "line", "agent", "path", "reason")
"""The columns of a table of rejected rows."""

EVERYONE = "everyone"
"""The agent of a log that names none."""

SEPARATOR = "|"
"""What stands between the values of columns that are joined."""

TRUE, FALSE = ["true", "1", "1.0", "yes", "good"], ["false", "0", "0.0", "no", "bad"]

WANTED = {
    "agent": "an agent",
    "path": "the name of a path",
    "step": "a number, a date or an ISO 8601 time",
    "state": "a state",
    "action": "an action",
    "reward": "a number",
    "good": "true or false",
}

MAY_LACK = ("agent", "action", "reward")
"""What need not stand on every row of a path."""


def checked(batch: pl.DataFrame, file: str, columns: Columns, edges: Edges) -> pl.DataFrame:
    """The rows of a batch under our own names, and in `bad` what is wrong with each."""
    values = {"line": pl.col(LINE).cast(pl.Int64), "file": pl.lit(file), "agent": pl.lit(EVERYONE)}
    values |= {"action": pl.lit(None, pl.String), "reward": pl.lit(None, pl.Float64), "good": pl.lit(None, pl.Boolean)}
    values |= {KIND: pl.lit(NUMBER), WHOLE: pl.lit(0, pl.Int64), REST: pl.lit(0.0)}
    wrong = []
    for name, wanted in columns.named().items():
        texts: dict[str, pl.Expr] = {}
        known, got = pl.lit(True), {column: _shown(batch, column) for column in wanted}
        if name == "step":
            step = ordered(batch[wanted[0]], columns.time_format)
            values |= {column: pl.lit(step[column]) for column in step.columns}
            known = pl.lit(step[KIND]).is_not_null()
        elif name == "reward":
            values[name] = pl.col(wanted[0]).cast(pl.Float64, strict=False)
            known = values[name].is_not_nan()
        elif name == "good":
            text = got[wanted[0]].str.to_lowercase()
            values[name] = pl.when(text.is_in(TRUE)).then(True).when(text.is_in(FALSE)).then(False).otherwise(None)
            known = values[name].is_not_null()
        else:
            rows = edges if name == "state" else {}
            texts = {c: binned(c, rows[c]) if c in rows else _text(batch, c) for c in wanted}
            values[name] = _joined(list(texts.values()))
        for column in wanted:
            lacks = pl.col(column).is_null() & (name in MAY_LACK)
            valid = texts.get(column, _text(batch, column)).is_not_null() & known.fill_null(False)
            expected = "a number" if column in edges and name == "state" else _wanted(name, columns)
            said = pl.format(f"{_literal(column)}: expected {expected}, got {{}}", got[column].fill_null("nothing"))
            wrong.append(pl.when(~valid & ~lacks).then(said))
    named = [value.alias(name) for name, value in values.items()]
    return batch.select(*named, pl.coalesce(wrong).alias("bad"))


def _wanted(name: str, columns: Columns) -> str:
    """What a column should hold, in words."""
    return f"a time like {columns.time_format}" if name == "step" and columns.time_format else WANTED[name]


def _text(batch: pl.DataFrame, column: str) -> pl.Expr:
    """The values as strings; what is not a number has none."""
    raw, dtype = pl.col(column), batch.schema[column]
    return _shown(batch, column) if not dtype.is_float() else raw.fill_nan(None).cast(pl.String)


def _shown(batch: pl.DataFrame, column: str) -> pl.Expr:
    """The values as they are shown; lists and the like can't be told apart by a string."""
    dtype = batch.schema[column]
    if dtype.is_nested() or dtype == pl.Object:
        raise UserError(f"source: column {column!r}: expected strings, numbers or times, got {dtype}")
    return pl.col(column).dt.to_string() if dtype == pl.Duration else pl.col(column).cast(pl.String, strict=False)


def _joined(texts: list[pl.Expr]) -> pl.Expr:
    """One string of several, from which they can be told: what separates them is marked where it is in one."""
    if len(texts) == 1:
        return texts[0]
    marked = [text.str.replace_all("\\", "\\\\", literal=True) for text in texts]
    marked = [text.str.replace_all(SEPARATOR, f"\\{SEPARATOR}", literal=True) for text in marked]
    return pl.concat_str(marked, separator=SEPARATOR)


def _literal(text: str) -> str:
    """As part of a format of polars, in which braces are places."""
    return text.replace("{", "(").replace("}", ")")


class Survey(NamedTuple):
    """What the rows of whole paths show before the paths are put together."""

    num_paths: int = 0
    without: int = 0  # paths without an agent
    several: int = 0  # paths with several agents
    shared: int = 0  # of those, names that are plainly those of a path for each agent: its steps begin anew
    first: str = ""  # the name of one of the others, or of these if there are no others
    differences: int = 0  # between numbers that order a path, where they differ
    ones: int = 0  # those that are 1

    def __add__(self, other: Survey) -> Survey:  # pyright: ignore[reportIncompatibleMethodOverride]
        sums = {k: getattr(self, k) + getattr(other, k) for k in self._fields if k != "first"}
        return Survey(**sums, first=self.first or other.first)

    @classmethod
    def of(cls, rows: pl.DataFrame) -> Survey:
        """Of the agent, the path and the step of rows, those of a path together."""
        rows = rows.filter(pl.col("path").is_not_null())
        agents = rows.group_by("path").agg(num=pl.col("agent").drop_nulls().n_unique())
        torn = agents.filter(pl.col("num") > 1)["path"].sort()
        shared = _shared(rows.filter(pl.col("path").is_in(torn.implode())))
        first = [*torn.filter(~torn.is_in(shared.implode())), *torn.head(1), ""][0]
        steps = rows.filter(pl.col(KIND) == NUMBER).sort("path", "agent", WHOLE, REST)
        before = pl.col(WHOLE, REST).shift().over("path", "agent").name.suffix("_before")
        by = pl.col(WHOLE) - pl.col(f"{WHOLE}_before") + pl.col(REST) - pl.col(f"{REST}_before")
        differ = steps.with_columns(before).select(by=by).filter(pl.col("by") > 0)["by"]
        without = int((agents["num"] == 0).sum())
        return cls(agents.height, without, len(torn), len(shared), first, len(differ), int((differ == 1).sum()))

    @property
    def own(self) -> bool:
        """Whether a path's name is one of its agent's own, which other agents may have too."""
        return self.several == self.shared > 0

    @property
    def counted(self) -> bool:
        """Whether the steps are numbers that count rows, so that one that lacks is seen."""
        return self.ones * 2 >= self.differences > 0


def _shared(rows: pl.DataFrame) -> pl.Series:
    """The names under which each agent's steps count its own rows, from the same beginning."""
    step = pl.col(WHOLE)
    counts = (step.max() - step.min() + 1 == pl.len()) & (step.n_unique() == pl.len())
    counts &= ((pl.col(KIND) == NUMBER) & (pl.col(REST) == 0) & pl.col("agent").is_not_null()).all()
    each = rows.group_by("path", "agent").agg(counts=counts, begins=step.min(), size=pl.len())
    anew = pl.col("counts").all() & (pl.col("begins").n_unique() == 1) & (pl.col("size").max() > 1)
    return each.group_by("path").agg(anew=anew.fill_null(False)).filter("anew")["path"]


def assemble(
    rows: pl.DataFrame, columns: Columns, survey: Survey, *, counted: bool, closed: bool
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The whole paths of a bucket, and what is wrong with the others.

    A last row with an action, or without actions one that pays, leads to an end of its own, a state with its name; if
    the log is closed, to CLOSE.

    Args:
        survey: of the whole log.
        counted: a gap between two steps that are whole numbers is an error.
        closed: after its last state every path comes to the state CLOSE.

    Raises:
        ValueError: closed, and the log has a state of that name.
    """
    by = ("agent", "path") if survey.own else ("path",)
    rows = rows.with_columns(agent=pl.coalesce("agent", pl.col("agent").drop_nulls().first().over("path")))
    rows = rows.sort(*by, WHOLE, REST, "place", nulls_last=True)
    acted = columns.action is not None
    last = pl.col("place").shift(-1).over(*by).is_null()
    ends = last & (pl.col("action").is_not_null() if acted else pl.col("reward").is_not_null())
    rows = rows.with_columns(ends=ends, reason=pl.coalesce("bad", *_wrong(by, last, ends, columns, counted)))
    whole = rows.filter(pl.col("reason").is_null().all().over(*by))
    own_end = pl.format(f"{END}{{}} in {{}}", "action", "state") if acted else pl.format("end in {}", "state")
    num_steps, after, closing = pl.len() - 1 + pl.col("ends").last().cast(pl.Int64), own_end.filter("ends"), []
    if closed:
        if (rows.select("state", "action") == CLOSE).sum().sum_horizontal().item():
            raise UserError(f"state, action: {CLOSE!r} is what the end of every path is called; expected no such name")
        whole = whole.with_columns(close=pl.lit(CLOSE), opens=last & ~ends)
        num_steps, after, closing = pl.len(), pl.lit(CLOSE), [pl.col("close").filter("opens")]
    paths = whole.group_by("agent", "path", maintain_order=True).agg(
        states=pl.concat([pl.col("state"), after]),
        actions=pl.concat([pl.col("action").drop_nulls(), *closing]) if acted else pl.lit(None, pl.String),
        rewards=pl.col("reward").fill_null(0.0).head(num_steps),
        good=pl.col("good").first(),
        ends=pl.col("ends").last(),
        places=pl.col("place").head(num_steps),
    )
    if not acted:
        paths = paths.with_columns(actions=pl.col("states").list.slice(1))
    return paths, rows.filter(pl.col("reason").is_not_null()).select(*REJECTED)


def _wrong(by: tuple[str, ...], last: pl.Expr, ends: pl.Expr, columns: Columns, counted: bool) -> list[pl.Expr]:
    """What is wrong with a row beside the others of its path."""
    acted, rewarded = columns.action is not None, columns.reward is not None
    first = pl.col("place") == pl.col("place").min().over(*by)
    kind, step = pl.col(KIND), pl.col(WHOLE)
    usual = kind.drop_nulls().mode(maintain_order=True).first().over(*by)
    count = (kind == NUMBER) & (pl.col(REST) == 0)
    step_name = _literal(columns.step or "step")
    gap = count & count.shift().over(*by) & (step > step.shift().over(*by) + 1)
    pays = pl.col("reward").is_not_null()
    return [
        pl.when(pl.col("agent").is_null() & first).then(pl.lit(f"{columns.agent}: expected an agent, got nothing")),
        pl.when(kind != usual).then(
            pl.format(f"{step_name}: a {{}} can't be ordered with a {{}}, as other rows of the path have", kind, usual)
        ),
        pl.when(gap & counted).then(
            pl.format(f"{step_name} {{}} comes after {{}}: expected no gap", step, step.shift().over(*by))
        ),
        pl.when(~last & pl.col("action").is_null() & acted).then(pl.lit("action: missing")),
        pl.when((~last | (ends & acted)) & ~pays & rewarded).then(pl.lit("reward: missing")),
        pl.when(last & ~ends & (pl.col("reward") != 0)).then(
            pl.format("reward: expected none on a last row without an action, got {}", "reward")
        ),
        pl.when(pl.col("good") != pl.col("good").first().over(*by)).then(
            pl.lit("the path is labelled both good and bad")
        ),
    ]
