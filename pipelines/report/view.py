"""A figure of the page: a chart drawn for two widths, its description, legend and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from markupsafe import Markup

from pipelines.report.charts import NARROW, WIDE


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as text; columns from ``numbers`` to before ``texts_from`` are numbers, aligned to the right.

    With ``cards`` each row is a block of labelled lines where the screen is narrow.
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: int = 1_000
    texts_from: int = 1_000
    cards: bool = False


@dataclass(frozen=True, slots=True)
class Swatch:
    """One entry of a legend: the CSS variable of its colour, and its meaning."""

    color: str
    meaning: str
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """One chart. ``description`` is its text alternative, ``note`` a line below its title."""

    title: str
    description: str
    wide: Markup
    narrow: Markup
    tables: tuple[Table, ...] = ()
    legend: tuple[Swatch, ...] = ()
    note: str = ""


class Draw(Protocol):
    """Draws a chart in a width."""

    def __call__(self, *, width: int) -> str:
        """The chart as SVG."""


def drawn(draw: Draw | Callable[..., str], title: str, description: str, tables: Sequence[Table]) -> Figure:
    """A figure whose chart ``draw`` makes in both widths."""
    wide, narrow = (Markup(draw(width=width)) for width in (WIDE, NARROW))  # noqa: S704  # our own drawing
    return Figure(title, description, wide, narrow, tuple(tables))
