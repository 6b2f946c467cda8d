"""Runs scripts of the etcd-raft project against our consensus: `python -m ... DIR`.

One line a script, then `N passed, M failed`, and how many were skipped because they use what ours
does not have by design. Exit code 0 only if something ran and nothing failed.
"""

from __future__ import annotations

import sys

from rollq.base.errors import RollqError
from tests.external.cases import Outcome, report
from tests.external.etcd_check import SHOWS_CHANGES, MismatchError, check, is_silent
from tests.external.etcd_directives import run_directive
from tests.external.etcd_env import Env, UnsupportedError
from tests.external.etcd_expect import Views
from tests.scenarios.blocks import Block, ScriptError, parse_blocks

ABSENT_DIRECTIVES = {
    "forget-leader": "forget-leader",
    "process-append-thread": "asynchronous storage writes",
    "process-apply-thread": "asynchronous storage writes",
}
ABSENT_OPTIONS = {
    "async-storage-writes": ("true", "asynchronous storage writes"),
    "disable-conf-change-validation": ("true", "unchecked configuration changes"),
    "read-only": ("lease-based", "lease reads"),
}


def main(arguments: list[str]) -> int:
    """Run every script of a folder (or one file) and report."""
    return report(arguments, run_script)


def run_script(text: str) -> Outcome:
    """Play one script from an empty environment."""
    try:
        blocks = parse_blocks(text)
        absent = find_absent(blocks)
        return Outcome("skipped", absent) if absent else _play(blocks)
    except ScriptError as error:
        return Outcome("failed", str(error))


def find_absent(blocks: list[Block]) -> str:
    """What the script uses and ours does not have; empty if nothing."""
    for block in blocks:
        if block.command in ABSENT_DIRECTIVES:
            return ABSENT_DIRECTIVES[block.command]
        for key, (value, reason) in ABSENT_OPTIONS.items():
            if value in block.options.get(key, ()):
                return reason
        if block.command == "propose-conf-change" and _is_joint(block):
            return "joint consensus"
    return ""


def _is_joint(block: Block) -> bool:
    """etcd changes in one step only if there is one change and no transition is asked for."""
    changes = " ".join(block.input).split()
    return len(changes) != 1 or block.option("transition", "auto") != "auto"


def _play(blocks: list[Block]) -> Outcome:
    env, views, held = Env(), Views(), 0
    for block in blocks:
        try:
            done = run_directive(env, block)
            if is_silent(env, block):
                views.forget()
            else:
                views.read(block.expected, _actor(block))
            if env.level not in SHOWS_CHANGES:
                views.forget_configurations()
            held += check(env, views, block, done)
        except UnsupportedError as error:
            return Outcome("skipped", str(error))
        except (MismatchError, RollqError, LookupError, ValueError, AssertionError) as error:
            return Outcome("failed", f"line {block.line}: {block.command}: {error}")
    return Outcome("passed", f"{held} comparisons")


def _actor(block: Block) -> int:
    """The node that the text is about until a header names another; 0 if there is none."""
    return int(block.words[0]) if block.words and block.words[0].isdigit() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
