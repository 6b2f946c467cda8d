"""Programs that try to reach out of their directory through the worker: real ones, on a real disk.

A program may do what its user may. What must not happen is that the worker does it for somebody:
that it reads, writes or removes what lies elsewhere, because a program put a link in its way.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from rollq.base.jobs import Status
from rollq.store.archive import unpack
from tests.integration.workers import eventually, job_directories, running, write_program

CANARY = b"the canary sings\n"


def canary(directory: Path) -> Path:
    """A folder that looks like one of the worker's, with something in it to lose."""
    place = directory / "canary"
    for number in ("1", "2", "in", "deep"):
        (place / number).mkdir(parents=True)
        (place / number / "file").write_bytes(CANARY)
    (place / "file").write_bytes(CANARY)
    return place


def sings(place: Path) -> bool:
    """Whether all of it is as it was."""
    found = {str(one.relative_to(place)) for one in place.rglob("*")}
    files = {"file", *(f"{folder}/file" for folder in ("1", "2", "in", "deep"))}
    return found == files | {"1", "2", "in", "deep"} and all(
        (place / name).read_bytes() == CANARY for name in files
    )


# $1 is the canary. Each leaves something in the way of whoever reads or removes its directory.
HOSTILE = {
    "an input's folder is a link": "rm -r in; ln -s $1/in in; ln -s $1/deep deep",
    "links as outputs": "ln -s $1/file a; ln -s $1 b; ln -s / c; ln -s ../../.. d; ln -s e e",
    "hard links as outputs": "ln $1/file a; ln $1/1/file b; mkdir x; ln $1/in/file x/c",
    "an input is a link": "rm in/a; ln -s $1/file in/a",
    "an input is a hard link": "rm in/a; ln $1/file in/a",
    "odd files": "mkfifo fifo; mkdir x; mkfifo x/fifo; : > 'a\\b'; : > con; : > 'end '; : > a:b",
    "a FIFO in place of an input": "rm in/a; mkfifo in/a",
    "nothing is allowed": "mkdir -p x/y; : > x/y/z; ln -s $1 x/l; chmod 0 in/a x/y x in .",
    "a deep tree": "i=0; while [ $i -lt 300 ]; do mkdir d; ln -s $1 l; cd d; i=$((i+1)); done",
    "the directory is a link": 'd=$PWD; cd /; rm -r "$d"; ln -s $1 "$d"',
    "the directory is a file": 'd=$PWD; cd /; rm -r "$d"; echo x > "$d"',
    "the directory is gone": 'd=$PWD; cd /; rm -r "$d"',
    "the directory is another": 'd=$PWD; mv "$d" "$d.away"; mkdir "$d"; ln -s $1/deep "$d/in"',
}


@pytest.mark.parametrize("script", HOSTILE.values(), ids=HOSTILE)
def test_nothing_outside_is_touched_or_told(tmp_path: Path, script: str) -> None:
    place = canary(tmp_path)
    write_program(tmp_path, "hostile", f"{script}\necho done\n")
    write_program(tmp_path, "next", "cat in/a; pwd -P\n")
    jobs = os.path.realpath(tmp_path / "jobs")

    async def story() -> None:
        async with running(tmp_path, slots=1) as (_, member):
            member.assign(1, "hostile", str(place), files={"in/a": b"input\n"})
            ack, result = await member.outcome(1)
            assert (ack.status, result.stdout) == (Status.OK, "done\n")
            outputs = unpack(result.output_archive, 1 << 20) if result.output_archive else {}
            assert CANARY not in outputs.values()
            member.assign(2, "next", files={"in/a": b"input\n"})
            _, result = await member.outcome(2)
            text, where = str(result.stdout).splitlines()
            assert text == "input"
            assert where.startswith(jobs)
            assert sings(place)
        assert sings(place)
        # And what it left behind is in nobody's way when the worker starts again.
        async with running(tmp_path, slots=1) as (_, member):
            assert not job_directories(tmp_path)
        assert sings(place)

    asyncio.run(story())


def test_the_path_to_the_directories_may_be_taken_away(tmp_path: Path) -> None:
    """A link in place of the directory of all directories: later jobs run, and are removed, where
    they were before."""
    place = canary(tmp_path)
    write_program(
        tmp_path,
        "hostile",
        'd=${PWD%/*}; mv "$d" "$d.away"; ln -s $1 "$d"; mkdir x; echo x > x/y\n',
    )
    write_program(tmp_path, "next", "cat in/a; mkdir -p deep; echo x > deep/file; echo x > out\n")

    async def story() -> None:
        async with running(tmp_path, slots=1) as (_, member):
            member.assign(1, "hostile", str(place))
            await member.outcome(1)
            for number in range(2, 5):
                member.assign(number, "next", files={"in/a": b"input\n"})
                ack, result = await member.outcome(number)
                assert (ack.status, result.stdout) == (Status.OK, "input\n")
                outputs = unpack(result.output_archive or b"", 1 << 20)
                assert outputs == {"deep/file": b"x\n", "out": b"x\n"}
            (away,) = (tmp_path / "jobs").glob("*.away")
            await eventually(lambda: not os.listdir(away))
            assert sings(place)
        assert sings(place)
        async with running(tmp_path, slots=1):
            assert sings(place)
        assert sings(place)

    asyncio.run(story())
