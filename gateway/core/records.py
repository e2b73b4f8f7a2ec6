"""Records, batches of them, and what a record encoding is.

A batch is the unit of Publish, Fetch, storage and delivery.  Its body stays in the encoding it arrived in, so that a
reader of the same dialect gets the bytes back and nobody builds record objects who does not need them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator

import msgspec

from gateway.core.faults import CommandFailed, Fault

MAX_RECORDS = 100_000
"""Records in one batch, the bound of every dialect (Cursus states it, the others never come near)."""


class HeaderKind(enum.IntEnum):
    """How the bytes of a header value are to be read; numbers are little-endian (the numbering is Iggy's)."""

    RAW = 1
    TEXT = 2
    BOOL = 3
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    INT128 = 8
    UINT8 = 9
    UINT16 = 10
    UINT32 = 11
    UINT64 = 12
    UINT128 = 13
    FLOAT32 = 14
    FLOAT64 = 15


WIDTHS = {
    HeaderKind.BOOL: 1,
    HeaderKind.INT8: 1,
    HeaderKind.INT16: 2,
    HeaderKind.INT32: 4,
    HeaderKind.INT64: 8,
    HeaderKind.INT128: 16,
    HeaderKind.UINT8: 1,
    HeaderKind.UINT16: 2,
    HeaderKind.UINT32: 4,
    HeaderKind.UINT64: 8,
    HeaderKind.UINT128: 16,
    HeaderKind.FLOAT32: 4,
    HeaderKind.FLOAT64: 8,
}
"""Bytes of a header value, for the kinds that have only one."""


class Header(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One header of a record.  Order and repetition are kept.

    key:   UTF-8 by convention.
    value: exactly the bytes of the kind.
    """

    key: bytes
    value: bytes
    kind: HeaderKind = HeaderKind.RAW
    key_kind: HeaderKind = HeaderKind.TEXT


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a producer wrote.  Its offset and its place in time belong to the batch, not to it.

    key:              None = none; an empty key on any wire is none.
    value:            None = a tombstone, written by table commands only.
    timestamp:        us since the epoch if it is not the batch's own (a migrated record), else 0.
    origin_timestamp: us since the epoch as the producer claims, 0 = not said.
    id:               u128 as 16 bytes big-endian, empty = none.
    producer:         id of the idempotent producer, empty = none; epoch and sequence go with it.
    expiry:           us since the epoch from which on tables do not show the record, 0 = never.
    """

    key: bytes | None = None
    value: bytes | None = b""
    headers: tuple[Header, ...] = ()
    timestamp: int = 0
    origin_timestamp: int = 0
    id: bytes = b""
    producer: bytes = b""
    epoch: int = 0
    sequence: int = 0
    event_type: bytes = b""
    schema_version: int = 0
    aggregate_version: int = 0
    metadata: bytes = b""
    expiry: int = 0


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Consecutive records of a batch by one producer and epoch whose sequence numbers rise by one.

    first: sequence number of the first of them; 0 = these records take no part in idempotence.
    """

    producer: bytes
    epoch: int
    first: int
    count: int


def runs_of(records: Iterable[tuple[bytes, int, int]]) -> list[Run]:
    """The runs in records of which (producer, epoch, sequence) is known; without a producer a sequence is nothing."""
    runs: list[Run] = []
    for producer, epoch, sequence in records:
        first = sequence if producer else 0
        last = runs[-1] if runs else None
        follows = last is not None and (last.producer, last.epoch) == (producer, epoch)
        if last is not None and follows and first == (last.first + last.count if last.first else 0):
            runs[-1] = Run(producer, epoch, last.first, last.count + 1)
        else:
            runs.append(Run(producer, epoch, first, 1))
    return runs


class Encoding:
    """A layout of record bodies: its name, and what can be done with a body in it.

    name:    stored with every batch; a new layout takes a new name.
    walk:    body -> number of records.  Raises CommandFailed(MALFORMED) unless the body is whole and exact.
    stamp:   body, first offset, first timestamp -> the layout its readers get; called once, at append.
    cut:     body, first, last -> the records first..last-1 (by index) as a body.
    sizes:   body -> bytes of each record, for limits.
    runs:    body -> the producers and sequences in it, for idempotence.
    records: body -> record objects, for everyone else.
    """

    __slots__ = ("cut", "name", "records", "runs", "sizes", "stamp", "walk")

    def __init__(
        self,
        name: str,
        *,
        walk: Callable[[bytes], int],
        stamp: Callable[[bytes, int, int], bytes],
        cut: Callable[[bytes, int, int], bytes],
        sizes: Callable[[bytes], Iterable[int]],
        runs: Callable[[bytes], list[Run]],
        records: Callable[[bytes], list[Record]],
    ) -> None:
        self.name = name
        self.walk = walk
        self.stamp = stamp
        self.cut = cut
        self.sizes = sizes
        self.runs = runs
        self.records = records

    def __repr__(self) -> str:
        return f"<encoding {self.name}>"


class RecordBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Records in one encoding.  The i-th has offset base+i and, unless it says otherwise, time timestamp+i.

    body:      in the layout of `encoding`.
    count:     as `encoding.walk` found it.
    base:      offset of the first record; 0 until appended.
    timestamp: us since the epoch of the first record; 0 until appended.
    origin:    name of the dialect that wrote it.
    """

    encoding: Encoding
    body: bytes
    count: int
    base: int = 0
    timestamp: int = 0
    origin: str = ""

    @property
    def end(self) -> int:
        """Offset after the last record."""
        return self.base + self.count

    def appended(self, base: int, timestamp: int) -> RecordBatch:
        """The batch as it stands in a partition from offset `base` on."""
        body = self.encoding.stamp(self.body, base, timestamp)
        return RecordBatch(self.encoding, body, self.count, base, timestamp, self.origin)

    def cut(self, first: int, last: int) -> RecordBatch:
        """The records with indices first..last-1."""
        if first == 0 and last == self.count:
            return self
        body = self.encoding.cut(self.body, first, last)
        return RecordBatch(self.encoding, body, last - first, self.base + first, self.timestamp + first, self.origin)

    def records(self) -> list[Record]:
        """Every record as an object."""
        return self.encoding.records(self.body)

    def rows(self) -> Iterator[tuple[int, int, Record]]:
        """(offset, timestamp in us, record) of every record."""
        for at, record in enumerate(self.records()):
            yield self.base + at, record.timestamp or self.timestamp + at, record


def select(batches: Iterable[RecordBatch], start: int, max_records: int, max_bytes: int) -> Iterator[RecordBatch]:
    """What of stored batches, in order, answers a Fetch: from offset `start` on, within both limits.

    max_records: 0 = no limit.  max_bytes: of bodies; the first record is given even if it is longer.
    """
    left = max_records or 1 << 62
    room = max_bytes
    for batch in batches:
        first = max(0, start - batch.base)
        if first >= batch.count:
            continue
        batch = batch.cut(first, min(batch.count, first + left))
        if len(batch.body) > room:
            if room == max_bytes:
                yield batch.cut(0, _fitting(batch, room))
            return
        yield batch
        room -= len(batch.body)
        left -= batch.count
        if left <= 0:
            return


def _fitting(batch: RecordBatch, room: int) -> int:
    count = used = 0
    for size in batch.encoding.sizes(batch.body):
        used += size
        if used > room and count:
            break
        count += 1
    return count


# -- the canonical encoding: one msgpack array of records, each an array in the order of Record's fields

_decode = msgspec.msgpack.Decoder(list[Record]).decode
_encode = msgspec.msgpack.Encoder().encode


def _records(body: bytes) -> list[Record]:
    try:
        return _decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CommandFailed(Fault.MALFORMED, f"not a batch of records: {error}") from error


def _walk(body: bytes) -> int:
    announced = int.from_bytes(body[1:5], "big") if body[:1] == b"\xdd" else 0  # array 32, the only form for so many
    if announced > MAX_RECORDS:  # before anything is built: an empty record is one byte here and 170 as an object
        raise CommandFailed(Fault.TOO_LARGE, f"{announced} records in one batch, {MAX_RECORDS} is the most")
    records = _records(body)
    if not {len(record.id) for record in records} <= {0, 16}:
        raise CommandFailed(Fault.MALFORMED, "the id of a record has 16 bytes or none")
    if any((record.timestamp | record.epoch | record.sequence | record.expiry) >> 63 for record in records):
        raise CommandFailed(Fault.MALFORMED, "times, epochs and sequence numbers are 0..2^63-1")
    for header in (header for record in records if record.headers for header in record.headers):
        if len(header.value) != WIDTHS.get(header.kind, len(header.value)):
            raise CommandFailed(Fault.MALFORMED, f"{len(header.value)} bytes are no {header.kind.name}")
    return len(records)


def _runs(body: bytes) -> list[Run]:
    return runs_of((record.producer, record.epoch, record.sequence) for record in _records(body))


CANONICAL = Encoding(
    "msgpack.v1",
    walk=_walk,
    stamp=lambda body, base, timestamp: body,
    cut=lambda body, first, last: _encode(_records(body)[first:last]),
    sizes=lambda body: [len(_encode(record)) for record in _records(body)],
    runs=_runs,
    records=_records,
)


def canonical(records: list[Record], origin: str = "") -> RecordBatch:
    """Records as a batch that every part of the house can read."""
    return RecordBatch(CANONICAL, _encode(records), len(records), origin=origin)


def registry(encodings: Iterable[Encoding]) -> dict[str, Encoding]:
    """Encodings by name, the canonical one always among them.  Raises ValueError if two claim one name."""
    by_name = {CANONICAL.name: CANONICAL}
    for encoding in encodings:
        if by_name.setdefault(encoding.name, encoding) is not encoding:
            raise ValueError(f"two record encodings are called {encoding.name}")
    return by_name
