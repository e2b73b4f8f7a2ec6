"""Operations on maps.  A map is a topic that is read as the latest value of each key."""

from __future__ import annotations

import struct

from gateway.core.commands import (
    Anyhow,
    Command,
    IfAbsent,
    IfEquals,
    IfPresent,
    MapClear,
    MapGet,
    MapPut,
    MapRemove,
    MapScan,
    MapSize,
)
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Count, MapChanged, MapEntries, MapValue
from gateway.dialects.grid import answers
from gateway.dialects.grid.layout import Frame
from gateway.dialects.grid.operation import (
    Operation,
    Parts,
    key_of,
    malformed,
    read_i32,
    sure,
    to_millis,
    to_seconds,
    topic_of,
    unsupported,
    write_i32,
    write_key,
)
from gateway.dialects.grid.terms import Asked, GridTerms

_i64 = struct.Struct(">q")

# -- puts


def _read_put(frame: Frame, terms: GridTerms) -> Command:
    return _put(frame, frame.value, terms)


def _put(frame: Frame, value: bytes, terms: GridTerms, ttl: float = 0.0) -> MapPut:
    previous = terms.grid.put_returns == "previous"
    key = key_of(frame, terms)
    return MapPut(topic_of(frame, terms), key, terms.codec.taken(value), ttl, create=1, previous=previous)


def _write_put(command: Command, asked: Asked, terms: GridTerms) -> Parts:
    put = sure(command, MapPut)
    return Parts(write_key(put.key, terms), terms.codec.given(put.value))


def _read_put_with_ttl(frame: Frame, terms: GridTerms) -> Command:
    mode, value = terms.grid.ttl_mode, frame.value
    if mode == "none":
        return _put(frame, value, terms)
    if len(value) < _i64.size:
        raise malformed(f"a value of {len(value)} bytes has no room for a time")
    at = 0 if mode == "value_prefix_i64" else len(value) - _i64.size
    rest = value[_i64.size :] if mode == "value_prefix_i64" else value[:at]
    return _put(frame, rest, terms, to_seconds(_i64.unpack_from(value, at)[0]))


def _write_put_with_ttl(command: Command, asked: Asked, terms: GridTerms) -> Parts:
    put, mode = sure(command, MapPut), terms.grid.ttl_mode
    plain, ttl = _write_put(put, asked, terms), _i64.pack(to_millis(put.ttl))
    if mode == "none":
        return plain
    return Parts(plain.key, ttl + plain.value if mode == "value_prefix_i64" else plain.value + ttl)


def _read_put_if_absent(frame: Frame, terms: GridTerms) -> Command:
    key, value = key_of(frame, terms), terms.codec.taken(frame.value)
    return MapPut(topic_of(frame, terms), key, value, only=IfAbsent(), create=1)


def _read_replace(frame: Frame, terms: GridTerms) -> Command:
    key, value = key_of(frame, terms), terms.codec.taken(frame.value)
    return MapPut(topic_of(frame, terms), key, value, only=IfPresent())


def _read_cas(frame: Frame, terms: GridTerms) -> Command:
    """value: i32 length, old value, i32 length, new value."""
    old, new = _two(frame.value)
    key, taken = key_of(frame, terms), terms.codec.taken
    return MapPut(topic_of(frame, terms), key, taken(new), only=IfEquals(taken(old)))


def _two(octets: bytes) -> tuple[bytes, bytes]:
    old_end = 4 + read_i32(octets)
    if not 4 <= old_end <= len(octets):
        raise malformed(f"an old value of {old_end - 4} bytes")
    if read_i32(octets, old_end) != len(octets) - old_end - 4:
        raise malformed(f"a new value of {read_i32(octets, old_end)} bytes")
    return octets[4:old_end], octets[old_end + 4 :]


def _write_cas(command: Command, asked: Asked, terms: GridTerms) -> Parts:
    put = sure(command, MapPut)
    old, new = terms.codec.given(sure(put.only, IfEquals).value), terms.codec.given(put.value)
    return Parts(write_key(put.key, terms), write_i32(len(old)) + old + write_i32(len(new)) + new)


def opcode_of_put(put: MapPut, terms: GridTerms) -> str:
    """How our client says it, but on the condition of a count.  Raises CommandFailed(UNSUPPORTED).

    `create` is not said: a put makes its map here, unless it wants something to be there.  What was there before is
    told under `put_returns = previous` only.
    """
    if put.ttl < 0:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"{put.ttl} seconds")  # on the wire they are for good
    told = terms.grid.put_returns == "previous" and isinstance(put.only, Anyhow)
    if put.previous and not told:
        raise unsupported("saying what was there before")
    if put.ttl > 0:
        if not isinstance(put.only, Anyhow) or terms.grid.ttl_mode == "none":
            raise unsupported("a put on a condition or without ttl_mode, for a time")
        return "MAP_PUT_WITH_TTL"
    return _CONDITIONS[type(put.only)]


