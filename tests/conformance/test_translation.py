"""docs/translation.md says what real encoders do: every cell of it, for every pair of dialects."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from gateway import dialects
from gateway.conformance.samples import NOW, PLAIN, SOME, field_of
from gateway.conformance.translation import document, told
from gateway.core.commands import ByKey, Fetch, Publish, Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Header, HeaderKind, Record, RecordBatch, canonical, registry
from gateway.core.replies import Records
from gateway.dialects import ClientSession, Losses, Request
from gateway.dialects.fidelity import FIELDS, KEPT, PLACE, Fate, Fidelity, fates, journey
from gateway.dialects.losses import MOST, lose
from gateway.net.metrics import COUNTED

NAMES = dialects.names()
PAIRS = [(a, b) for a in NAMES for b in NAMES]
ENCODINGS = registry(encoding for name in NAMES for encoding in dialects.load(name).encodings)

SETTINGS: dict[str, dict[str, object]] = {"iggy": {"generation": "g2c"}}
PARTITIONERS = {"pipe": "fnv1a_32", "iggy": "xxh32"}
"""Who says a key by having the partition chosen by it; Iggy says a partition if there is none."""
FIRST_ONLY = {"grid", "mlog"}
"""Who knows the first partition only."""

BASE = 7

UNUSUAL: dict[tuple[str, str], tuple[Record, Record]] = {
    ("pipe", "value"): (Record(None, b"a\nb\rc"), Record(None, b"a b c")),
    ("iggy", "headers"): (
        Record(None, b"v", (Header(b"h", b"x" * 256), Header(b"i", b"y"))),
        Record(None, b"v", (Header(b"i", b"y"),)),
    ),
}
"""What is not kept of a field that is `partly`, by who reads it: a record, and what is seen of it."""


class Seen(NamedTuple):
    """What a reader got, and what was counted on the way."""

    record: Record
    timestamp: int
    offset: int
    partition: int
    losses: Losses


def declared(name: str) -> Fidelity:
    fidelity = dialects.load(name).fidelity
    assert fidelity is not None, name
    return fidelity


def opened(name: str, **said: object) -> dialects.Listener:
    dialect = dialects.load(name)
    return dialect.open(msgspec.convert(SETTINGS.get(name, {}) | said, dialect.settings), ENCODINGS)


def written(name: str, record: Record, partition: int = 0, **said: object) -> tuple[RecordBatch, Losses]:
    """The record as it is stored when a client of that dialect writes it, and what the client lost.

    Raises CommandFailed if either end refuses it.
    """
    client = ClientSession(dialects.load(name), opened(name, **said).terms("localhost:1"))
    by_key = name == "pipe" or (name == "iggy" and record.key)
    to = ByKey(record.key or b"", PARTITIONERS[name]) if by_key else partition
    client.ask(Request(Publish(Topic("default", "t"), to, canonical([record])), 1))
    session = opened(name, **said).session()
    calls = session.receive(client.take(), 0.0)
    for _, refused in client.receive(session.take()):
        assert isinstance(refused, CommandFailed)
        raise refused
    [command] = [call.request.command for call in calls]
    assert isinstance(command, Publish)
    return command.batch.appended(BASE, NOW), +client.terms.losses


def read(name: str, batch: RecordBatch, partition: int = 0, **said: object) -> Seen:
    """What a reader of that dialect sees of it."""
    listener = opened(name, **said)
    session, client = listener.session(), ClientSession(dialects.load(name), listener.terms("localhost:1"))
    client.ask(Request(Fetch(Topic("default", "t"), partition, BASE, 1), 1))
    [call] = session.receive(client.take(), 0.0)
    session.answer(call, Records(partition, 0, BASE + 1, (batch,)))
    [(_, reply)] = client.receive(session.take())
    if isinstance(reply, CommandFailed):
        raise reply
    assert isinstance(reply, Records)
    [(offset, timestamp, record)] = [row for batch in reply.batches for row in batch.rows()]
    return Seen(record, timestamp, offset, reply.partition, +listener.losses)


def attempted(name: str, field: str) -> tuple[RecordBatch, Losses]:
    """A record with that field, written; where the wire refuses it, which may be if it cannot say it, one without."""
    try:
        return written(name, SOME[field])
    except CommandFailed as failure:
        assert (name, field, failure.fault) == ("iggy", "tombstone", Fault.UNREPRESENTABLE)
        return written(name, PLAIN)[0], Losses({("?", name, field): 1})


def counted(field: str, lost: bool, beside: Losses, a: str, b: str) -> Losses:
    """What is to be counted where `beside` is lost of the record without that field."""
    others = {place: times for place, times in beside.items() if place[2] != field}
    return Losses(others | ({(a, b, field): 1} if lost else {}))


def without(field: str) -> Record:
    return SOME["headers"] if field == "header_kinds" else PLAIN


# -- what producers can write


@pytest.mark.parametrize("a", NAMES)
def test_what_can_be_written_is_stored_and_what_cannot_is_counted_by_who_tried(a: str) -> None:
    for field, fate in list(declared(a).writing.items())[: len(FIELDS)]:
        batch, losses = attempted(a, field)
        [record] = batch.records()
        said = fate.way == "kept"
        assert (field_of(field, record) == field_of(field, SOME[field])) is said, field
        assert losses == counted(field, not said, written(a, without(field))[1], "?", a), field


@pytest.mark.parametrize("a", NAMES)
def test_no_wire_says_less_of_what_can_be_written_than_it_is_declared_to(a: str) -> None:
    assert {fate.way for fate in declared(a).writing.values()} <= {"kept", "unsaid", "given"}


# -- what readers see


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])
def test_readers_see_what_the_table_says_and_the_rest_is_counted(a: str, b: str) -> None:
    for field in FIELDS:
        cell = journey(declared(a).writing[field], declared(b).reading[field])
        seen, beside = read(b, attempted(a, field)[0]), read(b, written(a, without(field))[0])
        lost = cell.way in ("dropped", "changed") and not (a == b and cell.way == "dropped")
        assert seen.losses == counted(field, lost, beside.losses, a, b), field
        found = field_of(field, seen.record, seen.timestamp)
        match cell.way:
            case "kept" | "partly":
                assert found == field_of(field, SOME[field]), field
            case "given":
                assert field == "timestamp" and found == NOW
            case _:
                assert found != field_of(field, SOME[field]), field


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])
def test_what_is_partly_seen_is_counted_where_it_is_not(a: str, b: str) -> None:
    for field in FIELDS:
        if journey(declared(a).writing[field], declared(b).reading[field]).way != "partly":
            continue
        record, shown = UNUSUAL[b, field]
        try:
            batch, losses = written(a, record)
        except CommandFailed as failure:
            assert failure.fault is Fault.UNREPRESENTABLE
            continue
        if losses:  # its writer had no place for that either
            assert losses == {("?", a, field): 1}
            continue
        seen = read(b, batch)
        assert field_of(field, seen.record) == field_of(field, shown)
        assert seen.losses[a, b, field] == 1


def test_whatever_is_partly_seen_was_tried_by_somebody() -> None:
    partly = {(b, field) for b in NAMES for field in FIELDS if declared(b).reading[field].way == "partly"}
    assert partly == set(UNUSUAL)
    for b, field in partly:
        assert read(b, written("native", UNUSUAL[b, field][0])[0]).losses["native", b, field] == 1


@pytest.mark.parametrize("b", NAMES)
def test_a_tombstone_is_an_empty_value_wherever_there_are_none(b: str) -> None:
    seen = read(b, written("native", Record(None, None))[0])
    assert seen.record.value == (None if declared(b).reading["tombstone"] == KEPT else b"")


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])
def test_a_record_is_where_it_was_written(a: str, b: str) -> None:
    for partition in (0, 2):
        if partition and {a, b} & FIRST_ONLY:
            with pytest.raises(CommandFailed, match="UNSUPPORTED"):
                read(b, written(a, PLAIN, partition)[0], partition)
            continue
        seen = read(b, written(a, PLAIN, partition)[0], partition)
        assert (seen.offset, seen.partition) == (BASE, partition)


# -- generations of Iggy, which the page has in words


@pytest.mark.parametrize(("generation", "times"), [("g0", False), ("g1b", False), ("g2a", True), ("g2b", True)])
def test_older_readers_of_iggy_see_less(generation: str, times: bool) -> None:
    seen = read("iggy", written("iggy", SOME["origin_timestamp"])[0], generation=generation)
    assert (seen.record.origin_timestamp > 0) is times
    assert seen.losses == ({} if times else {("iggy", "iggy", "origin_timestamp"): 1})
    named = Record(None, b"v", (Header(b"h", b"x", HeaderKind.RAW, HeaderKind.RAW),))
    seen = read("iggy", written("iggy", named)[0], generation=generation)
    assert seen.record.headers == (Header(b"h", b"x"),)
    assert seen.losses == {("iggy", "iggy", "header_kinds"): 1}


BAD_TEXT = Header(b"h", b"a\xff", HeaderKind.TEXT)


@pytest.mark.parametrize(("policy", "shown"), [("replace", "a\ufffd".encode()), ("escape", rb"a\xff")])
def test_text_in_headers_is_made_readable(policy: str, shown: bytes) -> None:
    seen = read("iggy", written("native", Record(None, b"v", (BAD_TEXT,)))[0], policy=policy)
    assert [header.value for header in seen.record.headers] == [shown]
    assert seen.losses == {("native", "iggy", "headers"): 1}


@pytest.mark.parametrize("header", [BAD_TEXT, Header(b"h", b"x" * 256), Header(b"", b"x"), Header(b"\xff", b"x")])
def test_headers_that_cannot_be_carried_may_be_refused(header: Header) -> None:
    with pytest.raises(CommandFailed) as caught:
        read("iggy", written("native", Record(None, b"v", (header,)))[0], policy="reject")
    faults = dialects.load("iggy").faults
    assert faults[caught.value.fault] == faults[Fault.UNREPRESENTABLE]
    whole = Record(None, b"v", (Header(b"h", b"a", HeaderKind.TEXT),))
    assert read("iggy", written("native", whole)[0], policy="reject").losses == {}


# -- the page, and what is declared


def test_the_page_is_what_is_declared() -> None:
    page = Path(__file__).parents[2] / "docs" / "translation.md"
    assert page.read_text() == document(told()), "make docs"


@pytest.mark.parametrize("name", NAMES)
def test_every_dialect_that_ships_declares_what_it_carries(name: str) -> None:
    assert list(declared(name).writing) == list(declared(name).reading) == [*FIELDS, *PLACE]
    assert declared(name).reading["value"].way in ("kept", "partly")


def test_the_fields_are_those_of_a_record() -> None:
    assert set(Record.__struct_fields__) == set(FIELDS) - {"tombstone", "header_kinds"}
    assert set(SOME) == set(FIELDS) <= COUNTED


def test_a_dialect_that_declares_nothing_is_named_on_the_page() -> None:
    page = document({"native": declared("native"), "esperanto": None})
    assert "Nothing is said of `esperanto`." in page
    assert "esperanto" not in document({"native": declared("native")})


def test_a_field_that_is_left_out_or_unheard_of_is_refused() -> None:
    whole = fates(KEPT)
    for bad in ({"value": KEPT}, whole | {"color": KEPT}):
        with pytest.raises(ValueError, match=r"left out or unheard of: \[.*'(key|color)'"):
            Fidelity(writing=bad, reading=whole, by=("w", "r"))


@pytest.mark.parametrize(
    ("writing", "reading", "both"),
    [
        (KEPT, KEPT, KEPT),
        (Fate("kept", "short"), KEPT, Fate("kept", "short")),
        (Fate("kept", "short"), Fate("partly", "odd"), Fate("partly", "short; odd")),
        (Fate("kept", "short"), Fate("kept", "short"), Fate("kept", "short")),
        (KEPT, Fate("changed", "upper"), Fate("changed", "upper")),
        (KEPT, Fate("dropped"), Fate("dropped")),
        (Fate("unsaid"), KEPT, Fate("unsaid")),
        (Fate("given"), KEPT, Fate("given")),
        (Fate("given"), Fate("dropped"), Fate("unsaid")),
    ],
)
def test_a_cell_is_the_product_of_two_declarations(writing: Fate, reading: Fate, both: Fate) -> None:
    assert journey(writing, reading) == both


def test_whatever_writers_call_themselves_the_counter_stays_small() -> None:
    losses: Losses = Counter()
    for at in range(10 * MOST):
        lose(losses, f"made-up-{at}", "pipe", "key")
    assert len(losses) == MOST + 1
    assert losses["?", "pipe", "key"] == 9 * MOST
    assert sum(losses.values()) == 10 * MOST
