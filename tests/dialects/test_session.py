"""gateway.dialects.session: order, refusal, closing and deadlines, once for all dialects."""

from __future__ import annotations

import msgspec
import pytest

from gateway import dialects
from gateway.core.commands import Command, Follow, Group, MapGet, Next, Ping, Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical, registry
from gateway.core.replies import Done, MapValue, Outcome
from gateway.dialects import (
    Call,
    ClientSession,
    Dialect,
    Listener,
    Refusal,
    Request,
    ServerSession,
    Settings,
    Tag,
    Terms,
)

# A wire of lines: `tag word`.  PING, GET key, FOLLOW; BAD is refused, END is refused and ends the connection.


def measure(held: bytes | bytearray, start: int, scanned: int) -> int:
    return held.find(b"\n", start + scanned) + 1 - start if held.find(b"\n", start + scanned) >= 0 else 0


def decode_request(frame: bytes, terms: Terms) -> Request | Refusal:
    tag, _, words = frame.decode().strip().partition(" ")
    topic = Topic("default", "t")
    known: dict[str, Command] = {"PING": Ping(), "FOLLOW": Follow(topic, 0, 0)}
    if words.startswith("GET "):
        return Request(MapGet(topic, words[4:].encode()), tag)
    if words in known:
        return Request(known[words], tag)
    return Refusal(CommandFailed(Fault.MALFORMED, words), tag, closing=words == "END")


def encode_reply(request: Request | Refusal, outcome: Outcome, terms: Terms) -> bytes:
    if isinstance(outcome, MapValue) and b"\n" in (outcome.value or b""):
        raise CommandFailed(Fault.UNREPRESENTABLE)
    word = outcome.fault.name if isinstance(outcome, CommandFailed) else type(outcome).__name__
    return f"{request.tag} {word}\n".encode()


def encode_request(request: Request, terms: Terms) -> bytes:
    if not isinstance(request.command, Ping):
        raise CommandFailed(Fault.UNSUPPORTED)
    return f"{request.tag} PING\n".encode()


def decode_reply(request: Request, frame: bytes, terms: Terms) -> Outcome:
    word = frame.decode().split()[1]
    if word == "Done":
        return Done()
    if word in Fault.__members__:
        return CommandFailed(Fault[word])
    raise CommandFailed(Fault.MALFORMED, word)


def reply_tag(frame: bytes) -> Tag:
    return frame.decode().partition(" ")[0]


IN_ORDER = Dialect(
    name="lines",
    port=1,
    tagged=False,
    max_frame=40,
    listener=Listener,
    measure_request=measure,
    measure_reply=measure,
    decode_request=decode_request,
    encode_reply=encode_reply,
    encode_request=encode_request,
    decode_reply=decode_reply,
    faults={fault: fault.name for fault in Fault},
)
TAGGED: Dialect = msgspec.structs.replace(
    IN_ORDER, tagged=True, reply_tag=reply_tag, encode_push=lambda request, batch, terms: b"%d records\n" % batch.count
)


def server(dialect: Dialect = IN_ORDER, **options: object) -> ServerSession:
    return dialect.open(msgspec.convert(options, Settings), registry([])).session()


def client(dialect: Dialect = IN_ORDER, limit: int = 0) -> ClientSession:
    return ClientSession(dialect, Terms(Settings(), registry([])), limit)


def commands(calls: list[Call]) -> list[Command]:
    return [call.request.command for call in calls]


# -- order


def test_answers_leave_in_the_order_of_the_requests() -> None:
    session = server()
    one, two, three = session.receive(b"1 PING\n2 PING\n3 PING\n", 0.0)
    assert session.due == 3
    session.answer(three, Done())
    session.answer(two, Done())
    assert (session.take(), session.due) == (b"", 1)
    assert session.held == len(b"2 Done\n3 Done\n")
    session.answer(one, Done())
    assert session.take() == b"1 Done\n2 Done\n3 Done\n"
    assert (session.take(), session.due, session.held) == (b"", 0, 0)


