"""Logging in to a Cursus listener, with AUTH and in the line of any other command: who a command is carried out as."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

import wire
from gateway import dialects
from gateway.backends.memory import MemoryBackend
from gateway.conformance import vectors
from gateway.core import commands as q
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical
from gateway.core.replies import Outcome, TopicDescription
from gateway.dialects import Call, Refusal, Request
from gateway.dialects.cursus import spec
from gateway.dialects.cursus.batch import MAGIC
from gateway.net.access import AccessRule, Guarded, Policy
from gateway.net.attempts import FREE, LONGEST
from gateway.net.login import Auth
from gateway.net.users import User, Users, new_password
from net.peers import Node, Peer

CURSUS = dialects.load("cursus")
ANN, BEN = q.Authenticate("plain", "ann", "horse"), q.Authenticate("plain", "ben", "battery")
WRONG, STRANGER = q.Authenticate("plain", "ann", "staple"), q.Authenticate("plain", "eve", "horse")
USERS = (User("ann", 1, new_password("horse", log_n=4)), User("ben", 2, new_password("battery", log_n=4)))
ORDERS = q.Topic("default", "orders")
FAILED = wire.told("cursus", "AUTH with a wrong token fails")
CLAIMED_HALF = wire.told("cursus", "who says half of who asks is refused")
LISTED = wire.told("cursus", "LIST without an envelope, as Java sends it")
HELP, HELPED = wire.said("cursus", "HELP lists what is served"), wire.told("cursus", "HELP lists what is served")
BARE = ("HELP lists what is served", "PROTOCOL_INFO names the version and what is served of it", "NEGOTIATE of nothing")
"""Vectors of what everybody is answered."""


def heard(frame: bytes) -> Request | Refusal:
    return CURSUS.decode_request(frame, wire.terms("cursus"))


def lines() -> dict[str, Request]:
    """A request of each word and kind that may say who asks, which arguments without keys leave no place for."""
    found: dict[str, Request] = {}
    for frame in (frame for case in vectors.load("cursus") if "client" in case.roles for frame in frames(case.when)):
        asked, keyed = heard(frame), b"=" in frame or b" " not in frame
        batched = frame.startswith(MAGIC, 4)
        if isinstance(asked, Request) and type(asked.command) not in (q.Ping, q.Authenticate) and keyed and not batched:
            found.setdefault(f"{asked.context.word} {type(asked.command).__name__}", asked)
    return found


def frames(octets: bytes) -> list[bytes]:
    found = []
    while octets:
        size = CURSUS.measure_reply(octets, 0, 0)
        found.append(octets[:size])
        octets = octets[size:]
    return found


LINES = lines()
PUT = {type(asked.command): asked.context for asked in LINES.values()}
"""How a command of that kind is put."""


def with_proof(asked: Request, proof: q.Authenticate | None) -> bytes:
    context = msgspec.structs.replace(asked.context, proof=proof)
    return wire.request("cursus", asked.command, context=context)


def line(command: q.Command, proof: q.Authenticate | None = None) -> bytes:
    return with_proof(Request(command, None, PUT[type(command)]), proof)


def listing(proof: q.Authenticate | None = None) -> bytes:
    return line(q.ListTopics("default"), proof)


def told(command: q.Command, fault: Fault, **changes: object) -> bytes:
    """What the peer is told when that fails."""
    context = msgspec.structs.replace(PUT[type(command)], **changes)
    return wire.reply("cursus", Request(command, None, context), CommandFailed(fault))


def changed(frame: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """The frame with another payload."""
    made: bytes = spec.Long.build(change(frame[4:]))
    return made


def halves(asked: Request) -> list[bytes]:
    """It with half a proof, and with one that has nothing in it."""
    frame = with_proof(asked, ANN)
    claims = list(spec.CLAIM.finditer(frame))
    spans = [span for found in claims for span in (found.span(), found.span(2))]
    return [spec.Long.build(frame[4:begin] + frame[end:]) for begin, end in spans]


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
        self.backend.execute(q.CreateTopic(ORDERS, 1), Session(0, "test"))
        self.backend.asked.clear()
        self.checks = Checks(later)
        guarded = Guarded(self.backend, Policy(rules)) if rules else self.backend
        self.node = Node(guarded, "cursus", self.backend.clock, users=Users(USERS, self.checks), auth=auth)

    def connect(self) -> Peer:
        return self.node.connect()

    @property
    def asked(self) -> list[tuple[str, str | None]]:
        return self.backend.asked


def ask(peer: Peer, *requests: bytes) -> list[bytes]:
    peer.send(b"".join(requests))
    return frames(peer.read())


# -- AUTH


def test_who_sent_auth_may_go_on_and_who_did_not_may_not() -> None:
    place = Place()
    peer = place.connect()
    refused, _, listed = ask(peer, listing(), wire.request("cursus", ANN), listing())
    assert refused == told(q.ListTopics("default"), Fault.UNAUTHENTICATED)
    assert listed == LISTED
    assert place.asked == [("ListTopics", "ann")]


# -- in the line


@pytest.mark.parametrize("auth", ["required", "optional"])
def test_a_command_with_a_proof_is_carried_out_as_who_proves_it(auth: Auth) -> None:
    place = Place(auth)
    assert ask(place.connect(), listing(ANN)) == [LISTED]
    assert place.asked == [("ListTopics", "ann")]


@pytest.mark.parametrize("auth", ["required", "optional"])
@pytest.mark.parametrize("claim", [WRONG, STRANGER])
def test_a_command_with_a_wrong_proof_is_not_carried_out_and_the_connection_lives(
    auth: Auth, claim: q.Authenticate
) -> None:
    place = Place(auth)
    peer = place.connect()
    assert ask(peer, line(q.DeleteTopic(ORDERS), claim)) == [FAILED]
    assert place.asked == []
    assert not peer.left
    assert ask(peer, listing(ANN)) == [LISTED]


def test_where_logins_mean_nothing_whoever_is_named_is_believed() -> None:
    place = Place("none")
    assert ask(place.connect(), listing(STRANGER)) == [LISTED]
    assert place.asked == [("ListTopics", "eve")]


def test_who_was_proven_once_is_checked_no_more_and_goes_without_a_proof_too() -> None:
    place = Place()
    assert ask(place.connect(), listing(ANN), listing(ANN), listing(), listing(WRONG)) == [LISTED] * 4
    assert place.checks.count == 1
    assert {who for _, who in place.asked} == {"ann"}


def test_another_proof_makes_it_another_from_then_on_and_a_wrong_one_changes_nothing() -> None:
    place = Place()
    peer = place.connect()
    assert ask(peer, listing(ANN), listing(BEN), listing(), listing(STRANGER), listing(), listing(ANN)) == [
        *(LISTED, LISTED, LISTED, FAILED, LISTED, LISTED)
    ]
    assert [who for _, who in place.asked] == ["ann", "ben", "ben", "ben", "ann"]


def test_it_holds_behind_an_auth_that_is_under_way() -> None:
    """Who is there is looked at when it is the command's turn, not when it is read."""
    place = Place(later=True)
    peer = place.connect()
    assert ask(peer, wire.request("cursus", ANN), listing(BEN), listing(BEN), wire.request("cursus", STRANGER)) == []
    for _ in range(3):
        place.checks.do()
    _, *answers = frames(peer.read())
    assert answers == [LISTED, LISTED, FAILED]
    assert place.asked == [("ListTopics", "ben")] * 2


