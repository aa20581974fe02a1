"""The ordering policies of a job file, by profile and input, and the default of ``end_of_log``."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ValidationError

from pipelines.core import model
from pipelines.core.errors import did_you_mean
from pipelines.job import schema
from pipelines.job.diagnostics import JobFile
from pipelines.job.yaml import Path as KeyPath

_ORDERING_SECTIONS: dict[str, type[BaseModel]] = {
    "stream_analytics": schema.StreamAnalyticsSection,
    "atlas": schema.AtlasSection,
    "stream_insight": schema.StreamInsightSection,
}


def build_orderings(
    file: JobFile, section: schema.JobSection, inputs: Mapping[str, model.Input]
) -> tuple[tuple[str, model.Ordering], ...]:
    """The policy of each input: ``ordering`` is one policy for all inputs, or a mapping of inputs to policies."""
    data = section.ordering
    kind = _ORDERING_SECTIONS[section.profile]
    keys = set(kind.model_fields)
    per_input = bool(data) and not (set(data) & keys) and all(isinstance(part, dict) for part in data.values())
    if per_input and set(data) & set(inputs):
        for name in data:
            if name not in inputs:
                raise file.error(f"there is no input '{name}'; {did_you_mean(name, inputs)}", ("ordering", name))
        parts = {name: (data.get(name, {}), ("ordering", name) if name in data else ("ordering",)) for name in inputs}
    else:
        parts = dict.fromkeys(inputs, (data, ("ordering",)))
    return tuple(
        (name, _ordering(file, file.section(kind, part, path), path, inputs, name))
        for name, (part, path) in parts.items()
    )


def parse_setting(profile: model.Profile, key: str, text: str) -> int | None:
    """The value of one key of ``ordering`` that is a duration, as a job file gives it; ValueError if it is none."""
    try:
        section = _ORDERING_SECTIONS[profile].model_validate({key: text})
    except ValidationError as error:
        raise error.errors()[0]["ctx"]["error"] from None
    value: int | None = getattr(section, key)
    return value


def default_end_of_log(profile: str, orderings: tuple[tuple[str, model.Ordering], ...]) -> model.EndOfLog:
    """What happens to open windows at the log's end of a job file without that key."""
    if profile == "stream_analytics":
        return "flush"
    if profile == "stream_insight" and all(
        isinstance(part, model.StreamInsightOrdering) and part.to_infinity_on_shutdown for _, part in orderings
    ):
        return "flush"
    return "hold"


def _ordering(
    file: JobFile, part: BaseModel, path: KeyPath, inputs: Mapping[str, model.Input], name: str
) -> model.Ordering:
    if isinstance(part, schema.StreamAnalyticsSection):
        return model.StreamAnalyticsOrdering(part.early_arrival, part.late_arrival, part.out_of_order, part.action)
    if isinstance(part, schema.AtlasSection):
        for key in ("allowed_lateness", "idle_timeout"):
            if part.boundary == "processing_time" and key in part.model_fields_set:
                raise file.error(
                    f"'{key}' has no effect with boundary: processing_time, where nothing is late; leave it out, or"
                    " set boundary: event_time",
                    (*path, key),
                )
        return model.AtlasOrdering(
            part.allowed_lateness, part.idle_timeout, part.idle_rule, part.partition_idle_timeout, part.boundary
        )
    assert isinstance(part, schema.StreamInsightSection)
    source = part.import_from
    if source is not None and (source not in inputs or source == name):
        raise file.error(f"'{source}' is not another input of this job", (*path, "import_from"))
    return _advance(file, part, path)


def _advance(file: JobFile, part: schema.StreamInsightSection, path: KeyPath) -> model.StreamInsightOrdering:
    here = (*path, "advance")
    helper_delay_us: int | None = None
    match part.advance:
        case "increasing_start_time":
            helper_delay_us = 0
        case "strictly_increasing_start_time":
            helper_delay_us = -1
        case {"unordered_start_time": tolerance, **rest} if not rest:
            helper_delay_us = file.at(here, lambda: schema._not_negative(tolerance))
        case str(name):
            known = ("increasing_start_time", "strictly_increasing_start_time", "unordered_start_time")
            raise file.error(f"'{name}' is not a helper of 'advance'; {did_you_mean(name, known)}", here)
    if helper_delay_us is not None:
        for key in ("delay", "to_infinity_on_shutdown", "action"):
            if key in part.model_fields_set:
                raise file.error(f"'advance' names a helper, which sets '{key}' itself; leave it out", (*path, key))
        return model.StreamInsightOrdering("drop", 1, None, helper_delay_us, True, part.import_from)
    if part.action is None:
        raise file.error("'action' is missing; set it to adjust or drop", path)
    every_events, every_us = None, None
    if part.advance is not None:
        every = file.section(schema.AdvanceSection, part.advance, here).every
        if isinstance(every, str):
            every_us = file.at((*here, "every"), lambda: schema._positive(every))
        elif every < 1:
            raise file.error(f"{every} events is not a frequency; it must be 1 or more", (*here, "every"))
        else:
            every_events = every
    return model.StreamInsightOrdering(
        part.action, every_events, every_us, part.delay, part.to_infinity_on_shutdown, part.import_from
    )
