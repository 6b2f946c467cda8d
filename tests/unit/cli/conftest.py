"""Commands of these tests get no option from the environment, also beside tests that set some."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def no_options_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("ROLLQ_"):
            monkeypatch.delenv(name)
