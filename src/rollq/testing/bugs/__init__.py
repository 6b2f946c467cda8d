"""Deliberate bugs, one module a part of the product: `consensus`, `grid`, `leader`, `worker`,
`client`, `storage`, `clocks`, `silence`, `limits`, `needs`, `flows`, `schedules`. `registry`
says what a mutant is; `rollq.testing.mutants` runs them.
"""
