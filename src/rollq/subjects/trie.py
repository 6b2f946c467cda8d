"""A prefix tree from patterns to values, searched by subject.

Each level has its literal children in a dict and two slots for the wildcards. A match looks up one
key per live branch and level, so its cost depends on the length of the subject and on the patterns
that match a prefix of it, not on the number of others.

Values are in insertion order (dicts, no sets): results depend only on the history of calls, not on
the hash seed of the process. Empty nodes are removed at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from rollq.subjects.grammar import ANY_ONE, ANY_REST, Tokens, parse_pattern, parse_subject

T = TypeVar("T", bound=Hashable)


class Trie(Generic[T]):
    """A set of (pattern, value) pairs, searched by subject."""

    __slots__ = ("_root", "_size")

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()
        self._size = 0

    def __len__(self) -> int:
        """The number of distinct (pattern, value) pairs."""
        return self._size

    def insert(self, pattern: str, value: T) -> bool:
        """Add a pair; False if it is present already.

        Raises:
            RemoteError: BAD_SUBJECT, if the pattern is not valid.
        """
        tokens = parse_pattern(pattern)
        node = self._root
        for token in _path(tokens):
            node = node.grow(token)
        if not node.add(value, _has_tail(tokens)):
            return False
        self._size += 1
        return True

    def remove(self, pattern: str, value: T) -> bool:
        """Remove a pair; False if it is not present.

        Raises:
            RemoteError: BAD_SUBJECT, if the pattern is not valid.
        """
        tokens = parse_pattern(pattern)
        walked: list[tuple[_Node[T], str]] = []
        node = self._root
        for token in _path(tokens):
            below = node.child(token)
            if below is None:
                return False
            walked.append((node, token))
            node = below
        if not node.drop(value, _has_tail(tokens)):
            return False
        self._size -= 1
        _prune(node, walked)
        return True

    def match(self, subject: str) -> list[T]:
        """Every value with a pattern that matches, each once, in a repeatable order.

        Raises:
            RemoteError: BAD_SUBJECT, if the subject is not valid.
        """
        found: dict[T, None] = {}
        live = [self._root]
        for token in parse_subject(subject):
            below: list[_Node[T]] = []
            for node in live:
                if node.tails is not None:
                    found.update(node.tails)
                if node.literals is not None:
                    literal = node.literals.get(token)
                    if literal is not None:
                        below.append(literal)
                if node.any_one is not None:
                    below.append(node.any_one)
            live = below
        for node in live:  # `>` matches nothing, too
            if node.tails is not None:
                found.update(node.tails)
            if node.exact is not None:
                found.update(node.exact)
        return list(found)

    def node_count(self) -> int:
        """The number of nodes below the root, counted; for tests and figures."""
        return sum(1 for _ in self._root.descendants())


class _Node(Generic[T]):
    """One level of one branch. Empty fields are None and not empty dicts: most nodes have one
    entry, and in a large tree every further object of a match is a cache miss."""

    __slots__ = ("any_one", "exact", "literals", "tails")

    def __init__(self) -> None:
        self.literals: dict[str, _Node[T]] | None = None
        self.any_one: _Node[T] | None = None
        self.exact: dict[T, None] | None = None  # of patterns that end here
        self.tails: dict[T, None] | None = None  # of patterns that end here with `>`

    def grow(self, token: str) -> _Node[T]:
        """The child for this token, created if absent."""
        below = self.child(token)
        if below is None:
            below = _Node()
            if token == ANY_ONE:
                self.any_one = below
            elif self.literals is None:
                self.literals = {token: below}
            else:
                self.literals[token] = below
        return below

    def child(self, token: str) -> _Node[T] | None:
        if token == ANY_ONE:
            return self.any_one
        return None if self.literals is None else self.literals.get(token)

    def cut(self, token: str) -> None:
        """Remove the child for this token, which must exist."""
        if token == ANY_ONE:
            self.any_one = None
        elif self.literals is not None:
            del self.literals[token]
            self.literals = self.literals or None

    def add(self, value: T, tail: bool) -> bool:
        values = self.tails if tail else self.exact
        if values is None:
            values = {}
            if tail:
                self.tails = values
            else:
                self.exact = values
        elif value in values:
            return False
        values[value] = None
        return True

    def drop(self, value: T, tail: bool) -> bool:
        values = self.tails if tail else self.exact
        if values is None or value not in values:
            return False
        del values[value]
        if not values and tail:
            self.tails = None
        elif not values:
            self.exact = None
        return True

    def is_bare(self) -> bool:
        return not (self.exact or self.tails or self.literals or self.any_one)

    def descendants(self) -> Iterator[_Node[T]]:
        stack = [self]
        while stack:
            node = stack.pop()
            below = [] if node.literals is None else list(node.literals.values())
            if node.any_one is not None:
                below.append(node.any_one)
            stack.extend(below)
            yield from below


def _path(tokens: Tokens) -> Tokens:
    """The tokens with nodes of their own: all except a final `>`."""
    return tokens[:-1] if _has_tail(tokens) else tokens


def _has_tail(tokens: Tokens) -> bool:
    return tokens[-1:] == (ANY_REST,)


def _prune(node: _Node[T], walked: list[tuple[_Node[T], str]]) -> None:
    """Remove empty nodes, from the leaf upwards."""
    while walked and node.is_bare():
        parent, token = walked.pop()
        parent.cut(token)
        node = parent
