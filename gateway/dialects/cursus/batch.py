"""The BA7C batch: what producers send and readers get.  The records in it are layout.py's.

Header, big-endian: u16 BA7C, u16+topic, i32 partition, u8+acks, u8 idempotent, u64 first and u64 last sequence number,
i32 count.  The seed document, which no client speaks, has the partition as u16+decimal digits and a u16 before acks; it
is accepted and answered like the real one.  Source: protocol page, sections 3 and 5.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from gateway.core.commands import Acks, Fetch, Next, Publish, Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import MAX_RECORDS, RecordBatch
from gateway.core.replies import Records
from gateway.dialects.cursus.converting import body_of, encode
from gateway.dialects.cursus.layout import (
    CURSUS_V1,
    CutShort,
    alone,
    identity,
    last,
    offset,
    positions,
    rising,
    sequence,
    stride,
)
from gateway.dialects.cursus.terms import CursusTerms, Produced
from gateway.dialects.cursus.text import quoted, refused
from gateway.dialects.dialect import Losses, Request

MAGIC = b"\xba\x7c"

MAX_REPLY = 1 << 24
"""Bytes after the length of a frame that we send: the Go SDK reads no more (protocol page, section 1)."""

MAX_BODY = MAX_REPLY - 512
"""Bytes of records in one: the header is at most 31 and a topic's name long."""

ACKS = {b"": Acks.LEADER, b"1": Acks.LEADER, b"0": Acks.NONE, b"-1": Acks.ALL, b"all": Acks.ALL}

SAID = {Acks.LEADER: b"1", Acks.NONE: b"0", Acks.ALL: b"-1"}

_u16 = struct.Struct(">H")
_place = struct.Struct(">iB")
_rest = struct.Struct(">BQQi")


# -- what producers send


def read_batch(frame: bytes, terms: CursusTerms) -> Request:
    """A whole frame whose magic and topic length have been looked at.  Raises CommandFailed with the words to say."""
    try:
        name, partition, acks, idempotent, count, body = _opened(frame)
        topic = terms.topics[name]
    except UnicodeDecodeError:
        raise _undecodable("topic is not UTF-8") from None
    except (IndexError, struct.error):
        raise _undecodable("failed to read batch header: unexpected EOF") from None
    if count < 0:
        raise _undecodable(f"invalid negative message count: {count}")
    if count > MAX_RECORDS:
        raise _undecodable(f"message count too high: {count} (max: {MAX_RECORDS})")
    body, first, producer, epoch, final = _examined(body, count)
    wanted = ACKS.get(acks.lower())
    if wanted is None:
        raise refused(f"invalid_acks value={acks.decode('utf-8', 'replace')}", Fault.INVALID_ARGUMENT)
    if partition < 0:
        raise refused(f"partition_not_found partition={partition}", Fault.NO_SUCH_PARTITION)
    if not count:
        raise refused('broker_error reason="empty batch messages"', Fault.EMPTY_BATCH)
    said = Produced("PUBLISH", terms.structured_errors, producer, epoch, first, final, idempotent != 0)
    batch = RecordBatch(CURSUS_V1, body, count, origin="cursus")
    return Request(Publish(topic, partition, batch, wanted), None, said)


def _undecodable(reason: str) -> CommandFailed:
    return refused(f"batch_decode_failed reason={quoted(reason)}")


def _opened(frame: bytes) -> tuple[bytes, int, bytes, int, int, bytes]:
    """(topic, partition, acks, idempotent, count, rest).  Raises IndexError, struct.error."""
    at = 8 + (frame[6] << 8 | frame[7])
    topic = frame[8:at]
    digits = frame[at] << 8 | frame[at + 1]
    said = frame[at + 2 : at + 2 + digits]
    if 1 <= digits <= 10 and len(said) == digits and said.isdigit():  # the seed's; else a partition above 65535
        at += 4 + digits
        partition, length = int(said), frame[at - 2] << 8 | frame[at - 1]
    else:
        partition, length = _place.unpack_from(frame, at)
        at += 5
    acks = frame[at : at + length]
    idempotent, _, _, count = _rest.unpack_from(frame, at + length)
    return topic, partition, acks, idempotent, count, frame[at + length + 21 :]


def _examined(body: bytes, count: int) -> tuple[bytes, int, bytes, int, int]:
    """The records, and what the ack will say of them: first sequence number; producer, epoch and number of the last."""
    if count == 1:
        try:
            number, producer, epoch, end = alone(body)
        except (IndexError, struct.error):
            end = len(body) + 1
        if end > len(body):
            raise _undecodable(str(CutShort(0)))
        return body if end == len(body) else body[:end], number, producer, epoch, number
    if not count:
        return b"", 0, b"", 0, 0
    body, at = _trimmed(body, count)
    return body, sequence(body, 0), *identity(body, at)


def _trimmed(body: bytes, count: int) -> tuple[bytes, int]:
    """The first `count` records, and where the last of them begins.  As for the broker, what follows is nothing."""
    size = stride(body, count)
    if size:
        final, end = size * (count - 1), size * count
    else:
        try:
            *_, final, end = positions(body, count)
        except CutShort as error:
            raise _undecodable(str(error)) from error
    return body if end == len(body) else body[:end], final


