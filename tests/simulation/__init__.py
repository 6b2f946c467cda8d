"""Whole clusters from seeds: slower than unit tests, still seconds."""
