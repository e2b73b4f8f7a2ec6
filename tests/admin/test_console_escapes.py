"""What clients chose never does anything to the terminal of who looks at it (reliability, row 15)."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.seats import Office, Seat, bare, plain, terminal, text
from gateway.admin import shown, words
from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Header, HeaderKind, Record
from gateway.net.meters import FaultSeen

EVIL = {
    "clears the screen": "\x1b[2J",
    "sets the title": "\x1b]0;owned\x07",
    "C1 CSI": "\x9b31m",
    "turns the writing": "\u202eevil\u2066",
    "has no width": "\u200b\u200d\ufeff",
    "line ends": "\r\n\x0b\x0c\x85\u2028\u2029",
    "deletes": "\x08\x7f",
    "a tag": "\U000e0041",
    "a null": "\0",
}

VERBS = [
    "listeners",
    "sessions",
    "topics",
    "topic {topic}",
    "groups",
    "group {group}",
    "records {topic} 0 0",
    "map {topic} {key}",
    "losses",
    "faults",
    "metrics",
    "topic {topic}x",
    "group {group}x",
    "map {topic} {key}x",
    "help {group}",
    "{group}",
]


def haunted(evil: str) -> Office:
    """Everything that a client may choose has it."""
    office = Office()
    topic, octets = q.Topic("default", f"t{evil}"), evil.encode()
    headers = (Header(b"h" + octets, b"v" + octets, HeaderKind.TEXT), Header(b"n", b"\x1b\0\0\0", HeaderKind.INT32))
    office.publish(topic, Record(b"k" + octets, b"v" + octets, headers), Record(b"k\xff\x9b", b"\xff\x9b31m"))
    office.ask(q.CreateNamespace(f"n{evil}"))
    office.ask(q.CreateTopic(q.Topic(f"n{evil}", f"t{evil}"), 1, q.TopicSettings(labels={evil: evil})))
    office.ask(q.JoinGroup(topic, f"g{evil}", f"m{evil}", q.Heartbeats()))
    client = office.client()
    office.node.port.roster  # noqa: B018  # the client is in it
    client.peer.connection.who.principal = f"p{evil}"
    client.peer.connection.who.peer = f"peer{evil}"
    client.ask(q.DescribeTopic(q.Topic("default", f"gone{evil}")))
    office.node.port.faults.add(1, f"l{evil}", 1, f"K{evil}", CommandFailed(Fault.INTERNAL, f"detail{evil}"))
    office.node.listening.listener.losses[f"a{evil}", f"b{evil}", f"c{evil}"] += 1
    return office


def harmful(said: str) -> list[str]:
    """What in it a terminal would obey, or show where it is not."""
    return [ch for ch in said if unicodedata.category(ch) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")]


def lines(evil: str, *, as_json: bool = False) -> list[str]:
    names = {"topic": shown.word(f"t{evil}"), "group": shown.word(f"g{evil}"), "key": shown.word(f"k{evil}")}
    return [line.format(**names) + (" --json" if as_json else "") for line in VERBS]


@pytest.mark.parametrize("evil", list(EVIL.values()), ids=list(EVIL))
def test_nothing_that_a_client_chose_reaches_a_plain_stream_as_it_is(evil: str) -> None:
    for line in lines(evil):
        said = haunted(evil).script(line)
        assert said and not harmful(said.replace("\n", "")), line


@pytest.mark.parametrize("evil", list(EVIL.values()), ids=list(EVIL))
@pytest.mark.parametrize("width", [40, 140])
def test_nor_a_terminal(evil: str, width: int) -> None:
    seat = terminal(haunted(evil), width)
    seat.wire.read()
    for line in lines(evil):
        seat.type(line)
        assert not harmful(re.sub(r"[\r\n]", "", bare(seat))), line


@pytest.mark.parametrize("evil", list(EVIL.values()), ids=list(EVIL))
def test_nor_a_program_and_json_says_what_it_really_was(evil: str) -> None:
    office = haunted(evil)
    for line in lines(evil, as_json=True):
        said = office.script(line)
        assert said.isascii() and not harmful(said.replace("\n", "")), line
        json.loads(said)
    assert office.answer("topics")[1]["topic"] == f"t{evil}"
    assert office.answer(f"records {shown.word(f't{evil}')} 0 0")[0]["headers"][0]["value"] == f"v{evil}"
    assert office.answer("sessions")[0]["principal"] == f"p{evil}"


@pytest.mark.parametrize("evil", list(EVIL.values()), ids=list(EVIL))
def test_nor_what_tab_proposes_and_it_can_be_sent_as_it_stands(evil: str) -> None:
    seat = terminal(haunted(evil), 200)
    seat.wire.read()
    for before in ("topic ", "topic t", "group g", "records ", "tap native "):
        seat.keys(before + "\t\t")
        assert not harmful(re.sub(r"[\r\n]", "", bare(seat))), before
        seat.keys("\x15")
    seat.keys("topic t\t\r\0")
    assert "NO_SUCH_TOPIC" not in seat.raw.decode() and "cleanup" in seat.raw.decode()


@pytest.mark.parametrize("evil", list(EVIL.values()), ids=list(EVIL))
@pytest.mark.parametrize("sit", [plain, terminal])
def test_nor_a_frame_that_is_looked_at(evil: str, sit: type) -> None:
    office = haunted(evil)
    seat: Seat = sit(office)
    seat.wire.read()
    seat.type("tap native")
    client = office.client()
    client.peer.connection.who.dialect = "native"
    client.ask(q.MapPut(q.Topic("default", f"t{evil}"), evil.encode(), evil.encode(), only=q.IfEquals(evil.encode())))
    client.ask(q.CreateTopic(q.Topic(f"x{evil}", evil), 1, q.TopicSettings(labels={evil: evil})))
    client.ask(q.JoinGroup(q.Topic("default", f"t{evil}"), f"g{evil}", f"m{evil}", q.Heartbeats()))
    client.ask(q.Authenticate(f"m{evil}", f"p{evil}", f"s{evil}"))
    office.clock.advance(0.2)
    said = text(seat)
    assert "MapPut" in said and "JoinGroup" in said and not harmful(re.sub(r"[\r\n]", "", said))


def test_a_verb_that_forgets_to_escape_does_no_harm_either() -> None:
    from gateway.admin.answers import Answer, Line
    from gateway.admin.verbs import VERBS as TABLE
    from gateway.admin.verbs import Arguments, Console, verb

    @verb("forgetful", "", "Forgets.")
    async def forgetful(console: Console, arguments: Arguments) -> Answer:
        console._desk.show(Line("\x1b[2Jowned"))  # type: ignore[attr-defined]
        return Answer(sentence="\x1b[2Jowned")

    try:
        assert Office().script("forgetful") == "\\x1b[2Jowned\n" * 2
    finally:
        del TABLE["forgetful"]


@given(st.text(max_size=40), st.text(min_size=1, max_size=40))
def test_every_name_is_harmless_and_can_be_typed_back(namespace: str, name: str) -> None:
    word = shown.topic_name(namespace, name)
    assert not harmful(word)
    [typed] = words.split(word)
    assert words.topic(typed) == q.Topic(namespace, name)
    [typed] = words.split(shown.word(name))
    assert words.name(typed) == name


@given(st.binary(max_size=60))
def test_all_bytes_are_harmless_and_can_be_typed_back(octets: bytes) -> None:
    word = shown.octets(octets)
    assert not harmful(word)
    assert [words.octets(typed) for typed in words.split(f'"{word}"')] == [octets]


@given(st.text(max_size=60))
def test_every_text_is_harmless_in_json_and_in_a_sentence(chosen: str) -> None:
    assert not harmful(shown.harmless(chosen))
    written = shown.encoded({"text": chosen})
    assert written.isascii() and not harmful(written) and json.loads(written) == {"text": chosen}


@given(st.text(max_size=100))
def test_whatever_is_typed_is_words_or_a_sentence(line: str) -> None:
    try:
        for word in words.split(line):
            words.topic(word)
            words.octets(word)
    except words.Wrong as wrong:
        assert str(wrong)


def test_a_fault_is_shown_with_its_detail() -> None:
    office = haunted("\x1b[2J")
    assert all(isinstance(one, FaultSeen) for one in office.view.faults())
    assert "detail\\x1b[2J" in office.script("faults")
