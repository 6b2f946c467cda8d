"""Gossip: processes that share a federation key find each other, by datagrams.

Read `records` (the messages), then `machine` (SWIM) with `nodes` (the node table) and `spread` (the
queue of updates to send), then `map` (from nodes to groups) and `following` (which groups to use).
`codec` encodes and authenticates datagrams. These are pure, and `setup` too; `node` adds the socket
and the clock, and `resolver` looks up host names.
"""
