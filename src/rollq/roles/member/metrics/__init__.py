"""Metrics of a member. Pure.

Read `counted` first (the counters, kept by the parts that count), then `steps` (durations), `jobs`
(counted from applied entries), and `families` (names and present values).
"""
