"""Disk: write-ahead log, repair, snapshots. Stores bytes, knows raft types, not jobs."""
