"""Requests as the real clients spell them, written by hand, so that a fault of our own encoders cannot hide here."""

from __future__ import annotations

import struct
from base64 import b64encode

PAYLOAD = 100
"""Bytes of every record's payload (design/performance.md)."""

_TAG = 1 << 24
"""The first correlation id of the grid: a client that has worked for a while has left the small numbers behind."""

PRODUCER, KEY = b"bench", b"k"

IGGY_STREAM = b"default"
"""What Iggy clients call the namespace that Cursus and pipe clients are in."""

IGGY_G2C, IGGY_G1B = "0.10.0", "0.6.202"
"""Versions that apache-iggy 0.8.0 and iggy-py 0.4.0 log in with."""

IGGY_DONE = bytes(8)
"""The answer to a PING or a SEND: status 0, and no payload (protocol page, section 2)."""

IGGY_LOGGED_IN = 12, b"\0\0\0\0\4\0\0\0"
"""The answer to a login: its size, and its bytes up to the user's id."""

GRID_STORED = bytes(9) + b"\2"
"""Ends the answer to a MAP_PUT, and no other: no body, flags or key, status OK, version 2 (protocol page, 1)."""

GRID_FOUND = struct.pack(">I5xB", PAYLOAD, 2) + b"record"
"""In the answer to a MAP_GET of what was put: the length of the value, the same fields, and how the value begins."""

_LENGTH = struct.Struct(">I")
_SEQUENCES = struct.Struct(">QQi")  # first and last sequence number, count of records
_OFFSETS = struct.Struct(">QQ")  # offset (0 from a producer), sequence number
_TAIL = struct.Struct(">HIQH")  # event type (none), schema version, aggregate version, metadata (none)
_BARE = 48  # bytes of a record beside its producer, key and payload

_IGGY = struct.Struct("<II")  # length from the code on, code; or status, length
_ENTRY = struct.Struct("<4xI8x")  # where a message ends
_MESSAGE = struct.Struct("<40xQII8x")  # no checksum, id, offset, time; the client's time, bytes of headers and payload
_OLD_MESSAGE = struct.Struct("<16xII")  # no id; bytes of headers and payload
_POLLED = struct.Struct("<IIIQI")  # status, length, partition, newest offset, count

_MLOG = struct.Struct(">HI")  # type, length
_GRID = struct.Struct(">BBIIBHBBB")  # magic, opcode, correlation id, lengths, flags and status among them; version


def framed(body: bytes) -> bytes:
    """Cursus, and the echo: u32 big-endian length, then so many bytes (protocol page, section 1)."""
    return _LENGTH.pack(len(body)) + body


def cursus_text(command: str, topic: str = "") -> bytes:
    """A text command in the envelope every Cursus client puts it in (protocol page, section 1)."""
    return framed(_short(topic.encode()) + command.encode())


def cursus_header(topic: str, partition: int, count: int, numbers: tuple[int, int] | None = None) -> bytes:
    """What stands before the records of a `BA7C` batch (protocol page, section 3): acks 1, not idempotent.

    numbers: the first and the last sequence number; 1 and `count` unless given.
    """
    place = _short(topic.encode()) + struct.pack(">i", partition)
    return b"\xba\x7c" + place + b"\x011\x00" + _SEQUENCES.pack(*(numbers or (1, count)), count)


def cursus_records(count: int) -> bytes:
    """So many records with sequence numbers from 1 on and PAYLOAD bytes each (protocol page, section 3)."""
    before = _short(PRODUCER) + _short(KEY) + struct.pack(">qI", 1, PAYLOAD)
    return b"".join(
        _OFFSETS.pack(0, number) + before + _payload(number) + _TAIL.pack(0, 0, 0, 0) for number in range(1, count + 1)
    )


def cursus_batch(topic: str, partition: int, count: int) -> bytes:
    """A produce request of so many records."""
    return framed(cursus_header(topic, partition, count) + cursus_records(count))


def cursus_fetched(topic: str, partition: int, count: int) -> tuple[int, bytes]:
    """The answer to a CONSUME of records written as one `cursus_batch`: its size, and its bytes up to the first record.

    It has the layout of the request, with offsets filled in (protocol page, section 4).
    """
    frame = cursus_batch(topic, partition, count)
    return len(frame), frame[: _LENGTH.size + len(cursus_header(topic, partition, count))]


def cursus_fetched_foreign(topic: str, partition: int, count: int) -> tuple[int, bytes]:
    """The same for records that another dialect wrote, without producer, key and sequence number."""
    head = cursus_header(topic, partition, count, (0, 0))
    length = len(head) + count * (_BARE + PAYLOAD)
    return _LENGTH.size + length, _LENGTH.pack(length) + head


def pipe_line(command: str, args: str) -> bytes:
    """One request of the pipe protocol (protocol page, section 1)."""
    return f"V1|1|{command}|{args}\n".encode()


def pipe_produce(topic: str, key: str) -> bytes:
    """A PRODUCE of one record of PAYLOAD bytes."""
    return pipe_line("PRODUCE", f"{topic} {key}:{_payload(1).decode()}")


def iggy_framed(code: int, payload: bytes = b"") -> bytes:
    """Iggy: u32 little-endian length, u32 code, payload (protocol page, section 1)."""
    return _IGGY.pack(4 + len(payload), code) + payload


def iggy_login(version: str) -> bytes:
    """LOGIN of the user that a gateway nobody set up knows; the version says what is spoken from here on."""
    said = version.encode()
    return iggy_framed(38, b"\4iggy\4iggy" + struct.pack("<I", len(said)) + said + bytes(4))


