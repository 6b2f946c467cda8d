"""Disk: the write-ahead log, its repair, snapshots, and files below one directory. Stores bytes;
knows the types of raft, not jobs.

Reading order:

1. `disk`: the protocol; `real_disk`: a state directory of this machine (`writeback`,
   `descriptors`); `state_lock`: whose it is.
2. `record`, `wal`: the log; `places`: where each entry is; `synced`: how far it was synced. 3.
`walk`: reading the log back, and judging damage; `repair`: cutting or mending it. 4. `snapshots`,
`snapshot_header`, `snapshot_layout`; `spill`: bodies of jobs that do not fit into
   memory; `log_bodies`: large ones, which stay in the log; `body_files`: its segments that are held
   for them; `identity`: who a disk is.
5. `look`, `check`, `dump`: a state directory looked at and not changed, for `rollq doctor` and
   `wal`.
6. `safe_dir`, `removal`, `archive`: files of jobs, without following a link. `blobs`: files by
   digest. `at_rest`: whether the system encrypts what is written.
7. `backup_file`: a group in one file; `restoring`: a directory that is being made from it.
"""
