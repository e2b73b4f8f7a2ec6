"""Records on their way into the partitions of one topic: in batches, several at once, each until it is answered.

A partition has one batch under way at a time, so that records come to stand in their order whatever happens to a
connection.  What is held is bounded: a batch that waits and one under way for each partition, HELD bytes in all.

When the connection is lost, or the gateway says that it cannot now, what is under way is published again, on a new
connection, after pauses drawn at random, until nothing was answered for as long as the option timeoutSeconds says.
Where records are numbered that stores nothing twice; where they are not it may.
"""

from __future__ import annotations

from msgspec.structs import replace

from gateway.core.commands import Balanced, Publish, Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch, canonical
from gateway.core.replies import Published
from gateway.pipeline.asking import Connection
from gateway.pipeline.attempts import Attempts

BATCH = 4000
"""Records in one batch at most."""

BATCH_BYTES = 1 << 20
"""Bytes of keys, values and headers in one at most, but for a record that alone has more."""

HELD = 16 << 20
"""Bytes that wait or are under way, in all partitions together."""

ORIGIN = "spark"


class Line:
    """That of one partition: records that wait, and the batch that is under way, None = none is."""

    __slots__ = ("batch", "bytes", "held", "records", "tag")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.bytes = 0
        self.batch: RecordBatch | None = None
        self.held = 0
        self.tag = 0


class Outbox:
    """Publishes to the partitions of a topic.

    open_: no row says its partition, so a server that chooses them itself may.
    """

    def __init__(self, attempts: Attempts, topic: Topic, open_: bool = False) -> None:
        self._attempts = attempts
        self._topic = topic
        self._lines: dict[int, Line] = {}
        self._held = 0
        self._open = open_
        self._chosen_there = False

    def put(self, partition: int, records: list[Record]) -> None:
        """Behind what was put there before.  Raises CommandFailed."""
        line = self._lines.setdefault(partition, Line())
        for record in records:
            size = _size(record)
            if line.records and (len(line.records) >= BATCH or line.bytes + size > BATCH_BYTES):
                self._push(partition, line)
            line.records.append(record)
            line.bytes += size
            self._held += size
        if self._held > HELD:
            self.finish()

    def finish(self) -> None:
        """Publish all there is, and wait until all of it is answered.  Raises CommandFailed."""
        for partition, line in self._lines.items():
            if line.records:
                self._push(partition, line)
        for line in self._lines.values():
            self._settle(line)

    def _push(self, partition: int, line: Line) -> None:
        self._settle(line)
        line.batch = canonical(line.records, ORIGIN)
        line.held, line.records, line.bytes = line.bytes, [], 0
        try:
            self._send(self._attempts.connection, partition, line)
        except CommandFailed as failure:
            self._again(failure)

    def _settle(self, line: Line) -> None:
        """Wait until what is under way is answered."""
        while line.batch is not None:
            self._attempts.begin()
            try:
                outcome = self._attempts.connection.answer(line.tag)
                if isinstance(outcome, CommandFailed):
                    raise outcome
            except CommandFailed as failure:
                self._again(failure)
            else:
                self._done(line)

    def _done(self, line: Line) -> None:
        self._attempts.succeeded()
        self._held -= line.held
        line.batch = None

    def _again(self, failure: CommandFailed) -> None:
        """Send all that is under way once more, in its order."""
        sent = False
        while not sent:
            self._attempts.pause(failure)
            try:
                for partition, line in self._lines.items():
                    if line.batch is not None:
                        self._send(self._attempts.connection, partition, line)
                sent = True
            except CommandFailed as another:
                failure = another

    def _send(self, connection: Connection, partition: int, line: Line) -> None:
        """Begin with the batch; where the wire has no words for it, do by others what it means, to the end."""
        assert line.batch is not None, "there is something to send"
        command = Publish(self._topic, Balanced() if self._chosen_there else partition, line.batch)
        try:
            line.tag = connection.send(command)
        except CommandFailed as failure:
            if failure.fault is not Fault.UNSUPPORTED:
                raise
            self._compose(connection, command)
            self._done(line)

    def _compose(self, connection: Connection, command: Publish) -> None:
        try:
            connection.ask(command, Published)
        except CommandFailed as failure:
            if failure.fault is not Fault.UNSUPPORTED or not self._open or self._chosen_there:
                raise
            self._chosen_there = True
            connection.ask(replace(command, to=Balanced()), Published)


def _size(record: Record) -> int:
    size = len(record.key or b"") + len(record.value or b"")
    return size + sum(len(header.key) + len(header.value) for header in record.headers) if record.headers else size
