"""Runs the quorum cases of the etcd-raft project against ours: `python -m ... DIR`.

A case is a majority configuration and what each voter acknowledged or voted; the answer is the
committed index or the state of the vote. The table that explains a commit index is theirs and is
not compared. Joint configurations, which ours does not have, are skipped.
"""

from __future__ import annotations

import sys

from rollq.raft.quorum import INDEX_UNBOUNDED, VoteResult, committed_index, vote_result
from tests.external.cases import Outcome, report
from tests.scenarios.blocks import Block, ScriptError, parse_blocks

EVERYTHING = "∞"
VOTES = {"y": True, "n": False}
RESULTS = {
    VoteResult.PENDING: "VotePending",
    VoteResult.LOST: "VoteLost",
    VoteResult.WON: "VoteWon",
}


def main(arguments: list[str]) -> int:
    """Run every file of a folder and report."""
    return report(arguments, run_cases)


def run_cases(text: str) -> Outcome:
    """All cases of one file."""
    held = joint = 0
    try:
        for block in parse_blocks(text):
            if "cfgj" in block.options:
                joint += 1
                continue
            wanted, got = _wanted(block), _got(block)
            if wanted != got:
                return Outcome("failed", f"line {block.line}: expected {wanted}, got {got}")
            held += 1
    except ScriptError as error:
        return Outcome("failed", str(error))
    if not held:
        return Outcome("skipped", "joint configurations")
    return Outcome("passed", f"{held} cases" + (f", {joint} joint ones left out" if joint else ""))


def _wanted(block: Block) -> str:
    if not block.expected:
        raise ScriptError(block.line, "no expectation")
    answer = block.expected[-1]
    return EVERYTHING if answer.endswith(EVERYTHING) else answer


def _got(block: Block) -> str:
    voters = block.option_numbers("cfg")
    if block.command == "committed":
        return _committed(block, voters)
    if block.command == "vote":
        given = block.options.get("votes", ())
        votes = {who: VOTES[vote] for who, vote in zip(voters, given, strict=True) if vote in VOTES}
        return RESULTS[vote_result(voters, votes)]
    raise ScriptError(block.line, f"unknown command {block.command!r}")


def _committed(block: Block, voters: list[int]) -> str:
    known = zip(voters, block.options.get("idx", ()), strict=True)
    match = {who: block.as_number(index) for who, index in known if index != "_"}
    index = committed_index(voters, match)
    return EVERYTHING if index == INDEX_UNBOUNDED else str(index)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
