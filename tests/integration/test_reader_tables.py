"""Tables and results read from real members, leader and followers, while jobs run."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollq import BlockingClient
from rollq.base.errors import DialError, ErrorCode, StateError
from rollq.base.ids import guid_from_text
from rollq.history.tables import TABLES
from rollq.roles.client.blocking.loop_thread import LoopThread
from rollq.roles.reader.channel import Channel
from rollq.roles.reader.reader import Reader
from rollq.roles.reader.tables import TableHandle
from rollq.roles.worker.node import WorkerNode
from rollq.roles.worker.setup import NodeSetup
from rollq.wire.messages import Error
from rollq.wire.reader_messages import HelloReader, PartAsk, ResultsAsk
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import MemberProcess, Members
from tests.integration.talk import accepted, find_leader, hang_up_all
from tests.integration.workers import write_program

APP = "tests.integration.sample_app"


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    """Three members and a worker."""
    directory = tmp_path_factory.mktemp("tables")
    write_program(directory, "say", 'echo "$@"; echo why >&2; exit 3')
    thread = LoopThread("worker")
    with Members(directory, 3) as running:
        thread.start()
        setup = NodeSetup(
            running.addresses,
            exec_dir=directory / "exec",
            jobs_dir=directory / "jobs",
            state_dir=directory / "worker",
            apps=(APP,),
            slots=2,
            ahead=256,
            cpu_cap=1.0,
        )
        worker = WorkerNode(setup)
        thread.run(worker.start())
        yield running
        thread.run(worker.stop())
        thread.stop()


@pytest.fixture
def client(members: Members) -> Iterator[BlockingClient]:
    with BlockingClient(",".join(members.addresses)) as running:
        yield running


def rows_of(reader: Reader, handle: TableHandle) -> list[Any]:
    """All rows of a table; every part must be as it was said to be."""
    rows: list[Any] = []
    decoder = msgspec.json.Decoder(TABLES[handle.table])
    for number, part in enumerate(handle.parts):
        data = list(reader.part(handle, number))
        assert all(one.endswith(b"\n") for one in data)
        found = decoder.decode_lines(b"".join(data))
        assert (len(found), sum(map(len, data))) == (part.row_count, part.size_bytes)
        rows += found
    return rows


def test_tables_of_every_member_agree_with_themselves_while_jobs_run(
    members: Members, client: BlockingClient
) -> None:
    count = 3_000
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(client.submit_many, "noop", [b"x"] * count)
        for turn in range(6):
            address = members.addresses[turn % 3]
            with Reader(address) as reader:
                jobs, attempts, queues, workers = reader.tables(
                    "jobs", "attempts", "queues", "workers"
                )
                assert jobs.index == attempts.index == queues.index == workers.index
                found = rows_of(reader, jobs)
                states = Counter(row.state for row in found)
                assert len({row.job_id for row in found}) == len(found)
                counted: Counter[str] = Counter()
                for row in rows_of(reader, queues):
                    counted.update({word: getattr(row, word) for word in states})
                    assert row.tasks_waiting == 0
                assert +counted == states
                running = [one for one in rows_of(reader, attempts) if one.outcome == "running"]
                assert len(running) == states["running"]
                assert sum(one.held for one in rows_of(reader, workers)) == states["running"]
        batch = work.result(DEADLINE_S)
    assert batch.wait(DEADLINE_S).ok == count
    with Reader(members.addresses) as reader:
        done = [row for row in rows_of(reader, reader.table("jobs")) if row.exec == "noop"]
    assert Counter(row.state for row in done) == {"ok": count}


def test_results_say_what_a_program_said_in_a_table_and_by_id(
    members: Members, client: BlockingClient
) -> None:
    job = client.submit("say", ["hello", "wörld"])
    result = job.result(DEADLINE_S)
    for address in members.addresses:
        with Reader(address) as reader:
            fresh = reader.span(fresh=True).applied
            unknown = bytes(16)
            (row,) = reader.results([unknown, job.job_id], index_min=fresh)
            assert reader.results([job.id], index_min=fresh) == [row]
            rows = {one.job_id: one for one in rows_of(reader, reader.table("results"))}
            assert rows[job.id] == row
            assert (row.stdout, row.stderr, row.exit_code) == ("hello wörld\n", "why\n", 3)
            assert (row.state, row.status, row.exec) == ("failed", 1, "say")
            assert guid_from_text(row.job_id) == result.job_id
            assert reader.results([]) == []


def test_many_results_come_in_slices(members: Members, client: BlockingClient) -> None:
    batch = client.submit_many("noop", [b"x"] * 1_000)
    assert batch.wait(DEADLINE_S).ok == 1_000
    ids = [one.job_id for one in batch.results()]
    with Reader(members.addresses) as reader:
        rows = reader.results(ids, index_min=reader.span(fresh=True).applied)
    assert [guid_from_text(row.job_id) for row in rows] == ids


def test_a_handle_may_be_read_elsewhere(members: Members, client: BlockingClient) -> None:
    client.submit("noop").result(DEADLINE_S)
    with Reader(members.addresses[0]) as reader:
        handle = pickle.loads(pickle.dumps(reader.table("jobs")))
    with Reader(members.addresses[1]) as other:
        assert rows_of(other, handle)


def test_who_asks_for_less_of_the_same_index_is_given_what_there_is(tmp_path: Path) -> None:
    member = MemberProcess(tmp_path / "m").start()
    _, talker = find_leader([member.address])
    accepted(talker, range(1, 2))
    with Reader(member.address) as reader:
        jobs, queues = reader.tables("jobs", "queues")
        again = reader.table("queues")
        assert again == queues
        assert (len(rows_of(reader, jobs)), len(rows_of(reader, again))) == (1, 1)
    hang_up_all()
    member.kill()


REQUEST_ID = b"r" * 16  # what is asked under the nil id cannot be refused under it


def test_what_cannot_be_read_is_said(members: Members, client: BlockingClient) -> None:
    client.submit("noop").result(DEADLINE_S)
    with Reader(members.addresses) as reader:
        with pytest.raises(StateError, match="no table 'nope'") as caught:
            reader.table("nope")
        assert "jobs" in caught.value.hint
        handle = reader.table("workers")
        gone = msgspec.structs.replace(handle, export_id="nope")
        with pytest.raises(StateError) as caught:
            list(reader.part(gone, 0))
        assert caught.value.code is ErrorCode.EXPORT_GONE
    with Channel(handle.address, HelloReader(), 5.0) as channel:
        for ask in (
            PartAsk(REQUEST_ID, handle.export_id, 7),
            PartAsk(REQUEST_ID, handle.export_id, -1),
            PartAsk(REQUEST_ID, handle.export_id, -7),
            PartAsk(REQUEST_ID, handle.export_id, 0, 1 << 40),
            ResultsAsk(REQUEST_ID, ()),
        ):
            channel.send(ask)
            assert channel.receive(Error).code == ErrorCode.BAD_PAYLOAD


def test_what_was_written_down_goes_with_the_member(tmp_path: Path) -> None:
    member = MemberProcess(tmp_path / "m").start()
    with Reader(member.address, timeout_s=5.0) as reader:
        handle = reader.table("queues")
        assert handle.parts == ()
        assert len(list((member.state / "exports").iterdir())) == 1
        member.kill()
        assert (member.state / "exports").exists()
    member.start()
    assert not (member.state / "exports").exists()
    with Reader(member.address, timeout_s=5.0) as reader:
        reader.table("queues")
        assert (member.state / "exports").exists()
        assert member.stop() == 0
    assert not (member.state / "exports").exists()
    with Reader(member.address, timeout_s=0.2) as reader, pytest.raises(DialError, match="answers"):
        reader.table("queues")
