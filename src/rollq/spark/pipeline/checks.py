"""Data quality checks of every batch: counts of tables that were made by different queries must
agree, and bounds must hold.

`facts` is one query over what the batch has written; `judge` derives the results. A failed check
does not prevent the commit: the results are rows of the table `gold_checks`, and the run ends with
an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from rollq.base.errors import ErrorCode, LocalError
from rollq.grid.events import (
    JOB_ACKED,
    JOB_ASSIGNED,
    JOB_CANCELLED,
    JOB_DEAD,
    JOB_EXPIRED,
)
from rollq.spark.pipeline.bronze import Hour
from rollq.spark.pipeline.catalog import CHECKS
from rollq.spark.pipeline.dialect import SqlDialect
from rollq.spark.pipeline.manifest import Mark
from rollq.spark.pipeline.silver import ACCEPTED, quoted
from rollq.spark.pipeline.tables import HOUR_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OK: Final = "ok"
FAILED: Final = "failed"
UNKNOWN: Final = "unknown"
NAMED_MAX: Final = 3
FIRST_INDEX: Final = 1  # the first index of a log
# An end is stamped when the leader receives it, after a fail-over at worst: so much run time may
# be counted in the next hour.
SLACK_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class DataCheck:
    """One check."""

    name: str
    words: str  # the condition as text; `found` must equal `expected`
    needs_whole: bool = False  # unknown if any index of the group's history is missing


DATA_CHECKS: Final = (
    DataCheck("events", "as many events are in bronze_events as were read"),
    DataCheck("order", "each event follows the one before it in the log, none comes twice"),
    DataCheck("missing", "no index of the history was removed before it was read", True),
    DataCheck(
        "jobs", "as many jobs begin in silver_jobs as were accepted, or were first tasks", True
    ),
    DataCheck("attempts", "as many attempts are in silver_attempts as jobs were assigned", True),
    DataCheck("ends", "no job ends twice", True),
    DataCheck("running", "as many jobs run by gold_depth as attempts have not ended", True),
    DataCheck("depth", "no queue holds fewer than no jobs, at the end of any minute", True),
    DataCheck("busy", "no worker ran jobs for longer in an hour than its slots had time"),
    DataCheck("hourly", "counts of an hour are the same by client, by queue and of all"),
    DataCheck("dead", "as many jobs died by gold_dead as by gold_hourly, hour by hour"),
)


class CheckResult(NamedTuple):
    """The result of a check for one group; a row of `gold_checks` without batch and time."""

    group: str
    name: str
    outcome: str
    expected: int
    found: int

    def as_text(self) -> str:
        """As text."""
        words = next(check.words for check in DATA_CHECKS if check.name == self.name)
        numbers = f"expected {self.expected}, found {self.found}"
        return f"{self.name} ({words}) of group {self.group}: {numbers}"


@dataclass(frozen=True, slots=True)
class ReadStats:
    """Statistics of the events of a group in this batch, from the tasks that read them."""

    events: int = 0
    astray: int = 0  # out of order
    missing: int = 0  # indexes that could not be read
    is_whole: bool = False  # no index is missing, in this batch or before
    goes_back: bool = False  # some timestamp is before an earlier one


def stats_of(
    hours: Iterable[Hour],
    before: Mapping[str, Mark],
    starts: Mapping[str, int],
    missing: Mapping[str, int],
) -> dict[str, ReadStats]:
    """Statistics of new events by group.

    Args:
        hours: returned by the tasks.
        before: the marks of the previous manifest.
        starts: by group the first index of this batch.
        missing: by group the number of missing indexes.
    """
    groups: dict[str, list[Hour]] = {}
    for hour in hours:
        groups.setdefault(hour.group, []).append(hour)
    return {
        group: ReadStats(
            events=sum(hour.events for hour in every),
            astray=sum(hour.astray for hour in every),
            missing=missing.get(group, 0),
            is_whole=_is_whole(group, before, starts) and not missing.get(group),
            goes_back=any(hour.back for hour in every),
        )
        for group, every in groups.items()
    }


def _is_whole(group: str, before: Mapping[str, Mark], starts: Mapping[str, int]) -> bool:
    """Whether the history before this batch is complete."""
    return before[group].is_whole if group in before else starts.get(group) == FIRST_INDEX


def judge(
    facts: Mapping[tuple[str, str], int], stats: Mapping[str, ReadStats]
) -> list[CheckResult]:
    """The results of all checks, from the facts by group and name, and the readers' statistics."""
    return [result for group, one in stats.items() for result in _of_group(group, facts, one)]


