"""Flows in files: which are taken, in which order, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.ids import guid_to_text, job_id_of_key
from rollq.cli.flow_file import is_follower, read_flow, specs_of
from rollq.roles.client.jobs.specs import JobFile

OTHER = guid_to_text(bytes(range(16)))


def flow(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "flow.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_parents_come_first(tmp_path: Path) -> None:
    text = """
        [last]
        exec = "c"
        after = ["mid:ended", "first"]
        [mid]
        exec = "b"
        after = ["first"]
        [first]
        exec = "a"
        args = [1, "two"]
        priority = 3
        files = { "in.csv" = "data/in.csv" }
        outputs = ["*.csv"]
    """
    tables = read_flow(flow(tmp_path, text))
    assert list(tables) == ["first", "mid", "last"]
    first, mid, last = specs_of(tables, "me", tmp_path)
    assert (first.exec_name, first.args, first.key) == ("a", ["1", "two"], "first")
    assert first.files == {"in.csv": tmp_path / "data/in.csv"}
    assert (first.options, first.outputs) == ({"priority": 3}, ["*.csv"])
    ids = {name: job_id_of_key("me", name) for name in tables}
    assert mid.options == {"after": [(ids["first"], "ok")]}
    assert last.options == {"after": [(ids["mid"], "ended"), (ids["first"], "ok")]}


def test_what_a_job_leaves_is_an_input(tmp_path: Path) -> None:
    text = f"""
        [sum]
        exec = "b"
        inputs = {{ "in.csv" = "fetch:out/a:b.csv", "log" = "{OTHER}:-" }}
        [fetch]
        exec = "a"
    """
    tables = read_flow(flow(tmp_path, text))
    assert list(tables) == ["fetch", "sum"]
    _, last = specs_of(tables, "me", tmp_path)
    assert last.files == {
        "in.csv": JobFile(job_id_of_key("me", "fetch"), "out/a:b.csv"),
        "log": JobFile(bytes(range(16)), "-"),
    }


def test_jobs_outside_are_named_by_their_ids(tmp_path: Path) -> None:
    text = f'[a]\nexec = "x"\nafter = ["{OTHER}:failed"]'
    (spec,) = specs_of(read_flow(flow(tmp_path, text)), "me", tmp_path)
    assert spec.options == {"after": [(bytes(range(16)), "failed")]}


def test_a_long_chain(tmp_path: Path) -> None:
    """From the end to the beginning: deeper than Python calls go."""
    count = 3_000
    tables = [f'[j{number}]\nexec = "x"\nafter = ["j{number + 1}"]' for number in range(count)]
    text = "\n".join([*tables, f'[j{count}]\nexec = "x"'])
    assert next(iter(read_flow(flow(tmp_path, text)))) == f"j{count}"


def test_what_happens_at_the_end_is_jobs(tmp_path: Path) -> None:
    text = """
        notify = "https://a.example/all"
        then = ["mail 'the ops'", "tidy"]
        [b]
        exec = "y"
        after = ["a"]
        [a]
        exec = "x"
        then = "mail me"
        notify = ["http://b/", { url = "http://c/", signing_key = "k", priority = 3 }]
    """
    tables = read_flow(flow(tmp_path, text), "night-1")
    ends = ["@then", "@then2", "@notify", "a@then", "a@notify", "a@notify2"]
    assert list(tables)[:2] == ["a", "b"]
    assert sorted(list(tables)[2:]) == sorted(ends)
    assert [name for name in tables if is_follower(name)] == list(tables)[2:]
    specs = {spec.key: spec for spec in specs_of(tables, "me", tmp_path)}
    ids = {name: job_id_of_key("me", name) for name in tables}
    both = {(ids["a"], "ended"), (ids["b"], "ended")}
    for name in ("@then", "@then2", "@notify"):
        assert set(specs[name].options["after"]) == both
    for name in ("a@then", "a@notify", "a@notify2"):
        assert specs[name].options["after"] == [(ids["a"], "ended")]
    assert (specs["@then"].exec_name, specs["@then"].args) == ("mail", ["the ops"])
    assert (specs["@notify"].exec_name, specs["@notify"].args) == (
        "rollq.webhook",
        ["https://a.example/all", "night-1"],
    )
    last = specs["a@notify2"].options
    assert (last["priority"], last["secrets"]) == (3, {"WEBHOOK_KEY": "k"})


def test_a_job_may_be_called_as_what_happens_at_the_end(tmp_path: Path) -> None:
    text = '[then]\nexec = "x"\n[notify]\nexec = "y"\nafter = ["then"]'
    assert list(read_flow(flow(tmp_path, text))) == ["then", "notify"]


def test_so_many_jobs_can_be_followed(tmp_path: Path) -> None:
    tables = "".join(f'[j{number}]\nexec = "x"\n' for number in range(1_001))
    with pytest.raises(LocalError, match="1001 jobs are to be followed by one"):
        read_flow(flow(tmp_path, 'then = "mail"\n' + tables))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no jobs"),
        ('notify = "http://a/"', "no jobs"),
        ('notify = "ftp://a/"\n[a]\nexec = "x"', ": notify is no URL"),
        ('notify = 3\n[a]\nexec = "x"', ": notify is 3"),
        ('then = ""\n[a]\nexec = "x"', "then '': no program"),
        ('[a]\nexec = "x"\nthen = ["b", 3]', "[a]: then is 3"),
        ('[a]\nexec = "x"\nnotify = { url = "http://a/", colour = 3 }', "no option 'colour'"),
        ('["a@then"]\nexec = "x"', "cannot end in @then or @notify"),
        ("[a", "Expected"),
        ("a = 1", "[a] has no exec"),
        ("[a]", "[a] has no exec"),
        ('["a:b"]\nexec = "x"', "a name cannot have a colon"),
        ('[a]\nexec = "x"\nafter = "b"', '[a]: after is "b"'),
        ('[a]\nexec = "x"\nafter = [1]', "[a]: after is [1]"),
        ('[a]\nexec = "x"\nargs = "1 2"', '[a]: args is "1 2"'),
        ('[a]\nexec = "x"\nargs = [[1]]', "[a]: args is [[1]]"),
        ('[a]\nexec = "x"\nargs = [true]', "[a]: args is [true]"),
        ('[a]\nexec = "x"\nfiles = ["入.csv"]', '[a]: files is ["入.csv"]'),
        ('[a]\nexec = "x"\nfiles = { a = 1 }', '[a]: files is {"a": 1}'),
        (
            '[a]\nexec = "x"\nfiles.in = "f"\ninputs.in = "b:-"\n[b]\nexec = "x"',
            "[a]: the file name 'in' is there twice",
        ),
        ('[a]\nexec = "x"\noutputs = [1]', "[a]: outputs is [1]"),
        ('[a]\nexec = "x"\npriority = "high"', "[a]: priority cannot be 'high'"),
        ('[a]\nexec = "x"\ncolour = 3', "no option 'colour'"),
        ('[a]\nexec = "x"\nafter = ["b"]', "[a] waits for 'b', which is not in the file"),
        ('[a]\nexec = "x"\nafter = ["a:soon"]', "no condition 'soon'"),
        ('[a]\nexec = "x"\nafter = ["a"]', "jobs wait for each other: a → a"),
        (
            '[a]\nexec = "x"\nafter = ["b"]\n[b]\nexec = "x"\nafter = ["a"]',
            "jobs wait for each other: a → b → a",
        ),
    ],
)
def test_what_cannot_be_meant_so(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(LocalError) as error:
        read_flow(flow(tmp_path, text))
    assert error.value.code is ErrorCode.BAD_OPTIONS
    assert said in error.value.message
    assert error.value.hint


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    with pytest.raises(LocalError) as error:
        read_flow(path)
    assert error.value.message == f"{path}: No such file or directory"
