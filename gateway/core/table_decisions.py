"""What writing to a table means: records that are appended, decided on what the table holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from gateway.core import changes as c
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.changes import Change
from gateway.core.commands import MAX_OFFSET, Written
from gateway.core.deciding import Decision, choose
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import MAX_RECORDS, Record, canonical
from gateway.core.state import Partition, State, Topic
from gateway.core.tables import Entry, Table

ORIGIN = "table"
"""Of batches that table commands append."""

PARTITIONER = "fnv1a_32"
"""Where a key goes unless the topic says otherwise (the grid's own)."""

MAX_TTL = 0xFFFFFFFF

BATCH_BYTES = 1 << 20
"""Of keys in one batch of tombstones: about that much, for a reader of one record decodes the batch."""

_LOWEST, _HIGHEST = -MAX_OFFSET - 1, MAX_OFFSET
_counter = re.compile(rb"0|-?[1-9][0-9]{0,18}").fullmatch


def untabled(state: State, command: Written) -> Topic | None:
    """The topic whose table has to be there before `perform`, and is not."""
    if not isinstance(command, q.MapPut | q.MapRemove | q.MapClear | q.MapAdd):
        return None
    if isinstance(command, q.MapPut) and _blind(command):
        return None
    try:
        topic = state.topic(command.topic)
    except CommandFailed:  # or it is made in a moment, and is empty
        return None
    return topic if topic.table is None else None


def check_key(key: bytes) -> None:
    """Raises CommandFailed(INVALID_ARGUMENT): an empty key is no key."""
    if not key:
        raise CommandFailed(Fault.INVALID_ARGUMENT, "a key has at least one byte")


def _put(state: State, command: q.MapPut, now: int) -> Decision:
    check_key(command.key)
    if not 0 <= command.ttl <= MAX_TTL:
        raise CommandFailed(Fault.INVALID_ARGUMENT, f"a time to live is 0 to {MAX_TTL} seconds")
    topic = state.topic(command.topic)
    expiry = now + int(command.ttl * 1_000_000) if command.ttl else 0
    record = Record(command.key, command.value, expiry=expiry)
    if _blind(command):
        return r.MapChanged(True), _written(state, topic, [record], now)
    entry = _table(topic).look(command.key, now)
    if not _holds(command.only, entry.value):
        return r.MapChanged(False, entry.value), []
    changes = _written(state, topic, [record], now, entry)
    return r.MapChanged(True, entry.value if command.previous else None), changes


def _remove(state: State, command: q.MapRemove, now: int) -> Decision:
    check_key(command.key)
    topic = state.topic(command.topic)
    entry = _table(topic).look(command.key, now)
    if entry.value is None or not _holds(command.only, entry.value):
        return r.MapChanged(False, entry.value), []
    return r.MapChanged(True, entry.value), _written(state, topic, [Record(command.key, None)], now, entry)


def _clear(state: State, command: q.MapClear, now: int) -> Decision:
    topic = state.topic(command.topic)
    table = _table(topic)
    keys = table.alive(now)
    latest = max((table.look(key, now).order for key in keys), default=-1)
    tombstones = [Record(key, None) for key in keys]
    return r.Count(len(keys)), _written(state, topic, tombstones, now, Entry(latest, None))


def _add(state: State, command: q.MapAdd, now: int) -> Decision:
    check_key(command.key)
    if not _LOWEST <= command.delta <= _HIGHEST:
        raise CommandFailed(Fault.INVALID_ARGUMENT, f"a counter is {_LOWEST} to {_HIGHEST}")
    topic = state.topic(command.topic)
    entry = _table(topic).look(command.key, now)
    count = _count(entry.value) + command.delta
    if not _LOWEST <= count <= _HIGHEST:
        raise CommandFailed(Fault.NOT_A_NUMBER, f"{count} is beyond what a counter holds")
    record = Record(command.key, b"%d" % count, expiry=entry.expiry)
    return r.Count(count), _written(state, topic, [record], now, entry)


def _blind(command: q.MapPut) -> bool:
    """Whether nobody has to look what is there."""
    return type(command.only) is q.Anyhow and not command.previous


def _table(topic: Topic) -> Table:
    if topic.table is None:
        assert not any(partition.end for partition in topic.partitions), "who performs a command sees to its table"
        topic.table = Table()
    return topic.table


def _holds(only: q.Anyhow | q.IfAbsent | q.IfPresent | q.IfEquals | q.IfCount, value: bytes | None) -> bool:
    match only:
        case q.IfAbsent():
            return value is None
        case q.IfPresent():
            return value is not None
        case q.IfEquals():
            return value == only.value
        case q.IfCount():
            return _count(value) == only.value
    return True


def _count(value: bytes | None) -> int:
    """What a counter says.  Raises CommandFailed(NOT_A_NUMBER)."""
    if value is None:
        return 0
    if not _counter(value) or not _LOWEST <= int(value) <= _HIGHEST:
        raise CommandFailed(Fault.NOT_A_NUMBER, "the value is no counter")
    return int(value)


def _written(state: State, topic: Topic, records: list[Record], now: int, latest: Entry | None = None) -> list[Change]:
    """Records as they are appended, each to the partition of its key.

    latest: what they must be later than.  A record may claim any time for itself; then what replaces it does, too.
    """
    timestamp = max(now, topic.timestamp + 1)
    if latest is not None and latest.timestamp >= timestamp:
        own = min(latest.timestamp + 1, MAX_OFFSET)
        records = [msgspec.structs.replace(record, timestamp=own) for record in records]
    changes: list[Change] = []
    for partition, share in _shares(topic, records):
        end = partition.end
        if end + len(share) > state.capacity:
            raise CommandFailed(Fault.PARTITION_FULL, f"{state.capacity} records")
        for some in _portions(share):
            stamped = canonical(some, ORIGIN).appended(end, timestamp)
            changes.append(c.Appended(partition.number, stamped))
            end, timestamp = stamped.end, timestamp + stamped.count
    return changes


def _shares(topic: Topic, records: list[Record]) -> Iterator[tuple[Partition, list[Record]]]:
    """What goes into which partition."""
    shares: dict[int, list[Record]] = {}
    for record in records:
        assert record.key, "a table has keys"
        shares.setdefault(choose(topic, q.ByKey(record.key, PARTITIONER)).index, []).append(record)
    return ((topic.partitions[index], share) for index, share in shares.items())


def _portions(records: list[Record]) -> Iterator[list[Record]]:
    portion: list[Record] = []
    size = 0
    for record in records:
        if size > BATCH_BYTES or len(portion) == MAX_RECORDS:
            yield portion
            portion, size = [], 0
        portion.append(record)
        size += len(record.key or b"")
    if portion:
        yield portion


TABLE_DECISIONS: dict[type, Callable[..., Decision]] = {
    q.MapPut: _put,
    q.MapRemove: _remove,
    q.MapClear: _clear,
    q.MapAdd: _add,
}
"""By command type.  All but a MapPut that nobody has to look for need the table."""
