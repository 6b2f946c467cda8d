"""Tables of the state for analytics: at one log index, written by a forked child."""
