"""Reads a flow from a TOML file: every table is a job, and `after` names the tables that it waits
for.

Followers (`then`, `notify`) are converted to jobs that wait for the end of others; later stages do
not distinguish them.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from rollq.base.edges import CONDITION_WORDS
from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.ids import ClientId, JobId, guid_from_text, job_id_of_key
from rollq.cli.following import program_spec
from rollq.roles.client.calls.followers import Webhook, check_followed
from rollq.roles.client.jobs.options import FIELDS, Options, job_options
from rollq.roles.client.jobs.specs import Input, JobFile, JobSpec

OWN: Final = ("exec", "args", "files", "inputs", "outputs", "after")
FOLLOWING: Final = ("then", "notify")  # keys of a table, or of the whole flow at the top
FOLLOWER: Final = re.compile(r".*@(then|notify)[0-9]*", re.DOTALL)  # name of a follower's table
Tables = dict[str, dict[str, Any]]


def read_flow(path: Path, flow_name: str = "") -> Tables:
    """Read the jobs of a file by name, in dependency order. `flow_name` is passed to webhooks.

    Raises:
        LocalError: BAD_OPTIONS, naming the problem and its place.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _bad(path, error.strerror or str(error), "check the path") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _bad(path, str(error), "a flow is a TOML file with a table for each job") from None
    of_flow = {key: tables.pop(key) for key in FOLLOWING if _is_following(tables.get(key))}
    if not tables:
        raise _bad(path, "no jobs", "give each job a table: [name], then exec = …")
    for name, table in tables.items():
        _check_name(path, name, table)
    followers = dict(_followers(path, "", of_flow, list(tables), flow_name))
    for name, table in tables.items():
        asked = {key: table.pop(key) for key in FOLLOWING if key in table}
        followers |= _followers(path, name, asked, [name], flow_name)
    for name, table in (tables | followers).items():
        _check_table(path, name, table)
    return {name: tables[name] for name in _in_order(path, tables)} | followers


def is_follower(name: str) -> bool:
    """Whether a job of a flow is a follower of others."""
    return FOLLOWER.fullmatch(name) is not None


def specs_of(tables: Tables, client_id: ClientId, folder: Path) -> Iterator[JobSpec]:
    """Generate the specs of a flow in order; the key of each job is its name."""
    for name, table in tables.items():
        options = {key: value for key, value in table.items() if key not in OWN}
        if "after" in table:
            options["after"] = [_parent(one, tables, client_id) for one in table["after"]]
        yield JobSpec(
            table["exec"],
            [str(one) for one in table.get("args", ())],
            {key: folder / value for key, value in table.get("files", {}).items()}
            | _inputs(table, tables, client_id),
            options=cast("Options", options),
            outputs=table.get("outputs", ()),
            key=name,
        )


def _parent(text: str, tables: Tables, client_id: ClientId) -> tuple[JobId, str]:
    name, condition = _parted(text)
    return _id_of(name, tables, client_id), condition


def _inputs(table: Mapping[str, Any], tables: Tables, client_id: ClientId) -> dict[str, Input]:
    """References to output files of other jobs."""
    found: dict[str, Input] = {}
    for key, text in table.get("inputs", {}).items():
        name, _, output = text.partition(":")
        found[key] = JobFile(_id_of(name, tables, client_id), output)
    return found


def _id_of(name: str, tables: Tables, client_id: ClientId) -> JobId:
    return job_id_of_key(client_id, name) if name in tables else guid_from_text(name)


def _parted(text: str) -> tuple[str, str]:
    name, _, condition = text.partition(":")
    return name, condition or "ok"


def _is_following(given: Any) -> bool:
    """Whether a top-level `then` or `notify` is a follower of the flow, and not a job of this
    name."""
    return given is not None and not (isinstance(given, Mapping) and "exec" in given)


