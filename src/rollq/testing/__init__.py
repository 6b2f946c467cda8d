"""The simulator: virtual clock, network and disk, clusters, workloads, checkers and mutants. No
product code imports it.

Reading order:

1. `sim`: the command. `cluster`: one run. `swarm`: the parameters drawn from a seed. `silences`:
the
   last phase of a run.
2. `clock`, `jitter`, `network`, `disk`: the virtual environment; `faults`: the exceptions that it
   raises.
3. `sim_member`, `sim_worker`, `sim_client` (with `sim_session`, `sim_client_map`, `sim_batch`,
   `sim_topics`, `sim_schedules`, `sim_files`): production machines with simulated IO;
   `applications` and `workload`: the load. `sim_gossip`: a federation, simulated separately.
4. `nemesis` and `injectors`: faults. `ledger` and `checkers`: invariants. `trace`: the event log.
5. `mutants` and `bugs`: deliberate bugs that must be found. `endurance`: a virtual day, for leaks.
"""
