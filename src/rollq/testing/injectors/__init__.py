"""Fault injectors, one function per fault; each returns whether the fault took effect.

`network`, `disks`, `processes`; `operations` has faults of workers and clients, and the actions of
operators.
"""
