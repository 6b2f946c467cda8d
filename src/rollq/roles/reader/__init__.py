"""Reads the history of a group, its tables and its views, from any member.

For tasks of Spark and for the command line on blocking sockets: no loop, no thread. `reader` is the
public class: it chooses a member and asks another if one fails. `channel` is one connection,
`tables` the requests about tables and results, `leader` the requests that only the leader takes,
`models` the answers. For processes that look all the time (pages) `observer` asks for views on an
event loop.
"""
