"""What strangers may send, as functions of bytes.

`targets` says what must hold whatever they are, `seeds` where to begin, `__main__` looks for bytes
that break it (`make fuzz`), and `test_replay` has the seeds, what was found with them, and small
damages of both, in every run of the tests.
"""
