"""`rollq access` and `client.access` against a real member."""

from __future__ import annotations

import hashlib
import re
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq import BlockingClient, ErrorCode, LocalError, Rule, StateError
from rollq.cli.fleet import Fleet
from rollq.net.ports import free_ports
from rollq.security.secret import Secret
from rollq.security.signing import read_key
from tests.integration.test_cli import Grid


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    """One member for all tests: each has accounts of its own."""
    with Fleet(tmp_path_factory.mktemp("access")) as fleet:
        fleet.start_members(free_ports(1))
        yield Grid(fleet)


@pytest.fixture(scope="module")
def client(grid: Grid) -> Iterator[BlockingClient]:
    with BlockingClient(grid.fleet.servers, timeout=60) as client:
        yield client


def test_an_account_lives_on_the_command_line(grid: Grid) -> None:
    assert grid.run("access", "add", "ann", "--role", "client") == "account ann added\n"
    grid.run("access", "add", "ann", code=4)
    assert "already" in grid.stderr
    grid.run("access", "grant", "ann", "jobs.cancel", "client:bob")
    grid.run("access", "grant", "ann", "--role", "reader")
    grid.run("access", "deny", "ann", "jobs.submit", "queue:prod.*")
    shown = grid.json("access", "show", "ann")
    assert shown["roles"] == ["client", "reader"]
    assert shown["rules"] == ["allow jobs.cancel client:bob", "deny jobs.submit queue:prod.*"]
    text = grid.run("access", "show", "ann")
    assert "rule 2   deny jobs.submit queue:prod.*" in text
    grid.run("access", "disable", "ann")
    assert "disabled" in grid.run("access", "list")
    grid.run("access", "enable", "ann")
    assert grid.json("access", "show", "ann")["disabled"] is False
    grid.run("access", "revoke", "ann", "jobs.submit", "queue:prod.*")
    grid.run("access", "revoke", "ann", "jobs.submit", "queue:prod.*", code=4)
    grid.run("access", "revoke", "ann", "--role", "reader")
    assert grid.json("access", "show", "ann")["rules"] == ["allow jobs.cancel client:bob"]
    grid.run("access", "remove", "ann")
    grid.run("access", "show", "ann", code=4)
    assert "rollq access list" in grid.stderr


def test_a_check_names_the_rules_that_decide(grid: Grid) -> None:
    grid.run("access", "add", "eve", "--role", "client")
    grid.run("access", "deny", "eve", "jobs.submit", "queue:prod*")
    asked = ("access", "check", "eve", "jobs.submit")
    allowed = grid.json(*asked, "queue:render", "exec:calc")
    assert allowed["allowed"] is True
    assert [one["role"] for one in allowed["rules"]] == ["client", "client"]
    denied = grid.run(*asked, "queue:prod", "exec:calc", code=1)
    assert denied.splitlines()[-1] == "refused: a rule denies it on queue:prod"
    assert "deny    jobs.submit  queue:prod*    the account  queue:prod" in denied
    missing = grid.run("access", "check", "eve", "jobs.cancel", "client:bob", "queue:q", code=1)
    assert missing.splitlines()[-1] == "refused: no rule allows it on client:bob"
    grid.run("access", "check", "eve", "jobs.cansel", "client:bob", code=2)
    grid.run("access", "check", "eve", "jobs.cancel", "bob", code=2)
    grid.run("access", "disable", "eve")
    last = grid.run(*asked, "queue:render", "exec:calc", code=1).splitlines()[-1]
    assert last == "refused: the account eve is disabled"


def test_a_token_is_shown_once_and_only_its_hash_is_sent(grid: Grid, tmp_path: Path) -> None:
    grid.run("access", "add", "tom")
    token = grid.run("access", "token", "tom", "--expires", "90d").strip()
    assert token.startswith("rollq_tom_")
    assert "not shown again" in grid.stderr
    out = tmp_path / "tom" / "token"  # as the docs write it, into a directory of credentials
    said = grid.json("access", "token", "tom", "--out", str(out))
    assert stat.S_IMODE(out.parent.stat().st_mode) == 0o700
    assert set(said) == {"account", "expires_ms", "file"}
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert out.read_text().startswith("rollq_tom_")
    shown = grid.json("access", "show", "tom")
    first, second = shown["tokens"]
    assert first["expires_ms"] > 0 == second["expires_ms"]
    grid.run("access", "token", "tom", "--out", str(out), code=2)
    grid.run("access", "token", "tom", "--out", str(out / "no" / "token"), code=2)
    assert len(grid.json("access", "show", "tom")["tokens"]) == 2
    grid.run("access", "revoke", "tom", "--token", first["id"])
    assert grid.json("access", "show", "tom")["tokens"] == [second]
    state = grid.fleet.state_of(grid.fleet.addresses[0])
    secret = out.read_text().strip().rpartition("_")[2].encode()
    logged = b"".join(path.read_bytes() for path in state.rglob("*.log"))
    assert hashlib.sha256(secret).digest() in logged
    assert secret not in logged
    grid.run("access", "token", "nobody", code=4)


