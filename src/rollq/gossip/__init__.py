"""Gossip: processes that share a federation key find each other, by datagrams.

Read `records` (what is said), then `machine` (SWIM) with `nodes` (what is known) and `spread` (what
is being told), then `map` (from nodes to groups) and `following` (which of them to use). `codec`
makes datagrams bytes, and refuses those of strangers. These are pure, and `setup` too; `node` is
the socket and the clock around them, and `resolver` looks up its names.
"""