def test_answers_keep_the_order_of_the_requests() -> None:
    place = Place("optional", later=True)
    peer = place.connect()
    wrong, nothing = line(q.DeleteTopic(ORDERS), STRANGER), q.DescribeTopic(q.Topic("default", "none"))
    assert ask(peer, listing(), line(nothing, ANN), HELP, wrong, listing(BEN), HELP) == [LISTED]
    assert place.asked == [("ListTopics", None)], "nothing behind it begins before it is known who asks"
    for _ in range(3):
        place.checks.do()
    assert frames(peer.read()) == [told(nothing, Fault.NO_SUCH_TOPIC), HELPED, FAILED, LISTED, HELPED]
    assert place.asked == [
        *[("ListTopics", None), ("DescribeTopic", "ann"), ("Ping", "ann"), ("ListTopics", "ben"), ("Ping", "ben")]
    ]


def test_all_words_are_tried_but_those_of_everybody() -> None:
    other = {"AUTH", "COMMIT", "HELP", "PROTOCOL_INFO", "NEGOTIATE"}
    assert {name.split()[0] for name in LINES} == spec.FORMS.keys() - other


@pytest.mark.parametrize("which", LINES)
def test_every_command_may_carry_a_proof(which: str) -> None:
    place = Place()
    ask(place.connect(), with_proof(LINES[which], ANN))
    assert [who for _, who in place.asked] == ["ann"]


@pytest.mark.parametrize("which", LINES)
def test_no_command_is_carried_out_with_a_wrong_proof_or_half_of_one(which: str) -> None:
    place = Place("optional")
    peer = place.connect()
    assert ask(peer, with_proof(LINES[which], WRONG)) == [FAILED]
    assert ask(peer, *halves(LINES[which])) == [CLAIMED_HALF] * 4
    assert place.asked == [] and not peer.left


@pytest.mark.parametrize("name", BARE)
def test_where_nobody_needs_to_be_anybody_a_proof_is_passed_over(name: str) -> None:
    place, asked = Place(), heard(wire.said("cursus", name))
    assert isinstance(asked, Request)
    assert ask(place.connect(), with_proof(asked, WRONG)) == [wire.told("cursus", name)]
    assert place.checks.count == 0


def test_what_looks_like_a_proof_in_a_message_is_part_of_the_message() -> None:
    place = Place("optional")
    message = Record(None, b"v principal=ann auth_token=staple", producer=b"p")
    ask(place.connect(), line(q.Publish(ORDERS, 0, canonical([message]))))
    assert place.asked == [("Publish", None)]


