"""Values of classes: enums, dataclasses, Structs, named tuples, exceptions.

A class is identified by its module and name. It is looked up in imported modules only, and must be
of the serialized kind; no module is imported, and no code of an application's dataclass or
exception runs.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec
from msgspec.msgpack import Ext

from rollq.base.errors import ErrorCode, RemoteError
from rollq.values.codec import (
    FAMILIES,
    INNER_READERS,
    CannotTravelError,
    Packer,
    Tag,
    Writer,
    encode,
)

MAIN: Final = "__main__"


def class_name(kind: type) -> str:
    """The serialized name of a class.

    Raises:
        CannotTravelError: it cannot be found by a name.
    """
    name = f"{_module_name(kind.__module__)}:{kind.__qualname__}"
    if _found(name) is not kind:
        raise CannotTravelError(kind, "it must be defined at the top of a module")
    return name


def find_class(name: str) -> type:
    """The class of a serialized name.

    Raises:
        ValueError: it is not available.
    """
    found = _found(name)
    if found is None:
        module, _, inner = name.partition(":")
        raise ValueError(f"the class {inner} is not defined: import {module} first")
    return found


def _found(name: str) -> type | None:
    module_name, _, inner = name.partition(":")
    module = sys.modules.get(module_name)
    if module is None and module_name == _module_name(MAIN):
        module = sys.modules.get(MAIN)
    found: Any = module
    for part in inner.split("."):
        # Not getattr, which may run code of the module.
        found = vars(found).get(part) if isinstance(found, ModuleType | type) else None
    return found if isinstance(found, type) else None


def _module_name(module: str) -> str:
    """The name by which other processes import it: a script is a module to them."""
    main = sys.modules.get(MAIN)
    if module != MAIN or main is None:
        return module
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name).removesuffix(f".{MAIN}")
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else MAIN


# --- enums


def _write_enum(packer: Packer, value: enum.Enum) -> Any:
    kind = type(value)
    # a flag may be a combination without a name
    is_named = kind.__members__.get(value.name) is value
    told = value.name if is_named else value.value
    return packer.tagged(Tag.ENUM, [class_name(kind), told, is_named])


def _enum_of(form: list[Any]) -> enum.Enum:
    name, told, is_named = form
    kind = _checked(find_class(name), enum.Enum, name)
    made: enum.Enum = kind[told] if is_named else kind(told)
    return made


# --- dataclasses, Structs, named tuples


def _write_dataclass(packer: Packer, value: Any) -> Any:
    kind = type(value)
    fields = {
        one.name: getattr(value, one.name)
        for one in dataclasses.fields(kind)
        if hasattr(value, one.name)
    }
    return packer.tagged(Tag.DATACLASS, [class_name(kind), fields])


def _dataclass_of(form: list[Any]) -> Any:
    name, fields = form
    kind = find_class(name)
    if not dataclasses.is_dataclass(kind):
        raise ValueError(f"{name} is not a dataclass in this process")
    made = object.__new__(kind)
    for one in dataclasses.fields(kind):
        if one.name in fields:
            object.__setattr__(made, one.name, fields[one.name])
        elif one.default is not dataclasses.MISSING:
            object.__setattr__(made, one.name, one.default)
        elif one.default_factory is not dataclasses.MISSING:
            object.__setattr__(made, one.name, one.default_factory())
    return made


def _write_struct(packer: Packer, value: msgspec.Struct) -> Any:
    kind = type(value)
    fields = {name: getattr(value, name) for name in kind.__struct_fields__}
    return packer.tagged(Tag.STRUCT, [class_name(kind), fields])


def _struct_of(form: list[Any]) -> Any:
    name, fields = form
    kind = _checked(find_class(name), msgspec.Struct, name)
    known = kind.__struct_fields__
    return kind(**{field: value for field, value in fields.items() if field in known})


def _write_named_tuple(packer: Packer, value: Any) -> Any:
    return packer.tagged(Tag.NAMED_TUPLE, [class_name(type(value)), list(value)])


def _named_tuple_of(form: list[Any]) -> Any:
    name, values = form
    kind = find_class(name)
    fields = _names_of(kind)
    if fields is None or len(fields) != len(values):
        raise ValueError(f"{name} is not a named tuple of these fields in this process")
    return tuple.__new__(kind, values)


def _names_of(kind: type) -> tuple[str, ...] | None:
    """The fields of a named tuple; None of any other type."""
    fields = getattr(kind, "_fields", None)
    return fields if issubclass(kind, tuple) and isinstance(fields, tuple) else None


# --- exceptions


def _write_exception(packer: Packer, error: BaseException) -> Any:
    """From the arguments that pickle would use, so that OSError keeps its file name. Arguments that
    cannot be serialized are replaced by the text."""
    kind = type(error)
    module = _module_name(kind.__module__)
    told = _text_of(error)
    name, text = f"{module}:{kind.__qualname__}", f"{kind.__qualname__}: {told}"
    try:
        made_of = error.__reduce__()
        args = made_of[1] if isinstance(made_of, tuple) else error.args
        state = {key: one for key, one in vars(error).items() if key != "__notes__"}
        return packer.tagged(Tag.EXCEPTION, [name, text, list(args), state])
    except Exception:  # any error of its class: fall back to the text
        return Ext(Tag.EXCEPTION, encode([name, _printable(text), [_printable(told)], {}]))


def _exception_of(form: list[Any]) -> BaseException:
    name, text, args, state = form
    kind = _found(name)
    if kind is None or not issubclass(kind, Exception):
        module, _, inner = name.partition(":")
        hint = f"import {module} to catch {inner} itself" if kind is None else ""
        return RemoteError(ErrorCode.JOB_FAILED, text, hint)
    try:
        # Built-in ones may set their attributes in __init__, which is safe.
        is_builtin = kind.__module__ == "builtins"
        error: Exception = kind(*args) if is_builtin else kind.__new__(kind, *args)
        error.args = tuple(args) if not isinstance(error, OSError) else error.args
        vars(error).update(state)
    except Exception:  # another version, or a class with its own rules
        return RemoteError(ErrorCode.JOB_FAILED, text)
    return error


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # of its class; tracebacks say the same
        return "<exception str() failed>"


def _printable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def _checked(kind: type, wanted: type, name: str) -> Any:
    if not issubclass(kind, wanted):
        raise ValueError(f"{name} is no {wanted.__name__} here")
    return kind


def _record_writer(kind: type) -> Writer | None:
    if issubclass(kind, enum.Enum):
        return _write_enum
    if issubclass(kind, msgspec.Struct):
        return _write_struct
    if issubclass(kind, Exception):
        return _write_exception
    if _names_of(kind) is not None:
        return _write_named_tuple
    # A subclass that is no dataclass itself, or also something else, would lose what it adds.
    if "__dataclass_fields__" in vars(kind) and not issubclass(kind, BUILTIN):
        return _write_dataclass
    return None


BUILTIN: Final = (int, float, str, bytes, list, tuple, dict, set, frozenset)
FAMILIES.append(_record_writer)
INNER_READERS[Tag.ENUM] = _enum_of
INNER_READERS[Tag.DATACLASS] = _dataclass_of
INNER_READERS[Tag.STRUCT] = _struct_of
INNER_READERS[Tag.NAMED_TUPLE] = _named_tuple_of
INNER_READERS[Tag.EXCEPTION] = _exception_of