def test_answers_with_tags_leave_as_they_come() -> None:
    session = server(TAGGED)
    one, two = session.receive(b"1 PING\n2 PING\n", 0.0)
    session.answer(two, Done())
    assert session.take() == b"2 Done\n"
    session.answer(one, Done())
    assert session.take() == b"1 Done\n"
    assert session.due == 0


def test_a_refusal_waits_for_its_turn() -> None:
    session = server()
    [call] = session.receive(b"1 PING\n2 BAD\n", 0.0)
    assert session.take() == b""
    session.answer(call, Done())
    assert session.take() == b"1 Done\n2 MALFORMED\n"
    assert not session.closing


def test_a_refusal_with_a_tag_waits_for_nobody() -> None:
    session = server(TAGGED)
    session.receive(b"1 PING\n2 BAD\n", 0.0)
    assert session.take() == b"2 MALFORMED\n"


def test_answering_twice_is_a_defect() -> None:
    session = server()
    one, two = session.receive(b"1 PING\n2 PING\n", 0.0)
    session.answer(two, Done())
    with pytest.raises(AssertionError, match="ticket 1 answered twice"):
        session.answer(two, Done())
    session.answer(one, Done())
    with pytest.raises(AssertionError, match="ticket 0 answered twice"):
        session.answer(one, Done())


def test_an_answer_that_the_wire_cannot_carry_is_answered_as_that() -> None:
    session = server()
    [call] = session.receive(b"1 GET k\n", 0.0)
    session.answer(call, MapValue(b"a\nb"))
    assert session.take() == b"1 UNREPRESENTABLE\n"


def test_five_thousand_answers_in_reverse_leave_in_order() -> None:
    session = server()
    calls = session.receive(b"".join(b"%d PING\n" % at for at in range(5000)), 0.0)
    for call in reversed(calls):
        session.answer(call, Done())
    assert session.take() == b"".join(b"%d Done\n" % at for at in range(5000))


# -- closing


def test_calls_before_a_bad_frame_are_answered_and_later_ones_never_made() -> None:
    session = server()
    [call] = session.receive(b"1 PING\n2 END\n3 PING\n", 0.0)
    assert session.closing
    assert session.reason == "MALFORMED: END"
    assert session.receive(b"4 PING\n", 0.0) == []
    session.answer(call, Done())
    assert session.take() == b"1 Done\n2 MALFORMED\n"


def test_calls_before_a_frame_that_is_too_long_are_answered() -> None:
    session = server(max_frame=10)
    [call] = session.receive(b"1 PING\n" + b"x" * 11, 0.0)
    session.answer(call, Done())
    assert session.take() == b"1 Done\nNone TOO_LARGE\n"
    assert session.closing
    assert session.receive(b"\n3 PING\n", 0.0) == []


def test_after_a_closing_refusal_nothing_is_said_of_what_follows() -> None:
    session = server()
    session.receive(b"1 END\n" + b"x" * 100, 0.0)
    assert session.take() == b"1 MALFORMED\n"
    assert session.reason == "MALFORMED: END"


def test_the_limit_is_the_dialects_unless_the_listener_has_its_own() -> None:
    for session, longest in ((server(), 40), (server(max_frame=10), 10)):
        assert commands(session.receive(b"1" * (longest - 6) + b" PING\n", 0.0)) == [Ping()]
        assert not session.closing
        assert session.receive(b"1" * (longest - 5) + b" PING\n", 0.0) == []
        assert session.closing


def test_the_end_of_the_stream_ends_the_session_but_not_its_answers() -> None:
    session = server()
    [call] = session.receive(b"1 PING\n2 PI", 0.0)
    assert session.eof() == []
    assert session.closing
    session.answer(call, Done())
    assert session.take() == b"1 Done\n"
    assert session.reason == "the peer finished"


class Forgiving(ServerSession):
    """Takes an unfinished line at the end of the stream for a whole one."""

    def last_words(self, rest: bytes) -> list[Call]:
        return self._calls([rest]) if rest else []


def test_a_dialect_may_make_sense_of_the_last_words() -> None:
    listener = Listener(IN_ORDER, Settings(), registry([]))
    session = Forgiving(listener, listener.terms("127.0.0.1:1"))
    session.receive(b"1 PI", 0.0)
    session.receive(b"NG", 0.0)
    assert commands(session.eof()) == [Ping()]
    assert session.closing


