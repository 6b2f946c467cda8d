from __future__ import annotations

import enum
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.msgpack import Ext

from rollq import RemoteError
from rollq.base.jobs import BlobRef
from rollq.values import records
from rollq.values.calls import (
    APART_BYTES_MIN,
    Bundle,
    BundlePacker,
    is_bundle,
    pack_call,
    unpack_call,
)
from rollq.values.codec import (
    CannotTravelError,
    FileInput,
    PackedInput,
    Tag,
    encode,
    pack,
    unpack,
)
from rollq.values.outcomes import OutcomePacker, unpack_outcomes


@dataclass
class Point:
    x: int
    y: int = 0


class Colour(enum.Enum):
    RED = 1


class Given:
    """What a call refers to, as a worker would have it."""

    def __init__(self, files: dict[str, Any]) -> None:
        self.files = files

    def buffer(self, name: str) -> bytes:
        content = self.files[name]
        assert isinstance(content, bytes)
        return content

    def path(self, name: str) -> Any:
        return ("path", name, self.files[name])


def test_what_cannot_travel_is_named_with_its_argument() -> None:
    for value, words in (
        (object(), "object cannot be serialized"),
        ([{"a": sys.stdout}], "cannot be serialized"),
        (lambda: 1, "function cannot be serialized"),
        ("\ud800", "surrogate"),
        (np.array([object()]), "Python objects"),
        (type("Local", (), {})(), "Local cannot be serialized"),
    ):
        with pytest.raises(TypeError, match=words) as caught:
            pack_call((1, value), {}, names=lambda place: ("first", "second")[place])
        assert str(caught.value).startswith("argument 'second': ")
        with pytest.raises(TypeError, match="argument 'key': "):
            pack_call((), {"key": value})


def test_what_contains_itself_cannot_travel() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(CannotTravelError, match="contains itself"):
        pack(loop)


def test_a_class_inside_a_function_cannot_travel() -> None:
    @dataclass
    class Inner:
        x: int

    with pytest.raises(CannotTravelError, match="top of a module"):
        pack(Inner(1))


def test_a_subclass_of_a_plain_kind_does_not_lose_what_it_adds() -> None:
    class Path2(str):
        __slots__ = ()

    class Table(np.ndarray):
        pass

    for value in (Path2("x"), np.zeros(3).view(Table)):
        with pytest.raises(CannotTravelError):
            pack(value)


def test_no_module_is_imported_for_a_name_in_bytes() -> None:
    assert "antigravity" not in sys.modules
    for tag, form in (
        (Tag.DATACLASS, ["antigravity:Thing", {}]),
        (Tag.ENUM, ["antigravity:Thing", "A", True]),
        (Tag.STRUCT, ["antigravity:Thing", {}]),
        (Tag.NAMED_TUPLE, ["antigravity:Thing", []]),
    ):
        with pytest.raises(ValueError, match="import antigravity first"):
            unpack(packed(tag, form))
    error = unpack(packed(Tag.EXCEPTION, ["antigravity:OhError", "OhError: no", ["no"], {}]))
    assert isinstance(error, RemoteError)
    assert error.message == "OhError: no"
    assert "antigravity" not in sys.modules


def test_only_classes_of_the_kind_are_made() -> None:
    for tag, form in (
        (Tag.DATACLASS, ["subprocess:Popen", {"args": "true"}]),
        (Tag.ENUM, ["subprocess:Popen", ["true"], False]),
        (Tag.STRUCT, ["subprocess:Popen", {"args": "true"}]),
        (Tag.NAMED_TUPLE, ["subprocess:Popen", ["true"]]),
    ):
        assert subprocess.Popen.__name__ == "Popen"
        with pytest.raises(ValueError, match=r"subprocess:Popen is no"):
            unpack(packed(tag, form))
    made = unpack(packed(Tag.EXCEPTION, ["subprocess:Popen", "x", [["true"]], {}]))
    assert isinstance(made, RemoteError)
    made = unpack(packed(Tag.EXCEPTION, ["builtins:SystemExit", "SystemExit: 3", [3], {}]))
    assert isinstance(made, RemoteError)


def test_no_array_of_objects_is_made() -> None:
    head = encode(Ext(Tag.ARRAY, encode((["|O", [1], "C"], bytes(8)))))
    with pytest.raises(ValueError, match="objects"):
        unpack(b"\x01" + len(head).to_bytes(4, "little") + head)


def test_a_record_of_another_version_keeps_what_both_know() -> None:
    name = records.class_name(Point)
    assert unpack(packed(Tag.DATACLASS, [name, {"x": 1, "z": 3}])) == Point(1, 0)


def test_a_large_argument_is_a_file_and_the_others_are_not() -> None:
    large = np.arange(APART_BYTES_MIN)
    call = pack_call((1, large), {"more": "x" * APART_BYTES_MIN, "few": (2,)})
    assert len(call.call) < 64
    assert list(call.files) == ["0", "1"]
    args, kwargs = unpack_call(call.call, Given(call.files))
    assert args[0] == 1
    np.testing.assert_array_equal(args[1], large)
    assert kwargs == {"more": "x" * APART_BYTES_MIN, "few": (2,)}
    assert pack_call((5, large), {}).files["0"] == call.files["0"], "the same content, sent once"


