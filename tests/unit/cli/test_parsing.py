"""What the command line takes and refuses, without a grid."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from rollq.base.errors import DialError, ErrorCode, LocalError, RollqError, StateError
from rollq.cli.failures import exit_code_of
from rollq.cli.main import app
from rollq.cli.pages import OF_BYTES, Command, is_argument
from rollq.cli.tree import MODULES

pytestmark = pytest.mark.usefixtures("no_config")
runner = CliRunner()
NOWHERE = "127.0.0.1:1"
BAD = "a\udcff"  # as Python has the bytes b"a\xff" of an argument
ID = "6f9619ff-8b86-d011-b42d-00c04fc964ff"


def commands() -> Iterator[tuple[list[str], Any]]:
    def walk(path: list[str], command: Any) -> Iterator[tuple[list[str], Any]]:
        yield path, command
        for name, child in getattr(command, "commands", {}).items():
            yield from walk([*path, name], child)

    yield from walk([], typer.main.get_command(app))


PATHS = [pytest.param(path, id=" ".join(path) or "rollq") for path, _ in commands()]


@pytest.mark.parametrize("path", PATHS)
def test_every_command_explains_itself_with_an_example(path: list[str]) -> None:
    result = runner.invoke(app, [*path, "--help"])
    assert result.exit_code == 0
    if path:
        assert f"rollq {path[0]}" in result.output.partition("Example")[2]


@pytest.mark.parametrize("path", PATHS)
def test_help_shows_arguments_as_people_write_them(path: list[str]) -> None:
    shown = runner.invoke(app, [*path, "--help"]).output.partition("Example")[0]
    for odd in ("{", "[[", "]...", "}...", "<str>", "<int", "<float", "<path>", "list[str]"):
        assert odd not in shown.replace("COMMAND [ARGS]...", ""), odd


@pytest.mark.parametrize(
    ("path", "usage"),
    [
        ("leader", "PORT"),
        ("worker", "HOST PORT [PATTERN]"),
        ("submit", "[EXEC] [ARGS]…"),
        ("cancel", "[ID]…"),
        ("dlq redrive", "[ID]…"),
        ("cluster transfer", "[MEMBER]"),
        ("settings set", "NAME=VALUE…"),
        ("clientx", "CLIENTID [NAME=]HOST:PORT… [DESIRED_TOTAL]"),
        ("status", ""),
    ],
)
def test_usage_lines(path: str, usage: str) -> None:
    first = runner.invoke(app, [*path.split(), "--help"], prog_name="rollq").output.splitlines()[0]
    assert first == f"Usage: rollq {path} [OPTIONS] {usage}".rstrip()


def test_the_version_needs_no_command() -> None:
    result = runner.invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout == f"rollq {version('rollq')}\n"


def test_every_command_that_ends_speaks_json() -> None:
    leaves = {" ".join(path): command for path, command in commands() if path}
    silent = [
        name
        for name, command in leaves.items()
        if not hasattr(command, "commands")
        and not any("--json" in param.opts for param in command.params)
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LocalError(ErrorCode.BAD_OPTIONS, ""), 2),
        (LocalError(ErrorCode.BAD_ADDRESS, ""), 2),
        (DialError(ErrorCode.UNREACHABLE, ""), 3),
        (DialError(ErrorCode.TIMED_OUT, ""), 3),
        (StateError(ErrorCode.UNKNOWN_JOB, ""), 4),
        (StateError(ErrorCode.GRID_FULL, ""), 4),
        (StateError(ErrorCode.BAD_CONFIG_CHANGE, ""), 4),
        (StateError(ErrorCode.JOB_FAILED, ""), 1),
        (LocalError(ErrorCode.DISK_FULL, ""), 1),
        (StateError(ErrorCode.DISK_FULL, ""), 4),
        (LocalError(ErrorCode.CANNOT_LISTEN, ""), 1),
    ],
)
def test_exit_codes_mean_something(error: RollqError, code: int) -> None:
    assert exit_code_of(error) == code


@pytest.mark.parametrize(
    "arguments",
    [
        ["frob"],
        ["leader"],
        ["leader", "70000"],
        ["backup", "verify", "no-such-file"],
        ["restore", "no-such-file", "--state", "new"],
        ["leader", "5000", "--role", "king"],
        ["leader", "5000", "--role", "leader", "--peers", "a:1"],
        ["leader", "5000", "--peers", "nonsense"],
        ["leader", "5000", "--blob-age", "old"],
        ["leader", "5000", "--blob-bytes-max", "1X"],
        ["leader", "5000", "--blobs", "s3://bucket", "--blob-bytes-max", "1G"],
        ["leader", "5000", "--host", "0.0.0.0", "--peers", "a:1"],
        ["leader", "5000", "--election-ms", "100", "--heartbeat-ms", "100"],
        ["worker", "127.0.0.1", "5000"],
        ["worker", "127.0.0.1", "5000", "--exec-dir", "nowhere"],
        ["worker", "127.0.0.1", "5000", "--app", "json", "--cpu-cap", "7"],
        ["submit"],
        ["submit", "calcA", "--array", "3", "--id", ID],
        ["submit", "calcA", "--array", "3", "--key", "row-1"],
        ["submit", "calcA", "1", "--from-file", "jobs.csv"],
        ["submit", "calcA", "-s", NOWHERE, "--array", "0"],
        ["submit", "calcA", "-s", NOWHERE, "--array", "99999999999"],
        ["submit", "/bin/ls", "-s", NOWHERE],
        ["submit", "calcA", "-s", NOWHERE, "--cached", "dataset"],
        ["submit", "calcA", "-s", NOWHERE, "--lease", "0.5"],
        ["submit", "calcA", "-s", NOWHERE, "--key", "row-1"],
        ["submit", "calcA", "-s", NOWHERE, "--queue", "a..b"],
        ["worker", "127.0.0.1", "5000", "bad..pattern", "--app", "json"],
        ["cache", "put", "c", ".", "-s", NOWHERE, "--target", "a..b"],
        ["submit", "calcA", "-s", NOWHERE, "--id", "mine"],
        ["submit", "calcA", "-s", NOWHERE, "--out", "here"],
        ["submit", "calcA", "-s", NOWHERE, "--wait", "--out", "/dev/null/here"],
        ["submit", "calcA", "-s", NOWHERE, "--wait-timeout", "3"],
        ["submit", "calcA", "-s", NOWHERE, "--header"],
        ["submit", "calcA", "-s", NOWHERE, "--running-max", "3"],
        ["submit", "calcA", "--file", "nowhere"],
        ["submit", "calcA", "--payload", "nowhere"],
        ["submit", "calcA", "-s", "no-port"],
        ["submit", "calcA", "-s", NOWHERE, "--from-file", "jobs.doc"],
        ["submit", "calcA", "-s", NOWHERE, "--from-file", "none.csv"],
        ["pipeline", "run", "--once", "--every", "10s"],
        ["pipeline", "run", "--every", "soon"],
        ["pipeline", "run", "--every", "10s", "--hints"],
        ["job", "no-id"],
        ["cancel", ID, "no-id"],
        ["explain", "no-id"],
        ["jobs", "--state", "asleep"],
        ["submit", "calcA", "-s", NOWHERE, "--queue", "a b"],
        ["queue", "pause", "a b", "-s", NOWHERE],
        ["dlq", "redrive"],
        ["dlq", "redrive", ID, "--all"],
        ["dlq", "purge", "--all", "--json"],
        ["settings", "set", "nonsense=1"],
        ["settings", "set", "lease_ms=soon"],
        ["cluster", "add", "no-port"],
        ["clientx", "me", "no-port"],
        ["history", "tail", "--job", "no-id"],
        ["history", "tail", "--type", "acks"],
        ["history", "tail", "--state", ".", "--follow"],
        ["history", "tail", "--state", ".", "--job", f"{ID}/7"],
        ["report", "--job", f"{ID}/7"],
        ["report", "--job", "no-id"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_told_and_has_code_2(arguments: list[str]) -> None:
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["flow", "show", BAD], "'NAME'"),
        (["jobs", "--text", BAD], "'--text'"),
        (["cancel", "--client", BAD], "'--client'"),
        (["submit", "show", "fine", BAD], "'[ARGS]…'"),
        (["submit", "show", "--then", f"show {BAD}"], "'--then'"),
        (["submit", "show", "--output", "*.csv", "--output", BAD], "'--output'"),
        (["submit", "show", "--worker", BAD], "'--worker'"),
        (["worker", "h", "5000", "--name", BAD], "'--name' (env var: ROLLQ_WORKER_NAME)"),
        (["worker", "h", "5000", BAD, "--app", "json"], "'[PATTERN]'"),
        (["cron", "show", BAD], "'NAME'"),
        (["leader", "5000", "--group", BAD], "'--group' (env var: ROLLQ_GROUP)"),
    ],
)
def test_text_that_is_not_utf8_is_refused_by_its_name(arguments: list[str], name: str) -> None:
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2, result.output
    first, hint = result.stderr.splitlines()
    assert first.startswith(f"rollq: {name}: ")
    assert first.endswith(r"a\udcff' is not UTF-8 [bad_options]")
    assert "UTF-8" in hint


def test_the_value_of_a_variable_that_is_not_utf8_is_not_shown() -> None:
    result = runner.invoke(app, ["submit", "show", "--env", f"TOKEN=s3cret{BAD}", "--json"])
    assert result.exit_code == 2
    error = json.loads(result.stderr)["error"]
    assert error["message"] == "'--env': 'TOKEN=…' is not UTF-8"


def test_only_paths_and_payloads_may_be_any_bytes() -> None:
    """By the words for their values; those whose type is `Path` may be anyway."""
    texts = {
        f"{path[0]} {max(param.opts, key=len)}"
        for path, command in commands()
        for param in command.params
        if param.metavar in OF_BYTES and param.type_descriptor.annotation in (str, list[str])
    }
    assert texts == {
        *("cron --file", "submit --dir", "submit --file"),
        *("history --out", "pipeline --path"),
        *("pipeline --tables", "report --tables", "sql --tables"),
        *("publish payload", "request payload"),
    }


@pytest.mark.parametrize("arguments", [["status"], ["submit", "calcA"], ["job", ID]])
def test_nobody_there_is_code_3_and_says_who_was_asked(arguments: list[str]) -> None:
    result = runner.invoke(app, [*arguments, "-s", NOWHERE, "--timeout", "0.2"])
    assert result.exit_code == 3
    assert NOWHERE in result.stderr
    result = runner.invoke(app, [*arguments, "-s", NOWHERE, "--timeout", "0.2", "--json"])
    assert (result.exit_code, result.stdout) == (3, "")
    error = json.loads(result.stderr)["error"]
    assert error["name"] == "timed_out"
    assert error["hint"]
    assert "accepted" not in error["hint"]  # nothing was sent


def test_the_doctor_says_who_is_missing() -> None:
    base = ["doctor", "-s", f"{NOWHERE},127.0.0.1:2", "--timeout", "0.2"]
    told = runner.invoke(app, base)
    assert told.exit_code == 3
    assert f"{NOWHERE} cannot be reached" in told.stdout
    result = runner.invoke(app, [*base, "--json"])
    document = json.loads(result.stdout)
    assert (result.exit_code, document["ok"], len(document["findings"])) == (3, False, 3)


def test_arguments_win_over_the_environment_and_that_over_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "rollq.toml"
    config.write_text('servers = "127.0.0.1:3"\ntimeout = 0.1\n[dlq.list]\nservers = "127.0.0.1:4"')
    base = ["--config", str(config)]
    assert "127.0.0.1:3" in runner.invoke(app, [*base, "status"]).stderr
    assert "127.0.0.1:4" in runner.invoke(app, [*base, "dlq", "list"]).stderr
    monkeypatch.setenv("ROLLQ_SERVERS", "127.0.0.1:2")
    assert "127.0.0.1:2" in runner.invoke(app, [*base, "status"]).stderr
    assert NOWHERE in runner.invoke(app, [*base, "status", "-s", NOWHERE]).stderr


def test_several_servers_may_be_a_list_in_the_file(tmp_path: Path) -> None:
    config = tmp_path / "rollq.toml"
    config.write_text('servers = ["127.0.0.1:3", "no-port"]')
    result = runner.invoke(app, ["--config", str(config), "status"])
    assert "'no-port'" in result.stderr


def test_the_file_in_the_home_of_the_user_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "rollq").mkdir()
    (tmp_path / "rollq" / "rollq.toml").write_text('servers = "127.0.0.1:3"\ntimeout = 0.1')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert "127.0.0.1:3" in runner.invoke(app, ["status"]).stderr


@pytest.mark.parametrize(
    "text", ["nonsense = 1", "[frob]\nx = 1", "[leader]\nfrob = 1", "not toml", "[dlq.frob]\nx = 1"]
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str) -> None:
    config = tmp_path / "bad.toml"
    config.write_text(text)
    result = runner.invoke(app, ["--config", str(config), "status"])
    assert result.exit_code == 2
    assert "bad.toml" in result.stderr
    missing = runner.invoke(app, ["--config", str(tmp_path / "none.toml"), "status"])
    assert missing.exit_code == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["jobs", "--state", "done"],
            "Invalid value for '--state': 'done' is not one of 'blocked', 'waiting'",
        ),
        (
            ["worker", "h", "5000", "--slots", "0"],
            "Invalid value for '--slots' (env var: ROLLQ_SLOTS, WORKER_MAX_PAR): "
            "'0' is not a whole number of 1 or more.",
        ),
        (
            ["jobs", "-n", "1.5"],
            "Invalid value for '--limit / -n': '1.5' is not a whole number of 1 or more.",
        ),
        (
            ["worker", "h", "http"],
            "Invalid value for 'PORT': 'http' is not a whole number from 1 to 65535.",
        ),
        (
            ["top", "--interval", "soon"],
            "Invalid value for '--interval': 'soon' is not a number from 0.2 to 3600.",
        ),
        (
            ["worker", "h", "1", "--cpu-cap", "much"],
            "Invalid value for '--cpu-cap' (env var: ROLLQ_CPU_CAP, WORKER_CPU_CAP): "
            "'much' is not a number.",
        ),
    ],
)
def test_an_invalid_value_is_told_in_words_of_the_command_line(words: list[str], said: str) -> None:
    result = runner.invoke(app, words)
    assert result.exit_code == 2
    assert f"Error: {said}" in result.stderr


def test_an_invalid_value_of_the_environment_or_the_file_is_told_alike(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "rollq.toml"
    config.write_text("timeout = 0")
    told = runner.invoke(app, ["--config", str(config), "status"]).stderr
    assert "(env var: ROLLQ_TIMEOUT): '0' is not a number of 0.1 or more." in told
    monkeypatch.setenv("ROLLQ_JSON", "maybe")
    told = runner.invoke(app, ["status"]).stderr
    assert "(env var: ROLLQ_JSON): 'maybe' is not true or false." in told


@pytest.mark.parametrize(
    "param",
    [
        pytest.param(param, id=f"{' '.join(path)} {param.name}")
        for path, command in commands()
        for param in command.params
        if not hasattr(command, "commands")
        and getattr(param.type_descriptor, "annotation", None) in (int, float)
    ],
)
def test_no_number_is_refused_in_the_words_of_a_library(param: Any) -> None:
    command: Any = Command(param.name, params=[param])
    with pytest.raises(Exception, match=r"'x' is not a (whole )?number"):
        command.make_context("rollq", ["x"] if is_argument(param) else [f"{param.opts[0]}=x"])


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("frob=1", "no setting 'frob'"),
        ("lease_ms", "'lease_ms' gives lease_ms no number"),
        ("lease_ms=soon", "'lease_ms=soon' gives lease_ms no number"),
    ],
)
def test_what_is_wrong_with_a_setting_is_told(pair: str, said: str) -> None:
    result = runner.invoke(app, ["settings", "set", pair, "-s", NOWHERE])
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize("option", [["--every", "0s"], ["--every", "999d"]])
def test_an_interval_that_cannot_be_kept_is_refused_here(option: list[str]) -> None:
    result = runner.invoke(app, ["cron", "add", "beat", *option, "ping", "-s", NOWHERE])
    assert result.exit_code == 2
    assert f"--every {option[1]!r} is out of bounds" in result.stderr


@pytest.mark.parametrize(
    ("words", "loaded"),
    [
        (["--help"], set(MODULES.values())),
        (["status", "--help"], {"status"}),
        (["exec", "list", "--help"], {"execs"}),
        (["--version"], set()),
    ],
)
def test_a_start_imports_the_commands_that_it_runs_or_shows_and_nothing_heavy(
    words: list[str], loaded: set[str]
) -> None:
    code = (
        f"import sys; sys.argv = ['rollq', *{words}]\n"
        "import rollq.cli.main as m\n"
        "try: m.main()\n"
        "except SystemExit: pass\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(done.stdout.splitlines()[-1].split())
    assert not modules & {"asyncio", "uvloop", "rich", "rollq.roles", "rollq.grid"}
    commands = {name for name in MODULES.values() if f"rollq.cli.{name}" in modules}
    assert commands - {"logs"} == loaded


def test_optimised_python_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-O", "-m", "rollq", "--help"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "-O" in done.stderr


@pytest.mark.parametrize(
    "words", [["submit", "calc", "-1", "2"], ["cron", "add", "n", "@daily", "calc", "-1"]]
)
def test_an_argument_that_looks_like_an_option_is_told_where_it_goes(words: list[str]) -> None:
    told = runner.invoke(app, words)
    assert told.exit_code == 2
    assert "stands behind --: … -- -1" in told.stderr
    assert "stands behind" not in runner.invoke(app, ["submit", "calc", "--wiat"]).stderr
