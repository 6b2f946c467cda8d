"""Checkers: separate objects that watch a run and know nothing of each other."""
