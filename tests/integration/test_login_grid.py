"""A member in a process that lets in only who proves an account: clients, commands, readers and
workers, with the right credentials and with wrong ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rollq import BlockingClient, ErrorCode, Reader, RollqError
from rollq.roles.client.blocking.loop_thread import LoopThread
from rollq.roles.worker.node import WorkerNode
from rollq.roles.worker.setup import NodeSetup
from rollq.security.credentials import NONE, Credentials
from rollq.security.files import load_credentials
from rollq.security.secret import Secret
from rollq.security.signing import make_key, read_key
from rollq.security.tokens import make_token
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import ROOT, MemberProcess, until


class Guarded(NamedTuple):
    """A member that asks everybody who they are."""

    member: MemberProcess
    right: dict[str, Credentials]
    wrong: dict[str, Credentials]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Accounts are made while nobody is asked, and then everybody is."""
    directory = tmp_path_factory.mktemp("guarded")
    member = MemberProcess(directory, auth="allow").start()
    key = make_key("ann")

    def token(text: str) -> Credentials:
        return Credentials(token=Secret(text.encode()))

    try:
        with BlockingClient(member.address, timeout=DEADLINE_S) as client:
            access = client.access
            access.add("ann", roles=("client",))
            access.add_key("ann", read_key(key).public)
            access.add("root", roles=("admin",))
            access.add("box", roles=("worker",))
            access.add("gone", roles=("client",))
            right = {
                "a token": token(access.new_token("ann")),
                "a key": Credentials(account_key=key),
                "root": token(access.new_token("root")),
                "box": token(access.new_token("box")),
            }
            wrong = {
                "another token": Credentials(token=make_token("ann")[0]),
                "an expired token": token(access.new_token("ann", expires_ms=1_000)),
                "a disabled account": token(access.new_token("gone")),
                "an unknown account": Credentials(token=make_token("nobody")[0]),
                "another key": Credentials(account_key=make_key("ann")),
            }
            access.set_disabled("gone", True)
        member.stop()
        member = MemberProcess(directory, member.port, auth="require").start()
        yield Guarded(member, right, wrong)
    finally:
        member.kill()


@pytest.mark.parametrize("name", ["a token", "a key"])
def test_a_client_with_an_account_works(guarded: Guarded, name: str) -> None:
    credentials = guarded.right[name]
    with BlockingClient(guarded.member.address, credentials=credentials) as client:
        assert client.client_id.startswith("ann/")
        assert client.submit("calc").cancel()


def refusal(address: str, credentials: Credentials) -> RollqError:
    with (
        BlockingClient(address, timeout=DEADLINE_S, credentials=credentials) as client,
        pytest.raises(RollqError) as caught,
    ):
        client.submit("calc")
    return caught.value


@pytest.mark.parametrize(
    "name",
    [
        "another token",
        "an expired token",
        "a disabled account",
        "an unknown account",
        "another key",
    ],
)
def test_a_wrong_login_is_told_at_once_and_not_why(guarded: Guarded, name: str) -> None:
    """At once: long before the call would have run out of time, which is another error."""
    error = refusal(guarded.member.address, guarded.wrong[name])
    assert (error.code, error.message) == (ErrorCode.LOGIN_FAILED, "the login failed")
    assert "credentials" in error.hint


def test_whoever_proves_nothing_is_told_what_to_do(guarded: Guarded) -> None:
    error = refusal(guarded.member.address, NONE)
    assert error.code == ErrorCode.LOGIN_REQUIRED
    assert "ROLLQ_CREDENTIALS" in error.hint


def is_not_let_in(client: BlockingClient) -> bool:
    try:
        client.submit("calc").cancel()
    except RollqError as error:
        return error.code is ErrorCode.LOGIN_FAILED
    return False


