"""The driver must be able to fail: a script with one wrong number in it may not pass."""

from pathlib import Path

import pytest

from tests.external import etcd_confchange, etcd_quorum, etcd_scripts

SCRIPT = """
# Three nodes, an election, a proposal.
add-nodes 3 voters=(1,2,3) index=5
----
INFO 1 switched to configuration voters=(1 2 3)
INFO 1 became follower at term 0
INFO newRaft 1 [peers: [1,2,3], term: 0, commit: 5, applied: 5, lastindex: 5, lastterm: 1]
INFO 2 became follower at term 0
INFO 3 became follower at term 0

campaign 1
----
INFO 1 became candidate at term 1

stabilize
----
> 1 handling Ready
  Ready MustSync=true:
  Lead:0 State:StateCandidate
  HardState Term:1 Vote:1 Commit:5
  Messages:
  1->2 MsgVote Term:1 Log:1/5
> 2 receiving messages
  INFO 2 became follower at term 1
  INFO 2 [logterm: 1, index: 5, vote: 0] cast MsgVote for 1 [logterm: 1, index: 5] at term 1
> 3 receiving messages
  INFO 3 became follower at term 1
  INFO 3 [logterm: 1, index: 5, vote: 0] cast MsgVote for 1 [logterm: 1, index: 5] at term 1
> 2 handling Ready
  Ready MustSync=true:
  HardState Term:1 Vote:1 Commit:5
> 3 handling Ready
  Ready MustSync=true:
  HardState Term:1 Vote:1 Commit:5
> 1 receiving messages
  2->1 MsgVoteResp Term:1 Log:0/0
  INFO 1 became leader at term 1
> 1 handling Ready
  Ready MustSync=true:
  Lead:1 State:StateLeader
  Entries:
  1/6 EntryNormal ""
> 2 handling Ready
  Ready MustSync=true:
  Lead:1 State:StateFollower
  Entries:
  1/6 EntryNormal ""
> 3 handling Ready
  Ready MustSync=true:
  Lead:1 State:StateFollower
  Entries:
  1/6 EntryNormal ""
> 1 handling Ready
  Ready MustSync=false:
  HardState Term:1 Vote:1 Commit:6
  CommittedEntries:
  1/6 EntryNormal ""
> 2 handling Ready
  Ready MustSync=false:
  HardState Term:1 Vote:1 Commit:6
  CommittedEntries:
  1/6 EntryNormal ""
> 3 handling Ready
  Ready MustSync=false:
  HardState Term:1 Vote:1 Commit:6
  CommittedEntries:
  1/6 EntryNormal ""

propose 1 hello
----
ok

stabilize
----
> 1 handling Ready
  Ready MustSync=true:
  Entries:
  1/7 EntryNormal "hello"
> 2 handling Ready
  Ready MustSync=true:
  Entries:
  1/7 EntryNormal "hello"
> 3 handling Ready
  Ready MustSync=true:
  Entries:
  1/7 EntryNormal "hello"
> 1 handling Ready
  Ready MustSync=false:
  HardState Term:1 Vote:1 Commit:7
  CommittedEntries:
  1/7 EntryNormal "hello"
> 2 handling Ready
  Ready MustSync=false:
  HardState Term:1 Vote:1 Commit:7
  CommittedEntries:
  1/7 EntryNormal "hello"
> 3 handling Ready
  Ready MustSync=false:
  HardState Term:1 Vote:1 Commit:7
  CommittedEntries:
  1/7 EntryNormal "hello"

raft-state
----
1: StateLeader (Voter) Term:1 Lead:1
2: StateFollower (Voter) Term:1 Lead:1
3: StateFollower (Voter) Term:1 Lead:1

raft-log 3
----
1/6 EntryNormal ""
1/7 EntryNormal "hello"

status 1
----
1: StateReplicate match=7 next=8
2: StateReplicate match=7 next=8
3: StateReplicate match=7 next=8
"""

TRANSFER = """
log-level none
----
ok

transfer-leadership from=3 to=2
----
ok

stabilize
----
ok

log-level info
----
ok

raft-state
----
"""

ONE = "1: StateProbe match=0 next=1\n"
TWO = "2: StateProbe match=0 next=1"

