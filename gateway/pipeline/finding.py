"""Which topics there are, and where their partitions begin and end: asked in the words that the wire has for it."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.pipeline.asking import Connection
from gateway.pipeline.planning import Standing

FAR = 1 << 40
"""An offset behind every end: more records than a partition of this gateway can number."""


def fits(pattern: str, name: str) -> bool:
    """Whether a topic is meant by `NAME`, `PREFIX*` or `*`."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def survey(connection: Connection, pattern: str) -> dict[str, Standing]:
    """The topics that are meant, by name.

    Raises CommandFailed: NO_SUCH_TOPIC for a name alone, UNSUPPORTED for a pattern where topics cannot be listed.
    """
    namespace = connection.place.namespace
    if pattern.endswith("*"):
        listed = connection.ask(q.ListTopics(namespace), r.Topics).topics
        found = [topic for topic in listed if fits(pattern, topic.name)]
    else:
        found = [_described(connection, q.Topic(namespace, pattern))]
    return {topic.name: Standing(topic.id, topic.created, _bounds(connection, topic)) for topic in found}


def _described(connection: Connection, topic: q.Topic) -> r.TopicDescription:
    try:
        return connection.ask(q.DescribeTopic(topic), r.TopicDescription)
    except CommandFailed as failure:
        if failure.fault is not Fault.UNSUPPORTED:
            raise
    return r.TopicDescription(str(topic.namespace), str(topic.name), 0, 0, q.TopicSettings(), ())


def _bounds(connection: Connection, topic: r.TopicDescription) -> dict[int, tuple[int, int]]:
    upstream = connection.place.spoken.dialect.upstream
    assert upstream is not None, "what a place speaks can be asked"
    if not {q.ListTopics, q.DescribeTopic} & upstream.unheard.keys() and topic.partitions:
        return {at.index: (at.start, at.end) for at in topic.partitions}
    reference = q.Topic(topic.namespace, topic.name)
    try:
        offsets = connection.ask(q.LatestOffsets(reference), r.Offsets).offsets
    except CommandFailed as failure:
        if failure.fault is not Fault.UNSUPPORTED:
            raise
        return dict(_probed(connection, reference))
    return {at.partition: (at.start, at.end) for at in offsets}


# -- a wire without words for bounds: what a Fetch is answered with tells where the end is


def _probed(connection: Connection, topic: q.Topic) -> Iterator[tuple[int, tuple[int, int]]]:
    """Partitions 0, 1, ..., up to the first that is not there or has no words for it."""
    for partition in range(q.MAX_PARTITIONS):
        try:
            yield partition, (0, _end(connection, topic, partition))
        except CommandFailed as failure:
            if failure.fault in (Fault.NO_SUCH_PARTITION, Fault.UNSUPPORTED) and partition:
                return
            raise


def _end(connection: Connection, topic: q.Topic, partition: int) -> int:
    """Where a partition ends: as the answer to a Fetch far behind says, else by halving."""

    def fetched(offset: int) -> r.Records:
        return connection.ask(q.Fetch(topic, partition, offset, max_records=1), r.Records)

    said = fetched(FAR)
    if said.end < FAR:
        return said.end
    low, high = 0, 1
    while fetched(high - 1).batches:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fetched(middle - 1).batches else (low, middle)
    return low
