"""A client that submits without pause, many at a time, whatever happens to the members."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable

from rollq.wire import messages as wire
from tests.integration.talk import Talker, find_leader, submit

WINDOW = 64


class Load:
    """Runs in a thread inside a `with`. What was not answered is sent again to the next leader."""

    def __init__(self, addresses: Iterable[str], body: bytes = b"{}") -> None:
        self.accepted: dict[int, None] = {}
        self.failure: BaseException | None = None
        self._addresses = tuple(addresses)
        self._body = body
        self._numbers = itertools.count(1)
        self._pending: dict[int, None] = {}
        self._over = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._thread.join()

    def until_more(self, count: int, deadline_s: float = 20.0) -> None:
        """Wait until so many more than now are accepted."""
        wanted = len(self.accepted) + count
        with self._news:
            assert self._news.wait_for(
                lambda: len(self.accepted) >= wanted or self.failure is not None, deadline_s
            ), f"{len(self.accepted)} of {wanted} accepted"
        assert self.failure is None, self.failure

    def _run(self) -> None:
        try:
            while not self._over:
                _, talker = find_leader(self._addresses, "load")
                talker.socket.settimeout(1.0)  # a leader that is stopped says nothing
                try:
                    self._submit_to(talker)
                except OSError:
                    talker.close()
        except BaseException as error:
            self.failure = error
            with self._news:
                self._news.notify_all()

    def _submit_to(self, talker: Talker) -> None:
        talker.say(*(submit(number, self._body) for number in self._pending))
        while not self._over:
            fresh = list(itertools.islice(self._numbers, WINDOW - len(self._pending)))
            self._pending.update(dict.fromkeys(fresh))
            talker.say(*(submit(number, self._body) for number in fresh))
            answer = talker.hear_any()
            if isinstance(answer, wire.NotLeader):
                raise ConnectionResetError("redirected")
            assert isinstance(answer, wire.Accepted), answer
            number = int.from_bytes(answer.request_id, "big")
            self._pending.pop(number, None)
            with self._news:
                self.accepted[number] = None
                self._news.notify_all()
