"""Reads the history of a group, and its tables, from any member, on blocking sockets.

For tasks of Spark and for the command line: no loop, no thread. `reader` is the public class: it
chooses a member and asks another if one fails. `channel` is one connection, `tables` the requests
about tables and results, `leader` the requests that only the leader takes, `models` the answers.
"""
