"""Faults on real processes: three members, two workers and a client, and what a fault costs them.

`make chaos` runs all rounds and prints a table; `make chaos ROUNDS=leader-stop,leader-cut` some.
"""
