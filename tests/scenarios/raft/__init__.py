"""Scenarios of consensus and the little world they are played in."""
