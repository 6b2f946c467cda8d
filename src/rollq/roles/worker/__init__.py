"""The worker: a pure machine that decides, and (later) the executor that runs."""
