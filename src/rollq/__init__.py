"""rollq: a durable, replicated job grid. Only what is named here is public API."""

from rollq.tasks import task

__version__ = "0.1.0"

__all__ = ["task"]
