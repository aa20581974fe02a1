"""Reconcile one range: compare in Spark, find the causes, write ``reconciliations/<job>``, tell the ledger."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.batch import engine
from pipelines.batch.local_rows import local_frame, local_rows, micros
from pipelines.core.errors import TailraceError, UsageError
from pipelines.core.model import Job, OutputRange
from pipelines.core.time import format_duration, to_datetime
from pipelines.lakehouse import runs
from pipelines.lakehouse.layout import WINDOWS, windows_table
from pipelines.lakehouse.planning import make_plan
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import plain
from pipelines.lakehouse.write import check_columns, read_arrivals, replace_range, with_day
from pipelines.reconcile.causes import (
    ANOTHER_POLICY,
    DUPLICATE,
    FLOATING_POINT,
    STOPPED,
    UNEXPLAINED,
    Cause,
)
from pipelines.reconcile.compare import (
    DIFFERENT,
    DUPLICATED_IN_STREAM,
    EQUAL,
    MISSING_IN_STREAM,
    STATUSES,
    Shape,
    compare,
    runs_without_stream,
)
from pipelines.reconcile.examine import Difference, Examiner, Stop, stop_facts
from pipelines.reconcile.keys import key_names
from pipelines.reconcile.live_table import live_table
from pipelines.reconcile.policy import Found, Probe, Search
from pipelines.reconcile.recompute import Logs, Remembering
from pipelines.reconcile.result import Reconciliation

Progress = Callable[[str], None]
KIND = "reconcile"
STEPS = 5
"""How often :func:`reconcile` calls ``progress``."""

EXAMINED = 400
"""Differing rows whose cause is looked for one by one; what is explained as a whole does not count."""
_SECONDS = 180
_FEW = 2
_MANY_EQUAL = 50
_ENDS = 20_000
_PROBES = 12
_ROUNDS = 4
_STOPS = 500


def reconciliations_table(job: Job) -> str:
    """``reconciliations/<job>``"""
    return f"reconciliations/{job.name}"


def reconcile(
    job: Job,
    output: OutputRange,
    lakehouse: str | Path | Lakehouse,
    *,
    against: str | None = None,
    spark: SparkSession | None = None,
    progress: Progress | None = None,
) -> Reconciliation:
    """Compare ``windows/<job>`` with the live run's table over ``output`` and write what differs, with its cause.

    ``against`` names another table than the job file does. Raises :class:`UsageError` if either side was never
    written, or the live table lacks a column that is needed.
    """
    house = Lakehouse.at(lakehouse)
    house.require_writable()
    tell = progress or (lambda _: None)
    tell("starting Spark")
    from pipelines.runtime.session import session

    return _Work(job, output, house, against, spark or session(), tell).go()


@dataclass
class _Policy:
    """A change of settings that was proved, and the comparison under it."""

    found: Found
    compared: DataFrame
    explained: int
    cause: Cause


@dataclass
class _Work:
    job: Job
    output: OutputRange
    house: Lakehouse
    against: str | None
    spark: SparkSession
    tell: Progress
    notes: list[str] = field(default_factory=list)
    _held: list[DataFrame] = field(default_factory=list)

    def go(self) -> Reconciliation:
        started = datetime.now(UTC)
        self.tell("comparing")
        try:
            return self._go(started)
        finally:
            for frame in self._held:
                frame.unpersist()

    def _go(self, started: datetime) -> Reconciliation:
        replay, version = self._replay()
        self.live = live_table(self.spark, self.house, self.job, self.output, replay.schema, self.against)
        names = [one.name for one in self.job.query.aggregates if one.name not in self.live.lacking]
        self.shape = Shape(tuple(key_names(self.job)), tuple(names))
        if self.live.lacking:
            self.notes.append(f"{self.live.name} has no {', '.join(self.live.lacking)}: not compared")
        compared = self._keep(compare(replay, self.live.rows, self.shape))
        counts = {row["status"]: row["count"] for row in compared.groupBy("status").count().collect()}
        self.equal = counts.pop(EQUAL, 0)
        self.versions = {windows_table(self.job): version}
        if self.live.version is not None:
            self.versions[self.live.name] = self.live.version
        rows = self._with_causes(compared) if counts else _no_causes(compared)
        table = self._table(rows)
        self.tell("writing")
        metadata = {"tailrace": KIND, "run_id": uuid.uuid4().hex}
        check_columns(self.house, reconciliations_table(self.job), table, self.output)
        written = replace_range(table, self.house, reconciliations_table(self.job), WINDOWS, self.output, metadata)
        result = Reconciliation(
            job=self.job.name,
            against=self.live.name,
            output=self.output,
            equal=self.equal,
            by_status={name: counts[name] for name in STATUSES if name in counts},
            by_cause=_by_cause(table) if counts else {},
            first=self._first(table) if counts else None,
            notes=tuple(self.notes),
            table=reconciliations_table(self.job),
            version=written,
            versions_read=self.versions,
        )
        self._record(result, metadata["run_id"], started)
        return result

    def _keep(self, frame: DataFrame) -> DataFrame:
        self._held.append(frame.persist())
        return frame

    def _replay(self) -> tuple[DataFrame, int]:
        name = windows_table(self.job)
        table = self.house.open(name)
        if table is None:
            raise UsageError(
                f"there is no replay to compare: {name} was never written in {self.house.root}",
                hint="run 'tailrace replay JOB' over the range first",
            )
        frame = self.spark.read.format("delta").option("versionAsOf", table.version()).load(self.house.uri(name))
        condition = WINDOWS.condition(self.output)
        if condition is not None:
            frame = frame.filter(condition)
        wanted = [*key_names(self.job), *(one.name for one in self.job.query.aggregates)]
        lacking = [column for column in wanted if column.lower() not in {held.lower() for held in frame.columns}]
        if lacking:
            raise UsageError(
                f"the table {name} has no column '{lacking[0]}': the job file changed since the replay",
                hint="replay again, without --from and --to",
            )
        last = runs.last_succeeded(self.house, self.job.name)
        if last is not None and last["job_fingerprint"] != self.job.fingerprint:
            self.notes.append("the job file changed since the last replay: replay again to compare what it says now")
        return frame.select(*wanted), table.version()

    # -- causes -----------------------------------------------------------------------------------------------------

    def _with_causes(self, compared: DataFrame) -> DataFrame:
        """The differing rows with ``cause`` and ``evidence``."""
        self.tell("looking for causes")
        self.logs = Logs(self.house, make_plan(self.job, self.output, self.house).versions)
        self.evaluate = Remembering()
        differing = compared.filter(F.col("status") != EQUAL)
        stops = self._stops(compared)
        rest = self._rest(differing, stops)
        few = rest.limit(_FEW + 1).count() <= _FEW
        recorded = self._recorded()
        decided: dict[str, Cause] = {}
        policy: _Policy | None = None
        if few and not recorded:
            decided = self._examine(self.job, rest, stops)
            if any(cause.name == UNEXPLAINED for cause in decided.values()) or self.equal >= _MANY_EQUAL:
                policy = self._policy(compared, stops, recorded, thorough=not _all_explained(decided))
        else:
            policy = self._policy(compared, stops, recorded, thorough=True)
        if policy is not None:
            stops = self._stops(policy.compared)
            left = policy.compared.filter(F.col("status") != EQUAL)
            rest = self._rest(left.join(differing.select("id"), "id", "left_semi"), stops)
            decided = self._examine(policy.found.change.job, rest, stops)
        elif not decided:
            decided = self._examine(self.job, rest, stops)
        self.tell("telling causes")
        return self._told(differing, policy, stops, decided)

    def _recorded(self) -> set[str]:
        """The fingerprint under which the last live run was recorded, if it is not the job's."""
        if self.against is not None:
            return set()
        live = [run for run in runs.runs_of(self.house, self.job.name) if run["kind"] == "stream"]
        return {run["job_fingerprint"] for run in live[-1:] if run["job_fingerprint"]} - {self.job.fingerprint}

    def _stops(self, compared: DataFrame) -> list[Stop]:
        """Runs of at least two missing rows at neighbouring ends without any live row, earliest first."""
        found = runs_without_stream(compared).filter("rows >= 2").orderBy("first_end").limit(_STOPS)
        return [
            Stop(
                window_id=row["window_id"],  # type: ignore[arg-type]
                first_us=row["first_end"],  # type: ignore[arg-type]
                last_us=row["last_end"],  # type: ignore[arg-type]
                ends=row["ends"],  # type: ignore[arg-type]
                rows=row["rows"],  # type: ignore[arg-type]
                before_us=row["before"],  # type: ignore[arg-type]
                after_us=row["after"],  # type: ignore[arg-type]
            )
            for row in local_rows(found)
        ]

    def _rest(self, differing: DataFrame, stops: Sequence[Stop]) -> DataFrame:
        """What neither its own values nor a stop explains."""
        return self._in_stop(differing.filter(_flag().isNull()), stops).filter("__stop IS NULL")

    def _in_stop(self, differing: DataFrame, stops: Sequence[Stop]) -> DataFrame:
        """``differing`` with ``__stop``, the evidence of the stop that a missing row lies in."""
        if not stops:
            return differing.withColumn("__stop", F.lit(None).cast("string"))
        columns = [("__id", "string"), ("__first", "bigint"), ("__last", "bigint"), ("__stop", "string")]
        rows = [(stop.window_id, stop.first_us, stop.last_us, _stop_cause(stop).evidence) for stop in stops]
        ranges = F.broadcast(local_frame(self.spark, columns, rows))
        end = F.unix_micros("window_end")
        inside = (
            F.col("window_id").eqNullSafe(F.col("__id"))
            & (end >= F.col("__first"))
            & (end <= F.col("__last"))
            & (F.col("status") == MISSING_IN_STREAM)
        )
        return differing.join(ranges, inside, "left").drop("__id", "__first", "__last")

    def _policy(
        self, before: DataFrame, stops: Sequence[Stop], recorded: set[str], *, thorough: bool
    ) -> _Policy | None:
        """The change of settings that explains most, proved over the whole range; None where none explains any.

        What holds at the probes may fail elsewhere: then the windows at which it failed are probes of the next search.
        """
        probes = self._probes(before, stops, whole=bool(recorded))
        names = [*self.shape.keys, *self.shape.values]
        best: _Policy | None = None
        tried: set[Job] = set()
        for _ in range(_ROUNDS):
            found = Search(self.job, self.logs, self.evaluate, names, probes).find(recorded, thorough=thorough)
            if found is None or found.change.job in tried:
                break
            tried.add(found.change.job)
            self.tell(f"trying {found.change.words}")
            try:
                proved, failed = self._prove(found, before, recorded)
            except TailraceError:
                break
            if proved is not None and (best is None or proved.explained > best.explained):
                best = proved
            known = {probe.end_us for probe in probes}
            more = [(end, equal) for end, equal in failed if end not in known]
            if not more:
                break
            live = self._live_at([end for end, _ in more])
            probes += [Probe(end, live.get(end, []), equal) for end, equal in more]
        return best

    def _probes(self, compared: DataFrame, stops: Sequence[Stop], *, whole: bool) -> list[Probe]:
        bad = F.max(((F.col("status") != EQUAL) & _flag().isNull()).cast("int"))
        ends = compared.groupBy("window_end").agg(bad.alias("bad"), F.max("copies").alias("live"))
        rows = [
            (int(str(row["window_end"])), row["bad"] == 1)
            for row in local_rows(ends.orderBy("window_end").limit(_ENDS))
        ]
        stopped = [(stop.first_us, stop.last_us) for stop in stops]
        differing = [end for end, is_bad in rows if is_bad and not any(a <= end <= b for a, b in stopped)]
        if not differing and whole:
            differing = [end for end, is_bad in rows if is_bad]
        chosen = _spread(differing, _PROBES)
        places = {end: index for index, (end, _) in enumerate(rows)}
        near = [
            rows[place + step] for end in chosen for step in (-1, 1) if 0 <= (place := places[end]) + step < len(rows)
        ]
        equal = list(dict.fromkeys(end for end, is_bad in near if not is_bad))
        equal += [end for end in _spread([end for end, is_bad in rows if not is_bad], 4) if end not in equal]
        live = self._live_at([*chosen, *equal])
        return [Probe(end, live.get(end, []), False) for end in chosen] + [
            Probe(end, live.get(end, []), True) for end in equal
        ]

    def _live_at(self, ends_us: Sequence[int]) -> dict[int, list[dict[str, object]]]:
        if not ends_us:
            return {}
        wanted = self.live.rows.filter(F.unix_micros("window_end").isin(list(ends_us)))
        found: dict[int, list[dict[str, object]]] = {}
        for row in local_rows(wanted.select(*self.shape.keys, *self.shape.values).distinct()):
            end_us = row["window_end"]
            assert isinstance(end_us, int)
            found.setdefault(end_us, []).append(row)
        return found

    def _prove(
        self, found: Found, before: DataFrame, recorded: set[str]
    ) -> tuple[_Policy | None, list[tuple[int, bool]]]:
        """Recompute the whole range under the change: it must explain differences and make none.

        Also some window ends at which it fails, and whether the live rows there are the replay's.
        """
        change = found.change
        plan = make_plan(change.job, self.output, self.house)
        arrivals = {
            one.input: read_arrivals(self.spark, self.house, one, change.job.input(one.input), plan.read)
            for one in plan.reads
        }
        windows = engine.run(change.job, arrivals, self.output).windows
        compared = self._keep(compare(windows.select(*self.shape.keys, *self.shape.values), self.live.rows, self.shape))
        left = compared.filter(F.col("status") != EQUAL)
        differing = before.filter(F.col("status") != EQUAL)
        # what neither side had before is no difference: inside a stop the change may well give other rows
        made = left.join(before.filter(F.col("status") == EQUAL).select("id"), "id", "left_semi")
        explained = differing.join(left.select("id"), "id", "left_anti").count()
        failed = [(end, True) for end in _ends_of(made)]
        if failed or not explained:
            return None, failed
        by_record = change.job.fingerprint in recorded
        facts: dict[str, object] = {
            "settings": {key: {"job_file": before, "live_run": tried} for key, before, tried in change.settings},
            "rows_explained": explained,
            "recorded_by_the_live_run": by_record,
        }
        bounds = None if found.between_us is None else [format_duration(us) for us in found.between_us]
        others = [other.words for other in found.others[:8]]
        if bounds is not None and bounds[0] != bounds[1]:
            facts["values_that_do_as_well"] = {"from": bounds[0], "to": bounds[1]}
        if others:
            facts["also"] = others
        said = "; the live run's recorded fingerprint is that job's" if by_record else ""
        doubt = "" if bounds is None else f" (at the windows tried, {bounds[0]} to {bounds[1]} gives the same)"
        cause = Cause(
            ANOTHER_POLICY,
            f"The live run was under another policy: recomputed with {change.words}{doubt}, {explained} differing"
            f" row(s) are exactly what it wrote, and no row that agreed differs{said}.",
            facts,
        )
        apart = self._rest(left.join(differing.select("id"), "id", "left_semi"), self._stops(compared))
        return _Policy(found, compared, explained, cause), [(end, False) for end in _ends_of(apart)]

    def _examine(self, job: Job, rest: DataFrame, stops: Sequence[Stop]) -> dict[str, Cause]:
        """Causes by row id, of the first rows in output order."""
        ends = self.live.rows.agg(F.min("window_end"), F.max("window_end"), F.max("emitted_at")).toDF("a", "b", "c")
        edges = local_rows(ends)[0]
        examiner = Examiner(
            job=job,
            house=self.house,
            logs=self.logs,
            evaluate=self.evaluate,
            keys=self.shape.keys,
            names=self.shape.values,
            stops=stops,
            last_emitted_us=edges["c"],  # type: ignore[arg-type]
            first_end_us=edges["a"],  # type: ignore[arg-type]
            last_end_us=edges["b"],  # type: ignore[arg-type]
        )
        rows = self._differences(rest.orderBy(*self.shape.keys[1:2], *self.shape.keys).limit(EXAMINED))
        # what is missing can follow from events that other rows show to be lost
        decided: dict[str, Cause] = {}
        until = time.monotonic() + _SECONDS
        for row_id, one in sorted(rows, key=lambda row: not row[1].copies):
            if time.monotonic() > until:
                break
            decided[row_id] = examiner.cause(one)
        return decided

    def _differences(self, frame: DataFrame) -> list[tuple[str, Difference]]:
        def values(column: Column, kind: T.StructType) -> Column:
            return F.struct(*[micros(column[field.name], field.dataType).alias(field.name) for field in kind])

        replay, copies = frame.schema["replay"].dataType, frame.schema["all_copies"].dataType
        assert isinstance(replay, T.StructType)
        assert isinstance(copies, T.ArrayType)
        element = copies.elementType
        assert isinstance(element, T.StructType)
        rows = local_rows(
            frame.select(
                "id",
                *self.shape.keys,
                F.when(F.col("replay").isNotNull(), values(F.col("replay"), replay)).alias("__replay"),
                F.transform("all_copies", lambda one: values(one, element)).alias("__copies"),
                F.unix_micros("emitted_at").alias("__emitted"),
            )
        )
        return [(str(row["id"]), self._difference(row)) for row in rows]

    def _difference(self, row: dict[str, Any]) -> Difference:
        return Difference(
            key={name: row[name] for name in self.shape.keys},
            replay=row["__replay"],
            copies=tuple(one.asDict(recursive=True) for one in row["__copies"]),
            emitted_us=row["__emitted"],
        )

    # -- the table --------------------------------------------------------------------------------------------------

    def _told(
        self, differing: DataFrame, policy: _Policy | None, stops: Sequence[Stop], decided: dict[str, Cause]
    ) -> DataFrame:
        """Every differing row with its cause: its own values', the policy's, the stop's, or the one found for it."""
        rows = self._in_stop(differing, stops)
        causes = [("id", "string"), ("__cause", "string"), ("__evidence", "string")]
        told = [(row_id, cause.name, cause.evidence) for row_id, cause in decided.items()]
        rows = rows.join(F.broadcast(local_frame(self.spark, causes, told)), "id", "left")
        if policy is not None:
            left = policy.compared.filter(F.col("status") != EQUAL).select("id", F.lit(True).alias("__left"))
            rows = rows.join(left, "id", "left")
            by_policy = F.col("__left").isNull()
        else:
            by_policy = F.lit(False)
        unexamined = Cause(
            UNEXPLAINED, f"Not examined: the first {EXAMINED} rows that stood alone were.", {"examined": False}
        )
        flag = _flag()
        cause = (
            F.when(flag.isNotNull(), flag)
            .when(by_policy, ANOTHER_POLICY)
            .when(F.col("__cause").isNotNull(), F.col("__cause"))
            .when(F.col("__stop").isNotNull(), STOPPED)
            .otherwise(UNEXPLAINED)
        )
        evidence = (
            F.when(flag == DUPLICATE, _duplicate_evidence())
            .when(flag == FLOATING_POINT, F.lit(_FLOATING.evidence))
            .when(by_policy, F.lit(policy.cause.evidence if policy is not None else ""))
            .when(F.col("__evidence").isNotNull(), F.col("__evidence"))
            .when(F.col("__stop").isNotNull(), F.col("__stop"))
            .otherwise(unexamined.evidence)
        )
        return self._keep(rows.withColumns({"cause": cause, "evidence": evidence}))

    def _table(self, rows: DataFrame) -> DataFrame:
        columns = [*self.shape.keys, "status", "cause", "replay", "stream", "copies", "emitted_at", "evidence"]
        return with_day(rows.select(*columns), WINDOWS)

    def _first(self, table: DataFrame) -> dict[str, object]:
        row = table.orderBy("window_end", *self.shape.keys).drop("output_date").first()
        assert row is not None
        found = plain(row.asDict(recursive=True))
        assert isinstance(found, dict)
        return found

    def _record(self, result: Reconciliation, run_id: str, started: datetime) -> None:
        """One row in the ledger, so that a reader knows which range was compared with what."""
        ends = {"output_from": self.output.from_us, "output_to": self.output.to_us}
        runs.record(
            self.house,
            {
                "run_id": run_id,
                "job": self.job.name,
                "kind": KIND,
                "reason": f"against {result.against}",
                "status": runs.SUCCEEDED,
                "job_fingerprint": self.job.fingerprint,
                **{name: None if us is None else to_datetime(us) for name, us in ends.items()},
                "versions_read": result.versions_read,
                "versions_written": {result.table: result.version},
                "rows_written": {result.table: result.differing},
                "started_at": started,
                "finished_at": datetime.now(UTC),
                "process": runs.this_process(),
            },
        )


