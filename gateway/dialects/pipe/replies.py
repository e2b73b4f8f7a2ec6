"""The payload of an OK line, in the form of stage D: written as a server, read as a client (B and C too).

The SDKs look for the first `name=`, so names and their order are the project's own (pipe.md, "Commands").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gateway.core.commands import (
    Command,
    CommitOffsets,
    Fetch,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Publish,
    SyncGroup,
)
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch, canonical, select
from gateway.core.replies import CommittedOffsets, Done, Joined, Published, Records, Reply
from gateway.dialects.losses import lose
from gateway.dialects.pipe.fidelity import CONSUMED
from gateway.dialects.pipe.requests import AHEAD
from gateway.dialects.pipe.terms import PipeTerms
from gateway.dialects.pipe.text import integer
from gateway.dialects.pipe.values import SHOW, unescape

DONE: dict[type, bytes] = {CommitOffsets: b"committed=true", Heartbeat: b"heartbeat=ok", LeaveGroup: b"left=true"}

Row = tuple[int, bytes]
"""(offset, value)."""


def write_payload(command: Command, reply: Reply, terms: PipeTerms) -> bytes:
    """What stands behind `OK|`.

    Raises CommandFailed: UNREPRESENTABLE for a value under policy `reject`, INTERNAL for a reply that is none to this
    command.
    """
    match command, reply:
        case Publish(), Published():
            return b"partition=%d offset=%d hw=%d" % (reply.partition, reply.base, reply.last)
        case Fetch(), Records():
            return b"messages=%b hw=%d" % (write_records(reply.batches, terms), reply.end - 1)
        case ((JoinGroup() | SyncGroup()), Joined()):
            assigned = " ".join(map(str, reply.assignment)).encode()
            return b"generation=%d assigned=[%b]" % (reply.generation + AHEAD, assigned)
        case ((CommitOffsets() | Heartbeat() | LeaveGroup()), Done()):
            return DONE[type(command)]
        case FetchOffsets(partitions=(int() as partition,)), CommittedOffsets():
            return b"offset=%d" % reply.offsets.get(partition, 0)
    raise CommandFailed(Fault.INTERNAL, f"{type(reply).__name__} is no answer to {type(command).__name__}")


def write_records(batches: Iterable[RecordBatch], terms: PipeTerms) -> bytes:
    """Offsets and values.  Raises CommandFailed(UNREPRESENTABLE) for a value under policy `reject`."""
    return b",".join(_items(batches, terms))


def _items(batches: Iterable[RecordBatch], terms: PipeTerms) -> Iterator[bytes]:
    show = SHOW[terms.policy]
    for batch in batches:
        changed, records = 0, batch.records()
        CONSUMED.count(records, batch.origin, terms.losses)
        for offset, record in enumerate(records, batch.base):
            value = record.value or b""
            shown = show(value)
            changed += shown != value
            yield b"%d:%b" % (offset, shown)
        if changed:
            lose(terms.losses, batch.origin, "pipe", "value", changed)


def read_payload(command: Command, payload: bytes, terms: PipeTerms) -> Reply:
    """What an OK line says in answer to that command.  Raises CommandFailed(MALFORMED)."""
    match command:
        case Publish():
            return _published(payload)
        case Fetch():
            return _messages(command, payload, terms)
        case JoinGroup() | SyncGroup():
            return _joined(command.member, payload)
        case CommitOffsets() | Heartbeat() | LeaveGroup():
            return _done(DONE[type(command)], payload)
        case FetchOffsets(partitions=(int() as partition,)):
            return _committed(partition, payload)
    raise CommandFailed(Fault.MALFORMED, f"an answer to {type(command).__name__}, which is not asked for like this")


def _published(payload: bytes) -> Published:
    offset = read_number(payload, b"offset")
    return Published(read_number(payload, b"partition"), offset, offset)


def _joined(member: str, payload: bytes) -> Joined:
    """Stage B says no generation; 0 is none that ever was."""
    found = _ASSIGNED.search(payload)
    if found is None:
        raise CommandFailed(Fault.MALFORMED, "the answer says no list of partitions")
    generation = max(0, read_number(payload, b"generation", 0) - AHEAD)
    return Joined(member, generation, tuple(map(int, (found[1] or b"").split())))


def _done(said: bytes, payload: bytes) -> Done:
    if said not in payload.split(b" "):
        raise CommandFailed(Fault.MALFORMED, f"the answer does not say {said.decode()}")
    return Done()


def _committed(partition: int, payload: bytes) -> CommittedOffsets:
    """0 is what a V1 server says when nothing was committed, so it is read as that."""
    offset = read_number(payload, b"offset")
    return CommittedOffsets({partition: offset} if offset else {})


def _messages(command: Fetch, payload: bytes, terms: PipeTerms) -> Records:
    text, mark, high = payload.rpartition(b" hw=")
    last = integer(high) if mark else _asked(command)[1] - 1  # stage B says no hw
    messages = text if mark else payload
    if last is None or last < -1 or not messages.startswith(b"messages="):
        raise CommandFailed(Fault.MALFORMED, "the answer says no messages, or no hw")
    return read_records(command, messages[9:], last, terms)


def read_records(command: Fetch, text: bytes, last: int, terms: PipeTerms) -> Records:
    """Values alone: this wire shows neither keys nor times.  The start of the partition is not said; it reads as 0.

    last: the highest offset there is, as far as the server said.
    """
    partition, start = _asked(command)
    plain = unescape if terms.policy == "escape" else bytes
    rows = [(offset, plain(value)) for offset, value in _rows(text)]
    batches = tuple(select(_batches(rows), start, command.max_records, command.max_bytes))
    return Records(partition, 0, max(last, rows[-1][0] if rows else -1) + 1, batches)


def _asked(command: Fetch) -> tuple[int, int]:
    if command.partition is None or not isinstance(command.start, int):
        raise CommandFailed(Fault.MALFORMED, "an answer to a Fetch, which is not asked for like this")
    return command.partition, command.start


def _rows(text: bytes) -> list[Row]:
    """The messages of an answer.

    A piece between commas that does not begin with a higher offset belongs to the value before it.  A value that holds
    a comma, a higher number and a colon is still taken for two: the wire cannot say.
    """
    found: list[tuple[int, list[bytes]]] = []
    for piece in text.split(b",") if text else ():
        number, colon, value = piece.partition(b":")
        offset = integer(number) if colon and number.isdigit() else None
        if offset is not None and (not found or offset > found[-1][0]):
            found.append((offset, [value]))
        elif found:
            found[-1][1].append(piece)
        else:
            raise CommandFailed(Fault.MALFORMED, "the first message has no offset")
    return [(offset, b",".join(pieces)) for offset, pieces in found]


def _batches(rows: list[Row]) -> Iterator[RecordBatch]:
    """A batch for each run of offsets without a gap."""
    first = 0
    for at in range(1, len(rows) + 1):
        if at == len(rows) or rows[at][0] != rows[at - 1][0] + 1:
            values = [Record(None, value) for _, value in rows[first:at]]
            yield canonical(values, "pipe").appended(rows[first][0], 0)
            first = at


_ASSIGNED = re.compile(rb"(?:^| )assigned=\[([0-9]{1,9}(?: [0-9]{1,9})*)?\]")


def read_number(payload: bytes, name: bytes, default: int | None = None) -> int:
    """The number of the first field of that name, at least 0; fields this client does not know are passed over."""
    for field in payload.split(b" "):
        if field.startswith(name + b"="):
            value = integer(field[len(name) + 1 :])
            if value is not None and value >= 0:
                return value
            raise CommandFailed(Fault.MALFORMED, f"{name.decode()} is no number")
    if default is None:
        raise CommandFailed(Fault.MALFORMED, f"the answer says no {name.decode()}")
    return default
