"""What a member counts, and what it answers when it is asked for all of it. Pure.

Read `counted` first (the numbers, which are kept by whoever makes them), then `steps` (how
long things take), `jobs` (those that follow from what is applied), and `families` (names and values
of one moment).
"""
