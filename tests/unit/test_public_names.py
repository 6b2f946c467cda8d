from __future__ import annotations

import subprocess
import sys

import pytest

import rollq


def test_every_public_name_is_there_and_no_other() -> None:
    assert rollq.__all__ == sorted(rollq.__all__)
    for name in rollq.__all__:
        assert getattr(rollq, name).__module__.startswith("rollq.")
    with pytest.raises(AttributeError, match="Servant"):
        _ = rollq.Servant


def test_the_client_is_imported_only_by_those_who_use_it() -> None:
    code = "import rollq, sys; sys.exit('asyncio' in sys.modules or 'rollq.net' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
