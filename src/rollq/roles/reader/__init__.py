"""Reads the history of a group, and its tables, from any member, with sockets that block.

For tasks of Spark and for the command line: no loop, no thread.
"""
