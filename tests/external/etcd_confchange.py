"""Runs the configuration change cases of the etcd-raft project against ours: `python -m ... DIR`.

A case is a list of changes applied to the configuration that the cases before it left; the answer
is the new configuration or why it is refused. How far a new member is probed from is decided by
the leader's replication, not by the algebra of configurations, so progress lines are compared
only in who is there and who is a learner. Joint steps, which ours does not have, are skipped.
"""

from __future__ import annotations

import re
import sys

from rollq.base.errors import StateError
from rollq.raft.membership import apply_change
from rollq.raft.types import Config
from tests.external.cases import Outcome, report
from tests.external.etcd_expect import Voters, ids, parse_change
from tests.scenarios.blocks import Block, ScriptError, parse_blocks

CONFIGURATION = re.compile(r"voters=\(([^)]*)\)(?: learners=\(([^)]*)\))?$")
PROGRESS = re.compile(r"(\d+): State\w+ match=\d+ next=\d+( learner)?$")
# What ours says where etcd says the other.
REFUSALS = {
    "removed all voters": "the change would leave no voter",
    "more than one voter changed without entering joint config": (
        "the change touches more than one voter"
    ),
}


def main(arguments: list[str]) -> int:
    """Run every file of a folder and report."""
    return report(arguments, run_cases)


def run_cases(text: str) -> Outcome:
    """All cases of one file, each on what the one before left."""
    config = Config()
    held = 0
    try:
        blocks = parse_blocks(text)
        if any(block.command in ("enter-joint", "leave-joint") for block in blocks):
            return Outcome("skipped", "joint consensus")
        for block in blocks:
            config, got = _apply(block, config)
            wanted = _wanted(block)
            if wanted != got:
                return Outcome("failed", f"line {block.line}: expected {wanted}, got {got}")
            held += 1
    except ScriptError as error:
        return Outcome("failed", str(error))
    return Outcome("passed", f"{held} cases")


def _apply(block: Block, config: Config) -> tuple[Config, Voters | str]:
    """The configuration after the block, and what it answers."""
    if block.command != "simple":
        raise ScriptError(block.line, f"unknown command {block.command!r}")
    try:
        after = apply_change(config, parse_change(" ".join(block.input)))
    except StateError as error:
        return config, error.message
    voters = tuple(each.id for each in after.voters)
    return after, Voters(voters, tuple(each.id for each in after.learners))


def _wanted(block: Block) -> Voters | str:
    match = CONFIGURATION.match(block.expected[0]) if block.expected else None
    if match is None:
        refusal = "\n".join(block.expected)
        return REFUSALS.get(refusal, refusal)
    wanted = Voters(ids(match[1]), ids(match[2] or ""))
    tracked = [PROGRESS.match(line) for line in block.expected[1:]]
    learners = tuple(int(line[1]) for line in tracked if line and line[2])
    voters = tuple(int(line[1]) for line in tracked if line and not line[2])
    if Voters(voters, learners) != wanted:
        raise ScriptError(block.line, "the expectation contradicts itself")
    return wanted


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
