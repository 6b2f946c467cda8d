"""The replicated state machine: commands in, state, events and effects out. Pure."""
