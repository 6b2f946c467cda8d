"""Choices of the elected leader, not replicated: dispatch, placement, expiry, retry. Pure."""
