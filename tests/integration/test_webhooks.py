"""Webhooks and programs at the end of jobs, arrays, files and flows, with real processes."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollq import BlockingClient, JobSpec, LocalError, Webhook
from rollq.cli.fleet import Fleet, write_program
from rollq.net.ports import free_ports
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import until
from tests.integration.receiver import Receiver
from tests.integration.test_cli import Grid

HELD = 'while [ ! -e "$1" ]; do sleep 0.02; done; exit ${2:-0}'
SOON: Any = {"retry_base": 0.05}
HOOKS = ("--app", "rollq.webhook")


def programs(folder: Path) -> tuple[str, str]:
    write_program(folder / "exec", "held", HELD)
    write_program(folder / "exec", "exits", "exit $1")
    write_program(folder / "exec", "third", "exit $(($ROLLQ_TASK == 2))")
    write_program(folder / "exec", "told", 'cat "$ROLLQ_PARENTS" > "$1.new"; mv "$1.new" "$1"')
    write_program(folder / "exec", "where", 'echo "[$ROLLQ_PARENTS]"')
    return "--exec-dir", str(folder / "exec")


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    """A member, and a worker that posts."""
    folder = tmp_path_factory.mktemp("hooks")
    vault = folder / "vault"
    vault.mkdir(mode=0o700)
    (vault / "hook-key").touch(0o600)
    (vault / "hook-key").write_text("s3cret-key")
    with Fleet(folder) as fleet:
        fleet.start_members(free_ports(1))
        apps = (*HOOKS, "--app", "tests.integration.sample_app")
        options = (*programs(folder), *apps, "--vault", str(vault), "--slots", "8")
        fleet.start_worker("a", *options)
        yield Grid(fleet)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


@pytest.fixture
def client(grid: Grid) -> Iterator[BlockingClient]:
    with BlockingClient(grid.fleet.servers, timeout=DEADLINE_S) as made:
        yield made


def state_of(grid: Grid, job_id: str) -> str:
    return str(grid.json("job", job_id)["state"])


def test_told_once_of_one_that_ended_ok(grid: Grid, receiver: Receiver) -> None:
    told = grid.json("submit", "exits", "0", "--notify", receiver.url)
    (hook,) = told["then"]
    until(lambda: state_of(grid, hook) == "ok")
    (posted,) = receiver.until_told()
    (job,) = posted.told["jobs"]
    assert posted.key == posted.told["id"] == hook
    assert (posted.told["state"], posted.told["counts"]) == ("ok", {"ok": 1})
    assert (job["id"], job["state"], job["exit_code"]) == (told["id"], "ok", 0)
    assert (job["exec"], job["queue"], job["attempts"], job["key"]) == ("exits", "exits", 1, "")
    assert job["ended_ms"] == grid.json("job", told["id"])["changed_ms"]
    assert grid.run("logs", hook) == "127.0.0.1 answered 200"


def test_told_once_of_one_that_failed(client: BlockingClient, receiver: Receiver) -> None:
    job = client.submit("exits", ["3"], key="night", notify=receiver.url)
    assert job.result(DEADLINE_S).exit_code == 3
    (posted,) = receiver.until_told()
    (told,) = posted.told["jobs"]
    assert (told["state"], told["exit_code"], told["key"]) == ("failed", 3, "night")
    assert posted.told["state"] == "failed"
    assert job.followers == (posted.key,)


def test_told_once_of_one_that_is_dead(client: BlockingClient, receiver: Receiver) -> None:
    options: Any = {"retry_exit_codes": [7], "max_attempts": 2, "retry_base": 0.01}
    client.submit("exits", ["7"], notify=receiver.url, **options)
    (posted,) = receiver.until_told()
    (told,) = posted.told["jobs"]
    assert (told["state"], told["cause"], told["attempts"]) == ("dead", "exit_code", 2)
    assert told["exit_code"] == 7


def test_told_once_of_one_that_is_cancelled(
    grid: Grid, client: BlockingClient, receiver: Receiver, tmp_path: Path
) -> None:
    job = client.submit("held", [str(tmp_path / "never")], notify=receiver.url)
    until(lambda: state_of(grid, job.id) == "running")
    job.cancel()
    (posted,) = receiver.until_told()
    (told,) = posted.told["jobs"]
    assert (told["state"], told["signal"], told["exit_code"]) == ("cancelled", 9, 137)
    waiting = client.submit("exits", ["0"], delay=3_600, notify=receiver.url)
    waiting.cancel()
    (told,) = receiver.until_told(2)[1].told["jobs"]
    assert (told["state"], told["exit_code"], told["attempts"]) == ("cancelled", None, 0)


def test_told_once_of_an_array(grid: Grid, receiver: Receiver) -> None:
    array = grid.json("submit", "third", "--array", "5", "--notify", receiver.url)
    (posted,) = receiver.until_told()
    (told,) = posted.told["jobs"]
    assert (told["id"], told["state"]) == (array["id"], "failed")
    assert told["tasks"] == {"ok": 4, "failed": 1, "dead": 0, "cancelled": 0}
    assert posted.told["counts"] == {"ok": 4, "failed": 1}


def test_told_once_of_a_file_of_jobs(grid: Grid, receiver: Receiver, tmp_path: Path) -> None:
    source = tmp_path / "jobs.csv"
    source.write_text("0\n3\n0\n")
    asked = ("submit", "exits", "--from-file", str(source), "--notify", receiver.url)
    again = ("--client-id", "files", "--batch", "b1")
    ids = {one["id"] for one in grid.lines(*asked, *again)}
    (posted,) = receiver.until_told()
    assert {one["id"] for one in posted.told["jobs"]} == ids
    assert posted.told["counts"] == {"ok": 2, "failed": 1}
    assert {one["id"] for one in grid.lines(*asked, *again)} == ids
    until(lambda: state_of(grid, posted.key) == "ok")
    assert len(receiver.requests) == 1
    source.write_text("0\n" * 1_001)
    grid.run(*asked, code=2)
    assert "1001 jobs are to be followed by one" in grid.stderr


def test_told_once_of_several(client: BlockingClient, receiver: Receiver) -> None:
    several = client.submit_many("exits", [["0"], ["2"]])
    other = client.submit("exits", ["0"])
    hook = client.submit(Webhook(receiver.url, name="three").after(other, *several.job_ids()))
    assert hook.result(DEADLINE_S).ok
    (posted,) = receiver.until_told()
    assert posted.told["counts"] == {"ok": 2, "failed": 1}
    assert (posted.told["name"], posted.told["job_count"]) == ("three", 3)


FLOW = """
notify = "URL"
then = "told OUT"

