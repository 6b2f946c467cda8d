from __future__ import annotations

import os

from rollq.roles.client.jobs.specs import DRAWN_AT_ONCE, draw_id


def test_ids_are_new_across_draws() -> None:
    drawn = [draw_id() for _ in range(2 * DRAWN_AT_ONCE + 1)]
    assert {len(one) for one in drawn} == {16}
    assert len(set(drawn)) == len(drawn)


def test_a_forked_process_does_not_draw_what_its_parent_draws() -> None:
    draw_id()  # now some are left over
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, b"".join(draw_id() for _ in range(DRAWN_AT_ONCE)))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        theirs = pipe.read()
    os.waitpid(child, 0)
    ours = b"".join(draw_id() for _ in range(DRAWN_AT_ONCE))
    ids = [both[at : at + 16] for both in (theirs, ours) for at in range(0, len(both), 16)]
    assert len(ids) == 2 * DRAWN_AT_ONCE
    assert len(set(ids)) == len(ids)
