"""What the benchmark says of its samples: medians, ratios, the document, the plot."""

from __future__ import annotations

import io
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from bench.figures import Figures, Outcome, Sample, number, percentile
from bench.plot import write_plot
from bench.ratios import RATIOS, Ratio
from bench.report import print_report, remarks, to_document
from bench.works.all import WORKS

PROMISED = [
    "noop_vs_jetstream_always",
    "noop_vs_jetstream_default",
    "noop_vs_core_nats",
    "submit64_vs_jetstream_always",
    "submit64_vs_rabbitmq_quorum_raw",
    "r3_submit64_vs_jetstream_r3_always",
    "r3_submit64_vs_etcd",
    "r3_submit64_vs_jetstream_raw",
    "r3_submit1024_vs_jetstream_raw",
    "submit_many_per_s",
    "submit1_p50_vs_fdatasync",
    "failover_kill_median_s",
    "failover_kill_worst_s",
    "failover_stop_median_s",
    "exec_true_vs_spawn",
    "exec_files_vs_spawn",
    "exec_true_vs_ray",
    "exec_true_vs_dask",
    "noop_vs_celery",
    "noop_vs_rq",
    "noop_vs_dramatiq",
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


def test_the_promised_keys_are_there_once() -> None:
    keys = [ratio.key for ratio in RATIOS]
    assert set(PROMISED) <= set(keys)
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("ratio", RATIOS, ids=lambda ratio: ratio.key)
def test_a_ratio_compares_what_its_work_measures(ratio: Ratio) -> None:
    sides = [ratio.ours, *([ratio.theirs] if ratio.theirs else [])]
    assert {peer for peer, _ in sides} <= set(WORKS[ratio.work].peers)
    assert {figure for _, figure in sides} <= {figure for figure, _ in WORKS[ratio.work].columns}


def test_a_ratio_divides_medians() -> None:
    document = to_document(three_runs(), is_quick=False)
    assert document["ratios"] == {"noop_vs_jetstream_always": 10.0}
    assert document["missed"] == ["noop_vs_jetstream_always"]
    cell = document["figures"]["noop"]["rollq:r1"]["jobs_per_s"]
    assert cell == {"median": 20.0, "low": 10.0, "high": 30.0, "values": [30.0, 10.0, 20.0]}


def test_the_worst_is_the_largest_and_zero_is_a_value() -> None:
    gaps = tuple(Sample("kill_gap_s", gap) for gap in (0.1, 0.2, 0.9))
    figures = Figures([Outcome("failover", "rollq:r3", "", (*gaps, Sample("lost", 0)))])
    document = to_document(figures, is_quick=True)
    assert document["ratios"] == {
        "failover_kill_median_s": 0.2,
        "failover_kill_worst_s": 0.9,
        "failover_lost": 0,
    }
    assert document["missed"] == []


def test_a_peer_that_measured_nothing_gives_no_ratio() -> None:
    figures = Figures([outcome("noop", "rollq:r1", jobs_per_s=5), outcome("noop", "nats:core")])
    assert to_document(figures, is_quick=True)["ratios"] == {}


def test_a_small_backlog_says_nothing_of_a_million_jobs() -> None:
    def ratios(jobs: float) -> dict[str, float]:
        figures = Figures([outcome("backlog", "rollq:r1", jobs=jobs, rss_full_mb=90)])
        found: dict[str, float] = to_document(figures, is_quick=True)["ratios"]
        return found

    assert ratios(50_000) == {}
    assert ratios(1_000_000) == {"backlog_rss_mb": 90}


def test_remarks_name_what_was_skipped_failed_or_disturbed() -> None:
    figures = Figures(
        [
            Outcome("noop", "rq:durable", skipped="no redis-server: apt-get install redis-server"),
            Outcome("noop", "ray:default", failure="RuntimeError: no"),
            Outcome("noop", "nats:core", busy_percent=40),
            Outcome("noop", "dask:default", busy_percent=3),
        ]
    )
    assert [line.split(":")[0] for line in remarks(figures)] == ["skipped", "failed", "disturbed"]
    assert "apt-get install redis-server" in remarks(figures)[0]


def test_the_tables_show_median_and_spread() -> None:
    text = io.StringIO()
    print_report(three_runs(), Console(file=text, width=120))
    assert "20 (10–30)" in text.getvalue()
    assert "noop_vs_jetstream_always" in text.getvalue()


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
