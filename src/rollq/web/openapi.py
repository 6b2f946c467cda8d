"""The OpenAPI document, generated from the table of routes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import version
from inspect import getdoc
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rollq.web.call import ApiCall, ApiReply
from rollq.web.errors import JSON

if TYPE_CHECKING:
    from rollq.web.routes import ApiRoute

PART: Final = re.compile(r"{(\w+)(?::\w+)?}")
REF: Final = "#/components/schemas/{name}"
PARTS: Final[dict[str, dict[str, Any]]] = {
    "id": {"type": "string", "format": "uuid"},
    "member": {"type": "string", "pattern": "^[0-9]{1,19}$"},
    "stream": {"type": "string", "enum": ["stdout", "stderr"]},
    "name": {"type": "string", "minLength": 1},
}


class ErrorBody(msgspec.Struct, frozen=True):
    """A stable code, what happened, and what to do."""

    code: str
    message: str
    todo: str


class ErrorDocument(msgspec.Struct, frozen=True):
    """Every error response."""

    error: ErrorBody


def openapi(call: ApiCall) -> ApiReply:
    """This document."""
    return ApiReply(call.web.openapi)


def make_document(routes: Iterable[ApiRoute], base: str) -> dict[str, Any]:
    """Generate the document for these routes."""
    rows = list(routes)
    kinds: list[Any] = [ErrorDocument]
    for row in rows:
        given = (row.body, row.form, row.answer)
        kinds += [one for one in given if one is not None and not isinstance(one, str)]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REF)
    known = dict(zip(map(str, kinds), schemas, strict=True))
    paths: dict[str, Any] = {}
    for row in rows:
        path = PART.sub(r"{\1}", row.path)
        paths.setdefault(path, {})[row.method.lower()] = _operation(row, known)
    return {
        "openapi": "3.1.0",
        "info": {"title": "rollq", "version": version("rollq")},
        "servers": [{"url": base}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(row: ApiRoute, known: dict[str, Any]) -> dict[str, Any]:
    words = (getdoc(row.handler) or "").replace("\n", " ")
    operation: dict[str, Any] = {
        "operationId": f"{row.method.lower()}{re.sub(r'[^a-z]+', '_', row.path)}",
        "summary": words,
        "parameters": [*_parts(row.path), *_parameters(row.query)],
        "responses": {
            str(row.status): {"description": words, "content": _content(row, known)},
            "default": {
                "description": "It was refused.",
                "content": {JSON: {"schema": known[str(ErrorDocument)]}},
            },
        },
    }
    if row.action is not None:
        operation["description"] = f"Asks the group for `{row.action}`."
    if row.body is not None:
        content = {JSON: {"schema": known[str(row.body)]}}
        if row.form is not None:
            content["multipart/form-data"] = {"schema": known[str(row.form)]}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _content(row: ApiRoute, known: dict[str, Any]) -> dict[str, Any]:
    if isinstance(row.answer, str):
        return {row.answer: {"schema": {"type": "string"}}}
    return {JSON: {"schema": known[str(row.answer)]}}


def _parts(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": PARTS[name]}
        for name in PART.findall(path)
    ]


def _parameters(query: type | None) -> list[dict[str, Any]]:
    if query is None:
        return []
    (schema,), components = msgspec.json.schema_components([query])
    made = components[schema["$ref"].rpartition("/")[2]]
    required = made.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": one}
        for name, one in made["properties"].items()
    ]
