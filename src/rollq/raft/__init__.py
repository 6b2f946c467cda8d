"""Consensus. Carries opaque bytes, knows nothing of jobs, reads no clock, does no IO."""