def write_batch(command: Publish, partition: int, said: Produced | None, losses: Losses) -> bytes:
    """A Publish to one partition as the payload of a frame.  Raises CommandFailed(UNREPRESENTABLE).

    said: as it was read, if it was; its idempotent flag is repeated.
    """
    batch = command.batch
    body = batch.body
    if batch.encoding is not CURSUS_V1:
        body = b"".join(encode(((0, record) for record in batch.records()), batch.origin, losses))
    topic, acks = str(command.topic.name).encode(), SAID[command.acks]
    first, final = (sequence(body, 0), sequence(body, last(body))) if body else (0, 0)
    head = _header(topic, partition, acks, said is not None and said.idempotent, first, final, batch.count)
    return head + body


def _header(topic: bytes, partition: int, acks: bytes, idempotent: bool, first: int, final: int, count: int) -> bytes:
    try:
        place = _u16.pack(len(topic)) + topic + _place.pack(partition, len(acks))
    except struct.error as error:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"partition {partition} of a topic of {len(topic)} bytes") from error
    return MAGIC + place + acks + _rest.pack(idempotent, first, final, count)


# -- what readers get


def write_records(command: Fetch, records: Records, terms: CursusTerms) -> list[bytes]:
    """One batch of all that was read, in pieces; bodies in our layout are joined as they are, others are converted.

    Records that would make the frame longer than MAX_REPLY are left for the reader's next CONSUME, but for one: a
    single record that is longer goes out, since Java and Python read up to 64 MiB and would else never get past it.
    """
    bodies = [body_of(batch, terms.losses) for batch in records.batches]
    count = sum(batch.count for batch in records.batches)
    if sum(map(len, bodies)) > MAX_BODY or count > MAX_RECORDS:
        bodies, count = _fitting(bodies)
    return _data(command.topic, records.partition, bodies, count)


def _data(topic: Topic, partition: int, bodies: Sequence[bytes], count: int) -> list[bytes]:
    """A data frame without its length, in pieces."""
    name = str(topic.name).encode()
    if not count:
        return [_header(name, partition, b"1", False, 0, 0, 0)]
    first = next(body for body in bodies if body)
    final = next(body for body in reversed(bodies) if body)
    numbers = sequence(first, 0), sequence(final, last(final))
    return [_header(name, partition, b"1", False, *numbers, count), *bodies]


def write_pushes(topic: Topic, partition: int, batch: RecordBatch, losses: Losses) -> list[bytes]:
    """The payloads of the frames that push a batch: none without records, more than one if it is longer than MAX_REPLY.

    As in the answer to a CONSUME, a single record that is longer goes out all the same.
    """
    rest, left = body_of(batch, losses), batch.count
    frames: list[bytes] = []
    while left:
        fits, count = ([rest], left) if len(rest) <= MAX_BODY else _fitting([rest])
        frames.append(b"".join(_data(topic, partition, fits, count)))
        rest, left = rest[len(fits[0]) :], left - count
    return frames


def _fitting(bodies: Sequence[bytes]) -> tuple[list[bytes], int]:
    taken: list[bytes] = []
    used = count = 0
    for body in bodies:
        fits = end = 0
        for size in CURSUS_V1.sizes(body):
            if (used + end + size > MAX_BODY and count + fits) or count + fits == MAX_RECORDS:
                taken.append(body[:end])
                return taken, count + fits
            end += size
            fits += 1
        taken.append(body)
        used, count = used + end, count + fits
    return taken, count


def read_records(command: Fetch, frame: bytes) -> Records:
    """A data frame.  Its records are one batch unless offsets are missing among them (compaction, transactions).

    The frame does not say where the partition begins and ends: start is 0, and end what can be known to be there.
    Raises CommandFailed(MALFORMED).
    """
    partition, batches = read_data(frame)
    if not batches:
        start = command.start.floor if isinstance(command.start, Next) else command.start
        return Records(partition, 0, start if isinstance(start, int) else 0)
    return Records(partition, 0, batches[-1].end, batches)


def read_data(frame: bytes) -> tuple[int, tuple[RecordBatch, ...]]:
    """The partition and the records of a data frame.  Raises CommandFailed(MALFORMED)."""
    try:
        _, partition, _, _, count, body = _opened(frame)
        if not 0 <= count <= MAX_RECORDS:
            raise CommandFailed(Fault.MALFORMED, f"a data frame of {count} records")
        body = _trimmed(body, count)[0] if count else b""
    except (IndexError, struct.error):
        raise CommandFailed(Fault.MALFORMED, "a data frame that is cut short") from None
    if not count:
        return partition, ()
    batch = RecordBatch(CURSUS_V1, body, count, offset(body, 0), origin="cursus")
    return partition, (batch,) if rising(body, batch.base) else _contiguous(batch)


def _contiguous(batch: RecordBatch) -> tuple[RecordBatch, ...]:
    """Cut where the next offset is not the one before plus one."""
    found: list[RecordBatch] = []
    offsets = [offset(batch.body, at) for at in positions(batch.body)[:-1]]
    first = 0
    for at in range(1, len(offsets) + 1):
        if at == len(offsets) or offsets[at] != offsets[at - 1] + 1:
            body = CURSUS_V1.cut(batch.body, first, at)
            found.append(RecordBatch(CURSUS_V1, body, at - first, offsets[first], origin="cursus"))
            first = at
    return tuple(found)