_CONDITIONS: dict[type, str] = {
    Anyhow: "MAP_PUT",
    IfAbsent: "MAP_PUT_IF_ABSENT",
    IfPresent: "MAP_REPLACE",
    IfEquals: "MAP_REPLACE_CAS",
}

# -- one key


def _read_get(frame: Frame, terms: GridTerms) -> Command:
    return MapGet(terms.topics[frame.name], key_of(frame, terms))


def _read_remove(frame: Frame, terms: GridTerms) -> Command:
    return MapRemove(topic_of(frame, terms), key_of(frame, terms))


def _write_keyed(command: Command, asked: Asked, terms: GridTerms) -> Parts:
    return Parts(write_key(command.key if isinstance(command, MapGet) else sure(command, MapRemove).key, terms))


# -- all keys


def read_size(frame: Frame, terms: GridTerms) -> Command:
    """Of maps and sets."""
    return MapSize(topic_of(frame, terms))


def read_clear(frame: Frame, terms: GridTerms) -> Command:
    """Of maps and sets."""
    return MapClear(topic_of(frame, terms))


def write_nothing(command: Command, asked: Asked, terms: GridTerms) -> Parts:
    """The name says it all."""
    return Parts()


def _read_keys(frame: Frame, terms: GridTerms) -> Command:
    return MapScan(topic_of(frame, terms), values=False)


def _read_values(frame: Frame, terms: GridTerms) -> Command:
    return MapScan(topic_of(frame, terms))


def _read_scan(frame: Frame, terms: GridTerms) -> Command:
    """key: the one to go on after; value: i32, how many."""
    if frame.value and len(frame.value) != 4:
        raise malformed(f"a limit of {len(frame.value)} bytes")
    limit = read_i32(frame.value) if frame.value else 0
    if limit < 0:
        raise malformed(f"a limit of {limit}")
    return MapScan(topic_of(frame, terms), key_of(frame, terms) if frame.key else None, limit)


def _write_scan(command: Command, asked: Asked, terms: GridTerms) -> Parts:
    scan = sure(command, MapScan)
    after = terms.codec.given(scan.after) if scan.after else b""
    return Parts(after, write_i32(scan.limit) if scan.limit else b"")


def _read_get_all(frame: Frame, terms: GridTerms) -> Command:
    """value: a list of keys, or nothing, for all of them."""
    topic = topic_of(frame, terms)
    if not frame.value:
        return MapScan(topic)
    return MapScan(topic, keys=tuple(map(terms.codec.taken, answers.read_list(frame.value))))


def _write_get_all(command: Command, asked: Asked, terms: GridTerms) -> Parts:
    keys = sure(command, MapScan).keys
    return Parts(value=b"" if keys is None else answers.write_list([*map(terms.codec.given, keys)], terms))


def opcode_of_scan(scan: MapScan) -> str:
    """How our client says it.  Raises CommandFailed(UNSUPPORTED)."""
    further = bool(scan.after) or scan.limit != 0
    if scan.keys is not None and (further or not scan.values):
        raise unsupported("a part of some keys")
    if not scan.values and further:
        raise unsupported("a part of the keys without their values")
    if not scan.values:
        return "MAP_KEYS"
    return "MAP_SCAN" if further else "MAP_GET_ALL"


_NO_ENTRIES = MapEntries(())

MAPS: dict[str, Operation] = {
    "MAP_PUT": Operation(_read_put, _write_put, answers.PUT, changes=True),
    "MAP_PUT_WITH_TTL": Operation(_read_put_with_ttl, _write_put_with_ttl, answers.PUT, changes=True),
    "MAP_PUT_IF_ABSENT": Operation(_read_put_if_absent, _write_put, answers.WHETHER, changes=True),
    "MAP_REPLACE": Operation(_read_replace, _write_put, answers.WHETHER, MapChanged(False), changes=True),
    "MAP_REPLACE_CAS": Operation(_read_cas, _write_cas, answers.WHETHER, MapChanged(False), changes=True),
    "MAP_GET": Operation(_read_get, _write_keyed, answers.VALUE, MapValue(None)),
    "MAP_CONTAINS": Operation(_read_get, _write_keyed, answers.WHETHER, MapValue(None)),
    "MAP_DELETE": Operation(_read_remove, _write_keyed, answers.REMOVED, MapChanged(False), changes=True),
    "MAP_GET_AND_REMOVE": Operation(_read_remove, _write_keyed, answers.TAKEN_OUT, MapChanged(False), changes=True),
    "MAP_SIZE": Operation(read_size, write_nothing, answers.SIZE, Count(0)),
    "MAP_CLEAR": Operation(read_clear, write_nothing, answers.SIZE, Count(0), changes=True),
    "MAP_KEYS": Operation(_read_keys, write_nothing, answers.KEYS, _NO_ENTRIES),
    "MAP_VALUES": Operation(_read_values, write_nothing, answers.VALUES, _NO_ENTRIES),
    "MAP_SCAN": Operation(_read_scan, _write_scan, answers.ENTRIES, _NO_ENTRIES),
    "MAP_GET_ALL": Operation(_read_get_all, _write_get_all, answers.ENTRIES, _NO_ENTRIES),
}
