"""Spark types as text, and the paths into them that need no Spark."""

from __future__ import annotations

import pytest

from pipelines.core.expressions import plain_path, read
from pipelines.core.query import Column
from pipelines.core.types import element_of, fields_of, split_types, struct_of

NESTED = "struct<owner:struct<name:string,`first seen`: timestamp>,tolls array<decimal(10,2)>>"
COLUMNS = (Column("car", NESTED), Column("a.plate", "string"), Column("odd name", "int"))


def test_fields_have_names_and_types_whatever_stands_between() -> None:
    owner, tolls = fields_of(NESTED)
    assert (owner.name, tolls) == ("owner", Column("tolls", "array<decimal(10,2)>"))
    assert fields_of(owner.type) == (Column("name", "string"), Column("first seen", "timestamp"))
    assert fields_of("string") == ()


def test_a_struct_is_read_as_it_was_written() -> None:
    fields = (Column("a`b", "int"), Column("x, y", "map<string,int>"))
    assert fields_of(struct_of(fields)) == fields


def test_elements_and_outer_commas_are_found() -> None:
    assert [element_of(one) for one in ("array<map<string,int>>", "MAP<string,int>", "int")] == [
        "map<string,int>",
        "int",
        "void",
    ]
    assert split_types("`a,b`:int,decimal(10,2)") == ["`a,b`:int", "decimal(10,2)"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("car", ["car"]),
        (" Car.OWNER.name ", ["car", "owner", "name"]),
        ("`car`.owner.`first seen`", ["car", "owner", "first seen"]),
        ("a.plate", ["a.plate"]),
        ("odd name", ["odd name"]),
        ("car.plate", None),
        ("car.owner.name.first", None),
        ("car.tolls[0]", None),
        ("1", None),
    ],
)
def test_a_path_names_a_column_and_fields_below_it(text: str, names: list[str] | None) -> None:
    path = plain_path(text, COLUMNS)
    assert (path and [column.name for column in path]) == names


def test_the_field_of_a_null_struct_is_null() -> None:
    rows: list[dict[str, object]] = [{"car": None}, {"car": {"owner": None}}, {"car": {"owner": {"name": "Ada"}}}]
    assert [one["car.owner.name"] for one in read(COLUMNS[:1], rows, ["car.owner.name"], None)] == [None, None, "Ada"]
