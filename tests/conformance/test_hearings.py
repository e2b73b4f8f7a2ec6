"""gateway.conformance.hearings and hosts: what is of the case is judged, and everything else is answered, in order."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence

import pytest
from twisted.internet.defer import Deferred

from gateway.conformance.cases import Case, Closed, Expect, HangUp, Pause, Send, Silence, Step
from gateway.conformance.clients import LOOPBACK, seated
from gateway.conformance.hearings import Hearing
from gateway.conformance.hosts import Playing
from gateway.conformance.patterns import Form, pattern
from gateway.conformance.playing import Ruling
from gateway.core.records import registry
from gateway.dialects import load, names
from system.loops import Loop

TOPIC = {"topic": b"t"}
METADATA: Form = {"frame": "METADATA topic=t"}
CREATE = b"CREATE topic=t partitions=1"
CREATED = b"OK topic=t partitions=1 cleanup_policy=delete"
WAITING = b"CONSUME topic=t partition=0 offset=0 member=m wait_ms=300"


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


def framed(*texts: bytes) -> bytes:
    return b"".join(len(text).to_bytes(4, "big") + text for text in texts)


def read(peer: socket.socket, count: int) -> list[bytes]:
    found = []
    for _ in range(count):
        size = int.from_bytes(exactly(peer, 4), "big")
        found.append(exactly(peer, size))
    return found


def exactly(peer: socket.socket, size: int) -> bytes:
    octets = b""
    while len(octets) < size:
        some = peer.recv(size - len(octets))
        if not some:
            raise EOFError(octets)
        octets += some
    return octets


def begun(octets: Sequence[bytes]) -> list[bytes]:
    return [each[:12] for each in octets]


def test_what_is_not_of_the_case_is_answered_as_a_gateway_does(loop: Loop) -> None:
    stand = Stand(loop, case(expect(METADATA), say("OK mine")))
    with stand.dial() as peer:
        peer.sendall(framed(CREATE))
        assert read(peer, 1)[0].startswith(CREATED)
        peer.sendall(framed(b"METADATA topic=t"))
        assert read(peer, 1) == [b"OK mine"]
        assert stand.ruling().verdict == "PASS"


def test_answers_to_what_was_sent_at_once_keep_their_order(loop: Loop) -> None:
    stand = Stand(loop, case(expect(METADATA), say("OK mine"), expect(METADATA), say("OK mine too"), Pause("a", 0.6)))
    with stand.dial() as peer:
        peer.sendall(framed(CREATE, WAITING, b"METADATA topic=t", b"HELP", b"METADATA topic=t", b"HELP"))
        answers = read(peer, 6)
        assert answers[0].startswith(CREATED) and answers[1].startswith(b"\xba\x7c")
        assert [answers[2], answers[4]] == [b"OK mine", b"OK mine too"]
        assert begun([answers[3], answers[5]]) == [b"OK commands="] * 2
        assert stand.ruling().verdict == "PASS"


def test_more_of_an_answer_does_not_overtake_its_beginning(loop: Loop) -> None:
    stand = Stand(loop, case(expect(METADATA), say("one"), say("two"), Pause("a", 0.6)))
    with stand.dial() as peer:
        peer.sendall(framed(CREATE, WAITING, b"METADATA topic=t"))
        assert read(peer, 4)[2:] == [b"one", b"two"]
        assert stand.ruling().verdict == "PASS"


def test_what_is_not_answered_holds_nothing_up(loop: Loop) -> None:
    stand = Stand(loop, case(expect(METADATA), Pause("a", 0.3)))
    with stand.dial() as peer:
        peer.sendall(framed(b"METADATA topic=t", b"HELP"))
        assert begun(read(peer, 1)) == [b"OK commands="]
        assert stand.ruling().verdict == "PASS"


@pytest.mark.parametrize(
    ("sent", "verdict"),
    [
        (b"METADATA topic=t", "PASS"),
        (b"metadata  topic=t", "LENIENT"),
        (b"\0\0METADATA topic=t", "LENIENT"),
        (b"METADATA topic=u", "FAIL"),
    ],
)
def test_what_says_the_same_in_other_bytes_is_lenient(loop: Loop, sent: bytes, verdict: str) -> None:
    stand = Stand(loop, case(expect(METADATA)))
    with stand.dial() as peer:
        peer.sendall(framed(sent))
        assert stand.ruling().verdict == verdict


def test_a_form_that_means_something_else_is_lenient_where_the_case_says_so(loop: Loop) -> None:
    stand = Stand(loop, case(expect(METADATA, lenient=(pattern({"frame": "METADATA topic=u"}),))))
    with stand.dial() as peer:
        peer.sendall(framed(b"METADATA topic=u"))
        assert stand.ruling().verdict == "LENIENT"


def test_what_no_decoder_takes_fails(loop: Loop) -> None:
    stand = Stand(loop, case(expect(METADATA)))
    with stand.dial() as peer:
        peer.sendall(framed(b"\0\0WHAT topic=t"))
        ruling = stand.ruling()
    assert (ruling.verdict, ruling.step, ruling.at) == ("FAIL", 0, 3)
    assert "no request of cursus" in ruling.why


def test_what_is_no_frame_fails(loop: Loop) -> None:
    stand = Stand(loop, case(expect(METADATA)))
    with stand.dial() as peer:
        peer.sendall(b"\x7f\xff\xff\xff")
        ruling = stand.ruling()
    assert (ruling.verdict, ruling.at) == ("FAIL", 0) and "no frame of cursus" in ruling.why


def test_what_the_case_is_about_may_not_come_before_its_turn_unless_it_says_so(loop: Loop) -> None:
    steps = expect(METADATA), say("OK"), expect({"frame": "LIST"}), say("OK")
    for aside, verdict in (((), "FAIL"), (("ListTopics",), "PASS")):
        stand = Stand(loop, case(*steps, aside=aside))
        with stand.dial() as peer:
            peer.sendall(framed(b"LIST", b"METADATA topic=t", b"LIST"))
            assert stand.ruling().verdict == verdict


def test_connections_are_named_in_the_order_in_which_they_say_what_is_awaited(loop: Loop) -> None:
    stand = Stand(loop, case(expect(METADATA), HangUp("a"), expect(METADATA, "b"), say("OK", "b"), Closed("b", 2.0)))
    with stand.dial() as idle, stand.dial() as first:
        idle.sendall(framed(b"HELP"))
        assert begun(read(idle, 1)) == [b"OK commands="]
        first.sendall(framed(b"METADATA topic=t"))
        assert first.recv(1) == b""
        with stand.dial() as second:
            second.sendall(framed(b"METADATA topic=t"))
            assert read(second, 1) == [b"OK"]
        ruling = stand.ruling()
    assert (ruling.verdict, ruling.ending) == ("PASS", "closed")


def test_silence_is_of_what_the_case_is_about(loop: Loop) -> None:
    steps = expect(METADATA), say("OK"), Silence("a", 0.3)
    for sent, verdict in ((b"HELP", "PASS"), (b"METADATA topic=t", "FAIL")):
        stand = Stand(loop, case(*steps))
        with stand.dial() as peer:
            peer.sendall(framed(b"METADATA topic=t"))
            read(peer, 1)
            peer.sendall(framed(sent))
            assert stand.ruling().verdict == verdict


def test_a_login_of_the_case_is_a_login_for_what_comes_behind_it(loop: Loop) -> None:
    """G2c alone has a name behind the code of CREATE_STREAM and nothing else."""
    login = bytes.fromhex("1c000000260000000469676779046967677906000000302e31302e3000000000")
    steps = Expect("a", pattern(login.hex()), 2.0), Send("a", pattern("00000000 04000000 01000000")), Pause("a", 0.3)
    stand = Stand(loop, case(*steps), "iggy")
    with stand.dial() as peer:
        peer.sendall(login + bytes.fromhex("09000000ca0000000473747265"))
        assert exactly(peer, 12) == bytes.fromhex("000000000400000001000000")
        status, size = exactly(peer, 4), int.from_bytes(exactly(peer, 4), "little")
        assert status == bytes(4) and exactly(peer, size).endswith(b"\4stre")
        assert stand.ruling().verdict == "PASS"


def test_answers_of_a_tagged_dialect_go_to_who_asked(loop: Loop) -> None:
    get = "dc02 {one:4} 0000000a 00 0005 00 05 02 'usersalice'"
    steps = Expect("a", pattern(get), 2.0), Pause("a", 0.2), Send("a", pattern("dc80 {one} 00000000 00 0000 01 00 02"))
    stand = Stand(loop, case(*steps), "grid")
    with stand.dial() as peer:
        size = bytes.fromhex("dc05 00000009 00000005 00 0000 00 05 02") + b"users"
        peer.sendall(bytes.fromhex("dc02 00000007 0000000a 00 0005 00 05 02") + b"usersalice" + size)
        first = exactly(peer, 16)
        assert first[2:6] == bytes.fromhex("00000009")
        exactly(peer, int.from_bytes(first[6:10], "big"))
        assert exactly(peer, 16) == bytes.fromhex("dc80 00000007 00000000 00 0000 01 00 02")
        assert stand.ruling().verdict == "PASS"
