"""gateway.conformance.clients: a client that is right passes, and one that is not is caught where it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
import pytest
from twisted.internet.defer import Deferred

import wire
from conformance.small_clients import (
    Client,
    Clipped,
    Cursus,
    Dead,
    Deaf,
    Forward,
    Hasty,
    Iggy,
    LittleEndian,
    Mistaken,
    OneTooFew,
    OneTooMany,
    Slow,
    Stale,
    Sullen,
    Swapped,
)
from gateway.conformance.cases import Case, Expect, load
from gateway.conformance.clients import AT_ONCE, LOOPBACK, ClientJudge, Kind, judge_clients, seated
from gateway.conformance.playing import Way
from gateway.conformance.prompts import Asked
from gateway.conformance.results import Result
from gateway.core import commands as q
from gateway.dialects import load as dialect_of
from system.loops import Loop


class Program:
    """Has a small client do what a driver would."""

    def __init__(self, client: type[Client]) -> None:
        self._client = client

    def begin(self, asked: Asked, remark: Callable[[str], None]) -> Callable[[], None]:
        return self._client(asked).stop


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with Loop() as loop:
        yield loop


def case_of(id: str) -> Case:
    dialect = {"CUR": "cursus", "IGY": "iggy"}[id[:3]]
    return next(case for case in load(dialect) if case.id == id)


def judged(loop: Loop, client: type[Client], *ids: str, ways: Sequence[Way] = ("whole",)) -> list[Result]:
    cases = [case_of(id) for id in ids]
    dialect = dialect_of(cases[0].dialect)
    settings = msgspec.convert({"generation": "g2c"} if dialect.name == "iggy" else {}, dialect.settings)

    async def judge() -> list[Result]:
        seats = await seated(loop.reactor, [LOOPBACK] * AT_ONCE)
        try:
            kind = Kind(dialect, settings, patience=3.0)
            return await ClientJudge(kind, Program(client), seats, loop.reactor, ways=ways).judge(cases)
        finally:
            for seat in seats:
                await seat.close()

    return loop.call(lambda: Deferred.fromCoroutine(judge()))


CURSUS = ["C1.1", "C1.3", "C2.1", "C2.2", "C2.7", "C2.9", "C3.1", "C3.3", "C3.5", "C3.6", "C4.1", "C4.4", "C4.5"]
CURSUS += ["C4.6", "C4.9", "C4.10", "C4.11"]
IGGY = ["C1.1", "C1.2", "C1.3", "C1.6", "C1.7"]


def test_clients_that_are_right_pass_however_the_answers_are_cut(loop: Loop) -> None:
    found = judged(loop, Cursus, *(f"CUR-{id}" for id in CURSUS), ways=("whole", "bytes"))
    found += judged(loop, Iggy, *(f"IGY-{id}" for id in IGGY), ways=("whole", "bytes"))
    assert {each.case.id: (each.verdict, each.why) for each in found if each.verdict != "PASS"} == {}


def place(frame: bytes, what: bytes) -> int:
    return frame.index(what)


DEFECTS: list[tuple[str, type[Client], str, Callable[[bytes], int]]] = [
    ("wrong endian", LittleEndian, "CUR-C2.9", lambda frame: 4 + 2 + 2 + 8),
    ("length one too large", OneTooMany, "CUR-C1.1", lambda frame: 3),
    ("length one too small", OneTooFew, "CUR-C1.1", lambda frame: 3),
    ("missing trailing byte", Clipped, "IGY-C1.6", len),
    ("wrong command code", Mistaken, "IGY-C1.7", lambda frame: 4),
    ("swapped fields", Swapped, "IGY-C1.3", lambda frame: 8),
    ("request before login", Forward, "IGY-C1.2", lambda frame: 4),
    ("answers ignored: the offset stays", Deaf, "CUR-C4.5", lambda frame: place(frame, b"offset=") + len("offset=")),
    ("stale generation", Stale, "CUR-C4.11", lambda frame: place(frame, b"generation=") + len("generation=")),
]


@pytest.mark.parametrize(("client", "id", "at"), [each[1:] for each in DEFECTS], ids=[each[0] for each in DEFECTS])
def test_a_client_that_sends_other_bytes_is_caught_and_the_byte_is_pointed_at(
    loop: Loop, client: type[Client], id: str, at: Callable[[bytes], int]
) -> None:
    [found] = judged(loop, client, id)
    ruling = found.ruling
    assert found.verdict == "FAIL" and ruling is not None, found
    assert (ruling.at, ruling.step) == (at(ruling.got), _awaited(found)), (ruling.why, ruling.wanted, ruling.got)


def _awaited(found: Result) -> int:
    """The step that was not met is one that awaits something."""
    assert found.ruling is not None
    return found.ruling.step if isinstance(found.case.steps[found.ruling.step], Expect) else -2


@pytest.mark.parametrize(
    ("client", "id", "why"),
    [
        (Slow, "CUR-C4.9", "nothing came within 1.5 s"),
        (Dead, "CUR-C4.9", "nothing came within 1.5 s"),
        (Deaf, "CUR-C3.1", "Publish came, which should not"),
        (Hasty, "CUR-C3.5", "not before 0.05 s have passed"),
        (Sullen, "CUR-C3.5", "nothing came within 4 s"),
    ],
    ids=["heartbeat too late", "heartbeat never", "ack ignored", "no backoff", "no reconnect"],
)
def test_a_client_that_does_the_wrong_thing_is_caught(loop: Loop, client: type[Client], id: str, why: str) -> None:
    [found] = judged(loop, client, id)
    assert found.verdict == "FAIL" and why in found.why, found


def test_a_person_is_told_what_to_do_and_what_is_waited_for(loop: Loop) -> None:
    asked: list[Asked] = []
    clients: list[Client] = []

    def guide(now: Asked) -> None:
        for earlier in clients:
            earlier.stop()
        asked.append(now)
        clients.append(Cursus(now))

    async def judge() -> list[Result]:
        kind = Kind(dialect_of("cursus"), dialect_of("cursus").settings())
        return await judge_clients(loop.reactor, kind, [case_of("CUR-C1.1"), case_of("CUR-C3.1")], LOOPBACK, guide)

    found = loop.call(lambda: Deferred.fromCoroutine(judge()))
    assert [each.verdict for each in found] == ["PASS", "PASS"]
    topic = str(asked[0].calls[0]["topic"])  # type: ignore[index]
    assert asked[0].ask == f"Make a producer of the topic {topic}, which is to have two partitions."
    created = wire.request("cursus", q.CreateTopic(q.Topic("default", topic), 2, if_exists=q.IfExists.GROW))
    assert bytes.fromhex(asked[0].waits) == created
