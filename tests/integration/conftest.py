"""Commands that tests run wait for an answer as long as the tests do: on a busy machine ten seconds
may be over before a process that was just started has imported its modules."""

from __future__ import annotations

import os

from tests.integration.patience import DEADLINE_S

os.environ["ROLLQ_TIMEOUT"] = f"{DEADLINE_S:g}"
