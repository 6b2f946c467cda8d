"""Functions with Python values as jobs: `calls` packs one, `chains` submits workflows of them."""
