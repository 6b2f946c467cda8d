"""rollq: a durable, replicated job grid. Only what is named here is public API."""

__version__ = "0.1.0"
