"""gateway.admin.console over telnet: what a person, a program and a stranger may rely on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs, formatEvent

from admin.seats import (
    DO,
    DONT,
    DOWN,
    ECHO,
    ELSEWHERE,
    HERE,
    IAC,
    LEFT,
    NAWS,
    SB,
    SE,
    SGA,
    TAB,
    UP,
    WILL,
    Office,
    Seat,
    bare,
    plain,
    size,
    terminal,
    text,
)
from gateway.admin import view
from gateway.admin.answers import Answer
from gateway.admin.console import CROWDED, MAX_DESKS, STOPPING, STRANGER
from gateway.admin.conversation import DELAY, NO_TURN, PATIENCE, TRIES, TURN_SECONDS
from gateway.admin.desk import CLOSE_SECONDS, MAX_AHEAD
from gateway.admin.editor import MAX_HISTORY, MAX_LINE
from gateway.admin.verbs import VERBS, Arguments, Console, verb
from gateway.core import commands as q
from gateway.core.records import Record
from gateway.core.replies import Done
from gateway.net.attempts import LONGEST
from gateway.net.users import User, new_password
from net.peers import Scripted

ORDERS = q.Topic("default", "orders")
RETURNS = q.Topic("shop", "returns")
SECRET = "correct horse"
ANN = User("ann", 1, new_password(SECRET, log_n=4))


@pytest.fixture
def office() -> Office:
    return Office()


@pytest.fixture
def shop() -> Office:
    """With records, a map, a group and somebody connected."""
    office = Office()
    for number in range(5):
        office.publish(ORDERS, Record(b"user%d" % number, b"order %d" % number), partition=number % 2)
    office.ask(q.CreateNamespace("shop"))
    office.ask(q.CreateTopic(RETURNS, 3))
    office.ask(q.MapPut(q.Topic("default", "users"), b"user1", b"Ann", create=1))
    client = office.client()
    client.ask(q.JoinGroup(ORDERS, "billing", "", q.WhileConnected()))
    client.ask(q.CommitOffsets(ORDERS, q.Group("billing"), {0: 1, 1: 2}))
    client.ask(q.DescribeTopic(q.Topic("default", "gone")))
    return office


@pytest.fixture
def one_more() -> Iterator[None]:
    """A verb that nothing else knows of."""

    async def one_of_two(view: object) -> list[str]:
        return ["left", "right"]

    @verb("turn", "WAY", "Turns somewhere.", one_of_two, confirms=True)
    async def turn(console: Console, arguments: Arguments) -> Answer:
        return Answer(sentence=f"turned {' '.join(arguments)}")

    yield
    del VERBS["turn"]


# -- a program


def test_a_program_that_pipes_its_lines_in_gets_the_answers_and_not_a_byte_more(shop: Office) -> None:
    assert shop.script("topics orders") == (
        "TOPIC   PARTITIONS  RECORDS  BYTES  ID  CREATED (UTC)\n"
        "orders           2        5  170 B   1  2027-01-15 08:00:00\n"
    )


def test_every_line_is_answered_before_the_console_hangs_up(shop: Office) -> None:
    seat = Seat(shop)
    seat.send(b"map users user1\nmap users user2\nmap users user1")
    seat.finish()
    assert seat.read() == "key    user1\nvalue  Ann\nkey    user2\nvalue  (none)\nkey    user1\nvalue  Ann\n"
    assert seat.left


def test_it_may_send_a_line_in_pieces(shop: Office) -> None:
    seat = Seat(shop)
    for octet in b"map users user1\r\n":
        seat.send(bytes([octet]))
    assert seat.read() == "key    user1\nvalue  Ann\n"


READS = {
    "listeners": lambda told: told[0]["name"] == "test" and told[0]["commands"] == 3,
    "sessions": lambda told: told[0]["dialect"] == "native" and told[0]["principal"] is None,
    "sessions native": lambda told: len(told) == 1,
    "sessions nobody": lambda told: told == [],
    "topics": lambda told: [one["name"] for one in told] == ["shop/returns", "orders", "users"],
    "topics shop/": lambda told: [one["topic"] for one in told] == ["returns"],
    "topic orders": lambda told: told["records"] == 5 and [at["end"] for at in told["partitions"]] == [3, 2],
    "topic shop/returns": lambda told: told["namespace"] == "shop" and len(told["partitions"]) == 3,
    "groups": lambda told: told[0]["group"] == "billing" and told[0]["lag"] == 2,
    "groups b": lambda told: len(told) == 1,
    "group billing": lambda told: told["lag"] == 2 and told["members_now"][0]["assignment"] == [0, 1],
    "group billing orders": lambda told: told["topic"] == "orders",
    "records orders 0 1": lambda told: [one["value"] for one in told] == ["order 2", "order 4"],
    "records orders 0 1 1": lambda told: [one["offset"] for one in told] == [1],
    "records orders 0 9": lambda told: told == [],
    "map users user1": lambda told: told == {"key": "user1", "value": "Ann"},
    "map orders user3": lambda told: told["value"] == "order 3",
    "losses": lambda told: told == [],
    "faults": lambda told: [(one["kind"], one["fault"]) for one in told] == [("DescribeTopic", "NO_SUCH_TOPIC")],
    "metrics": lambda told: told["records"] == 6 and {one["command"] for one in told["commands"]} >= {"JoinGroup"},
    "help": lambda told: [one["verb"] for one in told] == list(VERBS),
    "help tap": lambda told: told["usage"] == "ID|DIALECT [COMMAND|TOPIC]",
}


@pytest.mark.parametrize("line", list(READS))
def test_every_read_verb_answers_programs_in_json(shop: Office, line: str) -> None:
    assert READS[line](shop.answer(line))


@pytest.mark.parametrize("line", list(READS))
@pytest.mark.parametrize("width", [40, 80, 140])
def test_every_read_verb_answers_people_within_the_width_of_their_terminal(shop: Office, line: str, width: int) -> None:
    seat = terminal(shop, width)
    text(seat)
    seat.type(line)
    rows = [row for row in bare(seat).splitlines() if not row.startswith("gateway> ")]
    assert rows and all(len(row) <= width for row in rows), rows


WRONG = {
    "topic": "usage: topic NAME",
    "topic a b": "usage: topic NAME",
    "topic gone": "NO_SUCH_TOPIC: gone",
    "records orders 0": "usage: records TOPIC PARTITION OFFSET [N]",
    "records orders x 0": "PARTITION is a whole number, not x",
    "records orders 7 0": "NO_SUCH_PARTITION: the topic has no such partition",
    "records orders 0 0 1001": "N is from 1 to 1000",
    "group nobody": "NO_SUCH_GROUP: nobody",
    "kick 4711": "there is no session 4711",
    "kick me": "ID is a whole number, not me",
    "tap 4711": "there is no session 4711",
    "tap morse": "there is no session, dialect or listener morse",
    "topcis": "no such verb: topcis; did you mean topics? (`help` lists them)",
    "help topcis": "no such verb: topcis; did you mean topics? (`help` lists them)",
    'topic "or': 'a " has no second one',
    "topic or\\": "nothing follows the last \\",
    "topic \\xff": "a name is text, and those bytes are no UTF-8",
}


@pytest.mark.parametrize("line", list(WRONG))
def test_what_cannot_be_is_answered_with_a_sentence(shop: Office, line: str) -> None:
    said = shop.script(line, "map users user1")
    assert said.splitlines()[0] == WRONG[line]
    assert said.endswith("value  Ann\n"), "the talk goes on"


def test_a_program_is_told_what_was_wrong_in_json(shop: Office) -> None:
    assert shop.answer("topic gone") == {"fault": "NO_SUCH_TOPIC", "detail": "gone"}
    assert shop.answer("topic") == {"fault": "WRONG", "detail": "usage: topic NAME"}


def test_names_with_spaces_slashes_and_bytes_can_be_typed_as_they_are_shown(office: Office) -> None:
    names = [
        ("default", "a b"),
        ("default", "c/d"),
        ("my shop", "e"),
        ("x/y", "f/g"),
        ("default", '"q\\'),
        ("z", "\x1b"),
    ]
    for namespace, name in names:
        if namespace != "default":
            office.ask(q.CreateNamespace(namespace))
        office.ask(q.CreateTopic(q.Topic(namespace, name), 1))
    listed = office.answer("topics")
    assert {(one["namespace"], one["topic"]) for one in listed} == set(names)
    for one in listed:
        found = office.answer(f"topic {one['name']}")
        assert (found["namespace"], found["topic"]) == (one["namespace"], one["topic"])


# -- a person


def test_a_person_with_a_netcat_is_greeted_and_prompted_without_an_escape(shop: Office) -> None:
    seat = plain(shop)
    greeting = seat.wire.read()
    assert greeting.startswith(IAC), "a terminal is offered"
    said = greeting[greeting.index(b"polyglot") :]
    assert b"durability memory" in said and said.endswith(b"\r\ngateway> ")
    seat.send(b"map users user1\n")
    assert seat.read() == "key    user1\r\nvalue  Ann\r\ngateway> "


def test_a_terminal_is_edited_on_and_titles_are_bold(shop: Office) -> None:
    seat = terminal(shop)
    assert "durability memory" in text(seat)
    said = seat.type("topics orders")
    assert "topics orders" in said, "the console echoes"
    assert "\x1b[1mTOPIC   PARTITIONS" in said


def test_a_client_that_waits_to_be_offered_a_terminal_gets_one(shop: Office) -> None:
    seat = Seat(shop)
    shop.clock.advance(0.3)
    offered = seat.wire.read()
    assert set(offered.split(IAC)[1:]) == {WILL + ECHO, WILL + SGA, DO + NAWS}
    seat.send(IAC + DO + ECHO + IAC + DO + SGA + IAC + WILL + NAWS + size(120))
    assert "gateway>" in text(seat)
    seat.keys("topics\r\0")
    assert "BYTES" in seat.raw.decode()


def test_a_client_that_refuses_the_terminal_gets_plain_lines(shop: Office) -> None:
    seat = Seat(shop)
    shop.clock.advance(0.3)
    seat.send(IAC + DONT + ECHO + IAC + DO + SGA)
    shop.clock.advance(0.3)
    seat.wire.read()
    seat.send(b"map users user1\r\n")
    assert seat.read() == "key    user1\r\nvalue  Ann\r\ngateway> "


def test_a_terminal_that_changes_its_width_gets_tables_that_fit(shop: Office) -> None:
    seat = terminal(shop, 140)
    seat.type("listeners")
    assert "no room" not in seat.raw.decode()
    seat.send(size(40))
    seat.type("listeners")
    assert "(no room for TLS" in seat.raw.decode()


def test_lines_that_were_typed_come_back(shop: Office) -> None:
    seat = terminal(shop)
    seat.type("map users user1", "map users user2")
    seat.keys(UP)
    assert seat.shown() == "gateway> map users user2"
    seat.keys(UP)
    assert seat.shown() == "gateway> map users user1"
    seat.keys(DOWN)
    assert seat.shown() == "gateway> map users user2"
    seat.keys(DOWN)
    assert seat.shown() == "gateway> "
    seat.keys(UP + UP + "\r\0")
    assert "Ann" in seat.raw.decode()


def test_no_more_lines_are_remembered_than_somebody_looks_for(office: Office) -> None:
    seat = terminal(office)
    for number in range(MAX_HISTORY + 50):
        seat.type(f"nothing{number}")
    for _ in range(MAX_HISTORY + 50):
        seat.keys(UP)
    assert seat.keys("x") and seat.shown() == "gateway> nothing50x"
    for _ in range(1000):
        seat.keys("y" + UP + DOWN + DOWN)
    assert len(seat.protocol.desk._editor.historyLines) <= MAX_HISTORY


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ("toppics" + LEFT * 3 + "\x7f", "topics"),
        ("topics\x01x\x05y", "xtopicsy"),
        ("topics orders\x17", "topics "),
        ("topics orders\x15groups", "groups"),
        ("topics orders" + LEFT * 7 + "\x0b", "topics"),
        ("topics" + LEFT * 6 + "\x04", "opics"),
        ("topics" + "\x1b[H\x1b[3~\x1b[Fs", "opicss"),
        ("topic für日本" + LEFT * 2 + "\x7f", "topic fü日本"),
        ("topic für日本\x7f", "topic für日"),
        ("a\x00\x07\x1b[15~\x1b[99~\x1bOP\x1bxb", "ab"),
        ("abc\x1b[2~" + LEFT + "x", "abxc"),
    ],
)
def test_a_line_is_edited_as_on_any_terminal(office: Office, keys: str, line: str) -> None:
    seat = terminal(office)
    seat.keys(keys)
    assert seat.shown() == f"gateway> {line}"


def test_a_key_that_never_ends_is_forgotten(office: Office) -> None:
    seat = terminal(office)
    seat.keys("\x1b[" + "9" * 10_000)
    seat.keys("\x15topics")
    assert seat.shown() == "gateway> topics"


def test_a_line_longer_than_the_terminal_slides_and_never_wraps(office: Office) -> None:
    seat = terminal(office, 40)
    line = "".join(f"{number:03} " for number in range(50))
    seat.keys(line)
    assert seat.shown() == "gateway> " + line[-30:]
    seat.keys("\x01")
    assert seat.shown() == "gateway> " + line[:30]
    seat.keys("\x05\r\0")
    assert "no such verb: 000" in seat.raw.decode()


def test_a_line_has_an_end(office: Office) -> None:
    seat = terminal(office)
    seat.keys("x" * (MAX_LINE + 500))
    seat.keys("\r\0")
    assert f"no such verb: {'x' * 50}" in seat.raw.decode() and seat.raw.count(b"x") < MAX_LINE + 50
    other = plain(office)
    other.send(b"y" * (MAX_AHEAD * 2))
    assert "A line has at most" in text(other) and other.left


def test_pasting_much_is_echoed_once_and_not_at_every_key(office: Office) -> None:
    seat = terminal(office)
    seat.keys("x" * MAX_LINE)
    assert len(seat.raw) < 300


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("lis", "listeners "),
        ("to", "topic"),
        ("topic o", "topic orders "),
        ("topic shop", "topic shop/returns "),
        ("group ", "group billing "),
        ("group billing o", "group billing orders "),
        ("records u", "records users "),
        ("tap na", "tap native "),
        ("tap native Publ", "tap native Publish "),
        ("kick 1 ", "kick 1 yes "),
        ("drain ", "drain yes "),
        ("topics --", "topics --json "),
        ("help drai", "help drain "),
        ("nothing x", "nothing x"),
        ('topic "x', 'topic "x'),
        ("records orders 0 ", "records orders 0 "),
    ],
)
def test_tab_completes_verbs_topics_groups_and_sessions(shop: Office, typed: str, shown: str) -> None:
    seat = terminal(shop)
    seat.keys(typed + TAB)
    assert seat.shown() == f"gateway> {shown}"


def test_tab_lists_what_there_is_where_it_cannot_go_on(shop: Office) -> None:
    seat = terminal(shop)
    said = seat.keys("topic " + TAB)
    assert "shop/returns" in said and "users" in said and seat.shown() == "gateway> topic "


def test_tab_lists_a_hundred_thousand_names_no_longer_than_a_screen(office: Office) -> None:
    for number in range(500):
        office.ask(q.CreateTopic(q.Topic("default", f"t{number}"), 1))
    seat = terminal(office)
    assert "... and 440 more" in seat.keys("topic " + TAB + TAB)


def test_ctrl_c_drops_the_line_and_ctrl_d_leaves(shop: Office) -> None:
    seat = terminal(shop)
    seat.keys("drain yes\x03")
    assert seat.keys("\r\0") and not shop.stopped
    assert not seat.left
    seat.keys("\x04")
    assert seat.left


def test_quit_leaves(shop: Office) -> None:
    seat = terminal(shop)
    seat.type("quit")
    assert seat.left
    shop.clock.advance(CLOSE_SECONDS)
    assert seat.wire.disconnected, "who does not read the rest is hung up on"


def test_what_is_typed_ahead_waits_its_turn(shop: Office) -> None:
    backend = Scripted()
    office = Office(backend=backend)
    seat = terminal(office)
    seat.keys("topic a\r\0topic b\r\0")
    assert [command.topic.name for command in backend.asked] == ["a"]
    seat.keys("x" * (MAX_AHEAD + 1))
    assert seat.wire.producerState == "paused", "who types too far ahead is not read"
    backend.answer(Done(), 1)  # no description, which is a defect of the backend
    office.settle()
    assert [command.topic.name for command in backend.asked] == ["a", "b"]


def test_ctrl_c_gives_up_a_verb_that_takes_long(shop: Office) -> None:
    backend = Scripted()
    office = Office(backend=backend)
    seat = terminal(office)
    seat.keys("topic a\r\0")
    assert "stopped" in seat.keys("\x03")
    assert "VERB" in seat.type("help")


def test_a_verb_that_is_never_answered_is_given_up() -> None:
    office = Office(backend=Scripted())
    seat = plain(office)
    seat.read()
    seat.send(b"topic a\n")
    office.clock.advance(PATIENCE)
    office.settle()
    assert seat.read() == f"there was no answer within {PATIENCE:g} s\r\ngateway> "


def test_a_defect_ends_the_verb_and_not_the_talk() -> None:
    backend = Scripted({q.DescribeTopic: ZeroDivisionError()})
    with capturedLogs() as logs:
        said = Office(backend=backend).script("topic a", "help quit")
    assert said.startswith("a defect in the gateway; see its log\n") and "quit" in said
    assert any("a verb failed" in (formatEvent(event) or "") for event in logs)


# -- what happens


def test_kick_asks_first_and_then_hangs_up_on_that_connection_alone(shop: Office) -> None:
    first, second = shop.view.sessions()[0].id, 0
    shop.client()
    second = shop.view.sessions()[1].id
    assert f"Type `kick {first} yes`" in shop.script(f"kick {first}")
    assert len(shop.view.sessions()) == 2
    assert "say `yes` or nothing" in shop.script(f"kick {first} no")
    kicked = []
    for connection in shop.node.port.connections:
        connection.abort = lambda number=connection.who.id: kicked.append(number)  # type: ignore[method-assign]
    assert shop.script(f"kick {second} yes") == f"Hung up on {second}, native from local.\n" or kicked == [second]
    assert kicked == [second]


def test_drain_asks_first_and_then_ends_the_gateway(shop: Office) -> None:
    assert "with 1 connections open" in shop.script("drain") and shop.stopped == 0
    with capturedLogs() as logs:
        assert shop.script("drain yes") == "The gateway is stopping.\n"
    assert shop.stopped == 1
    assert "console: somebody from 127.0.0.1:40001 stops the gateway" in [formatEvent(event) for event in logs]


def test_who_is_at_the_console_is_told_when_the_gateway_stops(shop: Office) -> None:
    person = plain(shop)
    shop.factory.doStart()
    shop.factory.doStop()
    assert STOPPING in text(person) and person.left


@pytest.mark.usefixtures("one_more")
def test_a_new_verb_is_one_function_and_all_the_rest_knows_it(shop: Office) -> None:
    assert {"verb": "turn", "usage": "WAY [yes]", "says": "Turns somewhere."} in shop.answer("help")
    assert shop.script("turn") == "usage: turn WAY\n"
    assert shop.script("turn left right up") == "usage: turn WAY\n"
    assert shop.script("turn left") == "turned left\n"
    assert shop.answer("turn left") == {"said": "turned left"}
    assert "did you mean turn?" in shop.script("trun left")
    seat = terminal(shop)
    seat.keys("tur" + TAB + "l" + TAB + "y" + TAB)
    assert seat.shown() == "gateway> turn left yes "


# -- who may come in


def test_a_stranger_is_turned_away_while_nobody_is_named(office: Office) -> None:
    with capturedLogs() as logs:
        seat = Seat(office, ELSEWHERE)
    assert seat.read() == f"{STRANGER}\r\n" and seat.left
    assert any("192.0.2.7:40001" in (formatEvent(event) or "") for event in logs)


def test_with_users_everybody_logs_in_from_this_machine_too() -> None:
    office = Office(users=(ANN,))
    for peer in (HERE, ELSEWHERE):
        seat = plain(office, peer)
        assert text(seat).endswith("login: ")
        seat.send(b"topics\n")
        assert seat.read() == "password: "
        seat.send(b"topics\n")
        office.clock.advance(DELAY)
        office.settle()
        assert "wrong" in seat.read()


def test_who_logs_in_is_greeted_and_named_in_the_log() -> None:
    office = Office(users=(ANN,))
    seat = terminal(office, peer=ELSEWHERE)
    with capturedLogs() as logs:
        seat.type("ann", SECRET)
    assert "durability" in seat.raw.decode()
    assert "console: ann from 192.0.2.7:40001 logged in" in [formatEvent(event) for event in logs]


def test_a_password_is_neither_echoed_nor_remembered() -> None:
    office = Office(users=(ANN,))
    seat = terminal(office)
    everything = seat.type("ann", SECRET)
    assert "durability" in everything
    everything += seat.keys(UP) + seat.keys(UP) + seat.keys(UP)
    assert SECRET not in everything and SECRET.encode() not in seat.protocol.desk._editor.historyLines
    other = terminal(office)
    other.type("ann")
    assert "ann" not in other.keys(UP), "while a password is typed no other line comes back"
    assert other.keys("correct" + TAB + " horse\r\0").count("correct") == 0


def test_a_wrong_password_costs_time_and_the_third_the_connection() -> None:
    office = Office(users=(ANN,))
    seat = terminal(office)
    text(seat)
    for wrong in range(TRIES):
        seat.type("ann", "wrong")
        assert "wrong." not in seat.raw.decode(), "the answer takes its time"
        assert not seat.left
        office.clock.advance(DELAY * 2**wrong)
        office.settle()
        assert "The user name or the password is wrong." in text(seat)
    assert seat.left


def test_an_unknown_user_hears_what_a_wrong_password_hears() -> None:
    said = []
    for name in ("ann", "nobody"):
        office = Office(users=(ANN,))
        seat = plain(office)
        text(seat)
        seat.send(f"{name}\nwrong\n".encode())
        office.clock.advance(DELAY)
        office.settle()
        said.append(text(seat))
    assert said[0] == said[1]


def test_wrong_logins_are_counted_with_those_on_other_ports() -> None:
    office = Office(users=(ANN,))
    attempts = office.view.attempts
    for _ in range(10):
        attempts.failed("192.0.2.7", office.clock.seconds())
    seat = terminal(office, peer=ELSEWHERE)
    seat.type("ann", SECRET)
    assert "durability" not in seat.raw.decode()
    office.clock.advance(attempts.delay("192.0.2.7", office.clock.seconds()))
    office.settle()
    assert "durability" in text(seat)
    assert attempts.delay("192.0.2.7", office.clock.seconds()) == 0.0


def test_a_person_gets_a_turn_behind_programs_that_try_passwords_from_the_same_place() -> None:
    office = Office(users=(ANN,))
    attempts, clock = office.view.attempts, office.clock
    for _ in range(20):
        attempts.failed("192.0.2.7", clock.seconds())
    seat = terminal(office, peer=ELSEWHERE)
    assert attempts.delay("192.0.2.7", clock.seconds()) == LONGEST, "one of them has the turn"
    seat.type("ann", SECRET)
    for _ in range(3):
        clock.advance(LONGEST / 2)
        office.settle()
        assert attempts.delay("192.0.2.7", clock.seconds()) > LONGEST, "and none comes before it"
        assert "durability" not in text(seat)
    clock.advance(LONGEST / 2)
    office.settle()
    assert "durability" in text(seat)


def test_who_cannot_have_a_turn_soon_is_told_and_tries_nothing() -> None:
    office = Office(users=(ANN,))
    attempts, clock = office.view.attempts, office.clock
    for _ in range(20):
        attempts.failed("192.0.2.7", clock.seconds())
    seats = [terminal(office, peer=ELSEWHERE) for _ in range(int(TURN_SECONDS / LONGEST) + 1)]
    for seat in seats:
        seat.type("ann", "wrong")
    assert [NO_TURN in seat.raw.decode() for seat in seats] == [False] * (len(seats) - 1) + [True]
    assert [seat.left for seat in seats] == [False] * (len(seats) - 1) + [True]


def test_users_that_were_read_again_count_from_the_next_login_on() -> None:
    from gateway.net.users import Users

    office = Office(users=(ANN,))
    office.node.port.users = Users((User("ben", 2, new_password("mine", log_n=4)),), lambda work: _now(work()))
    assert "TOPIC" not in office.script("ann", SECRET, "help topic")
    assert "help" in office.script("ben", "mine", "help help")


def _now(result: bool) -> Deferred[bool]:
    done: Deferred[bool] = Deferred()
    done.callback(result)
    return done


def test_a_program_logs_in_with_its_first_two_lines() -> None:
    office = Office(users=(ANN,))
    office.publish(ORDERS, Record(b"k", b"v"))
    assert office.script("ann", SECRET, "map orders k") == "key    k\nvalue  v\n"


def test_who_types_nothing_is_hung_up_on() -> None:
    office = Office(idle_seconds=60.0)
    seat = terminal(office)
    office.clock.advance(50.0)
    seat.keys("x")
    office.clock.advance(50.0)
    assert not seat.left
    office.clock.advance(10.0)
    assert "Nothing was typed for 60 s." in text(seat) and seat.left


def test_nor_may_a_login_take_for_ever() -> None:
    office = Office(users=(ANN,), idle_seconds=60.0)
    seat = plain(office)
    office.clock.advance(60.0)
    assert seat.left


def test_only_so_many_sit_at_the_console_at_a_time(office: Office) -> None:
    seats = [Seat(office) for _ in range(MAX_DESKS)]
    late = Seat(office)
    assert late.read() == f"{CROWDED}\r\n" and late.left
    seats[0].lose()
    assert not Seat(office).left


def test_a_peer_that_is_gone_leaves_nothing_behind(shop: Office) -> None:
    seat = terminal(shop)
    seat.type("tap native")
    shop.settle()
    seat.lose()
    assert not shop.node.port.taps._wanted
    assert shop.clock.getDelayedCalls() == []


# -- bad peers


@pytest.mark.parametrize(
    "octets",
    [
        IAC + b"\x00",
        IAC + SB + IAC + SE,
        IAC + b"\x41",
        IAC + SB + b"\x1f" + b"x" * 10_000,
        IAC + DO + b"\x22" + IAC + WILL + b"\x22" + IAC + DONT + ECHO + IAC + b"\xf0",
    ],
)
def test_who_speaks_no_telnet_hurts_nobody(shop: Office, octets: bytes) -> None:
    with capturedLogs() as logs:
        seat = Seat(shop)
        seat.send(octets)
        seat.send(b"topics\n")
    assert not [event for event in logs if "log_failure" in event]
    assert "orders" in shop.script("topics")


@pytest.mark.parametrize("option", [bytes([number]) for number in range(256)])
def test_no_option_that_a_peer_offers_or_wants_breaks_the_console(shop: Office, option: bytes) -> None:
    seat = Seat(shop)
    for asked in (WILL, DO, DONT, b"\xfc", WILL, DO, b"\xfc", DONT):
        seat.send(IAC + asked + option)
    seat.send(b"map users user1\n")
    assert "Ann" in text(seat)


def test_a_size_that_is_none_is_passed_over(shop: Office) -> None:
    seat = terminal(shop, 0)
    assert "orders" in seat.type("topics")
    seat.send(size(65_535))
    assert "orders" in seat.type("topics")
    seat.send(size(1))
    assert "orders" in seat.type("topics")


def test_a_program_that_reads_nothing_is_answered_no_further(shop: Office) -> None:
    for number in range(200):
        shop.publish(ORDERS, Record(b"k", b"%d" % number + b"x" * 1000))
    seat = Seat(shop, room=1000)
    seat.protocol.dataReceived(b"records orders 0 0 100 --json\n" * 40)
    shop.settle()
    one = len(shop.script("records orders 0 0 100 --json"))
    assert 0 < len(seat.wire.value()) <= 2 * one
    got = 0
    while data := seat.wire.read():
        got += len(data)
        shop.settle()
    assert got == 40 * one


@pytest.mark.parametrize("line", ["topic orders", "topic gone", "map orders"])
def test_many_lines_at_once_leave_others_their_turn(shop: Office, line: str) -> None:
    one = len(shop.script(line))
    seat = Seat(shop)
    seat.protocol.dataReceived(f"{line}\n".encode() * 100)
    assert len(seat.wire.value()) <= one
    for _ in range(1000):
        shop.clock.advance(0)
    assert len(seat.wire.value()) == 100 * one


def test_very_many_topics_and_groups_leave_others_their_turn(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "AT_A_TIME", 10)
    monkeypatch.setattr(view, "LAGS_AT_A_TIME", 10)
    for number in range(45):
        office.ask(q.CreateTopic(q.Topic("default", f"t{number}"), 1))
        office.ask(q.CreateGroup(q.Topic("default", f"t{number}"), "g"))
    for line in ("topics", "groups"):
        seat = Seat(office)
        turns = 0

        def turn(seat: Seat = seat) -> None:
            nonlocal turns
            turns += 1
            if not seat.wire.value():
                office.clock.callLater(0, turn)

        seat.protocol.dataReceived(f"{line}\n".encode())
        turn()
        office.settle()
        assert seat.read().count("\n") == 46
        assert turns > 4, line


def test_a_table_shows_no_more_rows_than_somebody_reads(office: Office) -> None:
    for number in range(1200):
        office.ask(q.CreateTopic(q.Topic("default", f"t{number}"), 1))
    said = office.script("topics")
    assert said.endswith("(200 more; `topics PREFIX` shows those that begin so, --json all)\n")
    assert len(office.answer("topics")) == 1200
