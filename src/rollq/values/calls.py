"""The arguments of a call, or of a bundle of calls, as bytes, with what is large or a file apart,
and back. A call is (1, args, kwargs). A bundle is (2, shared, rows): `shared` and every row are
bytes of (args, kwargs); a call has the arguments of both, those of `shared` first."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec.msgpack import Ext

from rollq.values.codec import (
    PLAIN,
    CannotTravelError,
    FileInput,
    Files,
    PackedInput,
    Packer,
    Reference,
    Tag,
    Unpacker,
    encode,
    size_of,
)

APART_BYTES_MIN: Final = 16 * 1024  # an argument that takes more is a file of the job
VERSION: Final = 1
BUNDLE_VERSION: Final = 2
PLAIN_OR_INT: Final = PLAIN | {int}
ROW_BYTES: Final = 5  # that msgpack puts before a row, at most

NameOf: TypeAlias = Callable[[int], str]  # what the parameter at a place is called, for errors
ReferenceOf: TypeAlias = Callable[[Any], Reference | None]  # to what lives elsewhere; None: nothing


class PackedCall(NamedTuple):
    """What a function is called with, on its way."""

    call: bytes
    files: dict[str, Any]  # of the job, by name: bytes, paths, or what the grid has already


def pack_call(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    names: NameOf = lambda place: f"{place + 1}",
    reference: ReferenceOf | None = None,
) -> PackedCall:
    """Arguments as bytes.

    Raises:
        TypeError: naming the argument, and the type that cannot be serialized.
    """
    packer = _ArgumentPacker(names, reference)
    return PackedCall(packer.encoded((VERSION,), args, kwargs), packer.files)


class BundlePacker:
    """Packs calls of one function into one job.

    Args:
        args: The first of each call.
        kwargs: Those of each call.
        bytes_max: What all of it may take.
        names: As for `pack_call`.
        reference: As for `pack_call`.

    Raises:
        TypeError: as `pack_call`, also when a call is added.
    """

    def __init__(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        bytes_max: int,
        *,
        names: NameOf = lambda place: f"{place + 1}",
        reference: ReferenceOf | None = None,
    ) -> None:
        shared = len(args)
        self._packer = _ArgumentPacker(lambda place: names(shared + place), reference)
        self._shared = self._packer.encoded((), args, kwargs) if args or kwargs else b""
        self._rows: list[bytes] = []
        self._left_bytes = bytes_max - len(self._shared)

    @property
    def has_files(self) -> bool:
        """Whether something of it is a file of the job."""
        return bool(self._packer.files)

    def add(self, args: tuple[Any, ...]) -> bool:
        """Add a call; false: it does not fit beside the others. The first one always does."""
        files = self._packer.files
        before = len(files)
        row = self._packer.encoded((), args, {})
        left_bytes = self._left_bytes - len(row) - ROW_BYTES
        if left_bytes < 0 and self._rows:
            for name in list(files)[before:]:
                del files[name]
            return False
        self._left_bytes = left_bytes
        self._rows.append(row)
        return True

    def packed(self) -> PackedCall:
        """All calls that were added."""
        call = encode((BUNDLE_VERSION, self._shared, self._rows))
        return PackedCall(call, self._packer.files)


class _ArgumentPacker:
    """Packs arguments, and keeps what is apart of them in `files`."""

    def __init__(self, names: NameOf, reference: ReferenceOf | None) -> None:
        self.files: dict[str, Any] = {}
        self._names = names
        self._reference = reference

    def encoded(
        self, head: tuple[int, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> bytes:
        """Arguments in msgpack, behind a head."""
        with contextlib.suppress(OverflowError, UnicodeEncodeError):  # which is looked into below
            if all(type(value) in PLAIN_OR_INT for value in (*args, *kwargs.values())):
                made = encode((*head, args, kwargs))  # as nearly always
                if len(made) < APART_BYTES_MIN:
                    return made
        placed = [self._packed(value, self._names(place)) for place, value in enumerate(args)]
        named = {name: self._packed(value, name) for name, value in kwargs.items()}
        return encode((*head, placed, named))

    def _packed(self, value: Any, name: str) -> msgspec.Raw:
        packer = Packer(self._reference, self._add_file)
        try:
            head = packer.head(value)
        except CannotTravelError as error:
            raise TypeError(f"argument {name!r}: {error}") from None
        parts = packer.parts(head)
        if size_of(parts) < APART_BYTES_MIN:
            return msgspec.Raw(head)
        name = self._add_file(PackedInput(b"".join(parts)))
        return msgspec.Raw(encode(Ext(Tag.PACKED_FILE, name.encode())))

    def _add_file(self, given: FileInput | PackedInput) -> str:
        count = len(self.files)
        name = f"{count}/{given.name}" if isinstance(given, FileInput) else str(count)
        self.files[name] = given.source
        return name


def unpack_call(call: bytes, files: Files) -> tuple[list[Any], dict[str, Any]]:
    """What a function is to be called with.

    Raises:
        ValueError: it is damaged, or an argument cannot be made here.
    """
    version, args, kwargs = Unpacker(memoryview(b""), files).value(call)
    if version != VERSION:
        raise ValueError(f"a call of version {version}, which this worker does not know")
    return args, kwargs


def is_bundle(call: bytes) -> bool:
    """Whether it is many calls."""
    return call[:2] == BUNDLE_START


class Bundle:
    """Many calls of one function. Each has values of its own, made when they are asked for.

    Attributes:
        rows: What differs between the calls.

    Raises:
        ValueError: it is damaged.
    """

    def __init__(self, call: bytes, files: Files) -> None:
        try:
            _, self._shared, self.rows = _decode_bundle(call)
        except msgspec.MsgspecError as error:
            raise ValueError(f"damaged: {error}") from None
        self._unpacker = Unpacker(memoryview(b""), files)

    def values(self, row: bytes) -> tuple[list[Any], dict[str, Any]]:
        """What the function is to be called with for one of the rows.

        Raises:
            ValueError: it is damaged, or an argument cannot be made here.
        """
        args, kwargs = self._unpacker.value(row)
        if self._shared:
            first, kwargs = self._unpacker.value(self._shared)
            args = first + args
        return args, kwargs


BUNDLE_START: Final = encode((BUNDLE_VERSION, b"", ()))[:2]
_decode_bundle: Final = msgspec.msgpack.Decoder(tuple[int, bytes, list[bytes]]).decode
