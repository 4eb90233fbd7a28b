"""What the shared figures show is what the tables say."""

import numpy as np
import polars as pl
import pytest
from matplotlib import pyplot as plt

from pprjax import plotting


def test_curves_leave_out_what_is_not_there_yet():
    curve = np.array([[-np.inf, 1.0, 2.0], [0.0, 0.0, 5.0]])
    ax = plotting.curves(curve)
    drawn = np.array([line.get_ydata() for line in ax.lines], float)
    np.testing.assert_array_equal(drawn, [[np.nan, 1, 2], [0, 0, 5]])
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [1, 2, 3])
    assert not plt.get_fignums()


def test_curves_draw_on_given_axes():
    figure, ax = plt.subplots()
    assert plotting.curves(np.zeros((1, 2)), ax=ax) is ax
    plt.close(figure)


def test_heat_maps_show_the_means_at_their_weights():
    rng = np.random.default_rng(0)
    rows = [(p, q, rng.normal()) for p in (0.1, 1.0, 10.0) for q in (1.0, 5.0) for _ in range(3)]
    rng.shuffle(rows)
    table = pl.DataFrame(rows, schema=["lambda_path", "lambda_policy", "s"], orient="row")
    ax = plotting.heat_maps(table, {"s": "score"}).axes[0]
    shown = np.asarray(ax.images[0].get_array())
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0.1", "1", "10"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["1", "5"]
    for row, q in enumerate((1.0, 5.0)):
        for column, p in enumerate((0.1, 1.0, 10.0)):
            expected = np.mean([s for a, b, s in rows if (a, b) == (p, q)])
            assert shown[row, column] == pytest.approx(expected)
    assert not plt.get_fignums()


def test_violins_mark_every_row_and_the_mean():
    table = pl.DataFrame({"method": ["a"] * 3 + ["b"] * 2, "s": [1.0, 2.0, 6.0, 4.0, 4.0]})
    ax = plotting.violins(table, {"s": "score"}, by="method", colors={"b": "black", "a": "red"}).axes[0]
    dots = [np.sort(c.get_offsets()[:, 1]).tolist() for c in ax.collections if len(c.get_offsets()) > 1]
    assert dots == [[4, 4], [1, 2, 6]]  # in the order of the colors; the second has a violin, the first no width
    bars = [c.get_segments()[0][0, 1] for c in ax.collections if hasattr(c, "get_segments")]
    assert bars == [4, 3]


def test_nothing_half_written_is_left(tmp_path):
    class Broken:
        def savefig(self, path, **settings):
            path.write_bytes(b"half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        plotting.save(Broken(), tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []
