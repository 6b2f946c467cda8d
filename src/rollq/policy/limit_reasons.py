"""Why a limit that an operator set blocks a job: its figures, and the command that raises it."""

from __future__ import annotations

import shlex

from rollq.base.amounts import counted, time_text
from rollq.base.needs import rate_text
from rollq.base.reasons import Reason
from rollq.grid.limits import limit_text
from rollq.grid.state import LimitRecord
from rollq.policy.array_reasons import StateReason
from rollq.policy.limits import BlockingLimit


def limit_reason(blocking: BlockingLimit) -> StateReason:
    """The reason of a job that this limit blocks."""
    limit, tokens = blocking.limit, blocking.tokens
    name, most = limit_text(limit), limit.running_max
    others = f"; waiting for it: {blocking.waiting}" if blocking.waiting > 1 else ""
    if 0 < most < tokens:
        text = f"it needs {counted(tokens, 'token')} of limit {name}, which has {most} in all"
        return StateReason(Reason.LIMIT, text, (set_limit(limit, running=tokens),))
    if blocking.wait_ms:
        pace = f"{rate_text(limit.rate)}, in bursts of up to {limit.burst}"
        text = f"limit {name} allows {pace}; next start in {time_text(blocking.wait_ms)}{others}"
        return StateReason(Reason.RATE, text, (set_limit(limit, rate=2 * limit.rate),))
    used = limit.running + blocking.reserved
    if most and used + tokens > most:
        wants = f", and it needs {tokens}" if tokens > 1 else ""
        text = f"limit {name} has {used} of {most} in use{wants}{others}"
        return StateReason(Reason.LIMIT, text, (set_limit(limit, running=2 * most),))
    text = f"it waits for its turn at limit {name}{others}"
    return StateReason(Reason.LIMIT, text, ("rollq limit list",))


def set_limit(limit: LimitRecord, *, running: int = 0, rate: int = 0) -> str:
    """The command that changes one bound of a limit and keeps the others."""
    words = ["rollq", "limit", "set", limit_text(limit)]
    if limit.running_max:
        words += ["--running", str(running or limit.running_max)]
    if limit.rate:
        words += ["--rate", rate_text(rate or limit.rate), "--burst", str(limit.burst)]
    return shlex.join(words)