def test_after_closing_there_are_no_last_words() -> None:
    listener = Listener(IN_ORDER, Settings(), registry([]))
    session = Forgiving(listener, listener.terms("127.0.0.1:1"))
    session.receive(b"1 PING", 0.0)
    session.close("told to")
    assert session.eof() == []
    assert session.reason == "told to"


def test_nothing_received_is_nothing_asked() -> None:
    session = server()
    assert session.receive(b"", 0.0) == []
    assert session.receive(b"1 PI", 0.0) == session.receive(b"", 0.0) == []
    assert commands(session.receive(b"NG\n", 0.0)) == [Ping()]


# -- deadlines


def test_the_deadline_of_a_frame_runs_from_its_first_byte() -> None:
    session = server(frame_seconds=10.0)
    session.receive(b"1 PING\n", 0.0)
    session.receive(b"2 P", 100.0)
    session.receive(b"I", 109.0)
    session.tick(110.0)
    assert not session.closing
    session.tick(110.5)
    assert session.closing
    assert session.reason == "a frame was not finished within 10 s"
    assert session.receive(b"NG\n", 111.0) == []


def test_a_frame_that_is_finished_gives_the_next_one_its_own_time() -> None:
    session = server(frame_seconds=10.0)
    session.receive(b"1 P", 0.0)
    session.receive(b"ING\n2 P", 9.0)
    session.tick(18.0)
    assert not session.closing
    session.tick(20.0)
    assert session.closing


def test_silence_between_frames_has_no_deadline() -> None:
    session = server(frame_seconds=10.0)
    session.receive(b"1 PING\n", 0.0)
    session.tick(1e6)
    assert not session.closing


def test_time_that_we_took_ourselves_is_excused() -> None:
    session = server(frame_seconds=10.0)
    session.receive(b"1 P", 0.0)
    session.excuse(50.0)
    session.tick(60.0)
    assert not session.closing
    session.tick(61.0)
    assert session.closing


# -- follows


def test_a_dialect_that_does_not_push_is_not_asked_to() -> None:
    session = server()
    [call] = session.receive(b"1 FOLLOW\n", 0.0)
    with pytest.raises(AssertionError, match="lines does not push"):
        session.push(call, canonical([]))


def test_pushes_leave_as_they_come_and_the_end_of_a_follow_ends_the_session() -> None:
    session = server(TAGGED)
    [call] = session.receive(b"1 FOLLOW\n", 0.0)
    session.push(call, canonical([]))
    session.say(b"alive\n")
    assert session.held == len(b"0 records\nalive\n")
    assert session.take() == b"0 records\nalive\n"
    session.ended(call, CommandFailed(Fault.NO_SUCH_TOPIC, "deleted"))
    assert session.closing
    assert session.reason == "NO_SUCH_TOPIC: deleted"


def test_a_session_that_is_gone_needs_no_farewell() -> None:
    session = server()
    [call] = session.receive(b"1 PING\n", 0.0)
    session.lost()
    session.answer(call, Done())
    assert session.take() == b"1 Done\n"


# -- terms


def test_terms_are_those_of_the_listener_and_of_where_the_client_came_in() -> None:
    listener = IN_ORDER.open(Settings(namespace="sales"), registry([]))
    terms = listener.terms("10.0.0.1:9000")
    assert (terms.namespace, terms.policy, terms.advertise) == ("sales", "replace", "10.0.0.1:9000")
    assert terms.losses is listener.losses
    assert (
        IN_ORDER.open(Settings(advertise="kafka.example:1"), {}).terms("10.0.0.1:9000").advertise == "kafka.example:1"
    )
    assert Terms(Settings(), {}).losses == {}


# -- the client's half


def ping(tag: Tag) -> Request:
    return Request(Ping(), tag)


