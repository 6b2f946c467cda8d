"""The OpenAPI document against a real cluster: whatever it lets somebody send is answered as it
says, and never with a failure of ours. A bounded number of requests for each route."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from rollq.roles.client.blocking.loop_thread import LoopThread
from rollq.web.openapi import make_document
from rollq.web.routes import API, ROUTES
from rollq.web.server import WebServer
from rollq.web.setup import WebSetup
from tests.effort import examples
from tests.integration.patience import DEADLINE_S
from tests.integration.small_grid import SmallGrid

CASES = examples(24)
CHECKS = (
    *(not_a_server_error, status_code_conformance),
    *(content_type_conformance, response_schema_conformance),
)
ENDLESS = ("/live", "/jobs/{id}/follow")
SCHEMA = schemathesis.openapi.from_dict(make_document(ROUTES, API))
FOUND: list[Any] = [one.ok() for one in SCHEMA.get_all_operations()]  # type: ignore[union-attr]
OPERATIONS = {f"{one.method.upper()} {one.path}": one for one in FOUND}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory: Path = tmp_path_factory.mktemp("schema")
    thread = LoopThread("web")
    thread.start()
    with SmallGrid(directory) as grid:
        server = thread.run(_started(grid.address))
        yield server.url.rstrip("/") + API
        thread.run(server.stop())
    thread.stop()


async def _started(address: str) -> WebServer:
    server = WebServer(WebSetup(address))
    server.start()
    return server


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", [one for one in OPERATIONS if not one.endswith(ENDLESS)])
def test_a_route_answers_as_the_document_says(url: str, name: str) -> None:
    @settings(
        max_examples=CASES,
        deadline=None,
        derandomize=True,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=OPERATIONS[name].as_strategy())
    def ask(case: Any) -> None:
        answer = case.call(base_url=url, timeout=DEADLINE_S)
        case.validate_response(answer, checks=CHECKS)

    ask()
