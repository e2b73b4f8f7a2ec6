"""gateway.net.login: who gets in, over a connection, and what is shut to who did not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import msgspec
import pytest
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IAddress
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent

import wire
from gateway import dialects
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical
from gateway.core.replies import Authenticated, CommittedOffsets, Done, Outcome, SessionDescription
from gateway.dialects import Dialect, Request
from gateway.dialects.native.session import NativeListener
from gateway.dialects.session import ServerSession
from gateway.net.attempts import FREE
from gateway.net.login import Auth
from gateway.net.users import User, Users, new_password, new_token
from net.peers import Client, Node, Scripted, produce

SECRET = "correct horse"
TOKEN, DIGEST = new_token()
USERS = (User("ann", 1, new_password(SECRET, log_n=4), (DIGEST,)), User("ben", 2, new_password("mine", log_n=4)))
RIGHT = q.Authenticate("plain", "ann", SECRET)
WRONG = q.Authenticate("plain", "ann", "wrong horse")
ANN = Authenticated("ann", 1)
ORDERS = q.Topic("default", "orders")
COMMITTED = q.FetchOffsets(ORDERS, q.Group("g"), (0,))
STRANGER = "192.168.1.1:54321 on test: refused, it has not logged in"


def at_once(work: Any) -> Deferred[bool]:
    return succeed(work())


class Later:
    """Work that is done when the test says so."""

    def __init__(self) -> None:
        self.open: list[tuple[Any, Deferred[bool]]] = []

    def __call__(self, work: Any) -> Deferred[bool]:
        self.open.append((work, Deferred()))
        return self.open[-1][1]

    def do(self) -> None:
        work, done = self.open.pop(0)
        done.callback(work())


def guarded(auth: Auth = "required", dialect: str | Dialect = "native", run: Any = at_once) -> Node:
    """A node that has users."""
    clock = Clock()
    return Node(MemoryBackend(clock), dialect, clock, users=Users(USERS, run), auth=auth)


def fault(outcome: Outcome) -> Fault:
    assert isinstance(outcome, CommandFailed), outcome
    return outcome.fault


def principal(client: Client) -> str | None:
    mine = client.ask(q.DescribeSession())
    assert isinstance(mine, SessionDescription)
    return mine.principal


def lines(events: Sequence[Any]) -> list[str]:
    return [formatEvent(event) for event in events]


# -- logging in and out


@pytest.mark.parametrize(
    ("claim", "who"),
    [
        (RIGHT, ANN),
        (q.Authenticate("plain", "ben", "mine"), Authenticated("ben", 2)),
        (q.Authenticate("token", "", TOKEN), ANN),
    ],
)
def test_who_logs_in_is_that_user_from_then_on(claim: q.Authenticate, who: Authenticated) -> None:
    client = Client(guarded())
    assert client.ask(claim) == who
    assert principal(client) == client.peer.connection.who.principal == who.principal


@pytest.mark.parametrize("claim", [WRONG, q.Authenticate("plain", "eve", SECRET), q.Authenticate("token", "", SECRET)])
def test_who_is_wrong_is_nobody_and_may_try_again(claim: q.Authenticate) -> None:
    client = Client(guarded("optional"))
    assert fault(client.ask(claim)) is Fault.BAD_CREDENTIALS
    assert principal(client) is None
    assert client.ask(RIGHT) == ANN
    assert principal(client) == "ann"


def test_who_logs_out_is_nobody_again_and_finds_the_barrier_closed() -> None:
    client = Client(guarded())
    client.ask(RIGHT)
    assert principal(client) == "ann"
    assert client.ask(q.Logout()) == Done()
    assert fault(client.ask(q.DescribeSession())) is Fault.UNAUTHENTICATED
    assert client.ask(q.Authenticate("plain", "ben", "mine")) == Authenticated("ben", 2)
    assert principal(client) == "ben"


def test_logging_out_without_a_login_needs_one_where_everything_does() -> None:
    assert Client(guarded("optional")).ask(q.Logout()) == Done()
    assert fault(Client(guarded()).ask(q.Logout())) is Fault.UNAUTHENTICATED


def test_a_login_is_of_its_connection_alone() -> None:
    node = guarded()
    first, second = Client(node), Client(node)
    first.ask(RIGHT)
    assert fault(second.ask(q.ListSessions())) is Fault.UNAUTHENTICATED
    assert principal(first) == "ann"


# -- the barrier

WORDS: dict[str, object] = {
    **{"topic": ORDERS, "namespace": "default", "name": "sales", "group": "g", "member": "m"},
    **{"partition": 0, "to": 0, "start": 0, "count": 1, "generation": 1, "delta": 1},
    **{"mechanism": "plain", "principal": "eve", "secret": "guess", "key": b"k", "value": b"v"},
    **{"settings": q.TopicSettings(), "batch": canonical([Record(value=b"v")]), "reader": q.Group("g")},
    **{"offsets": {0: 1}, "liveness": q.WhileConnected()},
}


def spoken(kind: Any) -> q.Command:
    """One of that kind that any backend would carry out."""
    required = [field for field in msgspec.structs.fields(kind) if field.required]
    counts = {"partitions": 1 if kind is q.CreateTopic else (0,)}
    command: q.Command = kind(**{field.name: (WORDS | counts)[field.name] for field in required})
    return command


@pytest.mark.parametrize("kind", list(get_args(q.Command)), ids=lambda kind: kind.__name__)
def test_without_a_login_nothing_is_carried_out_where_one_is_required(kind: Any) -> None:
    backend = Scripted({q.Ping: Done()})
    client = Client(Node(backend, "native", users=Users(USERS, at_once), auth="required"))
    outcome = client.ask(spoken(kind))
    if kind is q.Ping:
        assert outcome == Done()
    else:
        assert fault(outcome) is (Fault.BAD_CREDENTIALS if kind is q.Authenticate else Fault.UNAUTHENTICATED)
    assert (backend.asked, backend.sources) == ([q.Ping()] if kind is q.Ping else [], [])


@pytest.mark.parametrize("kind", list(get_args(q.Command)), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("auth", ["none", "optional", "required after a login"])
def test_everything_is_carried_out_for_who_logged_in_or_need_not(kind: Any, auth: str) -> None:
    node = guarded("required" if auth.startswith("required") else auth)  # type: ignore[arg-type]
    client = Client(node)
    if auth.startswith("required"):
        assert client.ask(RIGHT) == ANN
    (tag,) = client.begin(spoken(kind))
    client.listen()
    outcome = client.outcomes.get(tag)
    if kind is q.Authenticate and auth != "none":
        assert isinstance(outcome, CommandFailed) and outcome.fault is Fault.BAD_CREDENTIALS
    else:
        assert not isinstance(outcome, CommandFailed) or outcome.fault is not Fault.UNAUTHENTICATED


def test_who_need_not_log_in_is_nobody_and_may_do_everything() -> None:
    client = Client(guarded("optional"))
    assert principal(client) is None


def test_where_logins_mean_nothing_whoever_logs_in_is_believed() -> None:
    client = Client(guarded("none"))
    assert client.ask(WRONG) == ANN
    assert client.ask(q.Authenticate("magic", "eve", "")) == Authenticated("eve", 0)
    assert principal(client) == "eve"


def test_a_dialect_without_a_login_is_shut_where_one_is_required() -> None:
    client = Client(guarded(dialect="pipe"))
    for command in (produce(b"k", b"v"), COMMITTED):
        assert isinstance(client.ask(command), CommandFailed)
    assert not client.peer.left


# -- what comes behind a login, before it is known how it ends


def test_what_is_asked_behind_a_login_waits_for_it() -> None:
    later = Later()
    node = guarded(run=later)
    client = Client(node)
    tags = client.begin(RIGHT, q.DescribeSession(), q.CreateTopic(ORDERS, 1), q.Logout(), q.ListSessions(), q.Ping())
    client.listen()
    assert client.outcomes == {}
    assert not client.peer.heard, "and no more is read than has been"
    later.do()
    client.listen()
    who, mine, created, out, listed, pong = (client.outcomes[tag] for tag in tags)
    assert (who, out, pong) == (ANN, Done(), Done())
    assert isinstance(mine, SessionDescription) and (mine.principal, mine.user) == ("ann", 1)
    assert not isinstance(created, CommandFailed)
    assert fault(listed) is Fault.UNAUTHENTICATED
    assert client.peer.heard


def test_what_is_asked_behind_a_login_that_is_wrong_is_refused() -> None:
    later = Later()
    client = Client(guarded(run=later))
    tags = client.begin(WRONG, q.ListSessions(), RIGHT, q.ListSessions())
    client.listen()
    assert len(later.open) == 1, "one is checked at a time"
    later.do()
    client.listen()
    later.do()
    client.listen()
    outcomes = [client.outcomes[tag] for tag in tags]
    assert [fault(outcome) for outcome in outcomes[:2]] == [Fault.BAD_CREDENTIALS, Fault.UNAUTHENTICATED]
    assert outcomes[2] == ANN
    assert not isinstance(outcomes[3], CommandFailed)


def test_others_do_not_wait_for_a_login() -> None:
    node = guarded(run=Later())
    slow, quick = Client(node), Client(node)
    slow.begin(RIGHT)
    assert quick.ask(q.Ping()) == Done()


def test_who_hangs_up_during_its_login_leaves_nothing_behind() -> None:
    later = Later()
    client = Client(guarded(run=later))
    client.begin(RIGHT, q.ListSessions())
    who = client.peer.connection.who
    with capturedLogs() as events:
        client.peer.lose()
        later.do()
        client.peer.node.turn()
    assert who.principal is None
    assert events == []
    assert client.peer.wire.value() == b""


def test_a_login_that_is_under_way_is_answered_before_the_gateway_stops() -> None:
    later = Later()
    node = guarded(run=later)
    client = Client(node)
    tags = client.begin(RIGHT, q.DescribeSession())
    node.port.drain()
    assert not client.peer.left
    later.do()
    client.listen()
    assert client.outcomes[tags[0]] == ANN
    assert isinstance(client.outcomes[tags[1]], SessionDescription)
    assert client.peer.left


def test_a_check_that_breaks_lets_nobody_in_and_is_logged_without_the_secret() -> None:
    def broken(work: Any) -> Deferred[bool]:
        raise MemoryError("no room")

    client = Client(guarded(run=broken))
    with capturedLogs() as events:
        assert fault(client.ask(RIGHT)) is Fault.INTERNAL
    assert lines(events) == ["Authenticate failed"]
    assert SECRET not in repr(events)
    assert fault(client.ask(q.ListSessions())) is Fault.UNAUTHENTICATED


# -- the development user

DEVELOPED = msgspec.structs.replace(dialects.load("native"), development=("iggy", "iggy"))
LOCAL = [
    IPv4Address("TCP", "127.0.0.1", 5),
    IPv4Address("TCP", "127.9.8.7", 5),
    IPv6Address("TCP", "::1", 5),
    IPv6Address("TCP", "::ffff:127.0.0.1", 5),
    UNIXAddress("/run/client"),
    UNIXAddress(None),
]
FOREIGN = [
    IPv4Address("TCP", "10.0.0.1", 5),
    IPv4Address("TCP", "192.168.1.1", 5),
    IPv6Address("TCP", "2001:db8::1", 5),
    IPv6Address("TCP", "::ffff:10.0.0.1", 5),
]
IGGY = q.Authenticate("plain", "iggy", "iggy")


def developed(auth: Auth = "optional", users: tuple[User, ...] = ()) -> Node:
    return Node(Scripted({q.Ping: Done()}), DEVELOPED, users=Users(users, at_once), auth=auth)


@pytest.mark.parametrize("address", LOCAL, ids=str)
@pytest.mark.parametrize("auth", ["optional", "required"])
def test_the_development_user_gets_in_from_this_machine(address: IAddress, auth: Auth) -> None:
    client = Client(developed(auth), address=address)
    assert client.ask(IGGY) == Authenticated("iggy", 1)
    assert client.peer.connection.who.principal == "iggy"


@pytest.mark.parametrize("address", FOREIGN, ids=str)
def test_the_development_user_gets_in_from_no_other_machine(address: IAddress) -> None:
    client = Client(developed(), address=address)
    assert fault(client.ask(IGGY)) is Fault.BAD_CREDENTIALS
    assert client.peer.connection.who.principal is None


@pytest.mark.parametrize(
    "claim",
    [
        q.Authenticate("plain", "iggy", "Iggy"),
        q.Authenticate("plain", "iggy", ""),
        q.Authenticate("plain", "root", "iggy"),
        q.Authenticate("plain", "\u0131ggy", "iggy"),
        q.Authenticate("token", "iggy", "iggy"),
        q.Authenticate("token", "", "iggy"),
    ],
)
def test_nobody_else_gets_in_while_there_are_no_users(claim: q.Authenticate) -> None:
    assert fault(Client(developed(), address=LOCAL[0]).ask(claim)) is Fault.BAD_CREDENTIALS


@pytest.mark.parametrize("auth", ["optional", "required"])
def test_users_alone_count_once_there_are_some(auth: Auth) -> None:
    client = Client(developed(auth, USERS), address=LOCAL[0])
    assert fault(client.ask(IGGY)) is Fault.BAD_CREDENTIALS
    assert client.ask(RIGHT) == ANN


def test_where_logins_mean_nothing_there_is_no_development_user() -> None:
    client = Client(developed("none"), address=FOREIGN[0])
    assert client.ask(q.Authenticate("plain", "eve", "x")) == Authenticated("eve", 1)


@pytest.mark.parametrize("address", [LOCAL[0], FOREIGN[0]], ids=str)
def test_a_dialect_without_a_development_user_believes_everybody_while_there_are_no_users(address: IAddress) -> None:
    client = Client(Node(Scripted(), "native"), address=address)
    assert client.ask(WRONG) == ANN


# -- what the log says


def test_the_log_says_once_that_somebody_did_not_log_in_and_never_a_secret() -> None:
    client = Client(guarded())
    with capturedLogs() as events:
        for command in (
            q.ListSessions(),
            WRONG,
            q.DescribeSession(),
            q.Authenticate("token", "", TOKEN[1:]),
            q.Describe(),
        ):
            client.ask(command)
        client.ask(RIGHT)
        client.ask(q.Logout())
        client.ask(q.ListSessions())
        client.peer.lose()
    assert [line.partition(": ")[2] for line in lines(events)] == [
        STRANGER.partition(": ")[2],
        "a login as 'ann' was refused",
        "a login by token was refused",
    ]
    assert {event["log_level"].name for event in events} == {"warn"}
    for secret in ("horse", TOKEN[1:]):
        assert secret not in repr(events)


def test_the_log_says_nothing_of_who_logs_in_or_need_not() -> None:
    with capturedLogs() as events:
        right, free = Client(guarded()), Client(guarded("optional"))
        right.ask(RIGHT)
        for client in (right, free):
            client.ask(q.ListSessions())
            client.peer.lose()
    assert events == []


class Telling(ServerSession):
    """Knows what its client is, and says what is odd about it."""

    def stranger(self) -> str:
        return "a client of version 9 says hello"

    def answer(self, call: Any, outcome: Outcome) -> None:
        self.tell("an odd\r\n\x1b[2Jclient \u00fcber alles")
        super().answer(call, outcome)


class TellingListener(NativeListener):
    def session(self, address: str = "127.0.0.1:0") -> ServerSession:
        return Telling(self, self.terms(address))


TOLD = "192.168.1.1:54321 on test: "
ODD = f"{TOLD}an odd???[2Jclient \u00fcber alles"


def test_a_session_has_its_own_words_for_strangers_and_for_whatever_else_an_operator_should_know() -> None:
    client = Client(guarded(dialect=msgspec.structs.replace(dialects.load("native"), listener=TellingListener)))
    session = client.peer.connection._session
    with capturedLogs() as events:
        client.ask(q.ListSessions())
        client.ask(q.Ping())
        client.peer.lose()
        session.tell("nobody hears this any more")
    assert lines(events) == [f"{TOLD}refused, a client of version 9 says hello", ODD, ODD]
    assert {event["log_level"].name for event in events} == {"warn"}


def test_the_order_of_answers_is_kept_behind_a_login() -> None:
    """In a dialect whose answers carry no tag, a login being the only thing that made what is behind it wait."""

    def decode(frame: bytes, terms: Any) -> Any:
        found = pipe.decode_request(frame, terms)
        return msgspec.structs.replace(found, command=RIGHT) if found.tag == "7" else found

    def encode(request: Any, outcome: Outcome, terms: Any) -> bytes:
        return b"in\n" if isinstance(outcome, Authenticated) else pipe.encode_reply(request, outcome, terms)

    pipe = dialects.load("pipe")
    later = Later()
    backend = Scripted({q.FetchOffsets: CommittedOffsets({})})
    dialect = msgspec.structs.replace(pipe, decode_request=decode, encode_reply=encode)
    peer = Node(backend, dialect, users=Users(USERS, later), auth="required").connect()
    peer.send(b"".join(wire.request("pipe", COMMITTED, number) for number in (7, 8, 9)))
    assert peer.read() == b""
    later.do()
    answers = [wire.reply("pipe", Request(COMMITTED, number), CommittedOffsets({})) for number in (8, 9)]
    assert peer.read() == b"in\n" + b"".join(answers)


def test_who_tries_passwords_waits_for_the_answer_and_others_do_not() -> None:
    node = guarded()
    client = Client(node)
    for _ in range(FREE):
        assert fault(client.ask(WRONG)) is Fault.BAD_CREDENTIALS
    [tag] = client.begin(RIGHT)
    client.listen()
    assert tag not in client.outcomes
    node.wait(1.0)
    client.listen()
    assert client.outcomes[tag] == ANN
