"""The keys of a job file: one frozen pydantic model a section, which refuses unknown keys with a hint.

:mod:`pipelines.job.load` makes a :class:`~pipelines.core.model.Job` of them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from pipelines.core.errors import did_you_mean
from pipelines.core.sources import CAPTURE_PATTERN, Body, EventsPerMessage, require_no_credential
from pipelines.core.time import parse_duration, parse_instant


def _duration_us(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        if value == 0:
            return 0
        raise ValueError(f"{value} lacks a unit; write it like 250ms, 90s, 5m, 1h30m, 2d or PT5M")
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a duration; write it like 250ms, 90s, 5m, 1h30m, 2d or PT5M")
    return parse_duration(value)


def _not_negative(value: Any) -> int:
    duration_us = _duration_us(value)
    if duration_us < 0:
        raise ValueError(f"'{value}' is negative; it must be 0s or more")
    return duration_us


def _positive(value: Any) -> int:
    duration_us = _duration_us(value)
    if duration_us <= 0:
        raise ValueError(f"'{value}' must be longer than 0s")
    return duration_us


def _instant_us(value: Any) -> int:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not an instant; write it like 2026-01-01T12:07:00Z")
    return parse_instant(value)


def _guard_us(value: Any) -> int | None:
    return None if value == "off" else _not_negative(value)


def _tolerance_us(value: Any) -> int | None:
    return None if value == "unbounded" else _not_negative(value)


def _null_by_name(value: Any) -> Any:
    """YAML reads ``null`` without quotes as no value."""
    return "null" if value is None else value


def _no_credential(value: str) -> str:
    require_no_credential(value)
    return value


Place = Annotated[str, AfterValidator(_no_credential)]
Duration = Annotated[int, BeforeValidator(_duration_us)]
NotNegative = Annotated[int, BeforeValidator(_not_negative)]
Positive = Annotated[int, BeforeValidator(_positive)]
Instant = Annotated[int, BeforeValidator(_instant_us)]
OnCastError = Annotated[Literal["fail", "null", "drop_row"], BeforeValidator(_null_by_name)]
Guard = Annotated[int | None, BeforeValidator(_guard_us)]
Tolerance = Annotated[int | None, BeforeValidator(_tolerance_us)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
Unit = Literal["microsecond", "millisecond", "second", "minute", "hour", "day"]


class Section(BaseModel):
    """Base of all sections: strict and frozen; an error about an unknown key names the closest known one."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=False)

    @model_validator(mode="before")
    @classmethod
    def _known_keys_only(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            shown = "nothing" if data is None else repr(data)
            raise PydanticCustomError("not_a_mapping", "{shown} is not a mapping of keys to values", {"shown": shown})
        known = [field.alias or name for name, field in cls.model_fields.items()]
        for key in data:
            if key not in known:
                raise PydanticCustomError(
                    "unknown_key",
                    "unknown key '{key}'; {hint}",
                    {"key": str(key), "hint": did_you_mean(str(key), known)},
                )
        return data


class InputSection(Section):
    columns: str
    timestamp_by: str | None = None
    over: list[str] = []
    sub_microsecond: Literal["reject", "truncate"] = "reject"
    partitions: Annotated[int, Field(ge=1)] | None = None
    shape: Literal["point", "interval", "edge"] = "point"
    end_by: str | None = None
    edge_by: str | None = None
    match_on: list[str] = []
    same_log_as: Name | None = None
    arrival_regression: Literal["quarantine", "hold_at_last"] = "quarantine"
    source: dict[str, Any] | None = None


class SourceSection(Section):
    kind: str
    events_per_message: EventsPerMessage = "one"


class CaptureSection(SourceSection):
    path: str
    pattern: str = CAPTURE_PATTERN
    body: Body = "json"


class KafkaSection(SourceSection):
    bootstrap_servers: str
    topic: str
    time: Literal["broker", "producer"] = "broker"
    value: Body = "json"
    properties: dict[str, str] = {}
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"


class MappedSection(SourceSection):
    path: str
    fields: dict[str, str] = {}
    body: Body | None = None


class DeltaSection(MappedSection):
    pass


class FilesSection(MappedSection):
    format: Literal["jsonl", "csv", "parquet", "avro"]


class ReferenceSection(Section):
    columns: str
    effective: str = "static"
    reference_time: Literal["system_timestamp", "arrival"] = "system_timestamp"


class FunctionSection(Section):
    args: list[Identifier]
    as_: str = Field(alias="as")


class StreamAnalyticsSection(Section):
    early_arrival: Guard = parse_duration("5m")
    late_arrival: Tolerance = parse_duration("5s")
    out_of_order: NotNegative = 0
    action: Literal["adjust", "drop"] = "adjust"


class AtlasSection(Section):
    allowed_lateness: NotNegative = parse_duration("3s")
    idle_timeout: Positive | None = None
    idle_rule: Literal["after_window_end", "max_remaining"] = "after_window_end"
    partition_idle_timeout: Positive | None = None
    boundary: Literal["event_time", "processing_time"] = "event_time"


class StreamInsightSection(Section):
    advance: Any = None
    delay: Duration = 0
    to_infinity_on_shutdown: bool = False
    import_from: Name | None = None
    action: Literal["adjust", "drop"] | None = None


class AdvanceSection(Section):
    every: int | str


class TumblingSection(Section):
    size: Positive
    offset: Duration = 0
    align_to: Instant | None = None


class HoppingSection(Section):
    size: Positive
    hop: Positive
    offset: Duration = 0
    align_to: Instant | None = None


class SlidingSection(Section):
    size: Positive


class SessionSection(Section):
    timeout: Positive
    max_duration: Positive
    partition_by: list[str] = []
    align_to: Instant | None = None


class AtlasSessionSection(Section):
    gap: Positive
    partition_by: list[str] = []


class SnapshotSection(Section):
    pass


class CountSection(Section):
    n: Annotated[int, Field(ge=1)]


class WithinSection(Section):
    unit: Unit
    from_: int = Field(alias="from")
    to: int


class JoinSection(Section):
    left: Name
    right: Name
    on: list[str] = []
    within: WithinSection
    kind: Literal["inner", "left"] = "inner"


class QuerySection(Section):
    from_: Name | None = Field(default=None, alias="from")
    union: Annotated[list[Name], Field(min_length=1)] | None = None
    join: JoinSection | None = None
    where: str | None = None
    group_by: list[str] = []
    window: dict[str, Any] | None = None
    aggregates: dict[Identifier, str] = {}
    having: str | None = None
    select: Annotated[dict[Identifier, str], Field(min_length=1)] | None = None
    sql: str | None = None
    pipeline: str | None = None


class StreamSection(Section):
    windows: Place | None = None
    columns: dict[str, str] = {}
    outputs: dict[str, Place] = {}


class JobSection(Section):
    tailrace: Literal[1]
    job: Name
    profile: Literal["stream_analytics", "atlas", "stream_insight"]
    inputs: Annotated[dict[Name, InputSection], Field(min_length=1)]
    ordering: dict[str, Any] = {}
    references: dict[Name, ReferenceSection] = {}
    functions: dict[Identifier, str | FunctionSection] = {}
    string_comparison: Literal["exact", "ignore_case"] = "exact"
    on_cast_error: OnCastError = "fail"
    query: QuerySection
    end_of_log: Literal["flush", "hold"] | None = None
    strict_limits: bool = False
    keep_verdicts: Literal["exceptions", "all"] = "exceptions"
    stream: StreamSection = StreamSection()
