"""Tiny blocking clients over plain sockets, written from the protocol pages and not with the gateway's own code.

`Lines` speaks V1 pipe text, `Frames` Cursus v1, `Tagged` native.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Iterable
from typing import NamedTuple, Self

import msgspec

TIMEOUT = 30.0
"""Seconds a peer waits for bytes; far more than anything here takes."""


class Stream:
    """A connection to a port of loopback.  Raises OSError as sockets do, EOFError where the gateway hung up."""

    def __init__(self, port: int, timeout: float = TIMEOUT) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self._held = bytearray()
        if self.socket.getsockname() == self.socket.getpeername():  # nobody listens, and we have met ourselves
            self.socket.close()
            raise ConnectionRefusedError(port)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    def send(self, octets: bytes) -> None:
        """All of it."""
        self.socket.sendall(octets)

    def send_aside(self, octets: bytes) -> threading.Thread:
        """Send from a thread, so that answers can be read meanwhile; join it when they are there."""
        thread = threading.Thread(target=self.socket.sendall, args=(octets,), daemon=True)
        thread.start()
        return thread

    def finish(self) -> None:
        """Say that no more will come; answers can still be read."""
        self.socket.shutdown(socket.SHUT_WR)

    def rest(self) -> bytes:
        """Everything up to the end; a connection that is reset ends too."""
        try:
            while octets := self.socket.recv(1 << 20):
                self._held += octets
        except ConnectionResetError:
            pass
        rest, self._held = bytes(self._held), bytearray()
        return rest

    def exactly(self, size: int) -> bytes:
        """So many bytes."""
        while len(self._held) < size:
            self._more()
        return self._cut(size)

    def line(self) -> bytes:
        """Up to the next LF, without it."""
        seen = 0
        while (end := self._held.find(b"\n", seen)) < 0:
            seen = len(self._held)
            self._more()
        return self._cut(end + 1)[:-1]

    def _more(self) -> None:
        octets = self.socket.recv(1 << 20)
        if not octets:
            raise EOFError("the gateway hung up")
        self._held += octets

    def _cut(self, size: int) -> bytes:
        octets = bytes(self._held[:size])
        del self._held[:size]
        return octets


class Lines(Stream):
    """V1 pipe text (protocol page pipe.md)."""

    def ask(self, line: bytes) -> bytes:
        """A line without its LF -> the answer without its own."""
        self.send(line + b"\n")
        return self.line()

    def call(self, command: str) -> str:
        """`COMMAND args` -> what follows `OK|`; fails on anything else."""
        verb, _, args = command.partition(" ")
        answer = self.ask(f"V1|1|{verb}|{args}".encode()).decode()
        assert answer.startswith("V1|1|OK|"), f"{command!r} was answered {answer!r}"
        return answer[8:]

    def produce(self, topic: str, key: str, value: str) -> tuple[int, int]:
        """Where the record went: its partition and offset."""
        return placed(self.call(f"PRODUCE {topic} {key}:{value}"))

    def consume(self, topic: str, partition: int, offset: int) -> tuple[list[tuple[int, str]], int]:
        """(offset, value) of every record in one answer, and the highest offset there is."""
        payload = self.call(f"CONSUME {topic} {partition} {offset}")
        found = re.fullmatch(r"messages=(.*) hw=(-?\d+)", payload)
        assert found is not None, payload
        pairs = (item.split(":", 1) for item in found[1].split(",") if item)
        return [(int(at), value) for at, value in pairs], int(found[2])

    def read_all(self, topic: str, partition: int) -> list[str]:
        """Every value from offset 0 up to the highest, in answers as long as the gateway makes them."""
        values: list[str] = []
        while True:
            rows, highest = self.consume(topic, partition, len(values))
            assert [at for at, _ in rows] == list(range(len(values), len(values) + len(rows)))
            values += [value for _, value in rows]
            if len(values) == highest + 1:
                return values
            assert rows, f"nothing at {len(values)}, but {highest} is said to be there"


def placed(payload: str) -> tuple[int, int]:
    """Partition and offset in the answer to a PRODUCE."""
    found = re.fullmatch(r"partition=(\d+) offset=(\d+) hw=(-?\d+)", payload)
    assert found is not None and int(found[3]) >= int(found[2]), payload
    return int(found[1]), int(found[2])


class Row(NamedTuple):
    """A record in a Cursus batch."""

    offset: int
    sequence: int
    producer: str
    key: str
    epoch: int
    value: str


class Ack(msgspec.Struct, forbid_unknown_fields=True):
    """The answer to a Cursus batch."""

    status: str
    last_offset: int
    producer_epoch: int
    producer_id: str
    seq_start: int
    seq_end: int
    leader: str = ""
    error: str = ""


class Frames(Stream):
    """Cursus v1 (protocol page cursus.md)."""

    def frame(self) -> bytes:
        """The payload of the next frame."""
        (size,) = struct.unpack(">I", self.exactly(4))
        return self.exactly(size)

    def ask(self, payload: bytes) -> bytes:
        """A payload, its length put before it -> that of the answer."""
        self.send(framed(payload))
        return self.frame()

    def call(self, command: str) -> str:
        """A command in an empty envelope, as all clients send it -> the text of the answer."""
        return self.ask(b"\0\0" + command.encode()).decode()

    def create(self, topic: str, partitions: int, settings: str = "") -> None:
        """A new topic."""
        answer = self.call(f"CREATE topic={topic} partitions={partitions} {settings}".strip())
        assert answer.startswith(f"OK topic={topic} partitions={partitions} "), answer

    def publish(self, batch: bytes) -> Ack:
        """A batch -> its ack; fails if the answer is none."""
        return acked(self.ask(batch))

    def consume(self, topic: str, partition: int, offset: int) -> list[Row]:
        """The records of one answer."""
        line = f"CONSUME topic={topic} partition={partition} offset={offset} member=reader"
        return rows(self.ask(b"\0\0" + line.encode()), topic, partition)

    def read_all(self, topic: str, partition: int) -> list[Row]:
        """Every record from offset 0 on."""
        found: list[Row] = []
        while more := self.consume(topic, partition, len(found)):
            assert [row.offset for row in more] == list(range(len(found), len(found) + len(more)))
            found += more
        return found

    def ends(self, topic: str) -> dict[int, int]:
        """Partition -> the offset that is written next."""
        answer = self.call(f"LIST_OFFSETS topic={topic}")
        assert answer.startswith(f"OK topic={topic} "), answer
        return {int(at): int(end) for at, end in re.findall(r"P(\d+):earliest=\d+:latest=(\d+)", answer)}


class Tagged(Stream):
    """Native: u32be length, then a msgpack array (gateway/dialects/native, its docstring)."""

    def answer(self) -> tuple[int, list[object]]:
        """The tag of the next answer, and what follows it."""
        (size,) = struct.unpack(">I", self.exactly(4))
        found = msgspec.msgpack.decode(self.exactly(size), type=list[object])
        assert isinstance(found[0], int), found
        return found[0], found[1:]

    def ask(self, command: list[object], tag: int = 1) -> list[object]:
        """A command -> what follows the tag in its answer."""
        self.send(tagged(tag, command))
        answered, said = self.answer()
        assert answered == tag, said
        return said


def tagged(tag: int, command: list[object]) -> bytes:
    """A native request."""
    return framed(msgspec.msgpack.encode([tag, command]))


def framed(payload: bytes) -> bytes:
    """A payload with its length before it."""
    return struct.pack(">I", len(payload)) + payload


def acked(payload: bytes) -> Ack:
    """The JSON that answers a batch; fails on anything else."""
    try:
        return msgspec.json.decode(payload, type=Ack)
    except msgspec.DecodeError:
        raise AssertionError(f"no ack: {payload!r}") from None


def batch(topic: str, partition: int, records: Iterable[Row], *, acks: str = "1", idempotent: bool = False) -> bytes:
    """What a producer sends (cursus.md, section 3); offsets are the gateway's business, so they are sent as 0."""
    sent = list(records)
    numbers = (sent[0].sequence, sent[-1].sequence) if sent else (0, 0)
    head = b"\xba\x7c" + _short(topic) + struct.pack(">i", partition) + bytes([len(acks)]) + acks.encode()
    head += struct.pack(">?QQi", idempotent, *numbers, len(sent))
    return head + b"".join(_record(row) for row in sent)


