"""The ordering policies of a job file, by profile and input, and what ``end_of_log`` is where it is left out."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from pipelines.core import model
from pipelines.core.errors import did_you_mean
from pipelines.job import schema
from pipelines.job.diagnostics import Complaints
from pipelines.job.yaml import Path as KeyPath

_ORDERING_SECTIONS: dict[str, type[BaseModel]] = {
    "stream_analytics": schema.StreamAnalyticsSection,
    "atlas": schema.AtlasSection,
    "stream_insight": schema.StreamInsightSection,
}


def build_orderings(
    say: Complaints, section: schema.JobSection, inputs: Mapping[str, model.Input]
) -> tuple[tuple[str, model.Ordering], ...]:
    """The policy of each input: ``ordering`` holds one for all, or one by input."""
    data = section.ordering
    kind = _ORDERING_SECTIONS[section.profile]
    keys = set(kind.model_fields)
    per_input = bool(data) and not (set(data) & keys) and all(isinstance(part, dict) for part in data.values())
    if per_input and set(data) & set(inputs):
        for name in data:
            if name not in inputs:
                raise say.error(f"there is no input '{name}'; {did_you_mean(name, inputs)}", ("ordering", name))
        parts = {name: (data.get(name, {}), ("ordering", name) if name in data else ("ordering",)) for name in inputs}
    else:
        parts = dict.fromkeys(inputs, (data, ("ordering",)))
    return tuple(
        (name, _ordering(say, say.section(kind, part, path), path, inputs, name))
        for name, (part, path) in parts.items()
    )


def default_end_of_log(profile: str, orderings: tuple[tuple[str, model.Ordering], ...]) -> model.EndOfLog:
    """What happens to open windows at the log's end where the job file does not say."""
    if profile == "stream_analytics":
        return "flush"
    if profile == "stream_insight" and all(
        isinstance(part, model.StreamInsightOrdering) and part.to_infinity_on_shutdown for _, part in orderings
    ):
        return "flush"
    return "hold"


def _ordering(
    say: Complaints, part: BaseModel, path: KeyPath, inputs: Mapping[str, model.Input], name: str
) -> model.Ordering:
    if isinstance(part, schema.StreamAnalyticsSection):
        return model.StreamAnalyticsOrdering(part.early_arrival, part.late_arrival, part.out_of_order, part.action)
    if isinstance(part, schema.AtlasSection):
        for key in ("allowed_lateness", "idle_timeout"):
            if part.boundary == "processing_time" and key in part.model_fields_set:
                raise say.error(
                    f"windows by processing_time take no '{key}', since nothing is late there; leave it out, or choose"
                    " boundary: event_time",
                    (*path, key),
                )
        return model.AtlasOrdering(
            part.allowed_lateness, part.idle_timeout, part.idle_rule, part.partition_idle_timeout, part.boundary
        )
    assert isinstance(part, schema.StreamInsightSection)
    source = part.import_from
    if source is not None and (source not in inputs or source == name):
        raise say.error(f"'{source}' is not another input of this job", (*path, "import_from"))
    return _advance(say, part, path)


def _advance(say: Complaints, part: schema.StreamInsightSection, path: KeyPath) -> model.StreamInsightOrdering:
    here = (*path, "advance")
    helper_delay_us: int | None = None
    match part.advance:
        case "increasing_start_time":
            helper_delay_us = 0
        case "strictly_increasing_start_time":
            helper_delay_us = -1
        case {"unordered_start_time": tolerance, **rest} if not rest:
            helper_delay_us = say.at(here, lambda: schema._not_negative(tolerance))
        case str(word):
            known = ("increasing_start_time", "strictly_increasing_start_time", "unordered_start_time")
            raise say.error(f"'{word}' is not a way to advance; {did_you_mean(word, known)}", here)
    if helper_delay_us is not None:
        for key in ("delay", "to_infinity_on_shutdown", "action"):
            if key in part.model_fields_set:
                raise say.error(f"'advance' names a helper, which sets '{key}' itself; leave it out", (*path, key))
        return model.StreamInsightOrdering("drop", 1, None, helper_delay_us, True, part.import_from)
    if part.action is None:
        raise say.error("'action' is missing: adjust or drop must be said", path)
    every_events, every_us = None, None
    if part.advance is not None:
        every = say.section(schema.AdvanceSection, part.advance, here).every
        if isinstance(every, str):
            every_us = say.at((*here, "every"), lambda: schema._positive(every))
        elif every < 1:
            raise say.error(f"{every} events is not a frequency; it must be 1 or more", (*here, "every"))
        else:
            every_events = every
    return model.StreamInsightOrdering(
        part.action, every_events, every_us, part.delay, part.to_infinity_on_shutdown, part.import_from
    )
