"""Consensus. Carries opaque bytes, knows nothing of jobs, reads no clock, does no IO.

Reading order:

1. `types`: entries, configurations, messages. `ready`: what the shell must do, in which order.
2. `node`: the public class. `state`: the record that all of the following work on.
3. `step`: the checks that every message passes first. `roles`: changes of role, term and
   configuration.
4. `election`, `replication`, `snapshots`, `reads`: the four message exchanges; `progress` is the
   leader's record of one follower, `quorum` counts majorities.
5. `log`: entries in memory and their indexes. `membership`: changes of the configuration; `codec`:
   a configuration as bytes.
"""
