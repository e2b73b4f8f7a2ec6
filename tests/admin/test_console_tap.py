"""`tap`: frames as they cross, while somebody looks, and no secret among them."""

from __future__ import annotations

import contextlib
import json
import re

import pytest
from twisted.internet.task import Clock

import wire
from admin.seats import Office, Seat, bare, plain, terminal, text
from gateway import dialects
from gateway.admin.frames import said
from gateway.admin.watching import MOST_OPEN, MOST_WAITING, SessionTap, Watch, everything
from gateway.core import commands as q
from gateway.core.faults import CommandFailed
from gateway.core.records import Record, canonical, registry
from gateway.core.replies import Done
from gateway.dialects import Request
from gateway.net.users import User, new_password
from net.peers import Client

ORDERS = q.Topic("default", "orders")
USERS = q.Topic("default", "users")
CANARY = wire.CANARY


@pytest.fixture
def office() -> Office:
    office = Office()
    office.publish(ORDERS, Record(b"k", b"v"))
    office.publish(USERS, Record(b"k", b"v"))
    return office


def looking(office: Office, line: str, width: int = 200) -> Seat:
    seat = terminal(office, width)
    text(seat)
    seat.type(line)
    return seat


def frames(seat: Seat) -> list[str]:
    """The lines since the last time, without their times."""
    seat.office.clock.advance(0.1)
    lines = [line for line in text(seat).splitlines() if re.match(r"\d\d:\d\d:\d\d\.\d{3} ", line)]
    return [re.sub(r"\(\d.*?\)$", "(...)", line.partition(" ")[2]) for line in lines]


def test_frames_are_shown_decoded_with_how_long_the_answer_took(office: Office) -> None:
    seat = looking(office, "tap native")
    client = office.client()
    client.ask(q.MapGet(ORDERS, b"k"))
    client.ask(q.MapGet(q.Topic("default", "gone"), b"k"))
    assert frames(seat)[-4:] == [
        "1 > MapGet topic=orders key=k  [33 B]",
        "1 < MapValue value=v  [19 B]  (...)",
        "1 > MapGet topic=gone key=k  [31 B]",
        "1 ! NO_SUCH_TOPIC gone  [28 B]  (...)",
    ]


def test_one_connection_is_looked_at_and_no_other(office: Office) -> None:
    first, second = office.client(), office.client()
    number = second.peer.connection.who.id
    seat = looking(office, f"tap {number}")
    first.ask(q.MapGet(ORDERS, b"k"))
    second.ask(q.MapGet(USERS, b"k"))
    assert [line.split()[:3] for line in frames(seat)] == [[str(number), ">", "MapGet"], [str(number), "<", "MapValue"]]


def test_connections_that_come_later_are_looked_at_too(office: Office) -> None:
    seat = looking(office, "tap test")
    office.client().ask(q.MapGet(ORDERS, b"k"))
    assert any("MapGet" in line for line in frames(seat)), "the name of a listener will do, too"


@pytest.mark.parametrize(
    ("narrowed", "kinds"),
    [
        ("mapget", ["MapGet", "MapValue", "MapGet", "MapValue"]),
        ("MapSize", ["MapSize", "Count"]),
        ("orders", ["MapGet", "MapValue", "MapSize", "Count"]),
        ("default/users", ["MapGet", "MapValue"]),
        ("other", []),
    ],
)
def test_a_look_is_narrowed_to_a_kind_of_command_or_a_topic(office: Office, narrowed: str, kinds: list[str]) -> None:
    client = office.client()
    seat = looking(office, f"tap native {narrowed}")
    client.ask(q.MapGet(ORDERS, b"k"))
    client.ask(q.MapGet(USERS, b"k"))
    client.ask(q.MapSize(ORDERS))
    assert [line.split()[2] for line in frames(seat)] == kinds


def test_a_topic_is_found_by_its_number_too(office: Office) -> None:
    client = office.client()
    seat = looking(office, "tap native orders")
    client.ask(q.MapGet(q.Topic(q.DEFAULT_NAMESPACE_ID, 1), b"k"))
    assert [line.split()[2] for line in frames(seat)] == ["MapGet", "MapValue"]


@pytest.mark.parametrize("key", ["\r\0", "q", "Q", "\x03", "\x04"])
def test_enter_q_and_ctrl_c_end_it_and_nothing_looks_any_more(office: Office, key: str) -> None:
    client = office.client()
    seat = looking(office, "tap native")
    client.ask(q.MapGet(ORDERS, b"k"))
    seat.keys("x" + key)
    assert "MapGet" in seat.raw.decode() and bare(seat).endswith("gateway> "), "what was seen last is shown"
    assert not client.peer.connection._taps and not office.node.port.taps._wanted
    assert "orders" in seat.type("topics")


def test_a_netcat_ends_it_with_a_line(office: Office) -> None:
    seat = plain(office)
    seat.send(b"tap native\n")
    client = office.client()
    client.ask(q.MapGet(ORDERS, b"k"))
    office.clock.advance(0.1)
    assert "MapGet" in seat.read() and "\x1b" not in seat.raw.decode()
    seat.send(b"\nmap orders k\n")
    assert "value  v" in seat.read()


def test_a_program_gets_a_line_of_json_a_frame(office: Office) -> None:
    seat = Seat(office)
    seat.send(b"tap native --json\n")
    office.client().ask(q.MapGet(ORDERS, b"k"))
    office.clock.advance(0.1)
    rows = [json.loads(line) for line in seat.read().splitlines()]
    assert [(row["way"], row["frame"].split()[0]) for row in rows if "Map" in row["frame"]] == [
        (">", "MapGet"),
        ("<", "MapValue"),
    ]
    seat.finish()
    assert seat.left


