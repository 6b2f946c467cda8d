"""The kit: virtual clock, network and disk, clusters, workloads, checkers, mutants."""
