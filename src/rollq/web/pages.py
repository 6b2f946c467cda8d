"""The static files of the pages: ES modules, CSS and SVG, and `index.html` for every page path.
Only files of that folder are served."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from rollq.web.errors import error_response, not_found
from rollq.web.setup import WebSetup

KINDS: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
INDEX: Final = "index.html"
_NAMES: Final = (
    *("jobs", "arrays", "batches", "dead", "workers", "queues", "cluster", "files"),
    *("access", "audit", "history", "settings", "submit", "login"),
)
PAGE_PATHS: Final = ("/", *(f"/{name}" for name in _NAMES), *(f"/{n}/{{id}}" for n in _NAMES))
REVALIDATE: Final = "no-cache"  # revalidated on each request: 304 if unchanged


class _File:
    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()
        self.kind = KINDS[path.suffix]
        self.tag = f'"{hashlib.sha256(self.data).hexdigest()[:32]}"'


class Pages:
    """All static files, read once: they are few and small."""

    def __init__(self, setup: WebSetup) -> None:
        root = setup.static
        self._files = {
            str(path.relative_to(root)): _File(path)
            for path in sorted(root.rglob("*"))
            if path.is_file() and path.suffix in KINDS
        }

    def index(self, request: Request) -> Response:
        """Serve the page; its script reads the path."""
        return self._serve(request, INDEX)

    def static(self, request: Request) -> Response:
        """Serve a static file."""
        return self._serve(request, request.path_params["path"])

    def _serve(self, request: Request, name: str) -> Response:
        file = self._files.get(name)
        if file is None:
            return error_response(not_found(f"nothing is at {request.url.path[:128]!r}"))
        headers = {"ETag": file.tag, "Cache-Control": REVALIDATE}
        if request.headers.get("if-none-match") == file.tag:
            return Response(status_code=304, headers=headers)
        return Response(file.data, headers=headers, media_type=file.kind)
