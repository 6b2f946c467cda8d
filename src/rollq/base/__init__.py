"""Words everybody speaks: ids, errors, limits, clock and jitter. Imports nothing of ours."""