def test_the_links_of_a_revoked_token_end(guarded: Guarded) -> None:
    """A link of the same account by another token stays."""
    address = guarded.member.address
    with BlockingClient(address, credentials=guarded.right["root"]) as root:
        text = root.access.new_token("ann")
        credentials = Credentials(token=Secret(text.encode()))
        with (
            BlockingClient(address, timeout=DEADLINE_S, credentials=credentials) as client,
            BlockingClient(address, credentials=guarded.right["a token"]) as other,
        ):
            assert client.submit("calc").cancel()
            other.submit("calc").cancel()
            account = root.access.account("ann")
            assert account is not None
            root.access.remove_token("ann", account.tokens[-1].id)
            until(lambda: is_not_let_in(client))
            assert other.submit("calc").cancel()


def test_the_member_says_in_its_log_what_was_wrong(guarded: Guarded) -> None:
    refusal(guarded.member.address, guarded.wrong["an unknown account"])
    line = guarded.member.until_line("a login failed")
    assert "rollq_" not in line


def test_a_reader_logs_in_too(guarded: Guarded) -> None:
    with Reader(guarded.member.address, credentials=guarded.right["root"]) as reader:
        reader.hold("test", 1)
        assert [holder.name for holder in reader.holders()] == ["test"]
        reader.free("test")
    for credentials, code in (
        (NONE, ErrorCode.LOGIN_REQUIRED),
        (guarded.wrong["another token"], ErrorCode.LOGIN_FAILED),
    ):
        with Reader(guarded.member.address, credentials=credentials) as reader:
            with pytest.raises(RollqError) as caught:
                reader.hold("test", 1)
            assert caught.value.code == code


def command(directory: Path | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    given = {"ROLLQ_CREDENTIALS": str(directory)} if directory is not None else {}
    return subprocess.run(
        [sys.executable, "-m", "rollq", *arguments],
        cwd=ROOT,
        env=os.environ | given | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def test_a_command_fails_at_once_with_a_hint(guarded: Guarded, tmp_path: Path) -> None:
    where = ("--servers", guarded.member.address, "--timeout", str(DEADLINE_S))
    refused = command(None, "status", *where)
    assert refused.returncode == 4
    assert "login_required" in refused.stderr
    assert "--credentials DIR" in refused.stderr
    token = tmp_path / "token"
    secret = guarded.right["root"].token
    assert secret is not None
    token.write_bytes(secret.reveal() + b"\n")
    token.chmod(0o600)
    assert load_credentials(tmp_path).token is not None
    assert command(tmp_path, "status", *where).returncode == 0
    submitted = command(tmp_path, "submit", "calc", *where, "--json")
    assert '"client":"root/cli-' in submitted.stdout.replace(" ", "")


def test_a_login_right_after_a_start_is_not_refused(guarded: Guarded) -> None:
    """A member that has just started has not applied all accounts yet, and says so."""
    guarded.member.kill()
    guarded.member.spawn()
    credentials = guarded.right["a token"]
    try:
        with BlockingClient(
            guarded.member.address, timeout=DEADLINE_S, credentials=credentials
        ) as client:
            client.submit("calc").cancel()
    finally:
        guarded.member.until_line("serving")


def test_a_worker_runs_jobs_once_it_is_let_in(
    guarded: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on trying, as its account may be mended without it."""
    monkeypatch.setattr("rollq.roles.redial.REDIAL_REFUSED_MS", 200)
    program = tmp_path / "exec" / "calc"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 7\n")
    program.chmod(0o755)
    worker = WorkerNode(
        NodeSetup(
            (guarded.member.address,),
            exec_dir=program.parent,
            jobs_dir=tmp_path / "jobs",
            state_dir=tmp_path / "state",
            cpu_cap=1.0,
            credentials=guarded.right["box"],
        )
    )
    thread = LoopThread("worker")
    with (
        BlockingClient(guarded.member.address, credentials=guarded.right["root"]) as root,
        BlockingClient(guarded.member.address, credentials=guarded.right["a token"]) as client,
    ):
        root.access.set_disabled("box", True)
        thread.start()
        try:
            thread.run(worker.start())
            until(lambda: any("'box': the account is dis" in one for one in guarded.member.lines))
            assert list(root.workers()) == []
            root.access.set_disabled("box", False)
            assert client.submit("calc").result(timeout=DEADLINE_S).stdout == "7\n"
        finally:
            thread.run(worker.stop())
            thread.stop()
