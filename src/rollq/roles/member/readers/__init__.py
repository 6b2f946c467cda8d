"""Readers of the history and of tables, served beside the loop on threads of their own.

A link whose first frame is HelloReader leaves the loop: its socket is given to a thread, which
reads files and writes to the socket, and asks the loop only for small slices of what it has in
memory. Any member serves, so that analytics need not touch the leader.
"""
