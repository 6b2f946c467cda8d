"""Deliberate bugs by the room they are in; `mutations` gathers them."""
