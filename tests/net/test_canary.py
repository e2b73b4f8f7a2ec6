"""A secret stays with who said it: wherever else one may look, it is not there.  And trying secrets tells nothing."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.logger import LogEvent, capturedLogs, eventAsText

import gateway.net.users as users_module
import wire
from gateway.admin import frames, rows
from gateway.admin.tables import Table, lay_out
from gateway.admin.view import View
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Authenticated, Outcome
from gateway.dialects import Refusal, Request
from gateway.net.attempts import FREE, LONGEST
from gateway.net.metrics import register
from gateway.net.users import Password, User, Users, new_password
from net.peers import Client, Node, Peer

PASSWORD = wire.CANARY
TOKEN = "Canary-of-a-token-19be0d55c2a84e63a1f07b2d"
PLUMAGE = "Canary"
WRONG = PASSWORD[:-1].encode() + b"x"
USERS = (
    User("ann", 1, new_password(PASSWORD, log_n=4), (users_module.hashlib.sha256(TOKEN.encode()).digest(),)),
    User("ben", 2, new_password("another", log_n=4)),
    User("tom", 3, None, (b"\0" * 32,)),
)
PLAIN = [q.Authenticate("plain", who, secret) for who in ("ann", "ben", "eve") for secret in (PASSWORD, PASSWORD + "x")]
TOKENS = [q.Authenticate("token", "", TOKEN), q.Authenticate("token", "", TOKEN + "x")]
SAYS: dict[str, list[q.Authenticate]] = {
    "cursus": PLAIN,
    "grid": PLAIN,
    "iggy": PLAIN + TOKENS,
    "native": PLAIN + TOKENS,
}
SETTINGS: dict[str, dict[str, Any]] = {"iggy": {"generation": "g2b"}}


class Sight:
    """A tap that shows what the console's does."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def heard(self, ticket: int, frame: bytes, request: Request | Refusal) -> None:
        self.lines += [frames.asked(request), repr(request)]

    def answered(self, ticket: int, request: Request | Refusal, outcome: Outcome, data: bytes) -> None:
        self.lines += [frames.ended(outcome), repr(outcome), data.decode("latin-1")]
        if isinstance(outcome, CommandFailed):
            self.lines += [repr(outcome.facts), *traceback.format_exception(outcome)]

    def said(self, data: bytes) -> None:
        self.lines.append(data.decode("latin-1"))


class Place:
    """A listener of a dialect with users, whatever looks at it, and what was logged."""

    def __init__(self, name: str, run: Callable[[Callable[[], bool]], Deferred[bool]]) -> None:
        clock = Clock()
        self.backend = MemoryBackend(clock)
        users = Users(USERS, run)
        self.node = Node(self.backend, name, clock, users=users, auth="required", **SETTINGS.get(name, {}))
        self.sight = Sight()
        self.node.port.taps.add(lambda who: True, lambda who: self.sight)

    def looked_at(self, events: list[LogEvent]) -> str:
        """All that anybody can see."""
        node, registry = self.node, CollectorRegistry()
        view = View(node.port, self.backend, lambda: [(node.listening, "h:1")], node.clock, 0, lambda: None)
        register(registry, [node.listening.listener])
        tables: list[Table] = [
            rows.faults(view.faults()),
            rows.sessions(view.sessions(), 0),
            rows.listeners(view.listeners()),
        ]
        shown = [line for table in tables for line in _lines(table)]
        logged = [eventAsText(event, includeTraceback=True) for event in events]
        asked = [repr(vars(node.port)), repr(node.port.users), repr(USERS), repr(view.faults())]
        return "\n".join([*shown, *logged, *asked, repr(events), generate_latest(registry).decode(), *self.sight.lines])


def _lines(table: Table) -> Iterator[str]:
    laid = lay_out(table, 400)
    yield from map(str, msgspec.structs.astuple(laid))


def at_once(work: Callable[[], bool]) -> Deferred[bool]:
    return succeed(work())


def broken(work: Callable[[], bool]) -> Deferred[bool]:
    raise MemoryError("no room")


def encoded(place: Place, command: q.Authenticate) -> bytes:
    client = Client(place.node)
    client.session.ask(Request(command, 1))
    return client.session.take()


def say(place: Place, peer: Peer, data: bytes) -> None:
    peer.send(data)
    peer.read()
    place.node.wait(2 * LONGEST)


@pytest.mark.parametrize("run", [at_once, broken])
@pytest.mark.parametrize("name", SAYS)
def test_no_password_or_token_is_seen_anywhere_however_its_login_ends(name: str, run: Any) -> None:
    place = Place(name, run)
    with capturedLogs() as events:
        for command in SAYS[name]:
            say(place, place.node.connect(), encoded(place, command))
        for data in wire.secrets(name):
            for said in (data, data.replace(PASSWORD.encode(), WRONG)):
                say(place, place.node.connect(), said)
    seen = place.looked_at(list(events))
    assert "BAD_CREDENTIALS" in seen or run is broken, "something can be seen"
    assert place.sight.lines
    assert PLUMAGE not in seen


