"""Exceptions of the simulator; product code neither raises nor catches them."""

from __future__ import annotations


class SimulatedCrash(BaseException):
    """The process crashes here. Not an Exception, so that no handler of the product catches it."""
