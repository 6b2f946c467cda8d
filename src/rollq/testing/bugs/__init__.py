"""Deliberate bugs, one module per part of the product: `consensus`, `grid`, `leader`, `worker`,
`client`, `storage`, `clocks`, `silence`, `limits`, `needs`, `flows`, `schedules`. `registry`
defines a mutant; `rollq.testing.mutants` runs them.
"""
