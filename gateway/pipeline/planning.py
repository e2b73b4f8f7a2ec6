"""What of which partitions is read, worked out from what was asked and what there is: no sockets in here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, TypeVar

import msgspec
from pyspark.sql.datasource import InputPartition

from gateway.core.commands import MAX_OFFSET

EARLIEST, LATEST = "earliest", "latest"

_Offset = Annotated[int, msgspec.Meta(ge=0, le=MAX_OFFSET)]
_Offsets = dict[str, dict[Annotated[str, msgspec.Meta(pattern="^[0-9]{1,9}$")], _Offset]]

Wanted = str | dict[str, dict[int, int]]
"""Where reading begins or ends: EARLIEST or LATEST in all partitions, or topic -> partition -> offset."""


class Standing(msgspec.Struct, frozen=True):
    """A topic as it stands.

    id, created: which topic of that name it is; 0 where the wire does not say.
    bounds:      partition -> the first offset kept and the next to be written.
    """

    id: int
    created: int
    bounds: dict[int, tuple[int, int]]


K = TypeVar("K")

Standings = Mapping[str, Standing]
"""By name."""


class Span(InputPartition):
    """Records start..end-1 of a partition: what one task reads.  id: of the topic, 0 = it goes by its name."""

    def __init__(self, topic: str, id: int, partition: int, start: int, end: int) -> None:
        self.topic = topic
        self.id = id
        self.partition = partition
        self.start = start
        self.end = end

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Span) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__.values()))

    @property
    def place(self) -> str:
        """For sentences."""
        return f"{self.topic}/{self.partition}"


class Missing(msgspec.Struct, frozen=True):
    """Records that were to be read and are not there.  why: a sentence without a period.  count: how many."""

    count: int
    why: str


# -- what was asked


def wanted_of(option: str, text: str, *words: str) -> Wanted:
    """What `startingOffsets` or `endingOffsets` says.  Raises ValueError, with a sentence."""
    if text.strip().lower() in words:
        return text.strip().lower()
    try:
        said = msgspec.convert(json.loads(text), _Offsets)
    except (ValueError, RecursionError) as error:
        such = '{"orders": {"0": 12}}'
        choices = " or ".join(words)
        raise ValueError(f"{option} is {choices}, or offsets such as {such}, not {text[:200]!r}: {error}") from None
    return {topic: {int(partition): offset for partition, offset in of.items()} for topic, of in said.items()}


def check_wanted(option: str, wanted: Wanted, there: Standings) -> None:
    """Whether the partitions named are there.  Raises ValueError, with a sentence."""
    if isinstance(wanted, str):
        return
    for topic, offsets in wanted.items():
        if topic not in there:
            raise ValueError(f"{option} names the topic {topic!r}, which is not among those that are read")
        for partition in offsets:
            if partition not in there[topic].bounds:
                raise ValueError(f"{option} names the partition {partition} of {topic!r}, which does not exist")


# -- a batch


def spans(there: Standings, begin: Wanted, end: Wanted) -> tuple[list[Span], list[Missing]]:
    """One for each partition that has records to read, and what is missing of what was asked.

    Raises ValueError, with a sentence, where an end is before a beginning.
    """
    check_wanted("startingOffsets", begin, there)
    check_wanted("endingOffsets", end, there)
    found: list[Span] = []
    missing: list[Missing] = []
    for topic, standing in sorted(there.items()):
        for partition, (first, last) in sorted(standing.bounds.items()):
            asked = Span(topic, standing.id, partition, _offset(begin, topic, partition, first, last), 0)
            asked.end = _offset(end, topic, partition, last, last)
            if asked.start > asked.end and not isinstance(end, str):
                raise ValueError(f"endingOffsets has {asked.end} for {asked.place}, which is before {asked.start}")
            missing += outside(asked, first, last)
            asked.start, asked.end = max(asked.start, first), min(asked.end, last)
            found += [asked] if asked.start < asked.end else []
    return found, missing


def outside(asked: Span, first: int, last: int) -> Iterator[Missing]:
    """What of a span is before the first record kept, or behind the last one."""
    if asked.start < first:
        gone = min(first, asked.end) - asked.start
        yield Missing(gone, f"{gone} records of {asked.place} from offset {asked.start} on are deleted")
    if max(asked.start, asked.end) > last:
        beyond = max(asked.start, asked.end)
        yield Missing(
            max(0, asked.end - max(last, asked.start)), f"{asked.place} ends at {last}, there is nothing up to {beyond}"
        )


def _offset(wanted: Wanted, topic: str, partition: int, first: int, last: int) -> int:
    """first: where nothing is said of that partition, and for EARLIEST."""
    if isinstance(wanted, str):
        return last if wanted == LATEST else first
    return wanted.get(topic, {}).get(partition, first)


def split(found: list[Span], most: int) -> list[Span]:
    """The same in pieces of at most so many records, each partition's as even as can be."""
    pieces: list[Span] = []
    for span in found:
        total = span.end - span.start
        count = -(-total // most)
        edges = [span.start + total * at // count for at in range(count + 1)]
        pieces += [Span(span.topic, span.id, span.partition, *edges[at : at + 2]) for at in range(count)]
    return pieces


# -- a stream


class At(msgspec.Struct, frozen=True):
    """How far a stream is in one topic.

    id, created: as in Standing: a topic deleted and made again is another one.
    next:        partition -> the next offset to read.
    first:       partition -> where the read of one that was new then began; it is not said any more when it goes on.
    """

    id: int
    created: int
    next: dict[int, int]
    first: dict[int, int] = {}


Position = Mapping[str, At]
"""How far a stream is, by topic."""


def position_of(offset: Mapping[str, object]) -> dict[str, At]:
    """What a checkpoint has: `{"orders": {"id": 7, "created": 1754, "next": {"0": 12}, "first": {}}}`.

    Raises ValueError for what is none.
    """
    try:
        return msgspec.convert(offset, dict[str, At], strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"the checkpoint has no offsets of the format gateway: {error}") from error


def offset_of(position: Position) -> dict[str, object]:
    """The same for a checkpoint: one position is always the same text."""
    return {topic: {"id": at.id, "created": at.created, **_texts(at)} for topic, at in sorted(position.items())}


def _texts(at: At) -> dict[str, dict[str, int]]:
    """Keys in the order of their numbers, as texts, which is what JSON has."""
    return {
        name: {str(partition): offset for partition, offset in sorted(offsets.items())}
        for name, offsets in (("next", at.next), ("first", at.first))
    }


def beginning(there: Standings, begin: Wanted) -> dict[str, At]:
    """Where a new stream begins.  What was asked for and is deleted is found missing by the first batch."""
    check_wanted("startingOffsets", begin, there)
    return {
        topic: At(at.id, at.created, {p: _offset(begin, topic, p, *bounds) for p, bounds in at.bounds.items()})
        for topic, at in there.items()
    }


def lost(at: Position, there: Standings) -> list[Missing]:
    """What a stream has not read yet and cannot read any more, as far as that shows before it is read."""
    return [missing for topic, was in sorted(at.items()) for missing in _lost(topic, was, there.get(topic))]


def _lost(topic: str, was: At, now: Standing | None) -> Iterator[Missing]:
    if now is None:
        yield Missing(0, f"the topic {topic!r} does not exist any more")
        return
    if not same(was, now):
        yield Missing(0, f"the topic {topic!r} was deleted and made again")
        return
    for partition, offset in sorted(was.next.items()):
        end = now.bounds[partition][1] if partition in now.bounds else None
        if end is None:
            yield Missing(0, f"the partition {topic}/{partition} does not exist any more")
        elif end < offset:
            yield Missing(0, f"{topic}/{partition} ends at {end}, which was read up to {offset}")


def same(was: At, now: Standing) -> bool:
    """Whether it is the same topic, as far as its wire says."""
    return (was.id, was.created) == (now.id, now.created)


def forward(at: Position, there: Standings, limit: int | None) -> dict[str, At]:
    """Where the next batch ends that begins at `at`: with no more records than the limit, None = all there are.

    Topics and partitions that are new begin at their first record.  What is lost, see there, is left behind.
    Where nothing changes the position is the same one, and no batch comes of it.
    """
    begins = {topic: _begin(at.get(topic), now) for topic, now in there.items()}
    waiting = {
        (topic, partition): there[topic].bounds[partition][1] - offset
        for topic, (known, new) in begins.items()
        for partition, offset in (known | new).items()
    }
    taken = waiting if limit is None else shares(waiting, limit)
    ahead = {
        topic: At(now.id, now.created, {p: n + taken[topic, p] for p, n in (known | new).items()}, new)
        for topic, now in there.items()
        for known, new in (begins[topic],)
    }
    return dict(at) if _where(at) == _where(ahead) else ahead


def _where(position: Position) -> dict[str, tuple[int, int, dict[int, int]]]:
    return {topic: (at.id, at.created, at.next) for topic, at in position.items()}


def _begin(was: At | None, now: Standing) -> tuple[dict[int, int], dict[int, int]]:
    """Where partitions are read from: those known before, and those that are new."""
    if was is None or not same(was, now):
        return {}, {partition: first for partition, (first, _) in now.bounds.items()}
    known = {partition: was.next[partition] for partition in now.bounds if partition in was.next}
    known = {partition: min(offset, now.bounds[partition][1]) for partition, offset in known.items()}
    return known, {partition: first for partition, (first, _) in now.bounds.items() if partition not in known}


def shares(waiting: Mapping[K, int], limit: int) -> dict[K, int]:
    """How much of each is taken: as evenly as there is something, so that a long queue holds up no short one."""
    taken: dict[K, int] = {}
    left = limit
    for nth, (key, count) in enumerate(sorted(waiting.items(), key=lambda item: item[1])):
        taken[key] = min(count, -(-left // (len(waiting) - nth)) if left > 0 else 0)
        left -= taken[key]
    return taken


def between(begin: Position, end: Position) -> list[Span]:
    """What a batch reads."""
    return [
        Span(topic, at.id, partition, start, offset)
        for topic, at in sorted(end.items())
        for partition, offset in sorted(at.next.items())
        if (start := _started(begin.get(topic), at, partition)) < offset
    ]


def _started(was: At | None, now: At, partition: int) -> int:
    if was is not None and (was.id, was.created) == (now.id, now.created) and partition in was.next:
        return was.next[partition]
    return now.first.get(partition, now.next[partition])
