from __future__ import annotations

from rollq.base.bundle_limits import BUNDLE_CALLS_MAX, BUNDLE_MS, BUNDLE_PROBE_MS, BUNDLE_PROBES
from rollq.roles.client.many.function_run import BundlePacing


def test_bundles_grow_while_they_are_short() -> None:
    pace = BundlePacing(1_024, None)
    sizes = []
    for run_ms in (0, 0, BUNDLE_MS // 2, BUNDLE_MS, 4 * BUNDLE_MS, 5 * BUNDLE_MS):
        pace.ended(pace.size, run_ms, 0.0)
        sizes.append(pace.size)
    assert sizes == [8, 64, 128, 128, 128, 64]
    pace.ended(8, 0, 0.0)
    assert pace.size == 64, "that was one of an earlier size"
    for _ in range(9):
        pace.ended(pace.size, 0, 0.0)
    assert pace.size == BUNDLE_CALLS_MAX
    for _ in range(20):
        pace.ended(pace.size, 60_000, 0.0)
    assert pace.size == 1


def test_few_go_out_before_the_first_end() -> None:
    pace = BundlePacing(1_024, None)
    assert pace.allowed(5.0) == BUNDLE_PROBES
    assert pace.widen_at == 5.0 + BUNDLE_PROBE_MS / 1000
    pace.ended(1, 0, 5.05)
    assert pace.widen_at == 5.05 + BUNDLE_PROBE_MS / 1000
    assert pace.allowed(5.06) == BUNDLE_PROBES + 1
    for _ in range(2_000):
        pace.ended(8, 0, 5.06)
    assert pace.allowed(5.06) == 1_024
    assert pace.widen_at is None


def test_all_go_out_when_none_ends_for_a_while() -> None:
    pace = BundlePacing(1_024, None)
    assert pace.allowed(5.0) == BUNDLE_PROBES
    assert pace.allowed(5.0 + BUNDLE_PROBE_MS / 1000) == 1_024
    assert pace.widen_at is None


def test_a_size_by_hand_stays() -> None:
    pace = BundlePacing(64, 5)
    assert pace.allowed(0.0) == 64
    pace.ended(5, 0, 0.0)
    pace.ended(5, 60_000, 0.0)
    assert pace.size == 5
    assert BundlePacing(4, None).allowed(0.0) == 4
