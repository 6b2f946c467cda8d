"""Serialization of the arguments of a call, or of a bundle of calls; large values and files are
stored apart. A call is (1, args, kwargs). A bundle is (2, shared, rows): `shared` and every row are
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

APART_BYTES_MIN: Final = 16 * 1024  # a larger argument is a file of the job
VERSION: Final = 1
BUNDLE_VERSION: Final = 2
PLAIN_OR_INT: Final = PLAIN | {int}
ROW_BYTES: Final = 5  # msgpack's overhead per row, at most

NameOf: TypeAlias = Callable[[int], str]  # the name of the parameter at a position
# the external value it refers to; None: none
ReferenceOf: TypeAlias = Callable[[Any], Reference | None]


class PackedCall(NamedTuple):
    """The serialized arguments of a call."""

    call: bytes
    files: dict[str, Any]  # of the job, by name: bytes, paths, or references into the grid


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
        args: The leading positional arguments of every call.
        kwargs: The keyword arguments of every call.
        bytes_max: The maximum size of all of it.
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
        """Whether part of it is a file of the job."""
        return bool(self._packer.files)

    def add(self, args: tuple[Any, ...]) -> bool:
        """Add a call; False: it does not fit. The first one always does."""
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
        """All added calls."""
        call = encode((BUNDLE_VERSION, self._shared, self._rows))
        return PackedCall(call, self._packer.files)


class _ArgumentPacker:
    """Serializes arguments, and collects values that are stored apart in `files`."""

    def __init__(self, names: NameOf, reference: ReferenceOf | None) -> None:
        self.files: dict[str, Any] = {}
        self._names = names
        self._reference = reference

    def encoded(
        self, head: tuple[int, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> bytes:
        """Arguments in msgpack, after a head."""
        with contextlib.suppress(OverflowError, UnicodeEncodeError):  # handled below
            if all(type(value) in PLAIN_OR_INT for value in (*args, *kwargs.values())):
                made = encode((*head, args, kwargs))  # the common case
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
    """The arguments of a call.

    Raises:
        ValueError: it is damaged, or an argument cannot be made here.
    """
    version, args, kwargs = Unpacker(memoryview(b""), files).value(call)
    if version != VERSION:
        raise ValueError(f"a call of version {version}, which this worker does not know")
    return args, kwargs


def is_bundle(call: bytes) -> bool:
    """Whether the bytes are a bundle."""
    return call[:2] == BUNDLE_START


class Bundle:
    """Many calls of one function, each deserialized on demand.

    Attributes:
        rows: The arguments that differ between the calls.

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
        """The arguments of one of the calls.

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
