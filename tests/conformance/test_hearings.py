"""gateway.conformance.hearings and hosts: what is of the case is judged, and everything else is answered, in order."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping

import pytest
from twisted.internet.defer import Deferred

import wire
from gateway.conformance import cases
from gateway.conformance.cases import Case, Closed, Expect, HangUp, Pause, Send, Silence, Step
from gateway.conformance.clients import LOOPBACK, seated
from gateway.conformance.hearings import Hearing
from gateway.conformance.hosts import Playing
from gateway.conformance.patterns import Form, fill, pattern
from gateway.conformance.playing import Ruling
from gateway.core import commands as q
from gateway.core.records import registry
from gateway.core.replies import MapValue, NamespaceDescription, Outcome, Records, TopicDescription
from gateway.dialects import Request, load, names
from gateway.dialects.cursus.terms import Spoken
from gateway.dialects.frames import FrameBuffer
from system.loops import Loop

TOPIC = {"topic": b"t-abcdef"}
T = q.Topic("default", "t-abcdef")
ASKED, OTHER = (
    wire.request("cursus", q.DescribeTopic(topic), None, Spoken("METADATA"))
    for topic in (T, q.Topic("default", "t-uvwxyz"))
)
METADATA: Form = ASKED.hex()
CREATE = q.CreateTopic(T, 1, if_exists=q.IfExists.GROW)
WAITING = q.Fetch(T, 0, 0, 8192, wait=0.3)
LIST = wire.said("cursus", "LIST in an envelope")
HELP, HELPED = (find("cursus", "HELP lists what is served") for find in (wire.said, wire.told))


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with Loop() as loop:
        yield loop


def case(*steps: Step, aside: tuple[str, ...] = ()) -> Case:
    return Case(
        id="CUR-C0.1", dialect="cursus", level="MUST", name="", source="", role="client", steps=steps, aside=aside
    )


def expect(form: Form, on: str = "a", within: float = 2.0, **more: object) -> Expect:
    return Expect(on, pattern(form), within, **more)  # type: ignore[arg-type]


def say(text: str, on: str = "a") -> Send:
    return Send(on, pattern({"frame": text}))


class Stand:
    """A case that is played at a port; the test is the client."""

    def __init__(self, loop: Loop, case: Case, dialect: str = "cursus", given: Mapping[str, bytes] = TOPIC) -> None:
        self._loop = loop
        loop.call(self._begin, case, dialect, given)

    def _begin(self, case: Case, dialect: str, given: Mapping[str, bytes]) -> Deferred[None]:
        async def begin() -> None:
            [self.seat] = await seated(self._loop.reactor, [LOOPBACK])
            spoken = load(dialect)
            encodings = registry(each for name in names() for each in load(name).encodings)
            hearing = Hearing(case, given, spoken, patience=3.0)
            self._playing = Playing(hearing, spoken, spoken.settings(), encodings, self._loop.reactor)
            self.seat.stage.playing = self._playing
            self._playing.begin()

        return Deferred.fromCoroutine(begin())

    def dial(self) -> socket.socket:
        return socket.create_connection((self.seat.host, self.seat.port), 5.0)

    def ruling(self) -> Ruling:
        found = self._loop.call(lambda: self._playing.done)
        self._loop.call(self._playing.close)
        self._loop.call(self.seat.close)
        return found


def told(*texts: str) -> list[bytes]:
    """What a case says to that."""
    return [b"".join(fill(pattern({"frame": text}), {})) for text in texts]


def read(peer: socket.socket, count: int, dialect: str = "cursus") -> list[bytes]:
    """So many whole frames."""
    held, found = FrameBuffer(load(dialect).measure_reply, 1 << 20), list[bytes]()
    while len(found) < count:
        octets = peer.recv(65_536)
        if not octets:
            raise EOFError(found)
        found += held.feed(octets)[0]
    assert (len(found), held.pending) == (count, 0)
    return found


def meant(command: q.Command, answer: bytes, dialect: str = "cursus", tag: object = None) -> Outcome:
    """An answer that a gateway gave."""
    return load(dialect).decode_reply(Request(command, tag), answer, wire.terms(dialect))  # type: ignore[arg-type]


def test_what_is_not_of_the_case_is_answered_as_a_gateway_does(loop: Loop) -> None:
    stand = Stand(loop, case(expect(METADATA), say("OK mine")))
    with stand.dial() as peer:
        peer.sendall(wire.request("cursus", CREATE))
        created = meant(CREATE, *read(peer, 1))
        assert isinstance(created, TopicDescription) and (created.name, len(created.partitions)) == (T.name, 1)
        peer.sendall(ASKED)
        assert read(peer, 1) == told("OK mine")
        assert stand.ruling().verdict == "PASS"


def test_answers_to_what_was_sent_at_once_keep_their_order(loop: Loop) -> None:
    stand = Stand(loop, case(expect(METADATA), say("OK mine"), expect(METADATA), say("OK mine too"), Pause("a", 0.6)))
    with stand.dial() as peer:
        made, waited = (wire.request("cursus", command) for command in (CREATE, WAITING))
        peer.sendall(made + waited + ASKED + HELP + ASKED + HELP)
        created, polled, *answers = read(peer, 6)
        assert isinstance(meant(CREATE, created), TopicDescription) and isinstance(meant(WAITING, polled), Records)
        assert answers == [*told("OK mine"), HELPED, *told("OK mine too"), HELPED]
        assert stand.ruling().verdict == "PASS"


def test_more_of_an_answer_does_not_overtake_its_beginning(loop: Loop) -> None:
    stand = Stand(loop, case(expect(METADATA), say("one"), say("two"), Pause("a", 0.6)))
    with stand.dial() as peer:
        peer.sendall(wire.request("cursus", CREATE) + wire.request("cursus", WAITING) + ASKED)
        assert read(peer, 4)[2:] == told("one", "two")
        assert stand.ruling().verdict == "PASS"


def test_what_is_not_answered_holds_nothing_up(loop: Loop) -> None:
    stand = Stand(loop, case(expect(METADATA), Pause("a", 0.3)))
    with stand.dial() as peer:
        peer.sendall(ASKED + HELP)
        assert read(peer, 1) == [HELPED]
        assert stand.ruling().verdict == "PASS"


@pytest.mark.parametrize(
    ("sent", "verdict"),
    [
        (ASKED, "PASS"),
        (ASKED.replace(b"DATA", b"data"), "LENIENT"),
        (wire.request("cursus", q.DescribeTopic(T)), "LENIENT"),
        (OTHER, "FAIL"),
    ],
)
def test_what_says_the_same_in_other_bytes_is_lenient(loop: Loop, sent: bytes, verdict: str) -> None:
    stand = Stand(loop, case(expect(METADATA)))
    with stand.dial() as peer:
        peer.sendall(sent)
        assert stand.ruling().verdict == verdict


def test_a_form_that_means_something_else_is_lenient_where_the_case_says_so(loop: Loop) -> None:
    stand = Stand(loop, case(expect(METADATA, lenient=(pattern(OTHER.hex()),))))
    with stand.dial() as peer:
        peer.sendall(OTHER)
        assert stand.ruling().verdict == "LENIENT"


def test_what_no_decoder_takes_fails(loop: Loop) -> None:
    stand = Stand(loop, case(expect(METADATA)))
    with stand.dial() as peer:
        peer.sendall(ASKED.replace(b"DATA", b"DOTA"))
        ruling = stand.ruling()
    assert (ruling.verdict, ruling.step, ruling.at) == ("FAIL", 0, ASKED.index(b"ATA"))
    assert "no request of cursus" in ruling.why


def test_what_is_no_frame_fails(loop: Loop) -> None:
    stand = Stand(loop, case(expect(METADATA)))
    with stand.dial() as peer:
        peer.sendall(b"\x7f" + ASKED[1:4])
        ruling = stand.ruling()
    assert (ruling.verdict, ruling.at) == ("FAIL", 0) and "no frame of cursus" in ruling.why


def test_what_the_case_is_about_may_not_come_before_its_turn_unless_it_says_so(loop: Loop) -> None:
    steps = expect(METADATA), say("OK"), expect(LIST.hex()), say("OK")
    for aside, verdict in (((), "FAIL"), (("ListTopics",), "PASS")):
        stand = Stand(loop, case(*steps, aside=aside))
        with stand.dial() as peer:
            peer.sendall(LIST + ASKED + LIST)
            assert stand.ruling().verdict == verdict


def test_connections_are_named_in_the_order_in_which_they_say_what_is_awaited(loop: Loop) -> None:
    stand = Stand(loop, case(expect(METADATA), HangUp("a"), expect(METADATA, "b"), say("OK", "b"), Closed("b", 2.0)))
    with stand.dial() as idle, stand.dial() as first:
        idle.sendall(HELP)
        assert read(idle, 1) == [HELPED]
        first.sendall(ASKED)
        assert first.recv(1) == b""
        with stand.dial() as second:
            second.sendall(ASKED)
            assert read(second, 1) == told("OK")
        ruling = stand.ruling()
    assert (ruling.verdict, ruling.ending) == ("PASS", "closed")


def test_silence_is_of_what_the_case_is_about(loop: Loop) -> None:
    steps = expect(METADATA), say("OK"), Silence("a", 0.3)
    for sent, verdict in ((HELP, "PASS"), (ASKED, "FAIL")):
        stand = Stand(loop, case(*steps))
        with stand.dial() as peer:
            peer.sendall(ASKED)
            read(peer, 1)
            peer.sendall(sent)
            assert stand.ruling().verdict == verdict


def test_a_login_of_the_case_is_a_login_for_what_comes_behind_it(loop: Loop) -> None:
    """G2c alone has a name behind the code of CREATE_STREAM and nothing else."""
    name = "a client logs in and says that it is 0.10.0: apache-iggy 0.8.0"
    login, answer = wire.said("iggy", name), wire.told("iggy", name)
    steps = Expect("a", pattern(login.hex()), 2.0), Send("a", pattern(answer.hex())), Pause("a", 0.3)
    stand = Stand(loop, case(*steps), "iggy")
    with stand.dial() as peer:
        peer.sendall(login + wire.request("iggy", q.CreateNamespace("stre"), generation="g2c"))
        first, made = read(peer, 2, "iggy")
        made_there = load("iggy").decode_reply(
            Request(q.CreateNamespace("stre")), made, wire.terms("iggy", generation="g2c")
        )
        assert first == answer and isinstance(made_there, NamespaceDescription) and made_there.name == "stre"
        assert stand.ruling().verdict == "PASS"


def test_answers_of_a_tagged_dialect_go_to_who_asked(loop: Loop) -> None:
    [of_case] = [each for each in cases.load("grid") if each.id == "GRD-C1.2"]
    awaited, send = of_case.steps
    stand = Stand(loop, case(awaited, Pause("a", 0.2), send), "grid")
    get, size = q.MapGet(T, b"alice"), q.MapSize(T)
    with stand.dial() as peer:
        peer.sendall(wire.request("grid", get, 7) + wire.request("grid", size, 9))
        first, second = read(peer, 2, "grid")
        assert first == wire.reply("grid", Request(size, 9), meant(size, first, "grid", 9))
        assert second == wire.reply("grid", Request(get, 7), MapValue(b"Alice"))
        assert stand.ruling().verdict == "PASS"
