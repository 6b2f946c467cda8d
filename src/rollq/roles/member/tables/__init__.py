"""Tables of the state for analytics: at one log index, written by a forked child.

`exports` keeps them while they are read, `writer` writes the files, `rows` makes the rows. The
columns are in `history.tables`. The child changes no state and sends no message.
"""
