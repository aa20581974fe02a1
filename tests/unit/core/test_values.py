"""SQL's view of values."""

from __future__ import annotations

import math

from pipelines.core.values import grouped_value, grouping_key


def test_values_that_sql_groups_together_have_one_key() -> None:
    assert grouping_key([0.0, {"x": math.nan}, None]) == grouping_key([-0.0, {"x": -math.nan}, None])
    assert grouping_key([0.0]) != grouping_key([None])
    assert grouping_key("NaN") != grouping_key(math.nan)


def test_a_group_shows_no_negative_zero_not_even_inside_an_array_or_a_struct() -> None:
    assert repr(grouped_value([-0.0, {"x": -0.0, "y": ("a", None)}])) == "[0.0, {'x': 0.0, 'y': ('a', None)}]"