[fetch]
exec = "exits"
args = [0]
notify = { url = "URL/fetch", signing_key = "hook-key" }

[train]
exec = "exits"
args = [4]
after = ["fetch"]

[report]
exec = "exits"
args = [0]
after = ["train"]
"""


def test_told_once_of_a_flow_with_a_job_that_fails(
    grid: Grid, receiver: Receiver, tmp_path: Path
) -> None:
    path, out = tmp_path / "night.toml", tmp_path / "out"
    path.write_text(FLOW.replace("URL", receiver.url).replace("OUT", str(out)))
    grid.run("flow", "run", str(path), "--name", "f1")
    until(lambda: len(receiver.requests) == 2 and out.exists())
    by_path = {one.path: one for one in receiver.requests}
    whole, fetch = by_path["/hook"], by_path["/hook/fetch"]
    assert whole.told["name"] == "f1"
    assert whole.told["state"] == "failed"
    assert whole.told["counts"] == {"ok": 1, "failed": 1, "cancelled": 1}
    states = {one["key"]: (one["state"], one["cause"]) for one in whole.told["jobs"]}
    assert states == {
        "fetch": ("ok", ""),
        "train": ("failed", ""),
        "report": ("cancelled", "parent"),
    }
    assert [one["key"] for one in fetch.told["jobs"]] == ["fetch"]
    made = hmac.new(b"s3cret-key", fetch.body, hashlib.sha256).hexdigest()
    assert (fetch.signature, whole.signature) == (f"sha256={made}", "")
    told = [json.loads(line) for line in out.read_text().splitlines()]
    assert {one["key"]: one["state"] for one in told} == {key: states[key][0] for key in states}
    until(lambda: grid.json("flow", "show", "f1")["counts"].get("ok") == 4)
    assert grid.json("flow", "run", str(path), "--name", "f1")["known"] is True
    assert len(receiver.requests) == 2


def test_a_flow_that_is_cancelled_is_told_of(
    grid: Grid, receiver: Receiver, tmp_path: Path
) -> None:
    path = tmp_path / "night.toml"
    path.write_text(
        f'notify = "{receiver.url}"\n[a]\nexec = "held"\nargs = ["{tmp_path / "never"}"]\n'
        '[b]\nexec = "exits"\nargs = [0]\nafter = ["a:ended"]\n'
    )
    grid.run("flow", "run", str(path), "--name", "f2")
    until(lambda: grid.json("flow", "show", "f2")["counts"].get("running") == 1)
    assert grid.json("flow", "cancel", "f2")["count"] == 2
    (posted,) = receiver.until_told()
    assert posted.told["counts"] == {"cancelled": 2}
    until(lambda: grid.json("flow", "show", "f2")["counts"] == {"cancelled": 2, "ok": 1})
    assert grid.json("flow", "cancel", "f2")["count"] == 0


def test_a_program_at_the_end_learns_how_it_was(
    grid: Grid, client: BlockingClient, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    grid.run("submit", "exits", "5", "--then", f"told {out}", "--wait", code=5)
    until(out.exists)
    (told,) = [json.loads(line) for line in out.read_text().splitlines()]
    assert (told["exec"], told["state"], told["exit_code"]) == ("exits", "failed", 5)
    other = tmp_path / "other"
    job = client.submit("exits", ["0"], then=[JobSpec("told", [str(other)])])
    until(other.exists)
    assert json.loads(other.read_text())["id"] == job.id
    # Where all had to end ok there is nothing to tell.
    assert client.submit("where", after=[job]).result(DEADLINE_S).stdout == "[]\n"


@pytest.mark.parametrize("name", ["tells_parents", "tells_parents_in_loop"])
def test_a_function_at_the_end_learns_how_it_was(client: BlockingClient, name: str) -> None:
    job = client.submit("exits", ["5"], then=JobSpec(name))
    assert client.attach(job.followers[0]).result(DEADLINE_S).stdout == '["exits failed 5"]'
    assert client.submit(name).result(DEADLINE_S).stdout == "[]"


def test_a_job_with_a_key_is_submitted_again(client: BlockingClient, receiver: Receiver) -> None:
    """It is the same, with all that follows it; and its result comes also if it has ended."""
    for _ in range(3):
        job = client.submit("exits", ["0"], key="again", notify=receiver.url)
        assert job.result(DEADLINE_S).ok
        assert client.attach(job.followers[0]).result(DEADLINE_S).ok
    receiver.until_told()


def test_a_url_that_is_a_secret(grid: Grid, client: BlockingClient, receiver: Receiver) -> None:
    path = grid.fleet.root / "vault" / "chat"
    path.touch(0o600)
    path.write_text(receiver.url)
    job = client.submit("exits", ["0"], notify=Webhook("secret:chat", "hook-key"))
    (posted,) = receiver.until_told()
    made = hmac.new(b"s3cret-key", posted.body, hashlib.sha256).hexdigest()
    assert posted.signature == f"sha256={made}"
    until(lambda: state_of(grid, job.followers[0]) == "ok")
    shown = grid.run("job", job.followers[0], "--json") + grid.run("history", "tail", "--json")
    assert "secret:chat" in shown
    assert receiver.url not in shown
    assert "s3cret-key" not in shown


def test_a_worker_posts_to_the_hosts_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    """Whatever a job says."""
    monkeypatch.setenv("WEBHOOK_HOSTS", "hooks.example.com, localhost")
    with Fleet(tmp_path) as fleet:
        fleet.start_members(free_ports(1))
        fleet.start_worker("a", *programs(tmp_path), *HOOKS, "--pass-env", "WEBHOOK_HOSTS")
        with BlockingClient(fleet.servers, timeout=DEADLINE_S) as client:
            allowed = receiver.url.replace("127.0.0.1", "localhost")
            free: Any = {"env": {"WEBHOOK_HOSTS": "*"}}
            hooks = [Webhook(receiver.url, options=free), Webhook(allowed)]
            job = client.submit("exits", ["0"], notify=hooks)
            refused, told = (client.attach(one).result(DEADLINE_S) for one in job.followers)
            assert refused.state == "failed"
            assert "this worker does not post to 127.0.0.1" in refused.stderr
            assert told.ok
    receiver.until_told()


def test_a_receiver_that_fails_is_asked_again(client: BlockingClient) -> None:
    with Receiver(500, 503) as receiver:
        hook = Webhook(receiver.url, options=SOON)
        job = client.submit("exits", ["0"], notify=hook)
        ended = client.attach(job.followers[0]).result(DEADLINE_S)
        assert (ended.ok, ended.attempts) == (True, 3)
        posted = receiver.until_told(3)
        assert {one.key for one in posted} == {job.followers[0]}
        assert [one.told["attempt"] for one in posted] == [1, 2, 3]


@pytest.mark.parametrize("answer", [302, 404])
def test_a_receiver_that_refuses_is_not_asked_again(client: BlockingClient, answer: int) -> None:
    """Nor is another that it names asked."""
    with Receiver(answer) as receiver:
        job = client.submit("exits", ["0"], notify=Webhook(receiver.url, options=SOON))
        ended = client.attach(job.followers[0]).result(DEADLINE_S)
        assert (ended.state, ended.attempts) == ("failed", 1)
        assert f"127.0.0.1 answered {answer}" in ended.stderr
        receiver.until_told(1)


def test_a_receiver_that_never_answers_is_given_up(grid: Grid, client: BlockingClient) -> None:
    with Receiver(0, 0) as receiver:
        options: Any = {**SOON, "run_limit_soft": 0.5, "max_attempts": 2}
        job = client.submit("exits", ["0"], notify=Webhook(receiver.url, options=options))
        ended = client.attach(job.followers[0]).result(DEADLINE_S)
        assert (ended.state, ended.cause, ended.attempts) == ("dead", "exit_code", 2)
        receiver.until_told(2)
    assert job.followers[0] in grid.run("dlq", "list", "--json")


def test_nobody_listens(client: BlockingClient) -> None:
    (port,) = free_ports(1)
    options: Any = {**SOON, "max_attempts": 2}
    hook = Webhook(f"http://127.0.0.1:{port}/", options=options)
    job = client.submit("exits", ["0"], notify=hook)
    ended = client.attach(job.followers[0]).result(DEADLINE_S)
    assert (ended.state, ended.attempts) == ("dead", 2)


def test_what_cannot_be_meant_so(grid: Grid, client: BlockingClient) -> None:
    grid.run("submit", "exits", "0", "--notify", "ftp://a/b", code=2)
    assert "no URL that is posted to" in grid.stderr
    grid.run("submit", "exits", "0", "--notify-key", "k", code=2)
    assert "--notify-key requires --notify" in grid.stderr
    grid.run("submit", "exits", "0", "--then", "'", code=2)
    grid.run("submit", "exits", "0", "--then", " ", code=2)
    assert "no program" in grid.stderr
    with pytest.raises(LocalError, match="no option 'notify'"):
        client.submit_many("exits", [["0"]], notify="http://a/")  # type: ignore[call-arg]


def test_through_the_death_of_the_leader(tmp_path: Path) -> None:
    """The job ends while nobody posts, the leader is killed, and the next one has it posted: once.
    Then another leader is killed while the receiver has the request and has not answered."""
    with Fleet(tmp_path) as fleet, Receiver() as receiver, Receiver(0) as slow:
        fleet.start_members(free_ports(3))
        grid = Grid(fleet)
        options = programs(tmp_path)
        fleet.start_worker("runs", *options)
        told = grid.json("submit", "exits", "3", "--notify", receiver.url)
        (hook,) = told["then"]
        until(lambda: state_of(grid, told["id"]) == "failed")
        until(lambda: state_of(grid, hook) == "waiting")
        waits = grid.json("explain", hook)
        assert waits["code"] == "program_missing"
        assert waits["why"].endswith("start one with --app rollq.webhook")
        assert waits["todo"][0].endswith("rollq_webhook --app rollq.webhook")
        assert not receiver.requests

        with BlockingClient(fleet.servers, timeout=DEADLINE_S) as client:
            client.status(hook)
            first = client.leader
            fleet.kill(first)
            fleet.start_worker("posts", *HOOKS)
            until(lambda: state_of(grid, hook) == "ok")
            (posted,) = receiver.until_told()
            assert (posted.key, posted.told["counts"]) == (hook, {"failed": 1})
            fleet.start_member(first)

            job = client.submit("exits", ["0"], notify=slow.url)
            slow.until_told()
            second = client.leader
            assert second != first
            fleet.kill(second)
            slow.go.set()
            until(lambda: state_of(grid, job.followers[0]) == "ok")
            slow.until_told()
            assert grid.json("job", job.followers[0])["attempt"] == 1
        assert len(receiver.requests) == 1


def test_a_worker_that_dies_before_it_can_say_so_has_it_posted_again(tmp_path: Path) -> None:
    """The request comes twice, and its key tells; the job that posts ends once."""
    with Fleet(tmp_path) as fleet, Receiver(0) as receiver:
        fleet.start_members(free_ports(1))
        grid = Grid(fleet)
        fleet.start_worker("a", *programs(tmp_path), *HOOKS)
        with BlockingClient(fleet.servers, timeout=DEADLINE_S) as client:
            options: Any = {**SOON, "lease": 1}
            hook = Webhook(receiver.url, options=options)
            job = client.submit("exits", ["0"], notify=hook)
            receiver.until_told()
            fleet.kill("a")
            fleet.start_worker("b", *programs(tmp_path), *HOOKS)
            until(lambda: state_of(grid, job.followers[0]) == "ok")
        first, second = receiver.until_told(2)
        assert first.key == second.key == job.followers[0]
        assert (first.told["attempt"], second.told["attempt"]) == (1, 2)
