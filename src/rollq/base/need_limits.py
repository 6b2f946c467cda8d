"""Bounds of what jobs need, what workers have, and what operators set about it, each with its
reason. The other bounds of rollq are in `limits`."""

from __future__ import annotations

from typing import Final

from rollq.base.limits import CLIENT_ID_BYTES_MAX, USED_BYTES_MAX

# Of a job, or of a worker in its hello, which is short because the peer is not authenticated yet.
RESOURCES_MAX: Final = 8
LABELS_MAX: Final = 16
NEED_NAME_BYTES_MAX: Final = 32  # of a resource, a label, a key of a limit
LABEL_VALUE_BYTES_MAX: Final = 63
LABEL_BYTES_MAX: Final = NEED_NAME_BYTES_MAX + 2 + LABEL_VALUE_BYTES_MAX  # with `!=` between
# What the labels and resources of a worker take of its hello, as text.
OFFER_BYTES_MAX: Final = 640
AMOUNT_MAX: Final = 1_000 * USED_BYTES_MAX  # thousandths: memory is counted in those of a byte
LIMITS_PER_JOB_MAX: Final = 8  # keys that a job names: each is looked up when it starts and ends
STICKY_KEY_BYTES_MAX: Final = 256

# Tables of the state. A full one refuses what is new.
POLICIES_MAX: Final = 1_000
LIMITS_MAX: Final = 10_000
WEIGHTS_MAX: Final = 10_000
# What a limit may be called: a queue, a client, a program or a key.
LIMIT_NAME_BYTES_MAX: Final = CLIENT_ID_BYTES_MAX
TOKENS_MAX: Final = 1_000_000  # of one job; and how many a limit may have
RATE_MAX: Final = 100_000 * 86_400  # starts a day: 10 µs from one to the next
SCORE_WEIGHT_MAX: Final = 1_000
CLIENT_WEIGHT_MAX: Final = 100
