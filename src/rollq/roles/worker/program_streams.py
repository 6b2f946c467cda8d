"""The stdout and stderr of one program: read from pipes without its secrets, and kept."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from typing import Final

from rollq.roles.worker.capture import Tail
from rollq.roles.worker.fd_poller import FdPoller
from rollq.roles.worker.fitting import STREAMS, set_stream
from rollq.roles.worker.given_secrets import GivenSecrets
from rollq.roles.worker.outputs import ExecutionEnd
from rollq.security.masking import Masker

PIPE_READ_BYTES: Final = 64 * 1024
DRAIN_READS_MAX: Final = 64  # more than a pipe holds; the rest is of an escaped process
PLACES: Final = range(len(STREAMS))


class ProgramStreams:
    """Two pipes, from `open` to `drain` or `close`.

    Args:
        poller: Watches the pipes.
        tails: Keep what is read.

    Attributes:
        tails: The captured stdout and stderr so far.
    """

    def __init__(self, poller: FdPoller, tails: tuple[Tail, Tail]) -> None:
        self.tails = tails
        self._poller = poller
        self._pipes = [-1, -1]  # our ends; -1: not open
        self._maskers: tuple[Masker, ...] = ()  # one for each, if the job has secrets

    def mask(self, secrets: GivenSecrets) -> None:
        """Leave out these values from now on."""
        self._maskers = (secrets.masker(), secrets.masker())

    def masked(self, data: bytes) -> bytes:
        """Other data of the job, without its secrets."""
        return self._maskers[0].mask(data) if self._maskers else data

    def open(self) -> tuple[int, int]:
        """Open the pipes; returns the ends for the program, which the caller closes. Raises
        OSError."""
        self._pipes[0], out = os.pipe()
        try:
            self._pipes[1], err = os.pipe()
        except OSError:
            os.close(out)
            raise
        return out, err

    def watch(self) -> None:
        """The program has started: read what it writes."""
        for place in PLACES:
            os.set_blocking(self._pipes[place], False)
            self._poller.add(self._pipes[place], partial(self._readable, place))

    def drain(self) -> None:
        """The program has exited: read the rest, and close the pipes."""
        for place, fd in enumerate(self._pipes):
            if fd < 0:
                continue
            with contextlib.suppress(BlockingIOError):
                for _ in range(DRAIN_READS_MAX):
                    data = os.read(fd, PIPE_READ_BYTES)
                    if not data:
                        break
                    self._feed(place, data)
            self._close(place)
        for place, masker in enumerate(self._maskers):
            if rest := masker.finish():
                self.tails[place].feed(rest)

    def close(self) -> None:
        """Close the pipes, of a program that was not started."""
        for place in PLACES:
            self._close(place)

    def put_into(self, ending: ExecutionEnd, *, as_blobs: bool) -> None:
        """Put the ends of both streams into the end of the program. `as_blobs`: longer ones are
        uploaded as a whole."""
        for name, tail in zip(STREAMS, self.tails, strict=True):
            if tail.total:
                end = tail.end()
                set_stream(ending, name, end, tail.total)
                if len(end) < tail.total and not as_blobs:
                    ending.notes.append(f"{name}: the last {len(end)} of {tail.total} bytes")

    def _readable(self, place: int) -> None:
        data = os.read(self._pipes[place], PIPE_READ_BYTES)
        if data:
            self._feed(place, data)
        else:
            self._close(place)

    def _feed(self, place: int, data: bytes) -> None:
        self.tails[place].feed(self._maskers[place].feed(data) if self._maskers else data)

    def _close(self, place: int) -> None:
        fd = self._pipes[place]
        if fd >= 0:
            self._poller.close_fd(fd)
            self._pipes[place] = -1
