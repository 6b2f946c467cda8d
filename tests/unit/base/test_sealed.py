from __future__ import annotations

import pytest

from rollq.base.sealed import seal, seal_all, sealed_bytes, unseal


@pytest.mark.parametrize("bodies", [[], [b"a"], [b"", b"ab", b""], [b"one", b"two" * 99]])
def test_many_are_sealed_as_each_is(bodies: list[bytes]) -> None:
    assert seal_all(bodies) == b"".join(map(seal, bodies))
    assert len(seal_all(bodies)) == sum(sealed_bytes(len(body)) for body in bodies)
    assert [unseal(seal(body)) for body in bodies if body] == [body for body in bodies if body]
