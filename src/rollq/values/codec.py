"""Serialization of one Python value that preserves types: a tuple does not become a list.

A packed value is a version (one byte), the length of its head (four bytes, little endian), its head
in msgpack, and after it, each aligned to 64 bytes from the beginning, the buffers that the head
refers to: large data is neither copied when packed nor when read from a mapped file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec
from msgspec.msgpack import Ext

Buffer: TypeAlias = bytes | bytearray | memoryview

VERSION: Final = 1
HEAD_AT: Final = 5  # where the head begins
ALIGN_BYTES: Final = 64  # as in Arrow
BUFFER_BYTES_MIN: Final = 16 * 1024  # smaller buffers stay in the head
INT_MIN, INT_MAX = -(2**63), 2**64 - 1  # that msgpack can hold
PLAIN: Final = frozenset((type(None), bool, float, str))  # as msgpack has them
encode: Final = msgspec.msgpack.Encoder().encode


class Tag:
    """Tags of msgpack extensions: plain numbers, as msgspec needs them. Never renumber: bytes
    outlive the process."""

    INT: Final = 1  # beyond 64 bits
    TUPLE: Final = 2
    DICT: Final = 3  # whose keys are not all text
    SET: Final = 4
    FROZENSET: Final = 5
    BYTEARRAY: Final = 6
    COMPLEX: Final = 7
    DATETIME: Final = 8
    DATE: Final = 9
    TIME: Final = 10
    TIMEDELTA: Final = 11
    DECIMAL: Final = 12
    UUID: Final = 13
    FRACTION: Final = 14
    RANGE: Final = 15
    ORDERED_DICT: Final = 16
    DEQUE: Final = 17
    PURE_PATH: Final = 18
    IP: Final = 19
    ENUM: Final = 20
    DATACLASS: Final = 21
    STRUCT: Final = 22
    NAMED_TUPLE: Final = 23
    EXCEPTION: Final = 24
    BUFFER: Final = 25  # bytes behind the head
    FILE: Final = 26  # a file of the job, by name: a path where the job runs
    PACKED_FILE: Final = 27  # a value that is packed in a file of the job
    PACKED: Final = 28  # a separately packed value
    ARRAY: Final = 30  # numpy (29 is free)
    SCALAR: Final = 31  # of numpy
    ARROW: Final = 32
    PANDAS: Final = 33
    POLARS: Final = 34
    ZONE: Final = 35  # a time zone
    SLICE: Final = 36


class CannotTravelError(TypeError):
    """A value of this type cannot be serialized.

    Attributes:
        kind: The type.
        why: Details; may be empty.
    """

    def __init__(self, kind: type, why: str = "") -> None:
        self.kind = kind
        self.why = why
        name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
        super().__init__(f"{name} cannot be serialized" + (f": {why}" if why else ""))


class FileInput(NamedTuple):
    """A placeholder for a value that becomes a file where the job runs."""

    name: str
    source: Any  # bytes, a path, or a reference into the grid


class PackedInput(NamedTuple):
    """A placeholder for a value that is packed already."""

    source: Any  # bytes, or a reference into the grid


Reference: TypeAlias = FileInput | PackedInput


class Files(Protocol):
    """Access to the values that are stored apart from the arguments."""

    def buffer(self, name: str) -> Buffer:
        """The content of a file of the job. Raises ValueError."""

    def path(self, name: str) -> Any:
        """A path under which the job has it. Raises ValueError."""


def pack(value: Any) -> list[Buffer]:
    """A value as the parts of its bytes.

    Raises:
        CannotTravelError: naming the type that cannot.
    """
    packer = Packer()
    return packer.parts(packer.head(value))


def unpack(packed: Buffer, files: Files | None = None) -> Any:
    """The value, which may refer to the bytes.

    Raises:
        ValueError: it is damaged, or of a class or library that is not available.
    """
    view = memoryview(packed)
    if len(view) < HEAD_AT or view[0] != VERSION:
        raise ValueError("these bytes are not a value that this version of rollq can read")
    head_end = HEAD_AT + int.from_bytes(view[1:HEAD_AT], "little")
    return Unpacker(view[aligned(head_end) :], files).value(view[HEAD_AT:head_end])


class Packer:
    """Serializes one value into a head and buffers.

    Args:
        reference: The external value that a value refers to; None: none.
        add_file: Adds a file to the job and returns its name; None: files are not allowed.
    """

    def __init__(
        self,
        reference: Callable[[Any], Reference | None] | None = None,
        add_file: Callable[[FileInput | PackedInput], str] | None = None,
    ) -> None:
        self.buffers: list[memoryview] = []
        self._size = 0  # of the buffers, including padding
        self._reference = reference
        self._add_file = add_file

    def head(self, value: Any) -> bytes:
        """The value in msgpack.

        Raises:
            CannotTravelError: naming the type that cannot.
        """
        try:
            return encode(self.form(value))
        except RecursionError:
            raise CannotTravelError(
                type(value), "it is nested too deeply, or contains itself"
            ) from None
        except UnicodeEncodeError:
            raise CannotTravelError(str, "it has an unpaired surrogate") from None

    def parts(self, head: bytes) -> list[Buffer]:
        """All bytes: the head, and the buffers."""
        start = VERSION.to_bytes(1, "little") + len(head).to_bytes(HEAD_AT - 1, "little") + head
        if not self.buffers:
            return [start]
        parts: list[Buffer] = [start, bytes(aligned(len(start)) - len(start))]
        for buffer in self.buffers:
            parts += (buffer, bytes(aligned(buffer.nbytes) - buffer.nbytes))
        return parts

    def form(self, value: Any) -> Any:
        """The value in types of msgpack."""
        kind = type(value)
        if kind in PLAIN:
            return value
        if kind is int:
            return value if INT_MIN <= value <= INT_MAX else self.tagged_int(value)
        if kind is list:
            return value if _is_plain(value) else [self.form(one) for one in value]
        if kind is dict:
            if all(type(key) is str for key in value):
                return {key: self.form(one) for key, one in value.items()}
            return self.tagged(Tag.DICT, [one for pair in value.items() for one in pair])
        if kind is bytes:
            return value if len(value) < BUFFER_BYTES_MIN else self.buffer(value)
        write = WRITERS.get(kind) or self._writer(value)
        return write(self, value)

    def tagged(self, tag: int, inner: Any) -> Ext:
        """A value that is represented by another one."""
        return Ext(tag, encode(self.form(inner)))

    def tagged_int(self, value: int) -> Ext:
        """A number beyond 64 bits."""
        size = value.bit_length() // 8 + 1
        return Ext(Tag.INT, value.to_bytes(size, "little", signed=True))

    def buffer(self, content: Buffer) -> Any:
        """Bytes without a copy; small ones inline."""
        view = memoryview(content).cast("B")
        if view.nbytes < BUFFER_BYTES_MIN:
            return bytes(view)
        place = (self._size, view.nbytes)
        self.buffers.append(view)
        self._size += aligned(view.nbytes)
        return Ext(Tag.BUFFER, encode(place))

    def file(self, given: FileInput | PackedInput) -> Ext:
        """A value that becomes a file of the job, or is packed in one."""
        if isinstance(given, PackedInput) and isinstance(given.source, bytes):
            return Ext(Tag.PACKED, given.source)
        if self._add_file is None:
            raise CannotTravelError(type(given.source), "only arguments may be files")
        tag = Tag.FILE if isinstance(given, FileInput) else Tag.PACKED_FILE
        return Ext(tag, self._add_file(given).encode())

    def _writer(self, value: Any) -> Callable[[Packer, Any], Any]:
        """The writer for a type without an entry in the table: that of its family."""
        found = None if self._reference is None else self._reference(value)
        if found is not None:
            return lambda packer, _: packer.file(found)
        for choose in FAMILIES:
            write = choose(type(value))
            if write is not None:
                return write
        raise CannotTravelError(type(value))


class Unpacker:
    """Deserializes a head.

    Args:
        buffers: All buffers, concatenated.
        files: The values stored apart.
    """

    def __init__(self, buffers: memoryview, files: Files | None = None) -> None:
        self._buffers = buffers
        self._files = files

    def value(self, head: Buffer) -> Any:
        """The value of a head, or of the content of a tag.

        Raises:
            ValueError: it is damaged, or of a class or library that is not available.
        """
        try:
            return msgspec.msgpack.decode(head, ext_hook=self._tagged)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ValueError(f"damaged: {error}") from None
        except (TypeError, KeyError, IndexError, AttributeError, ArithmeticError) as error:
            # A class or record of another version lacks something.
            raise ValueError(f"cannot be read here: {type(error).__name__}: {error}") from error

    def _tagged(self, code: int, data: memoryview) -> Any:
        if code in INNER_READERS:
            return INNER_READERS[code](self.value(data))
        if code == Tag.INT:
            return int.from_bytes(data, "little", signed=True)
        if code == Tag.BUFFER:
            return bytes(self.buffer(data))
        if code == Tag.PACKED:
            return unpack(bytes(data), self._files)
        if code in (Tag.FILE, Tag.PACKED_FILE):
            return self._elsewhere(code, bytes(data).decode())
        read = READERS.get(code)
        if read is None:
            raise ValueError(f"a value of kind {code}, which this version of rollq does not know")
        return read(self, data)

    def buffer(self, place: Buffer) -> memoryview:
        """The buffer that a tag refers to."""
        offset, size = msgspec.msgpack.decode(place, type=tuple[int, int])
        if not 0 <= offset <= offset + size <= len(self._buffers):
            raise ValueError("damaged: a buffer is cut off")
        return self._buffers[offset : offset + size]

    def raw(self, inner: Buffer) -> tuple[Any, memoryview]:
        """A description and its bytes, not copied: two parts of a tag."""
        said, content = msgspec.msgpack.decode(inner, type=tuple[Any, Any], ext_hook=self._kept)
        return said, content if isinstance(content, memoryview) else memoryview(bytearray(content))

    def _kept(self, code: int, data: memoryview) -> Any:
        return self.buffer(data) if code == Tag.BUFFER else self._tagged(code, data)

    def _elsewhere(self, code: int, name: str) -> Any:
        files = self._files
        if files is None:
            raise ValueError("it refers to a file, and only arguments can")
        return files.path(name) if code == Tag.FILE else unpack(files.buffer(name), files)


Writer: TypeAlias = Callable[[Packer, Any], Any]
WRITERS: Final[dict[type, Writer]] = {}  # by the type itself
FAMILIES: Final[list[Callable[[type], Writer | None]]] = []  # for types without an entry
# by tag: values represented by another one
INNER_READERS: Final[dict[int, Callable[[Any], Any]]] = {}
READERS: Final[dict[int, Callable[[Unpacker, memoryview], Any]]] = {}  # by tag: the others


def aligned(size: int) -> int:
    """The next offset where a buffer may begin."""
    return -(-size // ALIGN_BYTES) * ALIGN_BYTES


def size_of(parts: list[Buffer]) -> int:
    """The size of all parts."""
    return sum(memoryview(part).nbytes for part in parts)


def _is_plain(values: list[Any]) -> bool:
    """Whether msgpack supports all items of a list; fast for long lists of numbers."""
    kinds = set(map(type, values))
    if kinds <= PLAIN:
        return True
    return kinds == {int} and min(values) >= INT_MIN and max(values) <= INT_MAX


def tell_by(kind: type, tag: int, inner: Callable[[Any], Any], make: Callable[[Any], Any]) -> None:
    """Register a type that is represented by another value."""
    WRITERS[kind] = lambda packer, value: packer.tagged(tag, inner(value))
    INNER_READERS.setdefault(tag, make)
