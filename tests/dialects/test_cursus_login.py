"""Logging in to a Cursus listener, with AUTH and in the line of any other command: who a command is carried out as."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from gateway import dialects
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Outcome
from gateway.dialects import Call, Refusal, Request
from gateway.net.access import AccessRule, Guarded, Policy
from gateway.net.attempts import FREE, LONGEST
from gateway.net.login import Auth
from gateway.net.users import User, Users, new_password
from net.peers import Node, Peer

CURSUS = dialects.load("cursus")
ANN, BEN = "principal=ann auth_token=horse", "principal=ben auth_token=battery"
WRONG, STRANGER = "principal=ann auth_token=staple", "principal=eve auth_token=horse"
USERS = (User("ann", 1, new_password("horse", log_n=4)), User("ben", 2, new_password("battery", log_n=4)))
FAILED = "ERROR: authentication_failed mechanism=PLAIN"
CLAIMED_HALF = "ERROR: invalid_auth reason=principal_and_auth_token_required"
LIST = "OK count=1 topics=orders"


class Asked(MemoryBackend):
    """Remembers who asked what."""

    def __init__(self) -> None:
        self.clock = Clock()
        super().__init__(self.clock)
        self.asked: list[tuple[str, str | None]] = []

    def execute(self, command: q.Command, session: Session) -> Any:
        if type(command) is not q.EndSession:
            self.asked.append((type(command).__name__, session.principal))
        return super().execute(command, session)

    def follow(self, command: q.Follow, session: Session, follower: Any) -> Any:
        self.asked.append((type(command).__name__, session.principal))
        return super().follow(command, session, follower)


class Checks:
    """What checks passwords: at once, or when the test says so.  count: how many it was asked for."""

    def __init__(self, later: bool = False) -> None:
        self.count = 0
        self._later = later
        self._open: list[tuple[Callable[[], bool], Deferred[bool]]] = []

    def __call__(self, work: Callable[[], bool]) -> Deferred[bool]:
        self.count += 1
        if not self._later:
            return succeed(work())
        self._open.append((work, Deferred()))
        return self._open[-1][1]

    def do(self) -> None:
        work, done = self._open.pop(0)
        done.callback(work())


class Place:
    """A listener with users and a topic."""

    def __init__(self, auth: Auth = "required", *rules: AccessRule, later: bool = False) -> None:
        self.backend = Asked()
        self.backend.execute(q.CreateTopic(q.Topic("default", "orders"), 1), Session(0, "test"))
        self.backend.asked.clear()
        self.checks = Checks(later)
        guarded = Guarded(self.backend, Policy(rules)) if rules else self.backend
        self.node = Node(guarded, "cursus", self.backend.clock, users=Users(USERS, self.checks), auth=auth)

    def connect(self) -> Peer:
        return self.node.connect()

    @property
    def asked(self) -> list[tuple[str, str | None]]:
        return self.backend.asked


def framed(text: str) -> bytes:
    octets = b"\0\0" + text.encode()
    return len(octets).to_bytes(4, "big") + octets


def answers(peer: Peer) -> list[str]:
    octets, found = peer.read(), []
    while octets:
        end = 4 + int.from_bytes(octets[:4], "big")
        found.append(octets[4:end].decode("utf-8", "replace"))
        octets = octets[end:]
    return found


def ask(peer: Peer, *texts: str) -> list[str]:
    peer.send(b"".join(map(framed, texts)))
    return answers(peer)


# -- AUTH


def test_who_sent_auth_may_go_on_and_who_did_not_may_not() -> None:
    place = Place()
    peer = place.connect()
    assert ask(peer, "LIST", "AUTH principal=ann token=horse", "LIST") == [
        "ERROR: authentication_required command=LIST",
        "OK principal=ann authenticated=true",
        LIST,
    ]
    assert place.asked == [("ListTopics", "ann")]


@pytest.mark.parametrize("words", ["principal=ann token=staple", "principal=eve token=horse", "principal=ann token="])
def test_a_wrong_auth_fails_and_the_connection_lives(words: str) -> None:
    peer = Place().connect()
    [answer] = ask(peer, f"AUTH {words}")
    assert answer == ("ERROR: invalid_auth command=AUTH" if words.endswith("=") else FAILED)
    assert ask(peer, "AUTH principal=ann token=horse")[0].startswith("OK")


# -- in the line


@pytest.mark.parametrize("auth", ["required", "optional"])
def test_a_command_with_a_proof_is_carried_out_as_who_proves_it(auth: Auth) -> None:
    place = Place(auth)
    assert ask(place.connect(), f"LIST {ANN}") == [LIST]
    assert place.asked == [("ListTopics", "ann")]


@pytest.mark.parametrize("auth", ["required", "optional"])
@pytest.mark.parametrize("claim", [WRONG, STRANGER])
def test_a_command_with_a_wrong_proof_is_not_carried_out_and_the_connection_lives(auth: Auth, claim: str) -> None:
    place = Place(auth)
    peer = place.connect()
    assert ask(peer, f"DELETE topic=orders {claim}") == [FAILED]
    assert place.asked == []
    assert not peer.left
    assert ask(peer, f"LIST {ANN}") == [LIST]


def test_where_logins_mean_nothing_whoever_is_named_is_believed() -> None:
    place = Place("none")
    assert ask(place.connect(), f"LIST {STRANGER}") == [LIST]
    assert place.asked == [("ListTopics", "eve")]


def test_who_was_proven_once_is_checked_no_more_and_goes_without_a_proof_too() -> None:
    place = Place()
    assert ask(place.connect(), f"LIST {ANN}", f"LIST {ANN}", "LIST", f"LIST {WRONG}") == [LIST] * 4
    assert place.checks.count == 1
    assert {who for _, who in place.asked} == {"ann"}


def test_another_proof_makes_it_another_from_then_on_and_a_wrong_one_changes_nothing() -> None:
    place = Place()
    peer = place.connect()
    assert ask(peer, f"LIST {ANN}", f"LIST {BEN}", "LIST", f"LIST {STRANGER}", "LIST", f"LIST {ANN}") == [
        *(LIST, LIST, LIST, FAILED, LIST, LIST)
    ]
    assert [who for _, who in place.asked] == ["ann", "ben", "ben", "ben", "ann"]


def test_it_holds_behind_an_auth_that_is_under_way() -> None:
    """Who is there is looked at when it is the command's turn, not when it is read."""
    place = Place(later=True)
    peer = place.connect()
    assert ask(peer, "AUTH principal=ann token=horse", f"LIST {BEN}", f"LIST {BEN}", "AUTH principal=eve token=x") == []
    for _ in range(3):
        place.checks.do()
    assert [answer[:8] for answer in answers(peer)] == ["OK princ", LIST[:8], LIST[:8], FAILED[:8]]
    assert place.asked == [("ListTopics", "ben")] * 2


