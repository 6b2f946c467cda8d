from pathlib import Path

import pytest

from tests.external import etcd_quorum
from tests.external.cases import absence, external_folder, find_files

PART = "quorum"


@pytest.mark.skipif(bool(absence(PART)), reason=absence(PART))
@pytest.mark.parametrize(
    "path", find_files(external_folder(PART)) or [Path("absent")], ids=lambda path: path.stem
)
def test_quorum(path: Path) -> None:
    outcome = etcd_quorum.run_cases(path.read_text(encoding="utf-8"))
    assert outcome.verdict == "passed", outcome.detail
