from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollq import task
from rollq.base.celery_names import OPTION_NAMES
from rollq.base.errors import LocalError
from rollq.base.needs import rate_of
from rollq.roles.client.jobs.options import FIELDS
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
    for bad in ("", "a b", "../a", "x" * 65, "größe"):
        with pytest.raises(LocalError, match=r"use up to 64 of a-z, A-Z, 0-9 and _ \. -"):
            task(bad)(print)

    def size() -> None: ...

    size.__name__ = "größe"
    with pytest.raises(LocalError, match=r'of another name is given one: @task\("name"\)'):
        task(size)
    task("one")(print)
    with pytest.raises(LocalError, match=r"two tasks .* of builtins and of builtins; rename one"):
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


def test_a_decorator_without_brackets_registers_too() -> None:
    @task
    def bare(value: int) -> int:
        return value

    @task(name="named")
    def other() -> None: ...

    assert bare(3) == 3
    assert set(TASKS) == {"bare", "named"}
    TASKS.clear()


class Colour(enum.Enum):
    RED = "red"


def test_arguments_become_what_the_parameters_say() -> None:
    def args(function: Any, *texts: str) -> tuple[Any, ...]:
        task("it")(function)
        return TASKS.pop("it").call_args(texts)

    def numbers(a: int, b: float, c: bool, d: bool) -> None: ...
    def things(a: bytes, b: Path, c: str, d: Colour, e: datetime.date) -> None: ...
    def structured(a: Point, b: list[int], c: int | None) -> None: ...
    def mixed(a, b: int = 2, *rest: float, key: int = 1) -> None: ...  # type: ignore[no-untyped-def]
    def plain(a, b: Any) -> None: ...  # type: ignore[no-untyped-def]
    def unknown(x: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821, UP037

    assert args(numbers, "7", "1.5", "true", "0") == (7, 1.5, True, False)
    day = datetime.date(2026, 1, 31)
    assert args(things, "é", "a/b", "5", "red", "2026-01-31") == (
        *("é".encode(), Path("a/b"), "5", Colour.RED),
        day,
    )
    assert args(structured, '{"x":1,"y":2}', "[1,2]", "null") == (Point(1, 2), [1, 2], None)
    assert args(mixed, "1", "2", "3", "4.5") == ("1", 2, 3.0, 4.5)
    assert args(mixed, "1") == ("1",)
    assert args(plain, "1", "2") == ("1", "2")
    assert args(unknown, "1") == ("1",)
    assert args(numbers, "1", "2", "1", "1", "more") == (1, 2.0, True, True, "more")
    for texts, why in (
        (("x", "1", "1", "1"), "argument 'a' must be int, and 'x' is not"),
        (("1", "x", "1", "1"), "argument 'b' must be float, and 'x' is not"),
        (("1", "1", "1", "maybe"), "argument 'd' must be bool, and 'maybe' is not"),
    ):
        with pytest.raises(TypeError, match=why):
            args(numbers, *texts)
        TASKS.clear()
    with pytest.raises(TypeError, match=r"argument 'b' must be list\[int\]"):
        args(structured, '{"x":1,"y":2}', '["a"]', "1")
    TASKS.clear()


def test_values_by_their_place_are_checked_as_others_are() -> None:
    @task
    def area(width: float, height: int = 2, note: Any = None) -> float:
        return width * height

    for args, made in (([1], (1.0,)), ([1.5, 2], (1.5, 2)), ([1, 2, b"x"], (1.0, 2, b"x"))):
        assert area.checked_values(list(args), {}) == (made, {})
    assert area.checked_values([1], {"height": 3}) == ((1.0, 3), {})
    for args in ([], [1, 2, 3, 4]):
        with pytest.raises(TypeError, match="argument"):
            area.checked_values(list(args), {})
    with pytest.raises(TypeError, match="argument 'height' must be int, and 'x' is not"):
        area.checked_values([1.0, "x"], {})


@pytest.mark.parametrize(
    ("given", "taken"), [("10/s", "10/s"), ("100/m", "100/min"), ("5/h", "5/h"), (3, "3/s")]
)
def test_a_rate_is_the_grids(given: Any, taken: str) -> None:
    with pytest.raises(LocalError, match=f"rollq limit set exec:NAME --rate {taken}$"):
        task("slow", rate_limit=given)
    assert rate_of(taken) > 0


def test_an_option_that_is_not_there_is_told_by_the_decorator() -> None:
    assert set(OPTION_NAMES) == set(FIELDS)
    for wrong, told in (
        ({"max_retrys": 3}, "no option 'max_retrys'; do you mean 'max_retries'"),
        ({"notify": "x"}, "no option 'notify'; use one of: queue, .*, countdown, max_retries"),
    ):
        with pytest.raises(LocalError, match=told):
            task("slow", **wrong)
    assert task("slow", max_retries=3)(print).options == {"max_attempts": 4}


def test_an_option_of_one_call_that_is_not_there_is_told_by_celerys_names() -> None:
    with pytest.raises(LocalError, match="no option 'countdwn'; do you mean 'countdown'"):
        task("slow")(print).apply_async(("a",), countdwn=3)


def test_a_coroutine_function_has_no_initializer() -> None:
    async def idle() -> None: ...

    with pytest.raises(LocalError, match="no process of its own"):
        task(initializer=print)(idle)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"bind": True}, "bind=True is not an option of a task; rollq.context"),
        ({"eta": 3}, "countdown=SECONDS"),
        ({"acks_late": True}, "always so"),
        ({"max_retries": "3"}, "max_retries='3'; give a number"),
        ({"max_retries": None}, "max_retries=None; give a number"),
        ({"retry_backoff": "soon"}, "retry_backoff='soon'; give a number"),
        ({"autoretry_for": ValueError}, "give a tuple of exceptions"),
        ({"autoretry_for": ("ValueError",)}, "give a tuple of exceptions"),
        ({"autoretry_for": "ValueError"}, "give a tuple of exceptions"),
        ({"initializer": 3}, "initializer=3; give a function"),
    ],
)
def test_what_cannot_be_meant_is_told_where_it_is_written(
    options: dict[str, Any], told: str
) -> None:
    with pytest.raises(LocalError, match=told):
        task("one", **options)