def test_answers_keep_the_order_of_the_requests() -> None:
    place = Place("optional", later=True)
    peer = place.connect()
    wrong = f"DELETE topic=orders {WRONG.replace('ann', 'eve')}"
    assert ask(peer, "LIST", f"METADATA topic=none {ANN}", "HELP", wrong, f"LIST {BEN}", "HELP") == [LIST]
    assert place.asked == [("ListTopics", None)], "nothing behind it begins before it is known who asks"
    for _ in range(3):
        place.checks.do()
    assert [answer[:20] for answer in answers(peer)] == [
        "ERROR: topic_not_fou",
        "OK commands=CREATE,D",
        FAILED[:20],
        LIST[:20],
        "OK commands=CREATE,D",
    ]
    assert place.asked == [
        *[("ListTopics", None), ("DescribeTopic", "ann"), ("Ping", "ann"), ("ListTopics", "ben"), ("Ping", "ben")]
    ]


COMMANDS = [
    "CREATE topic=new partitions=1",
    "DELETE topic=orders",
    "LIST",
    "LIST topic=orders",
    "PUBLISH topic=orders producerId=p acks=1 partition=0 {} message=v",
    "CONSUME topic=orders partition=0 offset=0 member=m",
    "JOIN_GROUP topic=orders group=g member=m",
    "SYNC_GROUP topic=orders group=g member=m generation=1",
    "HEARTBEAT topic=orders group=g member=m generation=1",
    "LEAVE_GROUP topic=orders group=g member=m",
    "COMMIT_OFFSET topic=orders partition=0 group=g offset=0 generation=1 member=m",
    "BATCH_COMMIT topic=orders group=g member=m generation=1 {} P0:3",
    "BATCH_COMMIT topic=orders group=g member=m generation=1 P0:3 {}",
    "FETCH_OFFSET topic=orders partition=0 group=g",
    "LIST_OFFSETS topic=orders",
    "REGISTER_GROUP topic=orders group=g",
    "GROUP_STATUS group=g",
    "LIST_GROUPS",
    "DESCRIBE topic=orders",
    "METADATA topic=orders",
    "FIND_COORDINATOR group=g",
    "STREAM topic=orders partition=0 group=g",
]


