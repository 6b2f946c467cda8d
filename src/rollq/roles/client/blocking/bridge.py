"""Generates blocking classes from asyncio ones: calls run in the event loop of a background thread.

    class BlockingJob(Bridge, of=Job): ...

has every public method and attribute of `Job` that its body does not define itself:

- a coroutine function is run to its end, and its value returned;
- an asynchronous generator becomes an iterator, closed when the caller stops iterating;
- any other method is called in the loop's thread; a property is read directly;
- a returned object is wrapped if its class has a blocking form.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from concurrent.futures import Future
from itertools import islice
from typing import Any, ClassVar, Final

from rollq.base.errors import RollqError
from rollq.base.ids import JobId
from rollq.base.staged import StagedPart
from rollq.roles.client.blocking.loop_thread import LoopThread
from rollq.roles.client.calls.batches import BatchCalls, StageRun
from rollq.roles.client.calls.maps import MapCalls
from rollq.roles.client.jobs.parts import Message, PartBuilder, Redrive
from rollq.roles.client.jobs.specs import JobSpec
from rollq.roles.client.many.bulk import PAGE_JOBS
from rollq.roles.client.many.function_run import values_of
from rollq.roles.client.results.handles import Batch
from rollq.roles.client.results.result import Result

Function = Callable[..., Any]

BRIDGED: dict[type, type[Bridge]] = {}
OVERRIDES: dict[Function, Function] = {}


def overrides(method: Function) -> Callable[[Function], Function]:
    """Decorator: this function implements an asyncio method in every blocking class. It is called
    with the blocking object and the arguments."""

    def register(function: Function) -> Function:
        OVERRIDES[method] = function
        return function

    return register


# Methods of handles that only the client calls.
CLIENT_ONLY: Final = frozenset(
    ("complete", "cut", "deliver", "extend", "fail", "is_of", "welcomed")
)


def is_public(name: str) -> bool:
    """Whether a member of an asyncio class gets a blocking form."""
    return (not name.startswith("_") and name not in CLIENT_ONLY) or name in ("__call__", "__len__")


class Bridge:
    """A blocking object, whose asyncio counterpart lives in the loop of a thread."""

    _of: ClassVar[type]

    def __init_subclass__(cls, *, of: type | None = None) -> None:
        if of is None:
            return  # an application's own subclass
        cls._of = of
        BRIDGED[of] = cls
        members = dict(inspect.getmembers_static(of))
        for base in of.__mro__:
            for name, hint in inspect.get_annotations(base).items():
                members[name] = property(doc=_doc_of(hint))
        own = {name for base in cls.__mro__ for name in vars(base)}
        for name in filter(is_public, members):
            if name not in own:
                setattr(cls, name, _bridged(name, members[name]))

    def __init__(self, thread: LoopThread, inner: Any) -> None:
        self._thread = thread
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner).replace(type(self._inner).__name__, type(self).__name__, 1)

    def _repr_html_(self) -> str | None:
        shown = getattr(self._inner, "_repr_html_", None)
        return None if shown is None else shown()

    def _wrapped(self, value: Any) -> Any:
        """Wrap a returned value for the blocking side."""
        if isinstance(value, AsyncGenerator):
            return self._thread.iterate(value)
        made = BRIDGED.get(type(value))
        return value if made is None else made(self._thread, value)


def result_soon(job: object) -> Future[Result]:
    """The result of a blocking job, for those who wait for futures."""
    assert isinstance(job, Bridge)
    return asyncio.run_coroutine_threadsafe(job._inner.result(), job._thread.loop)


def _bridged(name: str, member: Any) -> Any:
    if not inspect.isfunction(member):
        return property(lambda self: self._wrapped(getattr(self._inner, name)), doc=member.__doc__)
    function = OVERRIDES.get(member)
    if function is None:
        function = _waiting if inspect.iscoroutinefunction(member) else _called
        if inspect.isasyncgenfunction(member):
            function = _iterated
        function = functools.partial(function, member)

    @functools.wraps(member)
    def call(self: Bridge, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    signature = inspect.signature(member)
    given = given_for(signature.return_annotation)
    shown: Any = call
    shown.__annotations__ = {**member.__annotations__, "return": given}
    shown.__signature__ = signature.replace(return_annotation=given)
    return call


def given_for(hint: str) -> str:
    """The return annotation of the blocking method, from that of the asyncio method. Classes that
    are bridged later are not replaced."""
    names = {of.__name__: made.__name__ for of, made in BRIDGED.items()}
    hint = re.sub(r"\bAsyncGenerator\[(.+), None\]", r"Iterator[\1]", hint)
    return re.sub(r"\w+", lambda name: names.get(name[0], name[0]), hint)


def _doc_of(hint: str) -> str | None:
    """The docstring for an attribute that has only an annotation: that of its blocking class."""
    return next((made.__doc__ for of, made in BRIDGED.items() if of.__name__ == hint), None)


def _waiting(method: Function, self: Bridge, *args: Any, **kwargs: Any) -> Any:
    return self._wrapped(self._thread.run(method(self._inner, *args, **kwargs)))


def _iterated(method: Function, self: Bridge, *args: Any, **kwargs: Any) -> Any:
    return self._thread.iterate(method(self._inner, *args, **kwargs))


def _called(method: Function, self: Bridge, *args: Any, **kwargs: Any) -> Any:
    return self._wrapped(self._thread.call(method, self._inner, *args, **kwargs))


# --- one call into the loop for many values, or an iterable that is read in the caller's thread


@overrides(MapCalls.map)
def _map(self: Bridge, *args: Any, **kwargs: Any) -> Iterator[Any]:
    run = self._inner._map_run(*args, **kwargs)
    try:
        while taken := self._thread.run(run.take()):
            yield from values_of(taken)
    finally:
        with contextlib.suppress(RollqError):  # a stopped client has ended its jobs' run
            self._thread.loop.call_soon_threadsafe(run.close)


@overrides(Batch.results)
def _results(self: Bridge) -> Iterator[Result]:
    while taken := self._thread.run(self._inner.take()):
        yield from taken


@overrides(Batch.job_ids)
def _job_ids(self: Bridge) -> Iterator[JobId]:
    ids: Iterator[JobId] = self._inner.job_ids()  # also when the client is stopped
    return ids


@overrides(BatchCalls.stage)
def _stage(
    self: Bridge,
    batch_key: str,
    part: str,
    jobs: Iterable[JobSpec],
    *,
    client_id: str = "",
    timeout: float | None = None,
) -> StagedPart:
    def messages(builder: PartBuilder) -> Iterator[Message]:
        left = iter(jobs)
        while page := list(islice(left, PAGE_JOBS)):
            if any(spec.files for spec in page):
                page = self._thread.run(self._inner._engine.inputs.settle_all(page))
            yield from builder.messages(page)
        yield from builder.rest()

    builder = PartBuilder(client_id or self._inner._engine.client_id, batch_key, part)
    return _staged(self, builder, messages(builder), timeout)


@overrides(BatchCalls.stage_redrives)
def _stage_redrives(
    self: Bridge,
    batch_key: str,
    part: str,
    jobs: Iterable[Redrive],
    *,
    client_id: str = "",
    timeout: float | None = None,
) -> StagedPart:
    builder = PartBuilder(client_id or self._inner._engine.client_id, batch_key, part)
    return _staged(self, builder, builder.redrives(jobs), timeout)


def _staged(
    self: Bridge, builder: PartBuilder, messages: Iterator[Message], timeout: float | None
) -> StagedPart:
    """Encode messages in this thread, while the loop sends the one before."""
    thread = self._thread
    stage = thread.call(StageRun, self._inner._engine, timeout)
    try:
        for message in messages:
            thread.run(stage.put((message,)))
        thread.run(stage.finish())
    finally:
        with contextlib.suppress(RollqError):  # a stopped client sends nothing again
            thread.call(stage.close)
    return builder.staged
