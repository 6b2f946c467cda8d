"""Publishing beside core NATS, both through their Python clients. `sides` are the two; `child` runs
in processes of its own: it listens, answers or holds; `__main__` publishes, measures and prints."""
