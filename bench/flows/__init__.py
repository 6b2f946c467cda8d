"""Large flows: `python -m bench.flows`. How fast they are, and whether they survive kills."""
