"""How files move: `python -m bench.files`. One module for each thing that is measured."""