def test_what_an_argument_refers_to_stays_where_it_is() -> None:
    ref = BlobRef(b"d" * 32, 10**9)

    class Handle:
        def __init__(self, what: Any) -> None:
            self.what = what

    call = pack_call(
        (Handle(PackedInput(ref)), [Handle(FileInput("a.csv", ref))]),
        {"small": Handle(PackedInput(b"".join(pack({1, 2}))))},
        reference=lambda value: value.what if isinstance(value, Handle) else None,
    )
    assert call.files == {"0": ref, "1/a.csv": ref}
    inner = b"".join(pack("whole"))
    args, kwargs = unpack_call(call.call, Given({"0": inner, "1/a.csv": "content"}))
    assert args == ["whole", [("path", "1/a.csv", "content")]]
    assert kwargs == {"small": {1, 2}}


def test_a_path_is_a_file_of_the_call_and_of_nothing_else(tmp_path: Path) -> None:
    call = pack_call(([tmp_path / "a.csv"],), {"folder": tmp_path})
    assert call.files == {"0/a.csv": tmp_path / "a.csv", f"1/{tmp_path.name}": tmp_path}
    with pytest.raises(CannotTravelError, match="only arguments may be files"):
        pack(tmp_path)


def test_classes_of_a_script_are_found_by_the_name_of_its_module(tmp_path: Path) -> None:
    script = tmp_path / "shop.py"
    script.write_text(
        "from dataclasses import dataclass\n"
        "from rollq.values.codec import pack, unpack\n"
        "@dataclass\n"
        "class Order:\n"
        "    item: str\n"
        "if __name__ == '__main__':\n"
        "    packed = b''.join(pack(Order('pear')))\n"
        "    assert b'shop:Order' in packed and type(unpack(packed)) is Order\n"
    )
    subprocess.run([sys.executable, str(script)], check=True)


def packed(tag: int, form: Any) -> bytes:
    head = encode(Ext(tag, encode(form)))
    return b"\x01" + len(head).to_bytes(4, "little") + head


def test_calls_are_packed_together_and_stay_apart() -> None:
    large = "x" * APART_BYTES_MIN
    packer = BundlePacker((b"f",), {"more": [1]}, 1_000, names=lambda place: f"at {place}")
    assert packer.add((1, (2,)))
    assert packer.add((3, Point(1, 2)))
    assert not packer.has_files
    assert not packer.add((4, "y" * 2_000)), "no room"
    assert packer.add((5, large))
    with pytest.raises(TypeError, match="argument 'at 2': object cannot be serialized"):
        packer.add((6, object()))
    packed = packer.packed()
    assert list(packed.files) == ["0"]
    assert is_bundle(packed.call)
    assert not is_bundle(pack_call((1, 2), {}).call)
    bundle = Bundle(packed.call, Given(packed.files))
    found = [bundle.values(row) for row in bundle.rows]
    calls = [(1, (2,)), (3, Point(1, 2)), (5, large)]
    assert found == [([b"f", *args], {"more": [1]}) for args in calls]
    assert found[0][1]["more"] is not found[1][1]["more"], "each call has its own"


def test_one_call_always_fits() -> None:
    packer = BundlePacker((), {}, 10)
    assert packer.add(("x" * 100,))
    assert not packer.add((1,))
    with pytest.raises(ValueError, match="damaged"):
        Bundle(packer.packed().call[:-3], Given({}))


def test_outcomes_are_those_of_their_calls() -> None:
    outcomes = OutcomePacker()
    shared = [1]
    for value in (1, 2**70, "a", shared, np.zeros(20_000, "u1"), None):
        outcomes.returned(value)
    shared.append(2)
    outcomes.raised(KeyError("k"), "where")
    with pytest.raises(CannotTravelError):
        outcomes.returned("\ud800")
    outcomes.returned(Point(3, 4))
    values, failures = unpack_outcomes(b"".join(outcomes.parts()))
    assert values[:4] == [1, 2**70, "a", [1]]
    assert values[4].sum() == 0
    assert values[5:] == [None, None, Point(3, 4)]
    assert [(one.place, repr(one.error), one.trace) for one in failures] == [
        (6, "KeyError('k')", "where")
    ]
    with pytest.raises(ValueError, match="not the ends of calls"):
        unpack_outcomes(b"".join(pack(5)))


class SilentError(Exception):
    """An exception that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_exception_that_cannot_say_what_it_is_travels() -> None:
    error = unpack(b"".join(pack(SilentError(1))))
    assert (type(error), error.args) == (SilentError, (1,))
    (packed,) = pack(SilentError(object()))
    assert b"SilentError: <exception str() failed>" in packed


def test_an_array_without_its_bytes_is_damaged() -> None:
    """Whatever lies in memory would be its content."""
    head = encode(Ext(Tag.ARRAY, encode((["<f8", [4], "C"], b""))))
    with pytest.raises(ValueError, match="damaged"):
        unpack(b"\x01" + len(head).to_bytes(4, "little") + head)
    assert unpack(b"".join(pack(np.empty((3, 0))))).shape == (3, 0)