@pytest.mark.parametrize("name", SAYS)
def test_no_secret_is_seen_of_a_login_that_cannot_be_read(name: str) -> None:
    """Cut short, longer than it says, and with every byte before the secret changed, unless that makes it another
    command: the grid's PING gives back what it was given.
    """
    place = Place(name, at_once)
    whole = encoded(place, SAYS[name][0])
    assert PASSWORD.encode() in whole
    begins = whole.index(PASSWORD.encode())
    damaged = [whole[:at] + bytes((whole[at] ^ flip,)) + whole[at + 1 :] for at in range(begins) for flip in (1, 0x80)]
    damaged += [whole[:-1] + b"\n" * 9, whole + b"\n" * 9, whole[: begins + 9]]
    with capturedLogs() as events:
        for data in damaged:
            peer = place.node.connect()
            asked = place.node.dialect.decode_request(data, peer.connection._session.terms)
            if isinstance(asked, Request) and type(asked.command) is q.Ping:
                continue
            peer.send(data)
            peer.read()
            peer.finish()
            peer.read()
            place.node.wait(2 * LONGEST)
    answers = [line for line in place.sight.lines if PLUMAGE in line]
    assert PLUMAGE not in place.looked_at(list(events)), answers


def test_a_secret_is_in_no_representation_of_what_holds_it() -> None:
    command = q.Authenticate("plain", "ann", PASSWORD)
    kept = new_password(PASSWORD, log_n=4)
    for held in (command, Request(command), [command], {"asked": command}, Users(USERS), USERS, kept):
        assert PLUMAGE not in repr(held) + str(held) + f"{held}"
        assert kept.hash.hex() not in repr(held)
    assert repr(kept.hash) not in repr(USERS)


# -- trying tells nothing


class Counting:
    """Does the work at once, and counts it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.scrypts: list[tuple[int, int, int]] = []
        matches = Password.matches

        def counted(password: Password, secret: str) -> bool:
            self.scrypts.append((password.log_n, password.r, password.p))
            return matches(password, secret)

        monkeypatch.setattr(Password, "matches", counted)


@pytest.mark.parametrize("name", SAYS)
def test_an_unknown_user_a_wrong_password_and_a_user_without_one_are_told_and_cost_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, costs = [], []
    for who in ("ann", "eve", "tom"):
        place, counting = Place(name, at_once), Counting(monkeypatch)
        peer = place.node.connect()
        peer.send(encoded(place, q.Authenticate("plain", who, "wrong")))
        answers.append(peer.read())
        costs.append(counting.scrypts)
        monkeypatch.undo()
        assert not peer.left
    assert answers[0] and answers[0] == answers[1] == answers[2]
    assert costs[0] == costs[1] == costs[2] and len(costs[0]) == 1


@pytest.mark.parametrize("name", SAYS)
def test_who_guesses_has_eight_seconds_to_wait_for_each_guess_before_long(name: str) -> None:
    place = Place(name, at_once)
    asked = encoded(place, q.Authenticate("plain", "ann", "wrong"))
    waits = []
    for _ in range(FREE + 8):
        peer, began = place.node.connect(), place.node.clock.seconds()
        peer.send(asked)
        while not peer.read():
            place.node.clock.advance(0.25)
            place.node.turn()
        waits.append(place.node.clock.seconds() - began)
    assert waits == [0.0] * FREE + [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


@pytest.mark.parametrize("name", SAYS)
def test_who_guesses_over_many_connections_at_once_is_told_to_wait(name: str) -> None:
    place = Place(name, at_once)
    wrong, right = (encoded(place, q.Authenticate("plain", "ann", secret)) for secret in ("wrong", PASSWORD))
    for _ in range(FREE + 6):
        say(place, place.node.connect(), wrong)
    peers = [place.node.connect() for _ in range(50)]
    for peer in peers:
        peer.send(right)
    busy = [peer for peer in peers if peer.read()]
    assert len(busy) == 49, "one has its turn"
    place.node.wait(LONGEST + 1)
    entered = [peer for peer in peers if peer.connection.who.principal]
    assert len(entered) == 1
    faults = [seen.fault for seen in place.node.port.faults.last()[-49:]]
    assert set(faults) == {Fault.BUSY}


def test_a_removed_user_stays_where_he_is_and_gets_in_nowhere_else() -> None:
    node = Node(MemoryBackend(Clock()), "native", users=Users(USERS, at_once), auth="required")
    before, idle = Client(node), Client(node)
    ann = q.Authenticate("plain", "ann", PASSWORD)
    assert before.ask(ann) == Authenticated("ann", 1)
    node.port.users = Users(USERS[1:], at_once)
    assert not isinstance(before.ask(q.ListTopics("default")), CommandFailed), "an open session goes on"
    for client in (before, idle, Client(node)):
        outcome = client.ask(ann)
        assert isinstance(outcome, CommandFailed) and outcome.fault is Fault.BAD_CREDENTIALS