_FLOATING = Cause(
    FLOATING_POINT,
    "Doubles differ in their last bits only, by at most 1e-9 relative to max(1, |x|); all else is equal.",
)


def _flag() -> Column:
    """The cause that a row's own values show, or null."""
    duplicate = (F.col("status") == DUPLICATED_IN_STREAM) & F.col("identical")
    return F.when(duplicate, DUPLICATE).when((F.col("status") == DIFFERENT) & F.col("close"), FLOATING_POINT)


def _duplicate_evidence() -> Column:
    same, other = (
        json.dumps({"says": f"The live run wrote this row more than once, each time the same, and {what}."})
        for what in ("as the replay has it", "with other values than the replay's")
    )
    return F.when(F.col("first_equal"), same).otherwise(other)


def _stop_cause(stop: Stop) -> Cause:
    facts = stop_facts(stop)
    resumed = "" if stop.after_us is not None else "; it has none after that"
    return Cause(
        STOPPED,
        f"The live run has no row at any of the {stop.ends} window end(s) from {facts['first_missing_end']} to"
        f" {facts['last_missing_end']}, where the replay has {stop.rows}: it was stopped"
        f" {'and restarted' if stop.after_us is not None and stop.before_us is not None else 'there'}{resumed}.",
        facts,
    )


def _ends_of(rows: DataFrame) -> list[int]:
    """A few of their window ends, from first to last."""
    ends = local_rows(rows.select("window_end").distinct().orderBy("window_end").limit(_ENDS))
    return _spread([int(str(row["window_end"])) for row in ends], 4)


def _no_causes(compared: DataFrame) -> DataFrame:
    empty = compared.filter(F.col("status") != EQUAL)
    return empty.withColumns({"cause": F.lit(""), "evidence": F.lit("")})


def _all_explained(decided: dict[str, Cause]) -> bool:
    return all(cause.name != UNEXPLAINED for cause in decided.values())


def _by_cause(table: DataFrame) -> dict[str, int]:
    counts = {row["cause"]: row["count"] for row in table.groupBy("cause").count().collect()}
    return dict(sorted(counts.items(), key=lambda one: (-one[1], one[0])))


def _spread(values: Sequence[int], number: int) -> list[int]:
    """``number`` of the values, evenly spread, ends included."""
    if len(values) <= number:
        return list(values)
    return [values[round(index * (len(values) - 1) / (number - 1))] for index in range(number)]
