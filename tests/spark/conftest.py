"""One Spark for all tests here; `--spark` says of which kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from rollq.spark.source.versions import FixesItsEnd
from tests.spark import clusters


def pytest_configure(config: pytest.Config) -> None:
    """Spark before 4.2 leaves it to chance when it closes its sockets."""
    if FixesItsEnd is object:
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `any_spark` do not depend on the kind: they run with the first."""
    if config.getoption("--spark") == clusters.KINDS[0]:
        return
    repeated = [item for item in items if item.get_closest_marker("any_spark")]
    config.hook.pytest_deselected(items=repeated)
    items[:] = [item for item in items if item not in repeated]


@pytest.fixture(scope="session")
def kind(request: pytest.FixtureRequest) -> str:
    """Which Spark it is."""
    return str(request.config.getoption("--spark"))


@pytest.fixture(scope="session")
def lakes() -> dict[str, str]:
    """Why a format of tables cannot be tested here, by its name; "" if it can."""
    return clusters.missing_formats()


@pytest.fixture(scope="session")
def spark(
    kind: str, lakes: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """The session."""
    formats = [form for form, missing in lakes.items() if not missing]
    with clusters.running(kind, tmp_path_factory.mktemp("spark"), formats) as session:
        yield session
