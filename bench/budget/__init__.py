"""Where the CPU time of a no-op job goes: by process and stage."""
