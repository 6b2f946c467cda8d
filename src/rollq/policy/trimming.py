"""Messages that topics keep beyond their age limit: the leader proposes to drop them.

Stamps of a topic never decrease, so the first one to keep is found from the front. At most
`Bounds.topics_trimmed` messages are examined per call: no entry drops more.
"""

from __future__ import annotations

from rollq.grid.state import GridState
from rollq.grid.times import began_before_ms
from rollq.grid.topic_commands import TopicTrim, TrimTopics
from rollq.grid.topic_records import TopicRecord


def over_age(state: GridState, time_ms: int) -> list[TrimTopics]:
    """The command to propose at this time of the group; empty if nothing is over age."""
    left = state.bounds.topics_trimmed
    trims: list[TopicTrim] = []
    for topic in state.topics.by_name.values():
        if topic.age_ms and topic.messages:
            oldest_ms = began_before_ms(state, time_ms, topic.age_ms)
            before = _first_since(topic, oldest_ms, left)
            if before > topic.first_index:
                trims.append(TopicTrim(topic.name, before))
                left -= before - topic.first_index
    return [TrimTopics(tuple(trims))] if trims else []


def _first_since(topic: TopicRecord, stamp_ms: int, count_max: int) -> int:
    """The first index with this stamp or a later one, or after `count_max` messages."""
    index = topic.first_index
    end = min(topic.last_index + 1, index + count_max)
    while index < end and topic.messages[index].stamp_ms < stamp_ms:
        index += 1
    return index
