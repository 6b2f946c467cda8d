"""The kit: virtual clock, network and disk, clusters, workloads, checkers, mutants. Nothing in the
product imports it.

Reading order:

1. `sim`: the command. `cluster`: one run. `swarm`: what a seed decides. `silences`: its last phase.
2. `clock`, `jitter`, `network`, `disk`: the virtual world; `faults`: errors that it raises.
3. `sim_member`, `sim_worker`, `sim_client` (with `sim_session`, `sim_client_map`, `sim_batch`,
   `sim_topics`, `sim_schedules`, `sim_files`): production machines in it; `applications` and
   `workload`: what they are asked to do. `sim_gossip`: a federation, in a world of its own.
4. `nemesis` and `injectors`: faults. `ledger` and `checkers`: what must hold. `trace`: what
   happened.
5. `mutants` and `bugs`: deliberate bugs that must be found. `endurance`: a virtual day, for growth.
"""
