"""``<job>/reconciliation`` and ``<job>/report``: the replay compared with the live run, and the data-quality report."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.checks import evaluated, together
from assets.errors import as_failure
from assets.keys import (
    SPARK_POOL,
    output_keys,
    reconciliation_key,
    report_key,
    stream_output_keys,
    verdicts_key,
)
from assets.markdown import escaped
from assets.pages import address, page_of_report
from assets.ranges import checked_range, days_in, range_of
from assets.replayed import listed
from assets.tables import about_table
from pipelines.core.intervals import format_range
from pipelines.core.model import Job, OutputRange
from pipelines.lakehouse.layout import output_tables, reconciliations_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import rows_of, tables_of
from pipelines.quality.days import is_streamed
from resources.lakehouse import LakehouseResource
from resources.spark import SparkResource

if TYPE_CHECKING:
    from pipelines.reconcile.result import Reconciliation


def reconciliation_asset(job: Job, partitions: dg.PartitionsDefinition[str]) -> dg.AssetsDefinition:
    """The asset ``<job>/reconciliation``, partitioned by output day."""

    @dg.asset(
        key=reconciliation_key(job.name),
        deps=[*output_keys(job), *stream_output_keys(job)],
        group_name=job.name,
        partitions_def=partitions,
        backfill_policy=dg.BackfillPolicy.single_run(),
        pool=SPARK_POOL,
        kinds={"spark", "delta"},
        code_version=job.fingerprint,
        description=(
            "Every result that differs between the replay and the live run, with its cause.\n\n"
            + "\n".join(
                f"Table `{reconciliations_table(job, one)}`, against `{one.live}`." for one in output_tables(job)
            )
            + " Without a live run nothing is compared."
        ),
        metadata={"against": ", ".join(one.live for one in output_tables(job))},
    )
    def reconciliation(
        context: dg.AssetExecutionContext, spark: SparkResource, lakehouse: LakehouseResource
    ) -> dg.MaterializeResult[None]:
        from pipelines.reconcile.run import reconcile

        output, results = range_of(context), {}
        with as_failure():
            for one in output_tables(job):
                if not is_streamed(lakehouse.lakehouse, one):
                    context.log.warning(f"{one.live} was never written: there is nothing to compare with")
                    continue
                results[one.output] = reconcile(
                    job,
                    output,
                    lakehouse.lakehouse,
                    name=one.output,
                    spark=spark.session(),
                    progress=context.log.info,
                )
            by_day = _by_day(lakehouse.lakehouse, job, output)
        for result in results.values():
            for sentence in (*result.notes, *result.story):
                context.log.info(sentence)
        causes = list(dict.fromkeys(cause for result in results.values() for cause in result.by_cause))
        about = _of_runs(results)
        if len(results) == 1:
            about |= about_table(lakehouse.lakehouse, next(iter(results.values())).table, job)
        for partition, _ in days_in(output) if results else ():
            about_day = _of_day(by_day[date.fromisoformat(partition)], causes)
            report = {"report": page_of_report(job.name, partition)}
            context.add_asset_metadata({**about_day, **report, **about}, partition_key=partition)
        return dg.MaterializeResult(metadata={"compared": bool(results)})

    return reconciliation


def matches_stream_check(job: Job) -> dg.AssetChecksDefinition:
    """``matches_stream``: replay and live run do not differ; assets downstream of the reconciliation wait for it."""

    @dg.asset_check(
        asset=reconciliation_key(job.name),
        name="matches_stream",
        blocking=True,
        pool=SPARK_POOL,
        description=(
            "The replay gives what the live run wrote, but for the rounding of doubles. If it does not, nothing"
            " downstream is made: `tailrace report` and `tailrace why` show the differences meanwhile. Without a live"
            " run to compare with it is a warning, which blocks nothing."
        ),
    )
    def matches_stream(context: dg.AssetCheckExecutionContext, lakehouse: LakehouseResource) -> dg.AssetCheckResult:
        from pipelines.quality.expectations import check_matches_stream

        output = checked_range(context.run.tags)
        with as_failure():
            streamed = [one for one in output_tables(job) if is_streamed(lakehouse.lakehouse, one)]
            results = [check_matches_stream(lakehouse.lakehouse, job, one, output) for one in streamed]
        compared = [result for result in results if result is not None]
        if not compared:
            names = " and ".join(one.live for one in output_tables(job))
            missing = "nothing was reconciled yet" if streamed else f"{names} was never written"
            return dg.AssetCheckResult(
                passed=False, severity=dg.AssetCheckSeverity.WARN, description=f"{missing}: nothing was compared"
            )
        result = together(compared)
        if result.passed:
            return evaluated(replace(result, description=f"no difference: {result.description}"))
        # every row here differs, so status and cause are enough
        rows = tuple({name: value for name, value in row.items() if name != "problem"} for row in result.sample)
        return evaluated(replace(result, sample=rows))

    return matches_stream


def report_asset(job: Job, partitions: dg.PartitionsDefinition[str]) -> dg.AssetsDefinition:
    """The asset ``<job>/report``, partitioned by output day; one page for the days of a run."""

    @dg.asset(
        key=report_key(job.name),
        deps=[reconciliation_key(job.name), *output_keys(job), verdicts_key(job.name)],
        group_name=job.name,
        partitions_def=partitions,
        backfill_policy=dg.BackfillPolicy.single_run(),
        pool=SPARK_POOL,
        kinds={"html"},
        code_version=job.fingerprint,
        description=(
            "The data-quality report of the run's days: one self-contained HTML page.\n\n"
            f"`reports/{job.name}` in the lakehouse has the newest report of each range, and in a folder of the same"
            " name all earlier ones. Not made if `matches_stream` fails."
        ),
    )
    def report(
        context: dg.AssetExecutionContext, spark: SparkResource, lakehouse: LakehouseResource
    ) -> dg.MaterializeResult[None]:
        from pipelines.report.write_report import write_report

        output = range_of(context)
        with as_failure():
            spark.session()
            written = write_report(job, lakehouse.lakehouse, output, progress=context.log.info)
        failed = [one.name for one in written.checks if not one.passed]
        about: dict[str, dg.MetadataValue] = {
            "report": address(lakehouse.lakehouse, written.place),
            "verdict": dg.MetadataValue.text(written.verdict),
            "state": dg.MetadataValue.text(written.state),
            "failed_checks": dg.MetadataValue.int(len(failed)),
            "run_output": dg.MetadataValue.text(format_range(output)),
            "file": dg.MetadataValue.path(written.place),
        }
        if failed:
            about["names_of_failed_checks"] = dg.MetadataValue.text(", ".join(failed))
        if written.kept is not None:
            about["kept"] = address(lakehouse.lakehouse, written.kept)
        return dg.MaterializeResult(metadata=about)

    return report


def _of_day(differing: Counter[str], causes: Iterable[str]) -> dict[str, dg.MetadataValue]:
    """A day's differing windows, and how many of them by each cause that the run found on any day."""
    by_cause = {cause: dg.MetadataValue.int(differing[cause]) for cause in causes}
    return {"differing": dg.MetadataValue.int(differing.total()), **by_cause}


