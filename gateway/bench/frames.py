"""Requests as the real clients spell them, written by hand, so that a fault of our own encoders cannot hide here."""

from __future__ import annotations

import struct

PAYLOAD = 100
"""Bytes of every record's payload (design/performance.md)."""

PRODUCER, KEY = b"bench", b"k"

_LENGTH = struct.Struct(">I")
_SEQUENCES = struct.Struct(">QQi")  # first and last sequence number, count of records
_OFFSETS = struct.Struct(">QQ")  # offset (0 from a producer), sequence number
_TAIL = struct.Struct(">HIQH")  # event type (none), schema version, aggregate version, metadata (none)


def framed(body: bytes) -> bytes:
    """Cursus, and the echo: u32 big-endian length, then so many bytes (protocol page, section 1)."""
    return _LENGTH.pack(len(body)) + body


def cursus_text(command: str, topic: str = "") -> bytes:
    """A text command in the envelope every Cursus client puts it in (protocol page, section 1)."""
    return framed(_short(topic.encode()) + command.encode())


def cursus_header(topic: str, partition: int, count: int) -> bytes:
    """What stands before the records of a `BA7C` batch (protocol page, section 3): acks 1, not idempotent."""
    place = _short(topic.encode()) + struct.pack(">i", partition)
    return b"\xba\x7c" + place + b"\x011\x00" + _SEQUENCES.pack(1, count, count)


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


def pipe_line(command: str, args: str) -> bytes:
    """One request of the pipe protocol (protocol page, section 1)."""
    return f"V1|1|{command}|{args}\n".encode()


def pipe_produce(topic: str, key: str) -> bytes:
    """A PRODUCE of one record of PAYLOAD bytes."""
    return pipe_line("PRODUCE", f"{topic} {key}:{_payload(1).decode()}")


def _short(text: bytes) -> bytes:
    return struct.pack(">H", len(text)) + text


def _payload(number: int) -> bytes:
    return f"record {number:06d} ".replace(" ", "-").encode().ljust(PAYLOAD, b"x")
