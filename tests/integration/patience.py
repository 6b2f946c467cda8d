"""How long a test waits for what must come about. Only one that fails takes so long: on a machine
that has much else to do, everything may take many times as long as on an idle one."""

from __future__ import annotations

DEADLINE_S = 180.0