def test_a_slow_reader_gets_what_he_can_take_and_hears_how_many_he_missed(office: Office) -> None:
    client = office.client()
    seat = terminal(office, 200, room=5000)
    text(seat)
    seat.type("tap native mapget")
    for _ in range(20):
        for _ in range(200):
            client.ask(q.MapGet(ORDERS, b"k"))
        office.clock.advance(0.1)
    held = len(seat.wire.value())
    assert held < MOST_WAITING * 100, "it is bounded however much crosses"
    shown = missed = 0
    for _ in range(10):
        said_now = text(seat)
        shown += len(re.findall(r"MapGet|MapValue", said_now))
        missed += sum(int(one.replace(",", "")) for one in re.findall(r"([\d,]+) frames more", said_now))
        office.clock.advance(0.1)
    assert missed > 0 and shown + missed == 2 * 20 * 200


def test_a_connection_that_ends_ends_the_look_at_it(office: Office) -> None:
    client = office.client()
    seat = looking(office, f"tap {client.peer.connection.who.id}")
    client.peer.lose()
    office.clock.advance(2.0)
    office.settle()
    assert "It is gone." in text(seat)
    assert "orders" in seat.type("topics")


def test_a_look_is_as_wide_as_the_terminal(office: Office) -> None:
    client = office.client()
    seat = looking(office, "tap native", 40)
    client.ask(q.MapPut(ORDERS, b"k" * 500, b"v" * 500))
    office.clock.advance(0.1)
    lines = [line for line in text(seat).splitlines() if "MapPut" in line]
    assert lines and all(len(line) <= 40 for line in lines)


def test_two_look_at_once_and_each_leaves_alone(office: Office) -> None:
    first, second = looking(office, "tap native"), looking(office, "tap native")
    client = office.client()
    client.ask(q.MapGet(ORDERS, b"k"))
    first.keys("q")
    text(second)
    client.ask(q.MapGet(ORDERS, b"k"))
    assert frames(second) and not frames(first)


@pytest.mark.parametrize("command", [q.Authenticate("plain", "ann", CANARY), q.Authenticate("token", "", CANARY)])
def test_a_secret_is_never_shown(command: q.Authenticate) -> None:
    office = Office(users=(User("ann", 1, new_password(CANARY, log_n=4)),))
    admin = Seat(office)
    admin.send(f"ann\n{CANARY}\ntap native\n".encode())
    office.client().ask(command)
    office.clock.advance(0.1)
    said = admin.read()
    assert "Authenticate" in said and "secret=***" in said and CANARY not in said
    assert CANARY not in "".join(
        office.script("ann", CANARY, *verbs) for verbs in (["faults"], ["sessions"], ["metrics"])
    )


def logins(dialect: str) -> list[bytes]:
    """What a client of that dialect says to log in, whole and damaged in many places."""
    spoken = dialects.load(dialect)
    terms = spoken.open(spoken.settings(), registry(spoken.encodings)).terms("127.0.0.1:1")
    frames = []
    for command in (q.Authenticate("plain", "ann", CANARY), q.Authenticate("token", "ann", CANARY)):
        with contextlib.suppress(CommandFailed):  # it has no words for it
            frames.append(spoken.encode_request(Request(command, 1), terms))
    damaged = [frame[:at] + bytes([frame[at] ^ 0x55]) + frame[at + 1 :] for frame in frames for at in range(len(frame))]
    return frames + [one for one in damaged if CANARY.encode() in one] + wire.secrets(dialect)


@pytest.mark.parametrize("dialect", dialects.names())
def test_nor_one_in_a_frame_that_is_damaged(dialect: str) -> None:
    office = Office(dialect)
    seat = looking(office, f"tap {dialect}", 1000)
    seen = ""
    for frame in logins(dialect):
        peer = office.node.connect()
        peer.send(frame)
        peer.finish()
        peer.read()
        office.clock.advance(0.1)
        seen += text(seat)
    assert CANARY not in seen and CANARY not in office.script("faults")
    assert not logins(dialect) or re.search(r"[>!] ", seen), "frames were seen"


def test_what_a_command_says_is_shown_in_short() -> None:
    batch = canonical([Record(b"k", b"v" * 5000)] * 3)
    command = q.Publish(ORDERS, q.ByKey(b"k" * 500, "fnv1a_32"), batch, create=3)
    shown = said(command)
    assert shown.startswith("Publish topic=orders to=ByKey(key=kkk") and "batch=3 records, " in shown
    assert shown.endswith("create=3") and len(shown) < 200
    assert said(Done()) == "Done"
    many = q.CommitOffsets(ORDERS, q.Group("g"), {number: number for number in range(100)})
    assert "and 92 more" in said(many)


def test_a_connection_that_asks_and_is_never_answered_costs_a_bounded_memory() -> None:

    from gateway.dialects import Request

    watch = Watch(everything, Clock(), lambda: 0, pushes=True, as_json=False)
    tap = SessionTap(watch, q.Session(1))
    for ticket in range(3 * MOST_OPEN):
        tap.heard(ticket, b"", Request(q.Ping()))
    assert len(tap._came) <= MOST_OPEN and len(watch.take()) == MOST_WAITING + 1


def test_pushes_are_shown_where_everything_is(office: Office) -> None:
    seat = looking(office, "tap native")
    client: Client = office.client()
    client.peer.connection._session.tap.said(b"x" * 2048)  # type: ignore[union-attr]
    assert frames(seat)[-1] == "1 * unasked  [2.0 KiB]"