def _record(row: Row) -> bytes:
    value = row.value.encode()
    return b"".join(
        (
            struct.pack(">QQ", 0, row.sequence),
            _short(row.producer),
            _short(row.key),
            struct.pack(">qI", row.epoch, len(value)),
            value,
            _short(""),
            struct.pack(">IQ", 0, 0),
            _short(""),
        )
    )


def _short(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()


def rows(payload: bytes, topic: str, partition: int) -> list[Row]:
    """A data frame -> its records; fails if it is another topic's, or not exactly of its length."""
    assert payload.startswith(b"\xba\x7c"), f"no data frame: {payload[:200]!r}"
    reader = _Reader(payload, 2)
    assert (reader.short(), *reader.take(">i")) == (topic, partition)
    (size,) = reader.take(">B")
    assert reader.octets(size) == b"1"
    _, first, last, count = reader.take(">?QQi")
    found = [reader.row() for _ in range(count)]
    assert reader.at == len(payload)
    assert (first, last) == ((found[0].sequence, found[-1].sequence) if found else (0, 0))
    return found


class _Reader:
    def __init__(self, octets: bytes, at: int) -> None:
        self._octets = octets
        self.at = at

    def take(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(layout, self._octets, self.at)
        self.at += struct.calcsize(layout)
        return values

    def octets(self, size: int) -> bytes:
        self.at += size
        assert self.at <= len(self._octets), "a data frame that is cut short"
        return self._octets[self.at - size : self.at]

    def short(self) -> str:
        (size,) = self.take(">H")
        return self.octets(size).decode()

    def row(self) -> Row:
        offset, sequence = self.take(">QQ")
        producer, key = self.short(), self.short()
        epoch, size = self.take(">qI")
        value = self.octets(size).decode()
        self.short(), self.take(">IQ"), self.short()
        return Row(offset, sequence, producer, key, epoch, value)