def failure(failed: Iterable[CheckResult]) -> LocalError:
    """The error that ends a run with failed checks."""
    every = list(failed)
    named = "; ".join(result.as_text() for result in every[:NAMED_MAX])
    more = f"; and {len(every) - NAMED_MAX} more" if len(every) > NAMED_MAX else ""
    return LocalError(
        ErrorCode.CHECK_FAILED,
        f"the tables were made, and do not agree: {named}{more}",
        "ask for more: rollq sql \"SELECT * FROM checks WHERE outcome = 'failed'\"",
    )


def _of_group(
    group: str, facts: Mapping[tuple[str, str], int], stats: ReadStats
) -> Iterator[CheckResult]:
    def fact(name: str) -> int:
        return facts.get((group, name), 0)

    pairs = {
        "events": (stats.events, fact("events")),
        "order": (0, stats.astray + fact("late")),
        "missing": (0, stats.missing),
        "jobs": (fact("begun"), fact("jobs_begun")),
        "attempts": (fact("assigned"), fact("attempts")),
        "ends": (0, fact("ended_twice") + fact("jobs_unbegun")),
        "running": (fact("running"), fact("level_running")),
        "depth": (0, fact("below")),
        "busy": (0, fact("busy_beyond")),
        "hourly": (0, fact("hours_apart")),
        "dead": (0, fact("dead_apart")),
    }
    for check in DATA_CHECKS:
        expected, found = pairs[check.name]
        outcome = OK if expected == found else FAILED
        is_unknown = check.needs_whole and not stats.is_whole
        if is_unknown or (check.name == "depth" and stats.goes_back):
            outcome = UNKNOWN
        yield CheckResult(group, check.name, outcome, expected, found)


def facts(
    d: SqlDialect, *, known: Mapping[str, int], has_open: bool, has_running: bool, since_ms: int
) -> str:
    """A query of facts: rows of group, name and number.

    Reads the input of the batch (`news`, `moves`, and `open_jobs` and `running_before` if they
    exist) and its output (`new_jobs`, `new_attempts`, `open_attempts`, `levels_now`, `new_depth`,
    `busy`, `sessions`, `new_hourly`, `new_dead` and `touched`).

    Args:
        d: the dialect.
        known: by group the last index of the previous batch.
        has_open: `open_jobs` exists.
        has_running: `running_before` exists.
        since_ms: the earliest timestamp of a new event.
    """
    parts = (
        _news_facts(d, known),
        _of_jobs(d, has_open=has_open),
        _ended_twice(),
        _of_attempts(d, has_running=has_running),
        f"SELECT {d.group}, 'running', count(*) FROM open_attempts GROUP BY 1",
        f"SELECT {d.group}, 'level_running', sum(running) FROM levels_now GROUP BY 1",
        f"""SELECT {d.group}, 'below', count(*) FROM new_depth
        WHERE minute >= {d.moment(str(since_ms))} AND (waiting < 0 OR running < 0) GROUP BY 1""",
        _busy_beyond(d),
        _hours_apart(d),
        _dead_apart(d),
    )
    return " UNION ALL ".join(f"({part})" for part in parts)


def day_facts(d: SqlDialect) -> str:
    """As `facts`, of a day that was rebuilt. Reads `busy`, `sessions`, `new_hourly`, `new_dead`
    and `touched`, which are of that day."""
    return " UNION ALL ".join(
        f"({part})" for part in (_busy_beyond(d), _hours_apart(d), _dead_apart(d))
    )


def rows_of(
    spark: SparkSession, checked: Iterable[CheckResult], batch: int, made_ms: int
) -> DataFrame:
    """Results as rows of `gold_checks`, in one file."""
    at = datetime.fromtimestamp(made_ms / 1000, UTC)
    rows = [(one.group, batch, at, *one[1:]) for one in checked]
    return spark.createDataFrame(rows, CHECKS.ddl).coalesce(1)


