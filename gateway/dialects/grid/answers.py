"""The answers that operations share: a status and a value.  Source: protocol page, section 3."""

from __future__ import annotations

import re
from itertools import pairwise

from gateway.core.commands import MAX_OFFSET, Command, MapAdd, MapGet, Publish
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import (
    Authenticated,
    Count,
    Done,
    MapChanged,
    MapEntries,
    MapValue,
    Published,
    Reply,
)
from gateway.dialects.grid.operation import (
    Answer,
    malformed,
    read_i32,
    read_i64,
    sure,
    write_i32,
    write_i64,
)
from gateway.dialects.grid.terms import GridTerms

OK, NOT_FOUND, CONDITION_FAILED = "OK", "NOT_FOUND", "CONDITION_FAILED"

_YES, _NO = b"\1", b"\0"

_DECIMAL = re.compile(rb"0|-?[1-9][0-9]{0,18}")


def _show_nothing(command: Command, reply: Reply, terms: GridTerms) -> tuple[str, bytes]:
    return OK, b""


def _hear_done(command: Command, status: str, value: bytes, terms: GridTerms) -> Reply:
    return Done()


DONE = Answer(_show_nothing, _hear_done)
"""It is so: an empty value."""


def _hear_authenticated(command: Command, status: str, value: bytes, terms: GridTerms) -> Reply:
    return Authenticated(getattr(command, "principal", ""))


AUTHENTICATED = Answer(_show_nothing, _hear_authenticated)
"""The same, to AUTH."""


# -- one value


def _show_value(command: Command, reply: Reply, terms: GridTerms) -> tuple[str, bytes]:
    value = sure(reply, MapValue).value
    return (NOT_FOUND, b"") if value is None else (OK, terms.codec.given(value))


def _hear_value(command: Command, status: str, value: bytes, terms: GridTerms) -> Reply:
    return MapValue(None if status == NOT_FOUND else terms.codec.taken(value))


VALUE = Answer(_show_value, _hear_value)
"""OK and the value, or NOT_FOUND."""


def _show_put(command: Command, reply: Reply, terms: GridTerms) -> tuple[str, bytes]:
    previous = sure(reply, MapChanged).previous
    if terms.grid.put_returns == "none" or previous is None:
        return OK, b""
    return OK, terms.codec.given(previous)


def _hear_put(command: Command, status: str, value: bytes, terms: GridTerms) -> Reply:
    said = terms.grid.put_returns == "previous" and value
    return MapChanged(True, terms.codec.taken(value) if said else None)


PUT = Answer(_show_put, _hear_put)
"""OK; under `put_returns = previous` with what was there, empty for nothing as for an empty value."""


def _show_removed(command: Command, reply: Reply, terms: GridTerms) -> tuple[str, bytes]:
    return OK if sure(reply, MapChanged).done else NOT_FOUND, b""


def _hear_removed(command: Command, status: str, value: bytes, terms: GridTerms) -> Reply:
    return MapChanged(status == OK)


REMOVED = Answer(_show_removed, _hear_removed)
"""OK or NOT_FOUND, and no value."""


def _show_taken_out(command: Command, reply: Reply, terms: GridTerms) -> tuple[str, bytes]:
    changed = sure(reply, MapChanged)
    return (OK, terms.codec.given(changed.previous or b"")) if changed.done else (NOT_FOUND, b"")


def _hear_taken_out(command: Command, status: str, value: bytes, terms: GridTerms) -> Reply:
    return MapChanged(True, terms.codec.taken(value)) if status == OK else MapChanged(False)


TAKEN_OUT = Answer(_show_taken_out, _hear_taken_out)
"""OK and the value that was there, or NOT_FOUND."""


# -- yes or no


def _holds(reply: Reply) -> bool:
    if isinstance(reply, MapValue):
        return reply.value is not None
    return isinstance(reply, Published) or sure(reply, MapChanged).done


def _show_whether(command: Command, reply: Reply, terms: GridTerms) -> tuple[str, bytes]:
    return (OK, _YES) if _holds(reply) else (CONDITION_FAILED, _NO)


def _hear_whether(command: Command, status: str, value: bytes, terms: GridTerms) -> Reply:
    if value not in (_YES, _NO):
        raise malformed("an answer that is neither yes nor no")
    holds = value == _YES
    if isinstance(command, MapGet):
        return MapValue(b"" if holds else None)
    if isinstance(command, Publish):
        if not holds:
            raise CommandFailed(Fault.PARTITION_FULL)
        return Published(0, 0, 0)
    return MapChanged(holds)


