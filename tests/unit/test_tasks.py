from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from rollq import task
from rollq.base.errors import LocalError
from rollq.tasks import TASKS


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has an empty registry."""
    for name in list(TASKS):
        monkeypatch.delitem(TASKS, name)


@dataclass
class Point:
    x: int
    y: int


def test_a_function_is_registered_and_stays_itself() -> None:
    @task("calcA")
    def first(value: str) -> str:
        return value

    @task()
    async def second() -> None: ...

    assert first("a") == "a"
    assert {name: one.in_loop for name, one in TASKS.items()} == {"calcA": False, "second": True}
    TASKS.clear()


def test_names_are_exec_names_and_taken_once() -> None:
    for bad in ("", "a b", "../a", "x" * 65):
        with pytest.raises(LocalError):
            task(bad)(print)
    task("one")(print)
    with pytest.raises(LocalError, match="two tasks"):
        task("one")(print)
    TASKS.clear()


def test_a_payload_becomes_what_the_function_says_it_takes() -> None:
    def raw(payload: bytes) -> None: ...
    def typed(point: Point) -> None: ...
    def plain(anything) -> None: ...  # type: ignore[no-untyped-def]
    def nothing() -> None: ...
    def keywords(*, x: int) -> None: ...
    def unknown(x: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821, UP037

    def args(function: Any, body: bytes) -> tuple[Any, ...]:
        task("it")(function)
        return TASKS.pop("it").payload_args(body)

    assert args(raw, b"\xff{") == (b"\xff{",)
    assert args(typed, b'{"x":1,"y":2}') == (Point(1, 2),)
    assert args(plain, b"[1]") == ([1],)
    assert args(unknown, b"[1]") == ([1],)
    assert args(keywords, b"[1]") == ([1],)
    assert args(nothing, b"") == ()
    assert args(len, b'"abc"') == ("abc",)
    with pytest.raises(msgspec.DecodeError):
        args(typed, b'{"x":"one","y":2}')
