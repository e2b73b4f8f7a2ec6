"""What was asked and what was told, as one: which records that was about, whose offsets, and how far partitions go."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gateway.capture.reading import Said
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed
from gateway.core.records import RecordBatch
from gateway.dialects import Refusal, Request

NO_PLACE = frozenset({"iggy", "grid"})
"""Dialects whose answers to a Publish say no offset, or not always: a 0 means nothing there."""


class Run(msgspec.Struct, frozen=True):
    """Records of one partition with consecutive offsets, from `first` on."""

    partition: int
    first: int
    records: int


class Exchange(msgspec.Struct):
    """A request and its answer, or one of the two if the other was not captured; or what was said without being asked.

    time:      when it was asked, us since the epoch.
    peer:      the client's address, None = the connection was there before.
    kind:      the command, "" = what was asked is none.
    partition: 0-based, where there is one alone.
    records:   how many were written or read, or are in what was read of a table.
    runs:      which those were, as far as the answer tells.
    reader:    `group:NAME` or `consumer:NAME` that reads, or whose offsets are meant.
    committed: partition -> the next offset to read that was stored by it, or that it says is stored.
    ends:      partition -> the next offset to be written, at least, as the answer tells.
    bytes_in, bytes_out: of both; None = that half was not captured, or there is none.
    outcome:   the reply or, in capitals, the fault; None = it was never answered.
    latency:   us, None likewise.
    failure:   the sentence that the answer gave.
    details:   the command's fields as JSON, without secrets and what records hold.
    verdict, shape, why: see gateway.conformance.judging.
    note:      what was done to the request before it was kept; of a missing one, how much is missing.
    pushed:    it answers nothing: records for the Follow of that ticket, or signs of life.
    missing:   `gap`, `torn` or `damaged`: all that is not about the place in the file is empty then.
    """

    time: int
    connection: int
    dialect: str
    listener: str
    ticket: int = -1
    peer: str | None = None
    principal: str = ""
    kind: str = ""
    namespace: str = ""
    topic: str = ""
    partition: int | None = None
    records: int = 0
    runs: list[Run] = []
    reader: str | None = None
    committed: dict[int, int] = {}
    ends: dict[int, int] = {}
    bytes_in: int | None = None
    bytes_out: int | None = None
    outcome: str | None = None
    latency: int | None = None
    failure: str | None = None
    details: str | None = None
    verdict: str | None = None
    shape: str | None = None
    why: str | None = None
    frame: bytes | None = None
    note: str = ""
    pushed: bool = False
    missing: str | None = None


def say_command(made: Exchange, command: q.Command) -> None:
    """Whom and which partition a command is about."""
    match command:
        case q.Fetch():
            made.partition, made.reader = command.partition, _named(command.read_by)
        case q.Follow(start=q.Next(reader=reader)):
            made.partition, made.reader = command.partition, _named(reader)
        case q.Follow():
            made.partition = command.partition
        case q.Publish():
            made.partition = command.to if isinstance(command.to, int) else None
        case q.CommitOffsets():
            made.reader = _named(command.reader)
            made.partition = _alone(command.offsets)
        case q.FetchOffsets() | q.DeleteOffsets():
            made.reader = _named(command.reader)
            made.partition = _alone(command.partitions or ())
        case q.Take() | q.Peek():
            made.reader = "group:queue"
        case q.JoinGroup() | q.SyncGroup() | q.Heartbeat() | q.LeaveGroup() | q.DescribeGroup() | q.DeleteGroup():
            made.reader = f"group:{command.group}"


def _named(reader: q.Reader | None) -> str | None:
    if reader is None:
        return None
    return f"{'group' if isinstance(reader, q.Group) else 'consumer'}:{reader.name}"


def _alone(partitions: Iterable[int | None]) -> int | None:
    found = list(partitions)
    return found[0] if len(found) == 1 else None


def say_answer(made: Exchange, request: Request | Refusal, said: Said) -> None:
    """Which records an answer gives or tells of, and which offsets.  made: has the outcome already."""
    command = request.command if isinstance(request, Request) else None
    match command, said:
        case _, CommandFailed():
            made.failure = said.detail or None
        case q.Publish(), r.Published():
            _wrote(made, command, said)
        case _, r.Records():
            _read(made, said.partition, said.batches, told=not isinstance(command, q.Take | q.Peek))
            _end(made, said.partition, said.end)
            if isinstance(command, q.Fetch) and command.commit and made.runs:
                made.committed = {said.partition: made.runs[-1].first + made.runs[-1].records}
        case q.Follow(partition=partition), RecordBatch():
            _read(made, partition, (said,), told=True)
        case q.CommitOffsets(), _ if made.outcome == "Done":
            made.committed = {at: offset for at, offset in command.offsets.items() if at is not None}
        case _, r.Offsets():
            made.ends = {each.partition: each.end for each in said.offsets}
        case _, r.CommittedOffsets():
            made.committed, made.ends = dict(said.offsets), dict(said.ends)
        case _, _:
            made.records += _of_table(command, said)


def _wrote(made: Exchange, command: q.Publish, said: r.Published) -> None:
    told = said.last - said.base + 1 == command.batch.count
    if command.acks is q.Acks.NONE or made.dialect in NO_PLACE:
        told = told and said.base > 0
    if said.duplicate:
        return
    made.records = command.batch.count
    if told:
        made.partition = said.partition
        made.runs = [Run(said.partition, said.base, made.records)]
        _end(made, said.partition, said.last + 1)


def _read(made: Exchange, partition: int, batches: Iterable[RecordBatch], *, told: bool) -> None:
    """told: their offsets are on the wire."""
    made.partition = partition
    for batch in batches:
        made.records += batch.count
        if not told or not batch.count:
            continue
        last = made.runs[-1] if made.runs else None
        if last is not None and last.first + last.records == batch.base:
            made.runs = [*made.runs[:-1], Run(partition, last.first, last.records + batch.count)]
        else:
            made.runs = [*made.runs, Run(partition, batch.base, batch.count)]
        _end(made, partition, batch.end)


def _end(made: Exchange, partition: int, end: int) -> None:
    made.ends = {**made.ends, partition: max(end, made.ends.get(partition, 0))}


def _of_table(command: q.Command | None, said: Said) -> int:
    match command, said:
        case ((q.MapPut() | q.MapRemove()), r.MapChanged(done=done)):
            return int(done)
        case q.MapAdd(), r.Count():
            return 1
        case q.MapGet(), r.MapValue(value=value):
            return int(value is not None)
        case q.MapScan(), r.MapEntries(entries=entries):
            return len(entries)
    return 0