def test_replies_without_tags_answer_in_order() -> None:
    half = client()
    half.ask(ping("a"))
    half.ask(ping("b"))
    assert half.take() == b"a PING\nb PING\n"
    assert half.take() == b""
    assert half.receive(b"? Done\n?") == [(ping("a"), Done())]
    [(request, outcome)] = half.receive(b" BUSY\n")
    assert request == ping("b")
    assert isinstance(outcome, CommandFailed)
    assert outcome.fault is Fault.BUSY


def test_replies_with_tags_answer_what_they_name() -> None:
    half = client(TAGGED)
    half.ask(ping("a"))
    half.ask(ping("b"))
    assert half.receive(b"b Done\na Done\n") == [(ping("b"), Done()), (ping("a"), Done())]
    assert not half.closing


def test_a_tag_in_use_is_a_defect() -> None:
    half = client(TAGGED)
    half.ask(ping("a"))
    with pytest.raises(AssertionError, match="tag a is in use"):
        half.ask(ping("a"))


def test_what_the_dialect_cannot_say_is_not_asked() -> None:
    half = client()
    with pytest.raises(CommandFailed):
        half.ask(Request(MapGet(Topic("default", "t"), b"k"), "a"))
    assert half.take() == b""
    assert half.lost(CommandFailed(Fault.UNAVAILABLE)) == []


def test_a_reply_that_makes_no_sense_fails_its_request_alone() -> None:
    half = client()
    half.ask(ping("a"))
    half.ask(ping("b"))
    [(_, nonsense), (_, sense)] = half.receive(b"? Hm\n? Done\n")
    assert isinstance(nonsense, CommandFailed)
    assert nonsense.fault is Fault.MALFORMED
    assert sense == Done()
    assert not half.closing


@pytest.mark.parametrize(("dialect", "answer"), [(IN_ORDER, b"? Done\n? Done\n"), (TAGGED, b"a Done\nx Done\n")])
def test_an_answer_to_nothing_fails_what_is_open(dialect: Dialect, answer: bytes) -> None:
    half = client(dialect)
    half.ask(ping("a"))
    if dialect.tagged:
        half.ask(ping("b"))
    [first, *rest] = half.receive(answer)
    assert first == (ping("a"), Done())
    assert half.closing
    assert [type(outcome) for _, outcome in rest] == [CommandFailed] * dialect.tagged


def test_a_reply_beyond_the_limit_fails_what_is_open() -> None:
    half = client(limit=10)
    half.ask(ping("a"))
    half.ask(ping("b"))
    [(_, done), (request, outcome)] = half.receive(b"? Done\n" + b"x" * 11)
    assert done == Done()
    assert request == ping("b")
    assert isinstance(outcome, CommandFailed)
    assert outcome.fault is Fault.TOO_LARGE
    assert half.closing


def test_a_lost_connection_fails_what_is_open_once() -> None:
    half = client(TAGGED)
    half.ask(ping("a"))
    gone = CommandFailed(Fault.UNAVAILABLE, "connection lost")
    assert half.lost(gone) == [(ping("a"), gone)]
    assert half.lost(gone) == []


@pytest.mark.parametrize("name", ["native", "cursus"])
def test_a_client_gets_what_is_pushed_until_it_ends(name: str) -> None:
    dialect = dialects.load(name)
    encodings = registry(dialect.encodings)
    server = dialect.open(dialect.settings(), encodings).session()
    client = ClientSession(dialect, dialect.terms(dialect.settings(), encodings))
    request = Request(Follow(Topic("default", "orders"), 0, Next(Group("g"))), 1 if dialect.tagged else None)
    client.ask(request)
    (call,) = server.receive(client.take(), 0.0)
    server.begun(call)
    for value in (b"a", b"b"):
        server.push(call, canonical([Record(value=value)]).appended(0, 0))
        ((asked, batch),) = client.receive(server.take())
        assert (asked, [record.value for record in batch.records()]) == (request, [value])
    server.ended(call, CommandFailed(Fault.OFFSET_GONE, requested=2, earliest=5, latest=9))
    ((asked, outcome),) = client.receive(server.take())
    assert (asked, outcome.fault) == (request, Fault.OFFSET_GONE)
    assert client.lost(CommandFailed(Fault.UNAVAILABLE)) == []