# (after which text, what is right, what is put in its place)
WRONG = [
    ("", "configuration voters=(1 2 3)", "configuration voters=(1 2)"),
    ("", "commit: 5, applied: 5", "commit: 4, applied: 5"),
    ("", "commit: 5, applied: 5", "commit: 5, applied: 4"),
    ("", "lastindex: 5", "lastindex: 6"),
    ("", "became candidate at term 1", "became candidate at term 2"),
    ("", "became candidate at term 1", "became follower at term 1"),
    ("> 2 receiving", "cast MsgVote for 1", "cast MsgVote for 3"),
    ("> 2 receiving", "INFO 2 became follower at term 1", "INFO 3 became follower at term 1"),
    ("> 1 receiving", "became leader at term 1", "became leader at term 2"),
    ("stabilize", "State:StateCandidate", "State:StatePreCandidate"),
    ("stabilize", "Commit:5", "Commit:4"),
    ("stabilize", "Commit:5", "Commit:6"),
    ("> 2 handling", "Vote:1", "Vote:3"),
    ("> 2 handling", "Term:1", "Term:2"),
    ("MustSync=false", "Commit:6", "Commit:7"),
    ("MustSync=false", "Term:1", "Term:2"),
    ("", "Lead:1 State:StateLeader", "Lead:2 State:StateLeader"),
    ("", "Lead:1 State:StateFollower", "Lead:3 State:StateFollower"),
    ("CommittedEntries:", "1/6", "1/5"),
    ("", '1/7 EntryNormal "hello"', '1/7 EntryNormal "hullo"'),
    ("propose 1 hello", "ok", "raft proposal dropped"),
    ("raft-state", "2: StateFollower (Voter)", "2: StateFollower (Non-Voter)"),
    ("raft-state", "Term:1", "Term:2"),
    ("raft-state", "Lead:1", "Lead:2"),
    ("raft-state", "1: StateLeader", "1: StateCandidate"),
    ("raft-log 3", '1/6 EntryNormal ""\n', ""),
    ("raft-log 3", "1/7 ", "2/7 "),
    ("status 1", "3: StateReplicate match=7", "3: StateReplicate match=6"),
    ("status 1", "3: StateReplicate match=7 next=8", "3: StateReplicate match=7 next=9"),
    ("status 1", "3: StateReplicate", "3: StateProbe"),
    ("status 1", "1: StateReplicate match=7 next=8\n", ""),
    ("", "campaign 1", "campain 1"),
    ("", "campaign 1", "campaign 4"),
    ("raft-log 3", "1/6 EntryNormal", "garbage"),
]


def test_a_right_script_passes() -> None:
    outcome = etcd_scripts.run_script(SCRIPT)
    assert outcome.verdict == "passed", outcome.detail


@pytest.mark.parametrize(("after", "right", "wrong"), WRONG)
def test_a_wrong_script_fails(after: str, right: str, wrong: str) -> None:
    start = SCRIPT.index(after)
    assert right in SCRIPT[start:]
    outcome = etcd_scripts.run_script(SCRIPT[:start] + SCRIPT[start:].replace(right, wrong, 1))
    assert outcome.verdict == "failed"


def test_a_follower_hands_proposals_and_transfers_to_the_leader() -> None:
    script = SCRIPT.replace("propose 1 hello", "propose 3 hello")
    assert etcd_scripts.run_script(script).verdict == "passed"
    for leader, verdict in ((2, "passed"), (1, "failed")):
        states = [
            f"{node}: State{role} (Voter) Term:2 Lead:{leader}"
            for node in (1, 2, 3)
            for role in ("Leader" if node == leader else "Follower",)
        ]
        after = TRANSFER + "\n".join(states) + "\n"
        assert etcd_scripts.run_script(script + after).verdict == verdict


@pytest.mark.parametrize(
    ("directive", "reason"),
    [
        ("forget-leader 1", "forget-leader"),
        ("add-nodes 1 voters=(1) index=2 async-storage-writes=true", "asynchronous storage writes"),
        ("propose-conf-change 1\nv4 r1", "joint consensus"),
        ("propose-conf-change 1 transition=explicit\nv4", "joint consensus"),
    ],
)
def test_what_ours_does_not_have_is_skipped(directive: str, reason: str) -> None:
    outcome = etcd_scripts.run_script(f"{SCRIPT}\n{directive}\n----\nok\n")
    assert (outcome.verdict, outcome.detail) == ("skipped", reason)


def test_a_folder_is_told_line_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text(SCRIPT)
    (tmp_path / "b.txt").write_text(SCRIPT.replace("match=7", "match=6"))
    (tmp_path / "c.txt").write_text("forget-leader 1\n----\nok\n")
    assert etcd_scripts.main([str(tmp_path)]) == 1
    told = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in told[:3]] == [
        "passed  a.txt",
        "failed  b.txt",
        "skipped c.txt",
    ]
    assert told[3] == "1 passed, 1 failed, 1 skipped"


def test_an_empty_folder_does_not_pass(tmp_path: Path) -> None:
    assert etcd_scripts.main([str(tmp_path)]) == 1


@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        ("committed cfg=(1,2,3) idx=(12,5,_)\n----\n5\n", "passed"),
        ("committed cfg=(1,2,3) idx=(12,5,_)\n----\n12\n", "failed"),
        ("vote cfg=(1,2) votes=(y,_)\n----\nVotePending\n", "passed"),
        ("vote cfg=(1,2) votes=(y,_)\n----\nVoteWon\n", "failed"),
        ("vote cfg=(1) cfgj=(2) votes=(y,n)\n----\nVoteLost\n", "skipped"),
    ],
)
def test_quorum_cases_can_fail(case: str, verdict: str) -> None:
    assert etcd_quorum.run_cases(case).verdict == verdict


@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        (f"simple\nv1 l2\n----\nvoters=(1) learners=(2)\n{ONE}{TWO} learner\n", "passed"),
        (f"simple\nv1 l2\n----\nvoters=(1 2)\n{ONE}{TWO}\n", "failed"),
        ("simple\nl1\n----\nremoved all voters\n", "passed"),
        ("simple\nv1 v2\n----\nremoved all voters\n", "failed"),
        ("enter-joint\nv1 v2\n----\nvoters=(1 2)&&()\n", "skipped"),
    ],
)
def test_configuration_cases_can_fail(case: str, verdict: str) -> None:
    assert etcd_confchange.run_cases(case).verdict == verdict
