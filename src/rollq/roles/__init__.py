"""Runnable roles: member, worker, client."""
