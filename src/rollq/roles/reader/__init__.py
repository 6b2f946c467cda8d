"""Reads the history of a group, its tables and its views, from any member.

For Spark tasks and the command line, on blocking sockets: no loop, no thread. `reader` is the
public
class: it chooses a member and fails over to another. `channel` is one connection, `tables` the
requests for tables and results, `leader` the requests that only the leader serves, `models` the
answers. `observer` queries views on an event loop, for processes that poll (web pages).
"""
