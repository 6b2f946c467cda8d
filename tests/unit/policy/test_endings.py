"""Reasons that are read from the texts of workers."""

from __future__ import annotations

import pytest

from rollq.base.reasons import Reason
from rollq.policy.endings import refusal_reason


@pytest.mark.parametrize(
    ("detail", "reason"),
    [
        ("disk_full (402): no room for its inputs", Reason.DISK_FULL),
        ("its outputs cannot be uploaded: disk_full (402): no room", Reason.DISK_FULL),
        ("its outputs cannot be uploaded: unreachable (600): no member", Reason.TRANSFER),
        ("its outputs cannot be uploaded: blob_corrupt (218): it changed", Reason.TRANSFER),
        ("its outputs cannot be uploaded: no descriptor is left", Reason.TRANSFER),
    ],
)
def test_outputs_without_room_are_told_from_those_that_were_not_taken(
    detail: str, reason: Reason
) -> None:
    assert refusal_reason(detail) is reason
