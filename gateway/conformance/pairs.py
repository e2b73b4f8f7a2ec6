"""Judges a gateway: what is written in one dialect and read in another, field by field, against what is declared."""

from __future__ import annotations

import random
import string
from collections.abc import AsyncIterator
from typing import TypeVar

import msgspec
from twisted.internet.defer import Deferred

from gateway.backends.remote.backend import RemoteBackend
from gateway.backends.remote.ways import Way
from gateway.conformance.playing import Verdict
from gateway.conformance.samples import PLAIN, SOME, field_of
from gateway.conformance.servers import Subject
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical, registry
from gateway.dialects import load, names
from gateway.dialects.fidelity import FIELDS, Fate, journey

LOST = frozenset({"dropped", "changed"})

R = TypeVar("R", bound=r.Answer)


class Survived(msgspec.Struct, frozen=True):
    """One field of a record between two dialects.

    declared: what is to become of it.  sent, seen: its value on either side, "" where it cannot be written.
    """

    field: str
    verdict: Verdict
    declared: Fate
    sent: str = ""
    seen: str = ""
    why: str = ""


class PairRun(msgspec.Struct, frozen=True):
    """All fields between two dialects.  began: us since the epoch."""

    writer: str
    reader: str
    began: int
    seconds: float
    fields: tuple[Survived, ...]

    @property
    def failed(self) -> bool:
        """A field fared otherwise than is declared."""
        return any(each.verdict in ("FAIL", "ERROR") for each in self.fields)


class Pair:
    """A writer's and a reader's end of what is taken for one gateway."""

    def __init__(self, writer: Subject, reader: Subject, seed: int = 0) -> None:
        self._writer, self._reader = _End(writer), _End(reader)
        letters = random.Random(seed)
        self._name = "pair-" + "".join(letters.choice(string.ascii_lowercase) for _ in range(12))
        self._namespace = writer.settings.namespace

    def close(self) -> None:
        """Hang up."""
        self._writer.backend.close()
        self._reader.backend.close()

    async def judged(self) -> AsyncIterator[Survived]:
        """Every field in turn.  Raises CommandFailed(UNAVAILABLE) where nobody answers."""
        writing, reading = self._writer.fates[0], self._reader.fates[1]
        for field in FIELDS:
            declared = journey(writing[field], reading[field])
            if declared.way == "unsaid":
                yield Survived(field, "INFO", declared, why="it cannot be written, or would not be shown")
            else:
                yield await self._sent(field, declared)

    async def _sent(self, field: str, declared: Fate) -> Survived:
        record = PLAIN if declared.way == "given" else SOME[field]
        try:
            seen, timestamp = await self._through(record, q.Topic(self._namespace, f"{self._name}-{field}"))
        except CommandFailed as failure:
            if failure.fault is Fault.UNAVAILABLE:
                raise
            return Survived(field, "ERROR", declared, why=str(failure))
        was, found = field_of(field, record), field_of(field, seen, timestamp)
        verdict, why = _verdict(declared, was, found)
        return Survived(field, verdict, declared, repr(was), repr(found), why)

    async def _through(self, record: Record, topic: q.Topic) -> tuple[Record, int]:
        """What the reader sees of it, the first of its topic, and when it says that it was appended."""
        await self._make(topic)
        to = q.ByKey(record.key, self._writer.partitioner) if record.key else 0
        publish = q.Publish(topic, to, canonical([record]), create=1)
        try:
            published = await self._writer.ask(publish, r.Published)
        except CommandFailed as failure:
            if failure.fault is not Fault.UNSUPPORTED:
                raise
            by_key = q.ByKey(record.key or b"", self._writer.partitioner)
            published = await self._writer.ask(msgspec.structs.replace(publish, to=by_key), r.Published)
        fetch = q.Fetch(topic, published.partition, 0, 1, wait=2.0)
        records = await self._reader.ask(fetch, r.Records)
        for batch in records.batches:
            for _, timestamp, seen in batch.rows():
                return seen, timestamp
        raise CommandFailed(Fault.TIMEOUT, "what was written cannot be read: are these two listeners of one gateway?")

    async def _make(self, topic: q.Topic) -> None:
        """By whoever has words for it; else the first record makes it."""
        for end in (self._writer, self._reader):
            try:
                await end.ask(q.CreateTopic(topic, 1), r.TopicDescription)
            except CommandFailed as failure:
                if failure.fault is Fault.UNAVAILABLE:
                    raise
            else:
                return


def _verdict(declared: Fate, was: object, found: object) -> tuple[Verdict, str]:
    if declared.way == "given":
        return ("PASS", "") if found else ("FAIL", "the gateway gave none")
    kept = was == found
    if kept is (declared.way not in LOST):
        return "PASS", ""
    return (
        "FAIL",
        "it was lost, and is declared to be kept" if not kept else f"it was kept, and is declared {declared.way}",
    )


class _End:
    """One of the two.  fates: writing and reading.  partitioner: how its clients have a key choose the partition."""

    def __init__(self, subject: Subject) -> None:
        encodings = registry(encoding for name in names() for encoding in load(name).encodings)
        way = Way(subject.dialect, subject.settings, encodings, subject.clock, random.random, subject.login)
        self.backend = RemoteBackend(way, subject.endpoint, subject.name)
        self.partitioner = {"pipe": "fnv1a_32", "iggy": "xxh32"}.get(subject.dialect.name, "fnv1a_64")
        fidelity = subject.dialect.fidelity
        assert fidelity is not None, f"{subject.dialect.name} declares nothing"
        self.fates = fidelity.writing, fidelity.reading
        self._session = q.Session(0)

    async def ask(self, command: q.Command, kind: type[R]) -> R:
        reply = self.backend.execute(command, self._session)
        answer = await reply if isinstance(reply, Deferred) else reply
        assert isinstance(answer, kind), f"{type(answer).__name__} instead of {kind.__name__}"
        return answer