def test_errors_have_their_class_where_that_was_negotiated() -> None:
    peer = Place().connect()
    ask(peer, wire.said("cursus", "NEGOTIATE of everything"))
    classified = told(q.ListTopics("default"), Fault.BAD_CREDENTIALS, structured=True)
    assert ask(peer, listing(WRONG)) == [classified] != [FAILED]


def test_a_stream_is_begun_as_who_proves_it() -> None:
    place = Place()
    peer = place.connect()
    stream = q.Follow(ORDERS, 0, q.Next(q.Group("g"), 0))
    assert ask(peer, line(stream, ANN)) == []
    assert place.asked[-1] == ("Follow", "ann")
    assert ask(place.connect(), line(stream, WRONG)) == [FAILED]


def test_access_rules_are_those_of_who_proves_it() -> None:
    place = Place("optional", AccessRule(True, ("ann",), ("DescribeTopic",), ("orders",)))
    peer = place.connect()
    describe = q.DescribeTopic(ORDERS)
    assert ask(peer, line(describe), line(describe, BEN)) == [told(describe, Fault.FORBIDDEN)] * 2
    [answer] = ask(peer, line(describe, ANN))
    found = CURSUS.decode_reply(Request(describe), answer, wire.terms("cursus"))
    assert isinstance(found, TopicDescription)


def test_who_tries_tokens_in_the_line_waits_as_with_auth() -> None:
    place = Place()
    peer = place.connect()
    assert ask(peer, *[listing(WRONG)] * FREE) == [FAILED] * FREE
    assert ask(peer, listing(ANN)) == []
    place.node.wait(1.0)
    assert frames(peer.read()) == [LISTED]


def test_a_check_that_takes_too_long_ends_the_command_and_not_the_connection() -> None:
    place = Place(later=True)
    peer = place.connect()
    ask(peer, line(q.DeleteTopic(ORDERS), ANN), listing(ANN))
    place.node.wait(20.0)
    assert frames(peer.read()) == [told(q.DeleteTopic(ORDERS), Fault.TIMEOUT)]
    place.checks.do()
    assert frames(peer.read()) == [LISTED], "who asks is known now"
    assert place.asked == [("ListTopics", "ann")], "and what was told to have failed was not carried out"


def test_who_hangs_up_during_the_check_leaves_nothing_behind() -> None:
    place = Place(later=True)
    peer = place.connect()
    ask(peer, line(q.DeleteTopic(ORDERS), ANN))
    with capturedLogs() as events:
        peer.lose()
        place.checks.do()
        place.node.turn()
    assert place.asked == [] and events == []


def test_the_gateway_finishes_a_check_before_it_stops() -> None:
    place = Place(later=True)
    peer = place.connect()
    ask(peer, listing(ANN))
    place.node.port.drain()
    place.checks.do()
    assert frames(peer.read()) == [LISTED]
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


ODD = (
    "LIST of something else is refused",
    "LIST_GROUPS of something is refused",
    "BATCH_COMMIT of something else is refused",
)
"""Vectors of lines of which some is said back."""


@pytest.mark.parametrize("proof", [ANN, q.Authenticate("plain", "ann", "horse9")], ids=["right", "wrong"])
def test_the_token_is_in_no_log_fault_or_sight_of_a_tap(proof: q.Authenticate) -> None:
    place = Place()
    seen = Seen()
    place.node.port.taps.add(lambda who: True, lambda who: seen)
    peer = place.connect()
    claim = b"".join(found[0] for found in spec.CLAIM.finditer(listing(proof)))
    no_command = wire.said("cursus", "a token in a line that is no command is not said back")
    requests = [with_proof(asked, proof) for asked in LINES.values() if type(asked.command) is not q.Follow]
    with capturedLogs() as events:
        for frame in (*(changed(wire.said("cursus", name), lambda text: text + claim) for name in ODD), *requests):
            ask(peer, frame)
            place.node.wait(LONGEST)
        ask(peer, changed(no_command, lambda text: text.replace(b"secret", b"horse")))
        ask(peer, *halves(LINES["LIST_GROUPS ListGroups"]), wire.request("cursus", proof))
        peer.lose()
    faults = place.node.port.faults.last()
    assert len(seen.heard_of) > len(LINES) and faults
    assert "horse" not in repr((seen.heard_of, faults, events))


def test_a_tap_sees_one_request_and_one_answer_of_a_command_with_a_proof() -> None:
    place = Place()
    seen = Seen()
    place.node.port.taps.add(lambda who: True, lambda who: seen)
    ask(place.connect(), listing(ANN), listing(STRANGER))
    assert [each[0] for each in seen.heard_of] == [0, 1, 0, 1]
    outcomes = [each[2] for each in seen.heard_of if len(each) == 4]
    assert isinstance(outcomes[1], CommandFailed) and outcomes[1].fault is Fault.BAD_CREDENTIALS


def test_a_proof_belongs_to_its_call_and_batches_have_none() -> None:
    session = CURSUS.open(CURSUS.settings(), {}).session()
    calls: list[Call] = session.receive(listing(ANN) + listing(), 0.0)
    assert [call.proof for call in calls] == [ANN, None]