def iggy_ping() -> bytes:
    """PING."""
    return iggy_framed(1)


def iggy_send(topic: str, partition: int, count: int) -> bytes:
    """SEND of apache-iggy 0.8.0: fields and an index, then messages without ids (protocol page, section 3)."""
    place = _iggy_topic(topic) + b"\2\4" + struct.pack("<I", partition)
    index = b"".join(_ENTRY.pack(number * (_MESSAGE.size + PAYLOAD)) for number in range(1, count + 1))
    begun = 1_700_000_000_000_000
    messages = b"".join(_MESSAGE.pack(begun + number, 0, PAYLOAD) + _payload(number) for number in range(1, count + 1))
    fields = struct.pack("<I", len(place) + 4) + place + struct.pack("<I", count)
    return iggy_framed(101, fields + index + messages)


def iggy_send_old(topic: str, partition: int, count: int) -> bytes:
    """SEND of iggy-py 0.4.0, for which partitions count from 1 (protocol page, section 2)."""
    place = _iggy_topic(topic) + b"\2\4" + struct.pack("<I", partition + 1)
    messages = (_OLD_MESSAGE.pack(0, PAYLOAD) + _payload(number) for number in range(1, count + 1))
    return iggy_framed(101, place + b"".join(messages))


def iggy_poll(topic: str, partition: int, offset: int, count: int) -> bytes:
    """POLL of apache-iggy 0.8.0 by offset, as consumer 0, without a commit."""
    place = b"\1\1\4" + bytes(4) + _iggy_topic(topic) + b"\1" + struct.pack("<I", partition)
    return iggy_framed(100, place + b"\1" + struct.pack("<QI", offset, count) + b"\0")


def iggy_polled(partition: int, end: int, count: int) -> tuple[int, bytes]:
    """The answer to an `iggy_poll` of a partition that ends at offset `end`: its size, and its bytes up to the first
    message (protocol page, sections 2 and 3).  Messages that came from another dialect have no headers either.
    """
    size = _POLLED.size + count * (_MESSAGE.size + PAYLOAD)
    return size, _POLLED.pack(0, size - _IGGY.size, partition, end - 1, count)


def mlog_framed(type: int, payload: str) -> bytes:
    """mlog: u16 big-endian type, u32 length, JSON as Go writes it (protocol page, section 1)."""
    return _MLOG.pack(type, len(payload)) + payload.encode()


def mlog_produce(topic: str) -> bytes:
    """Produce of one record of PAYLOAD bytes."""
    return mlog_framed(2, f'{{"Topic":"{topic}","Value":"{_base64(1)}","Acks":1}}')


def mlog_produce_batch(topic: str, count: int) -> bytes:
    """ProduceBatch of so many records."""
    values = ",".join(f'"{_base64(number)}"' for number in range(1, count + 1))
    return mlog_framed(4, f'{{"Topic":"{topic}","Values":[{values}],"Acks":1}}')


def mlog_fetch(topic: str, offset: int) -> bytes:
    """Fetch of the record at an offset, which is not 0, since that stands for what was committed."""
    return mlog_framed(6, f'{{"Topic":"{topic}","Id":"bench","Offset":{offset},"ReplicaNodeID":""}}')


def mlog_fetch_batch(topic: str, offset: int, count: int) -> bytes:
    """FetchBatch of so many records from an offset on, which is not 0 either."""
    fields = f'"Topic":"{topic}","Id":"bench","Offset":{offset},"MaxCount":{count},"ReplicaNodeID":""'
    return mlog_framed(8, f"{{{fields}}}")


def mlog_fetched_batch(offset: int, count: int) -> tuple[int, bytes]:
    """The answer to that: its size, which all have whose offsets are as long, and its bytes up to the first offset."""
    entries = ",".join(f'{{"Offset":{at},"Value":"{_base64(1)}"}}' for at in range(offset, offset + count))
    frame, before = mlog_framed(9, f'{{"Entries":[{entries}]}}'), '{"Entries":[{"Offset":'
    return len(frame), frame[: _MLOG.size + len(before)]


def grid_framed(opcode: int, tag: int, name: str, key: bytes, value: bytes = b"") -> bytes:
    """Grid: a header of 16 bytes, big-endian, then name, key and value (protocol page, section 1)."""
    said = name.encode() + key + value
    return _GRID.pack(0xDC, opcode, tag, len(said), 0, len(key), 0, len(name.encode()), 2) + said


def grid_put(name: str, number: int) -> bytes:
    """MAP_PUT of PAYLOAD bytes at the key of that number; the correlation id is made of the number too."""
    return grid_framed(1, _TAG + number, name, b"key-%06d" % number, _payload(number))


def grid_get(name: str, number: int) -> bytes:
    """MAP_GET of that."""
    return grid_framed(2, _TAG + number, name, b"key-%06d" % number)


def _base64(number: int) -> str:
    """A payload in JSON."""
    return b64encode(_payload(number)).decode()


def _iggy_topic(topic: str) -> bytes:
    """A stream and a topic by their names."""
    name = topic.encode()
    return b"\2" + bytes((len(IGGY_STREAM),)) + IGGY_STREAM + b"\2" + bytes((len(name),)) + name


def _short(text: bytes) -> bytes:
    return struct.pack(">H", len(text)) + text


def _payload(number: int) -> bytes:
    return f"record {number:06d} ".replace(" ", "-").encode().ljust(PAYLOAD, b"x")
