from pathlib import Path

import pytest

from tests.scenarios import runner


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for path in runner.find_scenarios()],
)
def test_scenario(path: Path, rewrite: bool) -> None:
    machine = runner.load_machine(path.parent.name)
    text = path.read_text(encoding="utf-8")
    if rewrite:
        path.write_text(runner.rewrite(machine, text), encoding="utf-8")
        return
    difference = runner.compare(machine, text)
    assert not difference, f"{path.name} differs (see --rewrite)\n{difference}"
