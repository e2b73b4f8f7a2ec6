"""Adds up what topics hold and finds the busiest, some topics at a time: of a hundred thousand that takes long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import nlargest

from gateway.admin.web_rows import SHOWN, Weighed
from gateway.core.replies import TopicDescription

Key = tuple[str, str, int]
"""A topic: its names, and when it was made, since a name can be used again."""


class Tally:
    """before: how far each topic went at the last look.  seconds: since then, None = there was none.

    ends:    how far each goes now.  namespaces: that have topics.
    busiest: of those that were added, by rate and then by records.
    """

    def __init__(self, before: Mapping[Key, int], seconds: float | None) -> None:
        self.ends: dict[Key, int] = {}
        self.namespaces: set[str] = set()
        self.busiest: list[Weighed] = []
        self.partitions = 0
        self.records = 0
        self.bytes = 0
        self.written = 0
        self._before = before
        self._seconds = seconds

    @property
    def rate(self) -> float | None:
        """Records a second, of all topics."""
        return None if self._seconds is None else self.written / self._seconds

    def add(self, topics: Sequence[TopicDescription]) -> None:
        """Some more."""
        weighed = [self._weigh(topic) for topic in topics]
        self.busiest = nlargest(SHOWN, self.busiest + weighed, key=lambda each: (each.rate or 0.0, each.records))

    def _weigh(self, topic: TopicDescription) -> Weighed:
        start = end = size = 0
        for part in topic.partitions:
            start += part.start
            end += part.end
            size += part.bytes
        key = topic.namespace, topic.name, topic.created
        self.ends[key] = end
        self.namespaces.add(topic.namespace)
        self.partitions += len(topic.partitions)
        self.records += end - start
        self.bytes += size
        if self._seconds is None:
            return Weighed(topic, end - start, size, None)
        written = max(0, end - self._before.get(key, 0))  # a new topic began with nothing
        self.written += written
        return Weighed(topic, end - start, size, written / self._seconds)
