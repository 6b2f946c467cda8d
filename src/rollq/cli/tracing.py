"""Creates a tracer, if the standard variables of OpenTelemetry are set."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from rollq.base.errors import ErrorCode, LocalError

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def open_tracer(service: str) -> Tracer | None:
    """A tracer, if an exporter is configured; otherwise None, and nothing is imported.

    Raises:
        LocalError: BAD_SETUP, if it is configured and the SDK is not installed.
    """
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    is_off = is_off or os.environ.get("OTEL_TRACES_EXPORTER", "otlp") == "none"
    variable = next((name for name in ENDPOINTS if os.environ.get(name)), "")
    if not variable or is_off:
        return None
    try:
        from rollq.observe.traces import make_tracer
    except ImportError as error:
        raise LocalError(
            ErrorCode.BAD_SETUP,
            f"{variable} is set, and a package is missing: {error.name}",
            "pip install 'rollq[trace]', or unset the variable",
        ) from None
    return make_tracer(service)
