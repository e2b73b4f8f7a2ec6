"""Operations on sets, counters and locks: tables whose values are empty, a decimal number, an owner."""

from __future__ import annotations

from gateway.core.commands import (
    Anyhow,
    Command,
    IfAbsent,
    IfCount,
    IfEquals,
    MapAdd,
    MapGet,
    MapPut,
    MapRemove,
)
from gateway.core.faults import CommandFailed
from gateway.core.replies import Count, MapChanged, MapValue
from gateway.dialects.grid import answers
from gateway.dialects.grid.answers import decimal
from gateway.dialects.grid.layout import Frame
from gateway.dialects.grid.maps import read_clear, read_size, write_nothing
from gateway.dialects.grid.operation import (
    Operation,
    Parts,
    element_of,
    malformed,
    own_key_of,
    read_i64,
    sure,
    to_millis,
    to_seconds,
    topic_of,
    unsupported,
    write_i64,
    write_key,
    write_own_key,
)
from gateway.dialects.grid.terms import Asked, GridTerms

_NOT_THERE = MapValue(None)

# -- sets


def _read_add_element(frame: Frame, terms: GridTerms) -> Command:
    return MapPut(topic_of(frame, terms), element_of(frame, terms), b"", only=IfAbsent(), create=1)


def _read_remove_element(frame: Frame, terms: GridTerms) -> Command:
    return MapRemove(topic_of(frame, terms), element_of(frame, terms))


def _read_contains(frame: Frame, terms: GridTerms) -> Command:
    return MapGet(topic_of(frame, terms), element_of(frame, terms))


def _write_element(command: Command, asked: Asked, terms: GridTerms) -> Parts:
    keyed = command if isinstance(command, MapPut | MapRemove) else sure(command, MapGet)
    element = write_key(keyed.key, terms)
    return Parts(element) if asked.keyed else Parts(value=element)


SETS: dict[str, Operation] = {
    "SET_ADD": Operation(_read_add_element, _write_element, answers.WHETHER, changes=True),
    "SET_REMOVE": Operation(_read_remove_element, _write_element, answers.WHETHER, MapChanged(False), changes=True),
    "SET_CONTAINS": Operation(_read_contains, _write_element, answers.WHETHER, _NOT_THERE),
    "SET_SIZE": Operation(read_size, write_nothing, answers.SIZE, Count(0)),
    "SET_CLEAR": Operation(read_clear, write_nothing, answers.SIZE, Count(0), changes=True),
}

# -- counters


def _read_get(frame: Frame, terms: GridTerms) -> Command:
    return MapGet(topic_of(frame, terms), own_key_of(frame, terms))


def _write_get(command: Command, asked: Asked, terms: GridTerms) -> Parts:
    return Parts(write_own_key(sure(command, MapGet).key, asked, terms))


def _read_set(frame: Frame, terms: GridTerms) -> Command:
    number = read_i64(frame.value, "the value of a counter")
    return MapPut(topic_of(frame, terms), own_key_of(frame, terms), b"%d" % number, create=1)


def _write_set(command: Command, asked: Asked, terms: GridTerms) -> Parts:
    put = sure(command, MapPut)
    return Parts(write_own_key(put.key, asked, terms), write_i64(decimal(put.value)))


def _read_increment(frame: Frame, terms: GridTerms) -> Command:
    return _step(frame, 1, terms)


def _read_decrement(frame: Frame, terms: GridTerms) -> Command:
    return _step(frame, -1, terms)


def _step(frame: Frame, delta: int, terms: GridTerms) -> Command:
    if frame.value:
        raise malformed("a step is one; COUNTER_ADD takes another number")
    return MapAdd(topic_of(frame, terms), own_key_of(frame, terms), delta, create=1)


def _write_step(command: Command, asked: Asked, terms: GridTerms) -> Parts:
    return Parts(write_own_key(sure(command, MapAdd).key, asked, terms))


def _read_add(frame: Frame, terms: GridTerms) -> Command:
    delta = read_i64(frame.value, "what is added")
    return MapAdd(topic_of(frame, terms), own_key_of(frame, terms), delta, create=1)


