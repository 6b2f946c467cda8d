"""What the benchmark says of its samples: medians, ratios, the document, the plot."""

from __future__ import annotations

import io
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from rich.console import Console

from bench.figures import Figures, Outcome, Sample, number, percentile
from bench.machine import build_of
from bench.plot import write_plot
from bench.ratios import BY_KEY, RATIOS, Ratio
from bench.report import print_report, remarks, to_document
from bench.targets import TARGETS, Target
from bench.works.all import WORKS

PROMISED = [
    "noop_vs_jetstream_always",
    "noop_vs_jetstream_default",
    "noop_vs_core_nats",
    "submit64_vs_jetstream_always",
    "submit64_vs_rabbitmq_raw",
    "r3_submit64_vs_jetstream_r3_always",
    "r3_submit64_vs_etcd",
    "r3_submit64_vs_jetstream_r3_raw",
    "r3_submit1024_vs_jetstream_r3_raw",
    "submit_many_jobs_per_s",
    "submit1_p50_vs_fdatasync",
    "failover_median_s",
    "failover_worst_s",
    "failover_stop_median_s",
    "failover_lost",
    "failover_ended_twice",
    "failover_run_again",
    "failover_jetstream_median_s",
    "failover_etcd_median_s",
    "failover_rabbitmq_median_s",
    "exec_true_vs_spawn",
    "exec_files_vs_spawn",
    "exec_true_vs_ray",
    "exec_files_vs_ray",
    "exec_true_vs_dask",
    "exec_files_vs_dask",
    "backlog_rss_mb",
    "backlog_restart_s",
    "backlog_stall_ms",
    "backlog_first_result_s",
    "noop_vs_rabbitmq",
    "noop_vs_celery",
    "noop_vs_rq",
    "noop_vs_dramatiq",
    "noop1024_vs_core_nats",
    "noop1024_r3_vs_r1",
    "sustained_cpu_all_us",
    "sustained_jobs_per_s_last_vs_first",
    "lone_p50_vs_fdatasync",
    "beside_commit_p99_ms",
    "workers10_vs_one",
    "clients100_vs_one",
    "r3_large_submit64_vs_jetstream_r3_always",
]


def outcome(work: str, peer: str, **values: float) -> Outcome:
    samples = tuple(Sample(figure, value) for figure, value in values.items())
    return Outcome(work, peer, f"{peer} 1", samples)


def three_runs() -> Figures:
    runs = [
        outcome("noop", peer, jobs_per_s=rate)
        for peer, rates in (("rollq:r1", (30.0, 10.0, 20.0)), ("nats:durable", (2.0, 1.0, 4.0)))
        for rate in rates
    ]
    return Figures(runs)


def measured(figures: Figures) -> dict[str, float]:
    """The ratios of a document that have a value."""
    ratios = to_document(figures, is_quick=True)["ratios"]
    return {key: value for key, value in ratios.items() if value is not None}


def test_the_promised_keys_are_there_once() -> None:
    keys = [ratio.key for ratio in RATIOS]
    assert set(PROMISED) <= set(keys)
    assert len(keys) == len(set(keys))
    assert list(to_document(Figures([]), is_quick=True)["ratios"]) == keys


def test_every_target_is_of_a_ratio_and_named_once() -> None:
    keys = [target.key for target in TARGETS]
    assert set(keys) <= set(BY_KEY)
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("target", "value", "is_met"),
    [
        (Target("a", "", at_least=2), 2.0, True),
        (Target("a", "", at_least=2), 1.9, False),
        (Target("a", "", at_most=0), 0.0, True),
        (Target("a", "", at_most=0), 1.0, False),
        (Target("a", "", at_most=1), None, None),
        (Target("a", ""), 5.0, None),
    ],
)
def test_a_target_is_met_by_its_bound(
    target: Target, value: float | None, is_met: bool | None
) -> None:
    assert target.is_met(value) is is_met


def test_the_document_has_every_target_with_what_peers_gave() -> None:
    gaps = [("rollq:r3", 0.2), ("etcd:r3", 1.5), ("rabbitmq:r3", 0.4)]
    figures = Figures([outcome("failover", peer, kill_gap_s=gap) for peer, gap in gaps])
    targets = to_document(figures, is_quick=False)["targets"]
    assert [one["key"] for one in targets] == [target.key for target in TARGETS]
    median = next(one for one in targets if one["key"] == "failover_median_s")
    assert (median["measured"], median["at_most"], median["met"]) == (0.2, 0.3, True)
    assert (median["rollq"], median["peers"]) == ("0.2", "etcd:r3 1.5, rabbitmq:r3 0.4")
    assert all(one["met"] is None for one in targets if one["measured"] is None)


@pytest.mark.parametrize("ratio", RATIOS, ids=lambda ratio: ratio.key)
def test_a_ratio_compares_what_its_work_measures(ratio: Ratio) -> None:
    sides = [ratio.ours, *([ratio.theirs] if ratio.theirs else [])]
    assert {peer for peer, _ in sides} <= set(WORKS[ratio.work].peers)
    assert {figure for _, figure in sides} <= {figure for figure, _ in WORKS[ratio.work].columns}


def test_a_ratio_divides_medians() -> None:
    document = to_document(three_runs(), is_quick=False)
    assert measured(three_runs()) == {"noop_vs_jetstream_always": 10.0}
    assert document["missed"] == ["noop_vs_jetstream_always"]
    cell = document["figures"]["noop"]["rollq:r1"]["jobs_per_s"]
    assert cell == {"median": 20.0, "low": 10.0, "high": 30.0, "values": [30.0, 10.0, 20.0]}


