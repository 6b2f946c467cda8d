"""Every bound of topics and of durable subscriptions, unit last, each with its reason."""

from __future__ import annotations

from typing import Final

from rollq.base.limits import INLINE_BYTES_MAX, SUBJECT_BYTES_MAX

# A new topic is compared with all others, pattern by pattern.
TOPICS_MAX: Final = 256
TOPIC_PATTERNS_MAX: Final = 8
# The overhead of a message beside its payload: its memory on every member.
KEPT_MESSAGE_BYTES: Final = 256
# The bound of all topics together; each reserves its share, so that no publish is refused because
# of others. All of it is in every snapshot.
TOPICS_BYTES_MAX: Final = 256 * 1024 * 1024
TOPIC_BYTES_MAX: Final = 128 * 1024 * 1024
# The largest message with the longest subjects fits into the smallest topic.
TOPIC_BYTES_MIN: Final = INLINE_BYTES_MAX + 2 * SUBJECT_BYTES_MAX + KEPT_MESSAGE_BYTES
# A topic is dropped, or cut to a smaller bound, with one entry.
TOPIC_COUNT_MAX: Final = 500_000
CURSORS_PER_TOPIC_MAX: Final = 256
PUBLISH_RUN_MAX: Final = 1_024  # messages in one command: what arrives in one turn
# Messages over age: checked this often, and so many dropped by one entry.
TOPICS_TRIM_MS: Final = 1_000
TOPICS_TRIM_MAX: Final = 16_384

# Durable subscriptions. Sent and not consumed; consumption is logged this often.
TOPIC_WINDOW: Final = 256
CURSORS_MOVE_MS: Final = 100
CURSOR_MOVES_MAX: Final = 1_024  # in one command
# Messages examined per turn for one subscription: a pattern may skip most of a topic.
TOPIC_SCAN_MAX: Final = 1_024
TOPIC_PUMP_BYTES: Final = 256 * 1024  # sent to one subscription per turn, so that others are served
TOPIC_READERS_MAX: Final = 4_096  # subscriptions that read topics, of one leader

# The defaults of a topic.
TOPIC_AGE_MS: Final = 24 * 3_600_000
TOPIC_BYTES: Final = 16 * 1024 * 1024
TOPIC_COUNT: Final = 100_000