def _of_runs(results: Mapping[str, "Reconciliation"]) -> dict[str, dg.MetadataValue]:
    """What each comparison gave; with several outputs, each entry begins with the output's name."""
    if len(results) == 1:
        return _of_run(next(iter(results.values())))
    return {f"{name}_{key}": value for name, result in results.items() for key, value in _of_run(result).items()}


def _of_run(result: "Reconciliation") -> dict[str, dg.MetadataValue]:
    about: dict[str, dg.MetadataValue] = {
        "run_equal": dg.MetadataValue.int(result.equal),
        "run_differing": dg.MetadataValue.int(result.differing),
    }
    if result.differing:
        about["run_by_status"] = dg.MetadataValue.text(listed(result.by_status))
        about["run_by_cause"] = dg.MetadataValue.text(listed(result.by_cause))
        about["run_first_difference"] = dg.MetadataValue.md("\n\n".join(map(escaped, result.story)))
    return {**about, "versions_read": dg.MetadataValue.text(listed(result.versions_read))}


def _by_day(lakehouse: Lakehouse, job: Job, output: OutputRange) -> Mapping[date, Counter[str]]:
    """Differences by output day and cause."""
    found: dict[date, Counter[str]] = defaultdict(Counter)
    for name in tables_of(job):
        rows = rows_of(job, name, lakehouse, output) if name.startswith("reconciliations") else None
        wanted: list[dict[str, Any]] = [] if rows is None else rows.select(["output_date", "cause"]).to_pylist()
        for row in wanted:
            found[row["output_date"]][row["cause"]] += 1
    return found
