"""Faults that the kit injects and product code never raises nor catches."""

from __future__ import annotations


class SimulatedCrash(BaseException):
    """The process dies here. Not an Exception: no handler of the product may survive it."""
