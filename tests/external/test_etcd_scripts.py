from pathlib import Path

import pytest

from tests.external import etcd_scripts
from tests.external.cases import absence, external_folder, find_files

PART = "scripts"


@pytest.mark.skipif(bool(absence(PART)), reason=absence(PART))
@pytest.mark.parametrize(
    "path", find_files(external_folder(PART)) or [Path("absent")], ids=lambda path: path.stem
)
def test_script(path: Path) -> None:
    outcome = etcd_scripts.run_script(path.read_text(encoding="utf-8"))
    assert outcome.verdict == "passed", outcome.detail
