"""Before a required login nothing is done: every request of every dialect's vectors, over a connection."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest
from OpenSSL import crypto
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IPushProducer
from twisted.internet.task import Clock

import wire
from gateway import dialects
from gateway.backends.memory import MemoryBackend
from gateway.conformance import vectors
from gateway.core import commands as q
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import registry
from gateway.core.replies import Count, Done, Reply
from gateway.dialects import Listener, Refusal, Request
from gateway.dialects.grid.service import UNSUBSCRIBE
from gateway.dialects.grid.terms import Asked, Hello
from gateway.dialects.native.session import Hello as NativeHello
from gateway.dialects.pipe.asides import BrokerChange
from gateway.dialects.pipe.session import PipeListener
from gateway.net.access import AccessRule, Guarded, Policy
from gateway.net.users import User, Users, new_password
from net.certificates import Authority
from net.peers import Node, Peer

NAMES = sorted(path.parent.name for path in Path(dialects.__file__).parent.glob("*/__init__.py"))
ENCODINGS = registry(encoding for name in NAMES for encoding in dialects.load(name).encodings)
USERS = (User("ann", 1, new_password("horse", log_n=4)),)
CASES = [(name, case) for name in NAMES for case in vectors.load(name)]


class Untouched:
    """A backend that answers Ping and must not be asked anything else."""

    durability = "memory"

    def __init__(self) -> None:
        self.asked: list[object] = []

    def execute(self, command: q.Command, session: Session) -> Reply | Deferred[Reply]:
        if type(command) not in (q.Ping, q.EndSession):
            self.asked.append(command)
        return Done()

    def follow(self, command: q.Follow, session: Session, follower: object) -> IPushProducer:
        self.asked.append(command)
        raise CommandFailed(Fault.UNSUPPORTED)

    def close(self) -> None:
        pass


def place(name: str, case: vectors.Case) -> tuple[Untouched, Peer, Listener]:
    backend = Untouched()
    users = Users(USERS, lambda work: succeed(work()))
    node = Node(backend, name, users=users, auth="required")  # type: ignore[arg-type]  # it is all that is asked
    settings = msgspec.convert({**case.settings, "advertise": case.advertise}, node.dialect.settings)
    node.listening.listener = node.dialect.open(settings, ENCODINGS)
    return backend, node.connect(), node.listening.listener


def is_greeting(asked: Request) -> bool:
    """Whether it is what a dialect answers to anybody: that there is one, what it speaks, and what it does not hold."""
    if isinstance(asked.context, BrokerChange):
        return False
    unsubscribes = isinstance(asked.context, Asked) and asked.context.opcode == UNSUBSCRIBE
    return type(asked.command) is q.Ping or isinstance(asked.context, Hello | NativeHello) or unsubscribes


def wanted(asked: Request | Refusal, name: str, terms: Any) -> bytes | None:
    """What has to be answered, None = something that is not a failure."""
    encode = dialects.load(name).encode_reply
    if isinstance(asked, Refusal):
        return encode(asked, asked.failure, terms)
    if is_greeting(asked):
        return None
    fault = Fault.BAD_CREDENTIALS if type(asked.command) is q.Authenticate else Fault.UNAUTHENTICATED
    claimed = getattr(asked.context, "proof", None) is not None
    return encode(asked, CommandFailed(Fault.BAD_CREDENTIALS if claimed else fault), terms)


def shared(listener: Listener) -> bytes:
    """What the connections of a listener have in common, where a dialect keeps something."""
    return pickle.dumps(listener.cluster) if isinstance(listener, PipeListener) else b""


@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}-{case.name}"[:90] for name, case in CASES])
def test_before_a_login_nothing_is_carried_out_and_every_request_is_told_so(name: str, case: vectors.Case) -> None:
    backend, peer, listener = place(name, case)
    dialect, terms = dialects.load(name), peer.connection._session.terms
    before, start = shared(listener), 0
    while start < len(case.when):
        frame = case.when[start : start + dialect.measure_request(case.when, start, 0)]
        expected = wanted(dialect.decode_request(frame, terms), name, terms)
        peer.send(frame)
        answer = peer.read()
        assert answer == expected if expected is not None else answer, "it is told to log in, or what it asked"
        start += len(frame)
    assert backend.asked == []
    assert peer.connection.who.principal is None
    assert shared(listener) == before


def test_every_dialect_there_is_has_its_requests_held_back() -> None:
    assert len(NAMES) >= 6
    for name in NAMES:
        held = [case for other, case in CASES if other == name and case.command and "Ping" not in case.command]
        assert len(held) >= 20, name


@pytest.mark.parametrize("name", ["pipe", "mlog"])
def test_a_dialect_without_a_login_is_opened_by_a_clients_certificate_alone(name: str) -> None:
    case = next(case for other, case in CASES if other == name and case.command and not case.refusal)
    backend, peer, _ = place(name, case)
    peer.send(case.when)
    assert backend.asked == []
    peer.connection.who.principal = "ann"  # as `handshakeCompleted` does; over sockets in system/test_tls.py
    peer.send(case.when)
    assert len(backend.asked) >= 1


# -- what a V1 line changes beside the log is for who may do everything

ADMIN = [
    "a broker registers",
    "a broker is fenced",
    "a partition may have no leader and nobody in sync",
    "leaders are elected",
    "this node is told to follow",
]
"""Vectors, and the topics that they are about."""
LED = ("payments", "election", "held")


@pytest.mark.parametrize("name", ADMIN)
def test_who_may_not_do_everything_changes_no_table_of_brokers(name: str) -> None:
    memory = MemoryBackend(Clock())
    for topic in LED:
        memory.execute(q.CreateTopic(q.Topic("default", topic), 3), Session(0, "test"))
    guarded = Guarded(memory, Policy([AccessRule(True, command=("LatestOffsets", "Publish"))]))
    node = Node(guarded, "pipe")
    peer, before = node.connect(), shared(node.listening.listener)
    asked = node.dialect.decode_request(wire.said("pipe", name), wire.terms("pipe"))
    peer.send(wire.said("pipe", name))
    assert peer.read() == wire.reply("pipe", asked, CommandFailed(Fault.FORBIDDEN))
    assert shared(node.listening.listener) == before
    guarded.policy = Policy([AccessRule(True)])
    peer.send(wire.said("pipe", name))
    assert not isinstance(node.dialect.decode_reply(asked, peer.read(), wire.terms("pipe")), CommandFailed)


# -- what the grid keeps of answers is for who got them


def test_who_repeats_what_another_bearer_asked_does_not_get_that_ones_answer(tmp_path: Path) -> None:
    """Two certificates on one listener; the second may do nothing, and says what the first said, sender id included."""
    guarded = Guarded(MemoryBackend(Clock()), Policy([AccessRule(True, ("ann",))]))
    node = Node(guarded, "grid", users=Users((User("ann", 1), User("eve", 2))))
    pem, _ = Authority(tmp_path).sign("client")
    shown = crypto.load_certificate(crypto.FILETYPE_PEM, pem.read_bytes())
    counted, asked = q.MapAdd(q.Topic("default", "m"), b"m", 1, create=1), Asked("COUNTER_INCREMENT", sender=b"c1:7")
    increment = wire.request("grid", counted, 1, asked)
    answers = []
    for bearer in ("ann", "ann", "eve"):
        peer = node.connect()
        node.port.principals = {"client": bearer}
        peer.connection.transport.getPeerCertificate = lambda: shown
        peer.connection.handshakeCompleted()
        peer.send(increment)
        answers.append(peer.read())
    assert answers[0] == answers[1], "the repetition of the first"
    read, terms = node.dialect.decode_reply, wire.terms("grid")
    first, last = (read(Request(counted, 1, asked), answer, terms) for answer in (answers[0], answers[2]))
    assert first == Count(1) and isinstance(last, CommandFailed)