WHETHER = Answer(_show_whether, _hear_whether)
"""01 and OK, or 00 and CONDITION_FAILED."""


# -- numbers


def _show_size(command: Command, reply: Reply, terms: GridTerms) -> tuple[str, bytes]:
    return OK, write_i32(sure(reply, Count).value)


def _hear_size(command: Command, status: str, value: bytes, terms: GridTerms) -> Reply:
    if len(value) != 4:
        raise malformed(f"a size of {len(value)} bytes")
    return Count(read_i32(value))


SIZE = Answer(_show_size, _hear_size)
"""i32."""


def decimal(octets: bytes) -> int:
    """A counter's value as it is stored.  Raises CommandFailed(NOT_A_NUMBER)."""
    number = int(octets) if _DECIMAL.fullmatch(octets) else MAX_OFFSET + 1
    if not -MAX_OFFSET - 1 <= number <= MAX_OFFSET:
        raise CommandFailed(Fault.NOT_A_NUMBER)
    return number


def _show_counter(command: Command, reply: Reply, terms: GridTerms) -> tuple[str, bytes]:
    if isinstance(reply, Count):
        return OK, write_i64(reply.value)
    octets = reply.value if isinstance(reply, MapValue) else getattr(command, "value", b"")
    return OK, write_i64(0 if octets is None else decimal(octets))


def _hear_counter(command: Command, status: str, value: bytes, terms: GridTerms) -> Reply:
    number = read_i64(value, "a counter")
    if isinstance(command, MapAdd):
        return Count(number)
    return MapValue(b"%d" % number) if isinstance(command, MapGet) else MapChanged(True)


COUNTER = Answer(_show_counter, _hear_counter)
"""i64: what the counter has now; one that was never set has 0."""


# -- many


def write_list(items: list[bytes], terms: GridTerms) -> bytes:
    """i32 n, then n times i32 length and as many bytes.  Raises CommandFailed(TOO_LARGE) before it is joined."""
    size = 4 + sum(4 + len(item) for item in items)
    if size > terms.limit:
        raise CommandFailed(Fault.TOO_LARGE, f"an answer of {size} bytes, {terms.limit} is the limit")
    return b"".join([write_i32(len(items)), *[part for item in items for part in (write_i32(len(item)), item)]])


def read_list(octets: bytes, start: int = 0, each: int = 1) -> list[bytes]:
    """The same the other way round, `each` items to a count of 1.  Raises CommandFailed(MALFORMED)."""
    count, at = read_i32(octets, start) * each, start + 4
    if not 0 <= count <= len(octets) // 4:
        raise malformed(f"{count} items in {len(octets)} bytes")
    items: list[bytes] = []
    for _ in range(count):
        length, at = read_i32(octets, at), at + 4
        if not 0 <= length <= len(octets) - at:
            raise malformed(f"an item of {length} bytes at {at}")
        items.append(octets[at : at + length])
        at += length
    if at != len(octets):
        raise malformed(f"{len(octets) - at} bytes too many")
    return items


def _show_keys(command: Command, reply: Reply, terms: GridTerms) -> tuple[str, bytes]:
    given = terms.codec.given
    return OK, write_list([given(key) for key, _ in sure(reply, MapEntries).entries], terms)


def _hear_keys(command: Command, status: str, value: bytes, terms: GridTerms) -> Reply:
    return MapEntries(tuple((terms.codec.taken(key), b"") for key in read_list(value)))


KEYS = Answer(_show_keys, _hear_keys)
"""A list of keys."""


def _show_values(command: Command, reply: Reply, terms: GridTerms) -> tuple[str, bytes]:
    given = terms.codec.given
    return OK, write_list([given(value) for _, value in sure(reply, MapEntries).entries], terms)


def _hear_values(command: Command, status: str, value: bytes, terms: GridTerms) -> Reply:
    return MapEntries(tuple((b"", terms.codec.taken(item)) for item in read_list(value)))


VALUES = Answer(_show_values, _hear_values)
"""A list of values."""


def _show_entries(command: Command, reply: Reply, terms: GridTerms) -> tuple[str, bytes]:
    given, entries = terms.codec.given, sure(reply, MapEntries).entries
    items = write_list([given(octets) for entry in entries for octets in entry], terms)
    return OK, write_i32(len(entries)) + items[4:]


def _hear_entries(command: Command, status: str, value: bytes, terms: GridTerms) -> Reply:
    items = [terms.codec.taken(item) for item in read_list(value, each=2)]
    return MapEntries(tuple(list(pairwise(items))[::2]))


ENTRIES = Answer(_show_entries, _hear_entries)
"""A list of keys, each with its value behind it; the count is that of the pairs."""
