"""Operations on queues and topics: the records of partition 0, of which a reader sees the values only."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from gateway.core.commands import (
    Balanced,
    ByKey,
    Command,
    Fetch,
    Follow,
    Last,
    LatestOffsets,
    Peek,
    Publish,
    QueueClear,
    QueueSize,
    Take,
)
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch, canonical, select
from gateway.core.replies import Count, Offsets, PartitionOffsets, Published, Records, Reply
from gateway.dialects.grid import answers
from gateway.dialects.grid.answers import NOT_FOUND, OK, read_list, write_list
from gateway.dialects.grid.fidelity import POLLED, WRITTEN
from gateway.dialects.grid.layout import Frame
from gateway.dialects.grid.maps import write_nothing
from gateway.dialects.grid.operation import (
    MAX_INT,
    Answer,
    Operation,
    Parts,
    malformed,
    read_i32,
    read_i64,
    sure,
    to_millis,
    to_seconds,
    topic_of,
    unsupported,
    write_i32,
    write_i64,
    write_key,
)
from gateway.dialects.grid.terms import Asked, GridTerms

# -- records


def values_of(records: list[Record], origin: str, terms: GridTerms) -> list[bytes]:
    """What a reader sees of records; what it does not is counted."""
    POLLED.count(records, origin, terms.losses)
    return [terms.codec.given(record.value or b"") for record in records]


def _batch(values: list[bytes], base: int, terms: GridTerms) -> RecordBatch:
    batch = canonical([Record(None, terms.codec.taken(value)) for value in values], "grid")
    return RecordBatch(batch.encoding, batch.body, batch.count, base, 0, "grid")


# -- writing


def _read_publish(frame: Frame, terms: GridTerms) -> Command:
    topic, taken = topic_of(frame, terms), terms.codec.taken
    record = Record(taken(frame.key) or None if frame.key else None, taken(frame.value))
    return Publish(topic, 0, canonical([record], "grid"), create=1)


def _write_publish(command: Command, asked: Asked, terms: GridTerms) -> Parts:
    """There is one partition, so it does not matter how one was to be chosen."""
    publish = sure(command, Publish)
    if publish.batch.count != 1:
        raise unsupported("more or less than one record at a time")
    [record] = publish.batch.records()
    if not isinstance(publish.to, Balanced | ByKey) and publish.to != 0:
        raise unsupported("another partition than 0")
    _lose(record, publish.batch.origin, terms)
    return Parts(write_key(record.key, terms) if record.key else b"", terms.codec.given(record.value or b""))


def _lose(record: Record, origin: str, terms: GridTerms) -> None:
    if terms.policy == "reject" and (lost := WRITTEN.of(record)):
        raise CommandFailed(Fault.UNREPRESENTABLE, f"a record with {', '.join(lost)}")
    WRITTEN.count([record], origin, terms.losses)


def _show_sequence(command: Command, reply: Reply, terms: GridTerms) -> tuple[str, bytes]:
    return OK, write_i64(sure(reply, Published).last)


def _hear_sequence(command: Command, status: str, value: bytes, terms: GridTerms) -> Reply:
    sequence = read_i64(value, "a sequence")
    return Published(0, sequence, sequence)


# -- queues


def _read_poll(frame: Frame, terms: GridTerms) -> Command:
    """key: i64 milliseconds to wait, or nothing, to answer at once."""
    wait = to_seconds(read_i64(frame.key, "the time to wait")) if frame.key else 0.0
    return Take(topic_of(frame, terms), wait)


def _write_poll(command: Command, asked: Asked, terms: GridTerms) -> Parts:
    wait = sure(command, Take).wait
    return Parts(write_i64(to_millis(wait)) if wait > 0 else b"")


def _read_peek(frame: Frame, terms: GridTerms) -> Command:
    return Peek(topic_of(frame, terms))


def _read_size(frame: Frame, terms: GridTerms) -> Command:
    return QueueSize(topic_of(frame, terms))


def _read_clear(frame: Frame, terms: GridTerms) -> Command:
    return QueueClear(topic_of(frame, terms))


def _show_one(command: Command, reply: Reply, terms: GridTerms) -> tuple[str, bytes]:
    batches = sure(reply, Records).batches
    if not batches:
        return NOT_FOUND, b""
    return OK, values_of(batches[0].records()[:1], batches[0].origin, terms)[0]


def _hear_one(command: Command, status: str, value: bytes, terms: GridTerms) -> Reply:
    if status == NOT_FOUND:
        return Records(0, 0, 0)
    return Records(0, 0, 1, (_batch([value], 0, terms),))


ONE = Answer(_show_one, _hear_one)
"""OK and the value of a record, or NOT_FOUND.  Which offset it had is not said."""

QUEUES: dict[str, Operation] = {
    "QUEUE_OFFER": Operation(_read_publish, _write_publish, answers.WHETHER, changes=True),
    "QUEUE_POLL": Operation(_read_poll, _write_poll, ONE, Records(0, 0, 0), changes=True),
    "QUEUE_PEEK": Operation(_read_peek, write_nothing, ONE, Records(0, 0, 0)),
    "QUEUE_SIZE": Operation(_read_size, write_nothing, answers.SIZE, Count(0)),
    "QUEUE_CLEAR": Operation(_read_clear, write_nothing, answers.SIZE, Count(0), changes=True),
}

# -- topics


def _read_topic_poll(frame: Frame, terms: GridTerms) -> Command:
    """value: i64 sequence, i32 how many, 0 = as many as fit."""
    if len(frame.value) != 12:
        raise malformed(f"a sequence and a number, not {len(frame.value)} bytes")
    start, most = read_i64(frame.value[:8], "a sequence"), read_i32(frame.value, 8)
    if start < 0 or most < 0:
        raise malformed(f"{most} from {start} on")
    return Fetch(topic_of(frame, terms), 0, start, most, max_bytes=min(terms.limit, 1 << 20))


def _write_topic_poll(command: Command, asked: Asked, terms: GridTerms) -> Parts:
    """Who reads is of no account without `commit`."""
    fetch = sure(command, Fetch)
    if fetch.partition != 0 or not isinstance(fetch.start, int) or fetch.commit:
        raise unsupported("a Fetch but from an offset of partition 0")
    return Parts(value=write_i64(fetch.start) + write_i32(min(fetch.max_records, MAX_INT)))


def _show_polled(command: Command, reply: Reply, terms: GridTerms) -> tuple[str, bytes]:
    """As many messages as have room, and at least one.  A message takes its length and maybe a tag beside its bytes."""
    start = sure(command, Fetch).start
    following, room = start if isinstance(start, int) else 0, terms.limit - 12
    values: list[bytes] = []
    for batch in sure(reply, Records).batches:
        records = batch.records()
        sizes = list(accumulate(8 + len(record.value or b"") for record in records))
        fitting = bisect_right(sizes, room) or (0 if values else 1)
        if fitting:
            values += values_of(records[:fitting], batch.origin, terms)
            following, room = batch.base + fitting, room - sizes[fitting - 1]
        if fitting < len(records):
            break
    return OK, write_i64(following) + write_list(values, terms)


def _hear_polled(command: Command, status: str, value: bytes, terms: GridTerms) -> Reply:
    following, values = read_i64(value[:8], "the next sequence"), read_list(value, 8)
    if not values:
        return Records(0, 0, following)
    base = following - len(values)
    if base < 0:
        raise malformed(f"{len(values)} messages before sequence {following}")
    fetch = sure(command, Fetch)
    found = select([_batch(values, base, terms)], base, fetch.max_records, fetch.max_bytes)
    return Records(0, 0, following, tuple(found))


def _read_subscribe(frame: Frame, terms: GridTerms) -> Command:
    """value: nothing or, where messages are pushed, i64 the sequence of the first."""
    topic = topic_of(frame, terms)
    if not terms.grid.topic_push:
        if frame.value:
            raise malformed("nothing is pushed here, so there is no sequence to begin at")
        return LatestOffsets(topic, 0)
    if not frame.value:
        return Follow(topic, 0, Last(0))
    start = read_i64(frame.value, "a sequence")
    if start < 0:
        raise malformed(f"the sequence {start}")
    return Follow(topic, 0, start)


def _write_subscribe(command: Command, asked: Asked, terms: GridTerms) -> Parts:
    if isinstance(command, Follow):
        if not terms.grid.topic_push or command.partition or not isinstance(command.start, int | Last):
            raise unsupported("following, but partition 0 from an offset on, where messages are pushed")
        if isinstance(command.start, Last) and command.start.count:
            raise unsupported("following the last records")
        return Parts(value=write_i64(command.start) if isinstance(command.start, int) else b"")
    if terms.grid.topic_push or sure(command, LatestOffsets).partition not in (0, None):
        raise unsupported("where a partition ends, but of partition 0 where nothing is pushed")
    return Parts()


def _show_next(command: Command, reply: Reply, terms: GridTerms) -> tuple[str, bytes]:
    for bounds in sure(reply, Offsets).offsets:
        if bounds.partition == 0:
            return OK, write_i64(bounds.end)
    raise CommandFailed(Fault.NO_SUCH_PARTITION)


def _hear_next(command: Command, status: str, value: bytes, terms: GridTerms) -> Reply:
    return Offsets(1, (PartitionOffsets(0, 0, read_i64(value, "the next sequence")),))


_AT_THE_BEGINNING = Offsets(1, (PartitionOffsets(0, 0, 0),))

SEQUENCE = Answer(_show_sequence, _hear_sequence)
NEXT = Answer(_show_next, _hear_next)

TOPICS: dict[str, Operation] = {
    "TOPIC_PUBLISH": Operation(_read_publish, _write_publish, SEQUENCE, changes=True),
    "TOPIC_POLL": Operation(_read_topic_poll, _write_topic_poll, Answer(_show_polled, _hear_polled), Records(0, 0, 0)),
    "TOPIC_SUBSCRIBE": Operation(_read_subscribe, _write_subscribe, NEXT, _AT_THE_BEGINNING),
}
