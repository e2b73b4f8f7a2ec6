"""gateway.pipeline.exchanges: what clients of real dialects asked and were told, as their captures tell it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import wire
from capture.recording import Recorded
from gateway.capture.rows import Header, Row
from gateway.core import commands as q
from gateway.core.records import Record, canonical
from gateway.pipeline import exchanges as module
from gateway.pipeline.capture_files import rows_of
from gateway.pipeline.details import details
from gateway.pipeline.exchange import Exchange, Run
from gateway.pipeline.exchanges import Exchanges, Wanted
from net.peers import Client, produce
from pipeline.captured import STARTED, talk

ORDERS = q.Topic("default", "orders")


def heard(node: Recorded, wanted: Wanted | None = None) -> list[Exchange]:
    """All that was captured; ends the capture."""
    node.capture.close()
    made = Exchanges(wanted or Wanted())
    rows = [each for path in node.files() for each in rows_of(path, skip=False, missing=[])]
    return [*(each for header, row in rows for each in made.take(header, row)), *made.rest()]


def of(rows: list[Row]) -> Iterator[Exchange]:
    made = Exchanges(Wanted(content=False, details=False, verdict=False))
    for row in rows:
        yield from made.take(Header("here", "0.1", STARTED, STARTED, {}), row)
    yield from made.rest()


def test_what_was_written_and_read_is_known_by_its_offsets(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "native")
    client = Client(node)
    client.ask(q.CreateTopic(ORDERS, 2))
    client.ask(q.Publish(ORDERS, 1, canonical([Record(b"k", b"v")] * 5)))
    client.ask(q.Publish(ORDERS, 1, canonical([Record(b"k", b"v")] * 2)))
    client.ask(q.Fetch(ORDERS, 1, 3, reader=q.Group("g"), commit=True))
    client.ask(q.CommitOffsets(ORDERS, q.Consumer("c"), {0: 0, 1: 4}))
    client.ask(q.FetchOffsets(ORDERS, q.Group("g")))
    client.ask(q.LatestOffsets(ORDERS))
    client.ask(q.Fetch(ORDERS, 7, 0))
    said = {(each.kind, number): each for number, each in enumerate(heard(node))}
    made, one, two, read, commit, stored, ends, wrong = said.values()
    assert (made.kind, made.topic, made.partition) == ("CreateTopic", "orders", None)
    assert (one.partition, one.records, one.runs, one.ends) == (1, 5, [Run(1, 0, 5)], {1: 5})
    assert (two.runs, two.ends) == ([Run(1, 5, 2)], {1: 7})
    assert (read.reader, read.records, read.runs) == ("group:g", 4, [Run(1, 3, 4)])
    assert (read.committed, read.ends) == ({1: 7}, {1: 7})
    assert (commit.reader, commit.partition, commit.committed) == ("consumer:c", None, {0: 0, 1: 4})
    assert stored.committed == {1: 7} and ends.ends == {0: 0, 1: 7}
    assert (wrong.outcome, wrong.records, wrong.partition) == ("NO_SUCH_PARTITION", 0, 7)


def test_a_batch_that_was_stored_before_wrote_nothing(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "native")
    client = Client(node)
    client.ask(q.CreateTopic(ORDERS, 1, q.TopicSettings(idempotent=True)))
    batch = canonical([Record(b"k", b"v", producer=b"p", sequence=at) for at in (1, 2)])
    for _ in range(2):
        client.ask(q.Publish(ORDERS, 0, batch))
    assert [(each.records, each.runs) for each in heard(node) if each.kind == "Publish"] == [
        (2, [Run(0, 0, 2)]),
        (0, []),
    ]


def test_records_of_a_table_are_counted(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "native")
    client = Client(node)
    users = q.Topic("default", "users")
    asked: list[q.Command] = [
        q.MapPut(users, b"ann", b"1", create=1),
        q.MapPut(users, b"ann", b"2", only=q.IfAbsent()),
        q.MapAdd(users, b"n", 3),
        q.MapGet(users, b"ann"),
        q.MapGet(users, b"bob"),
        q.MapScan(users),
        q.MapRemove(users, b"ann"),
    ]
    for command in asked:
        client.ask(command)
    found = [(each.kind, each.records) for each in heard(node) if each.topic == "users"]
    assert found == list(zip((type(each).__name__ for each in asked), (1, 0, 1, 1, 0, 2, 1), strict=True))


def test_what_is_pushed_is_a_row_of_its_own(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "native")
    writer, reader = Client(node), Client(node)
    writer.ask(q.CreateTopic(ORDERS, 1))
    reader.begin(q.Follow(ORDERS, 0, q.Next(q.Group("g"))))
    for count in (3, 4):
        writer.ask(q.Publish(ORDERS, 0, canonical([Record(b"k", b"v")] * count)))
        node.wait(0.1)
    said = [each for each in heard(node) if each.kind == "Follow"]
    pushed = [each for each in said if each.pushed and each.records]
    assert [(each.runs, each.reader, each.topic, each.bytes_in) for each in pushed] == [
        ([Run(0, 0, 3)], "group:g", "orders", None),
        ([Run(0, 3, 4)], "group:g", "orders", None),
    ]
    (follow,) = [each for each in said if not each.pushed]
    assert (follow.records, follow.outcome) == (0, None) and follow.bytes_in


def test_what_is_no_command_is_told_with_what_is_wrong(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "pipe")
    peer = node.connect()
    peer.send(wire.said("pipe", "a partition that is no number is refused"))
    peer.send(wire.request("pipe", produce(b"k", b"v"), 2))
    peer.read()
    bad, good = heard(node)
    assert (bad.kind, bad.outcome, bad.verdict, bad.details) == ("", "MALFORMED", "FAIL", None)
    assert bad.shape is not None and bad.shape.startswith("refused MALFORMED")
    assert (good.kind, good.outcome, good.verdict) == ("Publish", "Published", "PASS")


def test_an_iggy_send_says_no_offsets(tmp_path: Path) -> None:
    """Its answer is empty: a made-up 0 is not taken for one."""
    node = Recorded(tmp_path, "iggy", generation="g2c")
    client = Client(node)
    client.ask(q.Authenticate("plain", "iggy", "iggy"))
    client.ask(q.CreateNamespace("shop"))
    shop = q.Topic("shop", "orders")
    client.ask(q.CreateTopic(shop, 1))
    client.ask(q.Publish(shop, 0, canonical([Record(None, b"v")])))
    client.ask(q.Fetch(shop, 0, 0, 10, reader=q.Consumer(1)))
    said = heard(node)
    login = next(each for each in said if each.kind == "Authenticate")
    assert login.details is not None and json.loads(login.details) == {"mechanism": "plain", "principal": "iggy"}
    assert login.verdict == "INFO" and b"****" in (login.frame or b"")
    write, read = (next(each for each in said if each.kind == kind) for kind in ("Publish", "Fetch"))
    assert (write.records, write.runs, write.ends) == (1, [], {})
    assert (read.records, read.runs, read.ends) == (1, [Run(0, 0, 1)], {0: 1})


# -- rows that do not fit together


def test_an_answer_whose_request_was_not_captured_counts_from_when_it_was_asked() -> None:
    rows = talk(1, open_=False)
    (late, *_) = of(rows[1:])
    assert (late.kind, late.outcome, late.bytes_in, late.frame, late.peer) == ("Publish", "Published", None, None, None)
    assert late.time == rows[1].time - rows[1].latency


def test_requests_that_are_never_answered_are_told_at_the_end() -> None:
    rows = [row for row in talk(1, close=False) if row.direction != "out"]
    assert [(each.ticket, each.outcome, each.latency) for each in of(rows)] == [(at, None, None) for at in range(3)]
    again = [*talk(1, 1, close=False)[:-1], *talk(1, 1, open_=False)]
    assert [each.outcome for each in of(again)] == [None, "Published"], "one that gets no answer leaves its ticket"


def test_requests_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPEN", 10)
    rows = [row for row in talk(1, 25, close=False) if row.direction != "out"]
    made = Exchanges(Wanted(content=False, details=False, verdict=False))
    early = [each.ticket for row in rows for each in made.take(Header("", "", 0, 0, {}), row)]
    assert early == list(range(15)) and [each.ticket for each in made.rest()] == list(range(15, 25))


def test_a_number_is_given_to_another_connection() -> None:
    """A connection whose end was lost, in a gap; the next one of that number is another."""
    gap = Row(STARTED, 0, "", "", "gap", note="7")
    rows = [*talk(1, 1, close=False), gap, *talk(1, 1)]
    found = list(of(rows))
    assert [each.outcome for each in found if each.missing is None] == ["Published", "Published"]
    assert [(each.missing, each.note, each.kind) for each in found if each.missing] == [("gap", "7", "")]


# -- details


def test_details_tell_no_secret_and_no_value() -> None:
    secret, value = "hunter2", b"what a record holds"
    for command in (
        q.Authenticate("plain", "ann", secret),
        q.Publish(ORDERS, q.ByKey(b"k", "murmur3"), canonical([Record(b"k", value)])),
        q.MapPut(ORDERS, b"k", value, only=q.IfEquals(value)),
    ):
        said = details(command)
        assert secret not in said and "what a" not in said and json.loads(said)


def test_details_are_json_of_whatever_was_asked() -> None:
    command = q.CommitOffsets(q.Topic("\ud800", 7), q.Group("g"), {0: 5, None: 6}, rising=True)
    assert json.loads(details(command)) == {
        "topic": {"namespace": "?", "name": 7},
        "reader": {"kind": "group", "name": "g"},
        "offsets": {"0": 5, "its own": 6},
        "rising": True,
    }
    odd = q.MapGet(ORDERS, b"\xff\x00")
    assert json.loads(details(odd))["key"] == "0xff00"
    assert msgspec.json.decode(details(q.Ping())) == {}
