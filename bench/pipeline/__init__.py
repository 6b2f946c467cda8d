"""The pipeline under measurement: time, size, and what survives kills."""
