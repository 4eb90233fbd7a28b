"""How work is dealt to several devices; that their answers are one device's, `test_logs.py` proves."""

import pytest

from pprjax import devices


@pytest.mark.parametrize("size", [1, 2, 3])
def test_groups_are_full_except_the_last_of_each_kind(size):
    items = [("a", 0), ("b", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("a", 6)]
    groups = list(devices.grouped(items, size))
    assert sorted(x for _, group in groups for x in group) == list(range(7))
    for kind in "abc":
        rows = [group for k, group in groups if k == kind]
        assert [x for group in rows for x in group] == [i for k, i in items if k == kind]
        assert all(len(group) == size for group in rows[:-1])
        assert len(rows[-1]) <= size