def _write_add(command: Command, asked: Asked, terms: GridTerms) -> Parts:
    add = sure(command, MapAdd)
    return Parts(write_own_key(add.key, asked, terms), write_i64(add.delta))


def _read_cas(frame: Frame, terms: GridTerms) -> Command:
    """value: i64 expected, i64 new."""
    if len(frame.value) != 16:
        raise malformed(f"two i64, not {len(frame.value)} bytes")
    expected, new = read_i64(frame.value[:8], "the old value"), read_i64(frame.value[8:], "the new value")
    topic, key = topic_of(frame, terms), own_key_of(frame, terms)
    return MapPut(topic, key, b"%d" % new, only=IfCount(expected), create=1)


def _write_cas(command: Command, asked: Asked, terms: GridTerms) -> Parts:
    put = sure(command, MapPut)
    key, expected = write_own_key(put.key, asked, terms), sure(put.only, IfCount).value
    return Parts(key, write_i64(expected) + write_i64(decimal(put.value)))


def opcode_of_count(put: MapPut) -> str:
    """How our client puts a number on the condition that there is another.  Raises CommandFailed(UNSUPPORTED)."""
    try:
        counts = put.value == b"%d" % decimal(put.value)
    except CommandFailed:
        counts = False
    if put.ttl or put.previous or not counts:
        raise unsupported("a counter but by its number")
    return "COUNTER_CAS"


COUNTERS: dict[str, Operation] = {
    "COUNTER_GET": Operation(_read_get, _write_get, answers.COUNTER, _NOT_THERE),
    "COUNTER_SET": Operation(_read_set, _write_set, answers.COUNTER, changes=True),
    "COUNTER_INCREMENT": Operation(_read_increment, _write_step, answers.COUNTER, changes=True),
    "COUNTER_DECREMENT": Operation(_read_decrement, _write_step, answers.COUNTER, changes=True),
    "COUNTER_ADD": Operation(_read_add, _write_add, answers.COUNTER, changes=True),
    "COUNTER_CAS": Operation(_read_cas, _write_cas, answers.WHETHER, changes=True),
}

# -- locks


def _owner(frame: Frame, terms: GridTerms) -> bytes:
    """Who takes or gives back: the client of the sender id, else the connection."""
    separator = terms.grid.request_separator.encode()
    sender = frame.sender or b""
    client = sender.rpartition(separator)[0] if separator else b""
    return client or sender or terms.owner


def _read_try(frame: Frame, terms: GridTerms) -> Command:
    """value: i64 milliseconds, or nothing, for as long as it is not given back."""
    ttl = to_seconds(read_i64(frame.value, "the time of a lock")) if frame.value else 0.0
    topic, key = topic_of(frame, terms), own_key_of(frame, terms)
    return MapPut(topic, key, _owner(frame, terms), ttl, only=IfAbsent(), create=1)


def _write_try(command: Command, asked: Asked, terms: GridTerms) -> Parts:
    put = sure(command, MapPut)
    return Parts(write_own_key(put.key, asked, terms), write_i64(to_millis(put.ttl)) if put.ttl > 0 else b"")


def _read_unlock(frame: Frame, terms: GridTerms) -> Command:
    return MapRemove(topic_of(frame, terms), own_key_of(frame, terms), IfEquals(_owner(frame, terms)))


def _write_unlock(command: Command, asked: Asked, terms: GridTerms) -> Parts:
    return Parts(write_own_key(sure(command, MapRemove).key, asked, terms))


def opcode_of_remove(remove: MapRemove) -> str:
    """How our client says it.  Raises CommandFailed(UNSUPPORTED) for a condition: only owners of locks have one."""
    if not isinstance(remove.only, Anyhow):
        raise unsupported("removing on a condition")
    return "MAP_GET_AND_REMOVE"


LOCKS: dict[str, Operation] = {
    "LOCK_TRY": Operation(_read_try, _write_try, answers.WHETHER, changes=True),
    "LOCK_UNLOCK": Operation(_read_unlock, _write_unlock, answers.WHETHER, MapChanged(False), changes=True),
    "LOCK_IS_LOCKED": Operation(_read_get, _write_get, answers.WHETHER, _NOT_THERE),
}
