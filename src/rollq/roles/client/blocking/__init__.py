"""The clients for callers without an event loop. To be read in this order:

1. `loop_thread`: an event loop in a background thread.
2. `bridge`: generates blocking classes from the asyncio ones; `clients`: these classes. Type
   checkers read a stub beside it, which `docs/make_blocking.py` writes.
3. `current`: the default client of a process, which tasks use.
4. `executor`: the grid as an executor of futures.

No call is written here: it is written for asyncio, and bridged.
"""
