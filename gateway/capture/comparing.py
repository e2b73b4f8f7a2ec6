"""What two answers to one request differ in, but for what two runs cannot have in common.

Answers that are equal to the byte are the same.  Others are compared as what the client's half of the dialect reads
in them; a word that it passes over, such as the text of HELP, is then not compared.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from gateway.capture.reading import Said
from gateway.capture.words import words
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch

MASKED: dict[type, tuple[str, ...]] = {
    Record: ("timestamp", "id"),
    r.Authenticated: ("id",),
    r.NodeDescription: ("node", "version", "durability", "started", "bytes", "sessions", "process"),
    r.SessionDescription: ("id", "listener", "peer", "opened", "memberships", "user"),
    r.Sessions: ("sessions",),
    r.Memberships: ("memberships",),
    r.NamespaceDescription: ("created", "bytes"),
    r.TopicDescription: ("created",),
    r.PartitionDescription: ("created", "bytes"),
    r.GroupDescription: ("generation", "rebalanced"),
    r.MemberDescription: ("heard", "session"),
    r.Joined: ("member", "generation"),
    r.Leader: ("address",),
}
"""Reply -> fields that are another in every run:

times, by the server's clock: timestamp, created, started, opened, rebalanced, heard;
names and numbers that the server makes: of messages that came without one (id), of connections (session, sessions,
memberships, client ids), of users, of members (a name that was asked for with a random ending), generations, which also
rise when a member was slow;
what belongs to the machine, or to the place it is reached at: node, version, durability, process, peer, listener,
address, and how many bytes a store takes for a record.
"""

MASKED_FACTS: dict[Fault, tuple[str, ...]] = {
    Fault.STALE_GENERATION: ("current", "requested"),
    Fault.NOT_OWNER: ("generation",),
}
"""Of failures the same.  Of a failure the fault and its facts are compared, not the sentence."""

_Seen = object


class Names:
    """What the server that is replayed to called what was called otherwise when it was captured.

    to:   captured member -> the one of now.
    generations: (namespace, topic, group, captured generation) -> the one of now.
    """

    def __init__(self) -> None:
        self.to: dict[str, str] = {}
        self.back: dict[str, str] = {}
        self.generations: dict[tuple[str, str, str, int], int] = {}

    def learn(self, group: tuple[str, str, str], captured: r.Joined, now: r.Joined) -> None:
        """Both are answers to one JoinGroup."""
        if captured.member != now.member:
            self.to[captured.member] = now.member
            self.back[now.member] = captured.member
        self.generations[*group, captured.generation] = now.generation

    def captured(self, text: str) -> str:
        """A text of now in the names that were captured."""
        for name, before in self.back.items():
            text = text.replace(name, before)
        return text


def difference(captured: Said, now: Said, names: Names) -> str:
    """Where they differ first and how, in a line; "" = they do not."""
    return _differ(_bare(captured, Names()), _bare(now, names), type(captured).__name__)


def records(batch: RecordBatch) -> list[_Seen]:
    """What of the records of a batch can be compared."""
    return [_row(offset, record) for offset, _, record in batch.rows()]


def first_of(captured: list[_Seen], now: list[_Seen]) -> str:
    """Where two lists of `records` differ first, as far as both go."""
    pairs = enumerate(zip(captured, now, strict=False))
    return next((found for at, (one, other) in pairs if (found := _differ(one, other, f"records[{at}]"))), "")


# -- values without what is masked: dicts, lists and what has no parts


def _bare(value: object, names: Names) -> _Seen:
    match value:
        case CommandFailed():
            return _failure(value, names)
        case r.Records():
            rows = [row for batch in value.batches for row in records(batch)]
            return {
                "": "Records",
                "partition": value.partition,
                "start": value.start,
                "end": value.end,
                "records": rows,
            }
        case r.GroupDescription():
            members = [_bare(member, names) for member in value.members]
            return {**_fields(value, names), "members": sorted(members, key=repr)}
        case RecordBatch():
            return records(value)
        case enum.Enum():
            return value.name
        case msgspec.Struct():
            return _fields(value, names)
        case Mapping():
            return {str(key): _bare(each, names) for key, each in value.items()}
        case tuple() | list():
            return [_bare(each, names) for each in value]
        case str():
            return names.captured(value)
    return value


def _fields(value: msgspec.Struct, names: Names) -> dict[str, _Seen]:
    masked = MASKED.get(type(value), ())
    kept = [name for name in type(value).__struct_fields__ if name not in masked]
    return {"": type(value).__name__, **{name: _bare(getattr(value, name), names) for name in kept}}


def _failure(failure: CommandFailed, names: Names) -> _Seen:
    masked = MASKED_FACTS.get(failure.fault, ())
    facts = {name: _bare(fact, names) for name, fact in failure.facts.items() if name not in masked}
    return {"": failure.fault.name, **facts}


def _row(offset: int, record: Record) -> _Seen:
    return {"offset": offset, **_fields(record, Names())}


def _differ(captured: _Seen, now: _Seen, where: str) -> str:
    if isinstance(captured, dict) and isinstance(now, dict) and captured.get("") == now.get(""):
        for name in {**captured, **now}:  # in the order of the fields
            if found := _differ(captured.get(name), now.get(name), f"{where}.{name}"):
                return found
        return ""
    if isinstance(captured, list) and isinstance(now, list):
        for at, (one, other) in enumerate(zip(captured, now, strict=False)):
            if found := _differ(one, other, f"{where}[{at}]"):
                return found
        count = f"{where}: {len(captured)} were captured, {len(now)} came now"
        return "" if len(captured) == len(now) else count
    return "" if captured == now else f"{where}: {_told(captured)} was captured, {_told(now)} came now"


def _told(value: _Seen) -> str:
    return str(value[""]) if isinstance(value, dict) and "" in value else words(value)