def test_the_worst_is_the_largest_and_zero_is_a_value() -> None:
    gaps = tuple(Sample("kill_gap_s", gap) for gap in (0.1, 0.2, 0.9))
    figures = Figures([Outcome("failover", "rollq:r3", "", (*gaps, Sample("lost", 0)))])
    assert measured(figures) == {
        "failover_median_s": 0.2,
        "failover_worst_s": 0.9,
        "failover_lost": 0,
    }
    assert to_document(figures, is_quick=True)["missed"] == []


def test_a_limit_of_the_machine_is_its_best_run() -> None:
    bare = [outcome("submit", "local:overwrite", submit1_p50_ms=ms) for ms in (0.5, 0.25, 4.0)]
    figures = Figures([*bare, outcome("submit", "rollq:r1", submit1_p50_ms=1.0)])
    assert measured(figures) == {"submit1_p50_vs_fdatasync": 4.0}


def test_a_peer_that_measured_nothing_gives_no_ratio() -> None:
    figures = Figures([outcome("noop", "rollq:r1", jobs_per_s=5), outcome("noop", "nats:core")])
    assert measured(figures) == {}


def test_a_small_backlog_says_nothing_of_a_million_jobs() -> None:
    def ratios(jobs: float) -> dict[str, float]:
        return measured(Figures([outcome("backlog", "rollq:r1", jobs=jobs, rss_full_mb=90)]))

    assert ratios(50_000) == {}
    assert ratios(1_000_000) == {"backlog_rss_mb": 90}


def test_remarks_name_what_was_missing_once_failed_or_disturbed() -> None:
    figures = Figures(
        [
            Outcome("noop", "rq:durable", skipped="no redis-server: apt-get install redis-server"),
            Outcome(
                "submit", "rq:durable", skipped="no redis-server: apt-get install redis-server"
            ),
            Outcome("noop", "ray:default", failure="RuntimeError: no"),
            Outcome("noop", "nats:core", busy_percent=40),
            Outcome("noop", "dask:default", busy_percent=3),
        ]
    )
    assert [line.split(":")[0] for line in remarks(figures)] == ["missing", "failed", "disturbed"]
    assert "apt-get install redis-server" in remarks(figures)[0]


def test_the_tables_show_median_and_spread() -> None:
    text = io.StringIO()
    print_report(three_runs(), Console(file=text, width=120))
    assert "20 (10–30)" in text.getvalue()
    assert "noop_vs_jetstream_always" in text.getvalue()
    row = next(line for line in text.getvalue().splitlines() if "≥ 15" in line)
    assert "NO" in row
    assert "did not measure: noop_vs_jetstream_default" in text.getvalue()


def test_the_tables_and_the_document_name_the_loop() -> None:
    ours, theirs = (
        outcome("noop", "rollq:r1", jobs_per_s=1),
        outcome("noop", "rq:durable", window=1),
    )
    figures = Figures([msgspec.structs.replace(ours, loop="uvloop"), theirs])
    text = io.StringIO()
    print_report(figures, Console(file=text, width=160))
    rows = {
        line.split()[1]: line.split()[3] for line in text.getvalue().splitlines() if "│" in line
    }
    assert (rows["rollq:r1"], rows["rq:durable"]) == ("uvloop", "—")
    assert to_document(figures, is_quick=True)["loops"] == {"noop": {"rollq:r1": "uvloop"}}


def test_the_report_says_how_the_interpreter_was_built() -> None:
    text = io.StringIO()
    print_report(Figures([]), Console(file=text, width=160))
    assert "PGO" in text.getvalue().splitlines()[0]
    assert "LTO" in to_document(Figures([]), is_quick=True)["machine"]["python_build"]


@pytest.mark.parametrize(
    ("config", "flags", "told"),
    [
        ("", "-O3 -Wall", "-O3, no PGO, no LTO, static"),
        ("'--enable-shared' 'LIBS=-L/a b'", "-g -O3 -O2", "-O2, no PGO, no LTO, shared"),
        ("--enable-optimizations --with-lto", "", "-O?, PGO, LTO, static"),
        ("--with-lto=no", "-O3", "-O3, no PGO, no LTO, static"),
        ("--with-lto=thin", "-O3", "-O3, no PGO, LTO, static"),
    ],
)
def test_the_build_is_read_from_its_settings(config: str, flags: str, told: str) -> None:
    assert build_of(config, flags) == told


def test_the_plot_has_a_bar_for_each_peer(tmp_path: Path) -> None:
    write_plot(three_runs(), tmp_path / "plot.svg")
    root = ElementTree.parse(tmp_path / "plot.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    widths = [float(bar.get("width", "")) for bar in root.findall(f"{space}rect")[1:]]
    assert len(widths) == 2
    assert widths[0] > widths[1] > 0


def test_a_plot_of_zeros_is_drawn(tmp_path: Path) -> None:
    figures = Figures([outcome("failover", "rollq:r3", kill_gap_s=0)])
    write_plot(figures, tmp_path / "plot.svg")
    assert "rollq:r3" in (tmp_path / "plot.svg").read_text()


def test_percentile_and_number() -> None:
    ordered = [float(value) for value in range(1, 101)]
    assert (percentile(ordered, 0.5), percentile(ordered, 0.99)) == (51, 100)
    assert percentile([7.0], 0.99) == 7
    assert [number(value) for value in (0, 0.12345, 12.345, 1234.5)] == [
        "0",
        "0.123",
        "12.3",
        "1,234",
    ]