def with_claim(text: str, claim: str) -> str:
    return text.format(claim) if "{}" in text else f"{text} {claim}"


@pytest.mark.parametrize("text", COMMANDS)
def test_every_command_may_carry_a_proof(text: str) -> None:
    place = Place()
    ask(place.connect(), with_claim(text, ANN))
    assert [who for _, who in place.asked] == ["ann"]


@pytest.mark.parametrize("text", COMMANDS)
def test_no_command_is_carried_out_with_a_wrong_proof_or_half_of_one(text: str) -> None:
    place = Place("optional")
    peer = place.connect()
    assert ask(peer, with_claim(text, WRONG)) == [FAILED]
    assert ask(peer, with_claim(text, "principal=ann")) == [CLAIMED_HALF]
    assert ask(peer, with_claim(text, "auth_token=horse")) == [CLAIMED_HALF]
    assert ask(peer, with_claim(text, "principal= auth_token=horse")) == [CLAIMED_HALF]
    assert place.asked == [] and not peer.left


@pytest.mark.parametrize("text", ["HELP", "PROTOCOL_INFO", "NEGOTIATE version=1"])
def test_where_nobody_needs_to_be_anybody_a_proof_is_passed_over(text: str) -> None:
    place = Place()
    assert ask(place.connect(), f"{text} {WRONG}")[0].startswith("OK")
    assert place.checks.count == 0


def test_what_looks_like_a_proof_in_a_message_is_part_of_the_message() -> None:
    place = Place("optional")
    ask(place.connect(), f"PUBLISH topic=orders producerId=p acks=1 partition=0 message=v {WRONG}")
    assert place.asked == [("Publish", None)]


def test_errors_have_their_class_where_that_was_negotiated() -> None:
    peer = Place().connect()
    ask(peer, "NEGOTIATE version=1 features=structured_errors_v1")
    assert ask(peer, f"LIST {WRONG}") == [
        "ERROR: authentication_failed class=authorization retryable=false mechanism=PLAIN"
    ]


def test_a_stream_is_begun_as_who_proves_it() -> None:
    place = Place()
    peer = place.connect()
    assert ask(peer, f"STREAM topic=orders partition=0 group=g {ANN}") == []
    assert place.asked[-1] == ("Follow", "ann")
    assert ask(place.connect(), f"STREAM topic=orders partition=0 group=g {WRONG}") == [FAILED]


def test_access_rules_are_those_of_who_proves_it() -> None:
    place = Place("optional", AccessRule(True, ("ann",), ("DescribeTopic",), ("orders",)))
    peer = place.connect()
    forbidden = "ERROR: NOT_AUTHORIZED_FOR_OPERATION command=METADATA permission=topic.read"
    assert ask(peer, "METADATA topic=orders", f"METADATA topic=orders {BEN}") == [forbidden] * 2
    assert ask(peer, f"METADATA topic=orders {ANN}")[0].startswith("OK topic=orders")


