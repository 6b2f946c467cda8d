"""Every bound of publishing and subscribing, unit last, each with its reason."""

from __future__ import annotations

from typing import Final

# The payload of one publish. More than a log entry takes inline, because it is not logged; much
# less than a frame, so that other sessions are served in between.
PUBLISH_BYTES_MAX: Final = 1024 * 1024
QUEUE_GROUP_BYTES_MAX: Final = 128
TOPIC_NAME_BYTES_MAX: Final = 128
DURABLE_NAME_BYTES_MAX: Final = 128

# Leader. A subscription costs some 500 bytes and its part of the trie.
SUBSCRIPTIONS_PER_SESSION_MAX: Final = 50_000
SUBSCRIPTIONS_MAX: Final = 500_000
# Of one session, that are checked one by one when the access rules change.
SUBSCRIPTIONS_JUDGED_MAX: Final = 1_000
# Subjects whose receivers are cached until a subscription changes.
ROUTES_KEPT_MAX: Final = 65_536
# Bytes queued for a session that does not read, before it is closed. Job traffic has more
# (LINK_OUTBOX_BYTES_MAX), so it is never what breaks a link.
SUBSCRIBER_BYTES_MAX: Final = 8 * 1024 * 1024

# Client. Messages that one subscription buffers for a slow application; more are dropped.
SUBSCRIPTION_MESSAGES_MAX: Final = 65_536
SUBSCRIPTION_BYTES_MAX: Final = 64 * 1024 * 1024
# What is published at once before it is written, and what may wait for the network.
PUBLISH_AT_ONCE_MAX: Final = 512
PUBLISH_AT_ONCE_BYTES_MAX: Final = 256 * 1024
PUBLISH_AHEAD_BYTES_MAX: Final = 1024 * 1024
# Subjects that were found valid, and those whose subscriptions are known.
CLIENT_SUBJECTS_KEPT_MAX: Final = 16_384
