"""Sockets: links that carry wire connections, the listener, the dialer. No policy."""