def test_a_key_is_made_or_registered(grid: Grid, tmp_path: Path) -> None:
    grid.run("access", "add", "kim")
    out = tmp_path / "account.key"
    public = grid.json("access", "key", "kim", "--out", str(out))["public_key"]
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert read_key(Secret(out.read_bytes())).public.hex() == public
    grid.run("access", "key", "kim", "--public", "ab" * 32)
    assert grid.json("access", "show", "kim")["keys"] == [public, "ab" * 32]
    grid.run("access", "revoke", "kim", "--key", public)
    assert grid.json("access", "show", "kim")["keys"] == ["ab" * 32]
    for wrong in (("--public", "zz"), (), ("--public", "ab" * 32, "--out", str(tmp_path / "x"))):
        grid.run("access", "key", "kim", *wrong, code=2)


def test_roles_are_shared_rules(grid: Grid) -> None:
    grid.run("access", "role", "add", "nights")
    grid.run("access", "role", "grant", "nights", "jobs.submit", "queue:night.*")
    grid.run("access", "role", "deny", "nights", "jobs.submit", "exec:rm")
    assert grid.run("access", "role", "show", "nights").splitlines() == [
        "allow jobs.submit queue:night.*",
        "deny jobs.submit exec:rm",
    ]
    listed = {one["name"]: one["built_in"] for one in grid.lines("access", "role", "list")}
    assert listed["nights"] is False
    assert listed["admin"] is True
    grid.run("access", "add", "zoe", "--role", "nights")
    grid.run("access", "role", "remove", "nights", code=4)
    assert "zoe" in grid.stderr
    grid.run("access", "role", "revoke", "nights", "jobs.submit", "exec:rm")
    grid.run("access", "role", "revoke", "nights", "jobs.submit", "exec:rm", code=4)
    grid.run("access", "role", "grant", "client", "jobs.submit", "queue:x", code=4)
    grid.run("access", "remove", "zoe")
    grid.run("access", "role", "remove", "nights")
    grid.run("access", "role", "show", "nights", code=4)


@pytest.mark.parametrize(
    "wrong",
    [
        ("grant", "ann"),
        ("grant", "ann", "jobs.submit"),
        ("grant", "ann", "jobs.submit", "queue:a", "--role", "admin"),
        ("grant", "ann", "no.such", "queue:a"),
        ("deny", "ann", "jobs.submit", "queues:a"),
        ("deny", "ann", "jobs.submit", "client:{user}"),
        ("revoke", "ann", "--token", "a", "--key", "b"),
        ("token", "ann", "--expires", "soon"),
    ],
)
def test_what_could_never_be_is_told_before_anybody_is_asked(
    grid: Grid, wrong: tuple[str, ...]
) -> None:
    grid.run("access", *wrong, code=2)


def test_the_last_admin_is_not_removed(grid: Grid) -> None:
    grid.run("access", "add", "olga", "--role", "admin")
    grid.run("access", "token", "olga")
    grid.run("access", "disable", "olga", code=4)
    assert "no account could change accounts" in grid.stderr
    grid.run("access", "add", "pia", "--role", "admin")
    grid.run("access", "token", "pia")
    grid.run("access", "remove", "olga")


def test_many_who_change_one_account_at_once_lose_nothing(client: BlockingClient) -> None:
    client.access.add("busy")
    failed: list[BaseException] = []

    def grant(number: int) -> None:
        try:
            client.access.add_rules("busy", Rule("allow", "jobs.read", f"client:{number}"))
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=grant, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    view = client.access.account("busy")
    assert view is not None
    assert {rule.resource for rule in view.rules} == {f"client:{number}" for number in range(4)}


def test_the_library_says_what_is_wrong(client: BlockingClient) -> None:
    client.access.add("lib", roles=["client"], rules=[Rule("deny", "jobs.*", "queue:x")])
    with pytest.raises(StateError) as taken:
        client.access.add("lib")
    assert taken.value.code is ErrorCode.BAD_ACCESS
    with pytest.raises(StateError) as unknown:
        client.access.add_roles("nobody", "client")
    assert unknown.value.code is ErrorCode.UNKNOWN_ACCOUNT
    with pytest.raises(StateError) as role:
        client.access.add_roles("lib", "no-such")
    assert role.value.code is ErrorCode.UNKNOWN_ROLE
    with pytest.raises(StateError) as gone:
        client.access.add_role_rules("no-such", Rule("allow", "*", "*"))
    assert gone.value.code is ErrorCode.UNKNOWN_ROLE
    with pytest.raises(LocalError):
        client.access.check("lib", "jobs.submit")
    decision = client.access.check("lib", "jobs.submit", "queue:x", "exec:calc")
    assert not decision.allowed
    assert {one.source for one in decision.rulings} == {"", "client"}
    assert client.access.check("lib", "jobs.submit", "queue:y", "exec:calc").allowed
    assert "lib" in {view.name for view in client.access.accounts()}


def test_the_example_of_the_page_does_what_it_says(
    grid: Grid, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "access.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(code.replace("127.0.0.1:5000", grid.fleet.servers), {})
    (wanted,) = re.findall(r"# prints (.*)", code)
    assert capsys.readouterr().out == f"{wanted}\n"