def _followers(
    path: Path, name: str, asked: Mapping[str, Any], names: list[str], flow_name: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Generate the tables of the followers of these jobs."""
    where, after = f"[{name}]: " if name else "", [f"{one}:ended" for one in names]
    for key, given in asked.items():
        for number, one in enumerate(given if isinstance(given, list) else [given], 1):
            try:
                check_followed(len(names))
                spec = _follower(key, one, flow_name)
            except LocalError as error:
                raise _bad(path, f"{where}{error.message}", error.hint) from None
            table = {"exec": spec.exec_name, "args": list(spec.args), "after": after}
            yield f"{name}@{key}{number if number > 1 else ''}", table | dict(spec.options)


def _follower(key: str, given: Any, flow_name: str) -> JobSpec:
    if key == "then" and isinstance(given, str):
        return program_spec(given)
    if key == "notify" and isinstance(given, str):
        return Webhook(given, name=flow_name).spec()
    if key == "notify" and isinstance(given, Mapping):
        options = dict(given)
        url, signing_key = (str(options.pop(one, "")) for one in ("url", "signing_key"))
        return Webhook(url, signing_key, flow_name, cast("Options", options)).spec()
    raise LocalError(ErrorCode.BAD_OPTIONS, f"{key} is {_written(given)}", f"write {HINTS[key]}")


def _check_name(path: Path, name: str, table: Any) -> None:
    where = f"[{name}]"
    if not isinstance(table, Mapping) or not isinstance(table.get("exec"), str):
        raise _bad(path, f"{where} has no exec", 'name its program: exec = "render"')
    if not name or ":" in name:
        raise _bad(path, f"{where}: a name cannot have a colon", "choose another name")
    if is_follower(name):
        why = "a name cannot end in @then or @notify"
        raise _bad(path, f"{where}: {why}", "choose another name")


def _check_table(path: Path, name: str, table: Mapping[str, Any]) -> None:
    where = f"[{name}]"
    for key, (fits, hint) in SHAPES.items():
        if key in table and not fits(table[key]):
            raise _bad(path, f"{where}: {key} is {_written(table[key])}", f"write {hint}")
    unknown = [key for key in table if key not in (*OWN, *FIELDS)]
    if unknown:
        known = ", ".join((*OWN, *FOLLOWING, *(one for one in FIELDS if one not in OWN)))
        raise _bad(path, f"{where}: no option {unknown[0]!r}", f"use one of: {known}")
    for twice in table.get("files", {}).keys() & table.get("inputs", {}).keys():
        what = f"{where}: the file name {twice!r} is there twice"
        raise _bad(path, what, "give it another name in files or in inputs")
    options = {key: value for key, value in table.items() if key not in OWN}
    try:
        job_options(cast("Options", options))
    except LocalError as error:
        raise _bad(path, f"{where}: {error.message}", error.hint) from None


def _in_order(path: Path, tables: Tables) -> list[str]:
    """Names in topological order; otherwise as in the file."""
    parents = {name: list(_parents_in(path, name, tables)) for name in tables}
    done: dict[str, None] = {}
    open_: dict[str, None] = {}  # the path from a job to the current one, to detect cycles
    for first in tables:
        stack = [first]
        while stack:
            name = stack[-1]
            left = [one for one in parents[name] if one not in done] if name not in done else []
            if name in done or not left:
                done[name] = None
                open_.pop(name, None)
                stack.pop()
                continue
            open_[name] = None
            circle = next((one for one in left if one in open_), None)
            if circle is not None:
                names = list(open_)
                way = " → ".join([*names[names.index(circle) :], circle])
                raise _bad(path, f"jobs wait for each other: {way}", "remove one of these")
            stack.append(left[0])
    return list(done)


def _parents_in(path: Path, name: str, tables: Tables) -> Iterator[str]:
    """The tables that a job waits for; other references must be job ids."""
    asked = [_parted(str(text)) for text in tables[name].get("after", ())]
    asked += [(text.partition(":")[0], "ok") for text in tables[name].get("inputs", {}).values()]
    for parent, condition in asked:
        if condition not in CONDITION_WORDS.values():
            hint = f"use one of: {', '.join(CONDITION_WORDS.values())}"
            raise _bad(path, f"[{name}]: no condition {condition!r}", hint)
        if parent in tables:
            yield parent
            continue
        try:
            guid_from_text(parent)
        except RollqError:
            hint = "name a table of the file, or give the id of a job"
            raise _bad(
                path, f"[{name}] waits for {parent!r}, which is not in the file", hint
            ) from None


def _bad(path: Path, what: str, hint: str) -> LocalError:
    return LocalError(ErrorCode.BAD_OPTIONS, f"{path}: {what}", hint)


def _written(given: Any) -> str:
    """A value of the file, much as it is written there; the start of a long one."""
    return json.dumps(given, ensure_ascii=False, default=str)[:64]


def _are_texts(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(one, str) for one in given)


def _are_arguments(given: Any) -> bool:
    # Booleans are rejected: their text form is ambiguous (true, True, 1).
    return isinstance(given, list) and all(type(one) in (str, int, float) for one in given)


def _are_paths(given: Any) -> bool:
    return isinstance(given, dict) and all(isinstance(one, str) for one in given.values())


def _are_left(given: Any) -> bool:
    return _are_paths(given) and all(all(one.partition(":")) for one in given.values())


HINTS: Final = {
    "then": 'a program and its arguments: then = "mail ops"; or a list of such',
    "notify": 'a URL: notify = "https://…"; { url = …, signing_key = … }; or a list of such',
}
SHAPES: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "args": (_are_arguments, 'a list of texts and numbers: args = ["--rows", 3]'),
    "outputs": (_are_texts, 'a list of patterns: outputs = ["*.csv"]'),
    "after": (_are_texts, 'a list of tables or ids: after = ["fetch", "train:ended"]'),
    "files": (_are_paths, 'names and paths: files = { "in.csv" = "data/in.csv" }'),
    "inputs": (_are_left, 'names, tables and files: inputs = { "in.csv" = "fetch:out.csv" }'),
}