def _news_facts(d: SqlDialect, known: Mapping[str, int]) -> str:
    first_of_task = f"type = '{JOB_ASSIGNED}' AND attempt = 1 AND array_id IS NOT NULL"
    begun = f"type IN ({quoted(ACCEPTED)}) OR ({first_of_task})"
    late = " OR ".join(
        f"(_group = {d.text(group)} AND _index <= {index})" for group, index in known.items()
    )
    return f"""
        SELECT grp, stack(4, 'events', events, 'late', late, 'begun', begun, 'assigned', assigned)
            AS (fact, n)
        FROM (
            SELECT _group AS grp, count(*) AS events, count_if({late or "false"}) AS late,
                count_if(job_id IS NOT NULL AND ({begun})) AS begun,
                count_if(job_id IS NOT NULL AND type = '{JOB_ASSIGNED}') AS assigned
            FROM news GROUP BY _group)"""


def _of_jobs(d: SqlDialect, *, has_open: bool) -> str:
    """The number of jobs added, with and without a known beginning. A task of an unknown array
    begins with its first assignment."""
    columns = f"{d.group} AS grp, submitted_at, array_id, first_assigned_at"
    rows = f"SELECT {columns}, 1 AS more FROM new_jobs"
    if has_open:
        rows += f" UNION ALL SELECT {columns}, -1 FROM open_jobs"
    begun = "submitted_at IS NOT NULL OR (array_id IS NOT NULL AND first_assigned_at IS NOT NULL)"
    return f"""
        SELECT grp, stack(2, 'jobs_begun', begun, 'jobs_unbegun', total - begun) AS (fact, n)
        FROM (
            SELECT grp, sum(more) AS total, sum(CASE WHEN {begun} THEN more ELSE 0 END) AS begun
            FROM ({rows}) GROUP BY grp)"""


def _ended_twice() -> str:
    """Ends that follow an end. If the first was in an earlier batch the job is not open any more,
    and the second looks like a job without a beginning."""
    ends = quoted((JOB_ACKED, JOB_DEAD, JOB_EXPIRED, JOB_CANCELLED))
    return f"""
        SELECT grp, 'ended_twice', count(*) FROM moves
        WHERE type IN ({ends}) AND p_after IN ('ok', 'failed', 'dead', 'cancelled', 'purged')
        GROUP BY grp"""


def _of_attempts(d: SqlDialect, *, has_running: bool) -> str:
    rows = f"SELECT {d.group} AS grp, 1 AS more FROM new_attempts"
    if has_running:
        rows += f" UNION ALL SELECT {d.group}, -1 FROM running_before"
    return f"SELECT grp, 'attempts', sum(more) FROM ({rows}) GROUP BY grp"


def _busy_beyond(d: SqlDialect) -> str:
    """Hours in which a worker ran longer than its slots allow, before utilisation is capped."""
    return f"""
        SELECT ran.grp, 'busy_beyond', count(*)
        FROM (
            SELECT {d.group} AS grp, worker_id, hour, sum(busy_ms) AS busy_ms
            FROM busy GROUP BY {d.group}, worker_id, hour) ran
        JOIN (
            SELECT {d.group} AS grp, worker_id, max(slots) AS slots
            FROM sessions GROUP BY {d.group}, worker_id) there
        ON ran.grp = there.grp AND ran.worker_id = there.worker_id
        WHERE ran.busy_ms > there.slots * {HOUR_MS + SLACK_MS} GROUP BY ran.grp"""


def _hours_apart(d: SqlDialect) -> str:
    counted = "submitted + started + succeeded + failed + dead + cancelled + retried"
    return f"""
        SELECT grp, 'hours_apart', count(*)
        FROM (
            SELECT {d.group} AS grp, hour,
                sum(CASE WHEN dimension = 'all' THEN {counted} ELSE 0 END) AS of_all,
                sum(CASE WHEN dimension = 'client' THEN {counted} ELSE 0 END) AS by_client,
                sum(CASE WHEN dimension = 'queue' THEN {counted} ELSE 0 END) AS by_queue
            FROM new_hourly GROUP BY {d.group}, hour)
        WHERE of_all <> by_client OR of_all <> by_queue GROUP BY grp"""


def _dead_apart(d: SqlDialect) -> str:
    return f"""
        SELECT grp, 'dead_apart', count(*)
        FROM (
            SELECT t.grp, t.hour, sum(more) AS more
            FROM (
                SELECT {d.group} AS grp, hour, dead AS more FROM new_hourly
                WHERE dimension = 'all'
                UNION ALL
                SELECT {d.group}, hour, -jobs FROM new_dead) h
            JOIN touched t ON h.grp = t.grp AND h.hour = t.hour
            GROUP BY t.grp, t.hour)
        WHERE more <> 0 GROUP BY grp"""
