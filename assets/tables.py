"""The catalogue's metadata of a Delta table: its name, its place, and its columns as they are now."""

import dagster as dg
import pyarrow as pa

from pipelines.core.model import Aggregate, Job
from pipelines.lakehouse.root import Lakehouse

_COLUMNS = {
    "arrival_date": "UTC date of arrival_time; the table is partitioned by it",
    "arrival_time": "when the broker received it",
    "batch_id": "the batch of tailrace ingest that brought it",
    "event_time": "when it happened, by the payload",
    "evidence": "what proves the cause, as JSON",
    "input_partition": "null on a punctuation that applies to all partitions",
    "kind": "event or punctuation",
    "lifetime_end": "stream_insight: where the event's lifetime ends; null while open",
    "missed_windows": "atlas: windows that closed before the event came",
    "output_date": "UTC date of window_end, or of system_timestamp; the table is partitioned by it",
    "punctuation_time": "how far a punctuation advances the watermark",
    "reasons": "why the event was moved or refused",
    "sequence": "rises inside an input partition",
    "status": "different, missing on a side, or duplicated",
    "system_timestamp": "the time the event or the row counts at; null if it counts nowhere",
    "verdict": "accepted, adjusted, dropped or partial",
    "watermark": "lower bound on event times when the event arrived",
    "window_id": "which of the job's windows, where it has several",
}


def about_table(lakehouse: Lakehouse, name: str, job: Job) -> dict[str, dg.MetadataValue]:
    """Dagster's own metadata of a table of ``job``, which its catalogue shows apart; of an unwritten one the place."""
    about: dict[str, dg.MetadataValue] = {
        "dagster/table_name": dg.MetadataValue.text(name),
        "dagster/uri": dg.MetadataValue.text(lakehouse.uri(name)),
    }
    table = lakehouse.open(name)
    if table is None:
        return about
    aggregates = job.window_query.aggregates if job.steps is None else ()
    descriptions = _COLUMNS | {one.name: _text(one) for one in aggregates}
    columns = [
        dg.TableColumn(
            field.name,
            str(field.type),
            description=descriptions.get(field.name),
            constraints=dg.TableColumnConstraints(nullable=field.nullable),
        )
        for field in pa.schema(table.schema().to_arrow())
    ]
    return {**about, "dagster/column_schema": dg.MetadataValue.table_schema(dg.TableSchema(columns))}


def _text(one: Aggregate) -> str:
    """An aggregate as a job file writes it."""
    argument = f"{'distinct ' if one.distinct else ''}{one.argument or '*'}"
    return f"{one.function}({argument})" if one.parameter is None else f"{one.function}({argument}, {one.parameter})"