def test_who_tries_tokens_in_the_line_waits_as_with_auth() -> None:
    place = Place()
    peer = place.connect()
    assert ask(peer, *[f"LIST {WRONG}"] * FREE) == [FAILED] * FREE
    assert ask(peer, f"LIST {ANN}") == []
    place.node.wait(1.0)
    assert answers(peer) == [LIST]


def test_a_check_that_takes_too_long_ends_the_command_and_not_the_connection() -> None:
    place = Place(later=True)
    peer = place.connect()
    ask(peer, f"DELETE topic=orders {ANN}", f"LIST {ANN}")
    place.node.wait(20.0)
    assert answers(peer) == ["ERROR: timeout class=availability retryable=true"]
    place.checks.do()
    assert answers(peer) == [LIST], "who asks is known now"
    assert place.asked == [("ListTopics", "ann")], "and what was told to have failed was not carried out"


def test_who_hangs_up_during_the_check_leaves_nothing_behind() -> None:
    place = Place(later=True)
    peer = place.connect()
    ask(peer, f"DELETE topic=orders {ANN}")
    with capturedLogs() as events:
        peer.lose()
        place.checks.do()
        place.node.turn()
    assert place.asked == [] and events == []


def test_the_gateway_finishes_a_check_before_it_stops() -> None:
    place = Place(later=True)
    peer = place.connect()
    ask(peer, f"LIST {ANN}")
    place.node.port.drain()
    place.checks.do()
    assert answers(peer) == [LIST]
    assert peer.left


# -- nobody sees it


class Seen:
    """A tap that keeps what it is shown."""

    def __init__(self) -> None:
        self.heard_of: list[Any] = []

    def heard(self, ticket: int, frame: bytes, request: Request | Refusal) -> None:
        self.heard_of.append((ticket, request))

    def answered(self, ticket: int, request: Request | Refusal, outcome: Outcome, data: bytes) -> None:
        self.heard_of.append((ticket, request, outcome, data))

    def said(self, data: bytes) -> None:
        self.heard_of.append(data)


@pytest.mark.parametrize("claim", ["principal=ann auth_token=horse", "principal=ann auth_token=horse9"])
def test_the_token_is_in_no_log_fault_or_sight_of_a_tap(claim: str) -> None:
    place = Place()
    seen = Seen()
    place.node.port.taps.add(lambda who: True, lambda who: seen)
    peer = place.connect()
    with capturedLogs() as events:
        odd = "LIST x", "LIST_GROUPS x", "BATCH_COMMIT topic=orders group=g member=m generation=1"
        for text in (*odd, *COMMANDS[:-1]):
            ask(peer, with_claim(text, claim))
            place.node.wait(LONGEST)
        ask(peer, "LIST token=horse", "LIST_GROUPS auth_token=horse", f"AUTH {claim.replace('auth_token', 'token')}")
        peer.lose()
    faults = place.node.port.faults.last()
    assert len(seen.heard_of) > len(COMMANDS) and faults
    assert "horse" not in repr((seen.heard_of, faults, events))


def test_a_tap_sees_one_request_and_one_answer_of_a_command_with_a_proof() -> None:
    place = Place()
    seen = Seen()
    place.node.port.taps.add(lambda who: True, lambda who: seen)
    ask(place.connect(), f"LIST {ANN}", f"LIST {STRANGER}")
    assert [each[0] for each in seen.heard_of] == [0, 1, 0, 1]
    outcomes = [each[2] for each in seen.heard_of if len(each) == 4]
    assert isinstance(outcomes[1], CommandFailed) and outcomes[1].fault is Fault.BAD_CREDENTIALS


def test_a_proof_belongs_to_its_call_and_batches_have_none() -> None:
    session = CURSUS.open(CURSUS.settings(), {}).session()
    calls: list[Call] = session.receive(framed(f"LIST {ANN}") + framed("LIST"), 0.0)
    assert [call.proof for call in calls] == [q.Authenticate("plain", "ann", "horse"), None]
