"""One gateway without a socket: the connections are real, their transports, their peers and the clock are not."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IAddress, IPushProducer
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from zope.interface import implementer

from gateway import dialects
from gateway.backends.interface import IBackend, IFollower
from gateway.core import commands as q
from gateway.core.commands import Command, Session
from gateway.core.records import Record, canonical, registry
from gateway.core.replies import Done, Outcome, Reply
from gateway.dialects import ClientSession, Dialect, Request
from gateway.net.limits import Limits
from gateway.net.login import Auth
from gateway.net.port import SWEEP_SECONDS, Port
from gateway.net.server import Connection, Listening
from gateway.net.users import Users

CHUNK = 65_536
"""Bytes that a real transport reads at a time."""

ORDERS = q.Topic("default", "orders")


def produce(key: bytes, value: bytes, acks: q.Acks = q.Acks.LEADER) -> q.Publish:
    """A record of `orders`, as a V1 client means it: there to be created, and the key says in which partition."""
    return q.Publish(ORDERS, q.ByKey(key, "fnv1a_32"), canonical([Record(key, value)], "pipe"), acks, 3)


class Wire(StringTransport):
    """Pauses its producer as a real transport does, and keeps what was written apart.

    room: unread bytes above which the producer is paused; None = the peer reads everything at once.
    peer: where the other end is; None = on another machine.
    """

    def __init__(self, room: int | None, peer: IAddress | None = None) -> None:
        super().__init__(peerAddress=peer)
        self.room = room
        self.writes: list[bytes] = []
        self._paused = False

    def write(self, data: bytes) -> None:
        super().write(data)
        self.writes.append(data)
        if self.room is not None and len(self.value()) > self.room and self.producer is not None and not self._paused:
            self._paused = True
            self.producer.pauseProducing()

    def read(self) -> bytes:
        """The peer reads all there is."""
        data = self.value()
        self.clear()
        if self._paused and self.producer is not None:
            self._paused = False
            self.producer.resumeProducing()
        return data


class Peer:
    """A client that sends and reads when the test says so."""

    def __init__(self, node: Node, listening: Listening, room: int | None, address: IAddress | None = None) -> None:
        self.node = node
        self.wire = Wire(room, address)
        self.unread = b""
        self.connection: Connection = listening.buildProtocol(None)
        self.connection.makeConnection(self.wire)

    def send(self, data: bytes, chunk: int = CHUNK) -> None:
        """What does not get in waits in the network."""
        self.unread += data
        self.flow(chunk)

    def flow(self, chunk: int = CHUNK) -> None:
        while self.unread and self.wire.producerState == "producing" and not self.wire.disconnecting:
            data, self.unread = self.unread[:chunk], self.unread[chunk:]
            self.connection.dataReceived(data)

    def read(self) -> bytes:
        """All that is sent to it until nothing more comes."""
        got = b""
        while True:
            self.node.turn()
            self.flow()
            self.node.turn()
            more = self.wire.read()
            if not more:
                return got
            got += more

    def finish(self) -> None:
        """Sends no more, but reads."""
        self.connection.readConnectionLost()

    def lose(self) -> None:
        self.connection.connectionLost(Failure(ConnectionDone()))

    @property
    def left(self) -> bool:
        """Whether the gateway hung up."""
        return self.wire.disconnecting

    @property
    def heard(self) -> bool:
        """Whether the gateway reads."""
        return self.wire.producerState == "producing"


class Node:
    """One process with one listener."""

    def __init__(
        self,
        backend: IBackend,
        dialect: str | Dialect,
        clock: Clock | None = None,
        most: int = Limits().in_flight,
        users: Users | None = None,
        auth: Auth = "optional",
        limits: Limits | None = None,
        **said: Any,
    ) -> None:
        self.clock = clock or Clock()
        self.dialect = dialects.load(dialect) if isinstance(dialect, str) else dialect
        self.port = Port(backend, self.clock, limits or Limits(in_flight=most), users)
        self.listening = Listening("test", self.dialect.open(self.dialect.settings(**said), registry([])), auth)
        self.listening.port = self.port

    def connect(self, room: int | None = None, address: IAddress | None = None) -> Peer:
        return Peer(self, self.listening, room, address)

    def turn(self) -> None:
        """What is due now, happens."""
        self.clock.advance(0)

    def wait(self, seconds: float) -> None:
        """Time passes as in the service: everybody looks at his deadlines now and then."""
        end = self.clock.seconds() + seconds
        while self.clock.seconds() < end:
            self.clock.advance(min(SWEEP_SECONDS, end - self.clock.seconds()))
            self.port.sweep()
            self.turn()


class Client:
    """A peer that speaks the dialect."""

    def __init__(self, node: Node, room: int | None = None, address: IAddress | None = None) -> None:
        self.peer = node.connect(room, address)
        self.session = ClientSession(node.dialect, node.listening.listener.terms("127.0.0.1:1"))
        self.outcomes: dict[Any, Outcome] = {}
        self._issued = 0

    def begin(self, *commands: Command) -> list[int]:
        """Tags of the requests, all sent at once."""
        tags = []
        for command in commands:
            self._issued += 1
            self.session.ask(Request(command, self._issued))
            tags.append(self._issued)
        self.peer.send(self.session.take())
        return tags

    def ask(self, command: Command) -> Outcome:
        (tag,) = self.begin(command)
        self.listen()
        return self.outcomes[tag]

    def listen(self) -> None:
        """Take in what was answered."""
        self.outcomes |= {request.tag: outcome for request, outcome in self.session.receive(self.peer.read())}


@implementer(IPushProducer)
class Source:
    """What a Follow of `Scripted` is given."""

    def __init__(self, command: q.Follow, follower: IFollower) -> None:
        self.command = command
        self.follower = follower
        self.paused = False
        self.stopped = False

    def pauseProducing(self) -> None:
        self.paused = True

    def resumeProducing(self) -> None:
        self.paused = False

    def stopProducing(self) -> None:
        self.stopped = True


@implementer(IBackend)
class Scripted:
    """A backend that answers when the test says so, but for EndSession.

    now: what it answers at once, by command type; an exception is raised.
    """

    durability = "memory"

    def __init__(self, now: dict[type, Reply | Exception] | None = None) -> None:
        self.now: dict[type, Reply | Exception] = {q.EndSession: Done(), **(now or {})}
        self.asked: list[Command] = []
        self.sessions: list[Session] = []
        self.open: list[Deferred[Reply]] = []
        self.sources: list[Source] = []

    def execute(self, command: Command, session: Session) -> Reply | Deferred[Reply]:
        self.asked.append(command)
        self.sessions.append(session)
        answer = self.now.get(type(command))
        if isinstance(answer, Exception):
            raise answer
        if answer is not None:
            return answer
        self.open.append(Deferred())
        return self.open[-1]

    def follow(self, command: q.Follow, session: Session, follower: IFollower) -> IPushProducer:
        self.sources.append(Source(command, follower))
        return self.sources[-1]

    def answer(self, reply: Reply, most: int | None = None) -> None:
        """The oldest open ones, or all."""
        ready, self.open = self.open[:most], [] if most is None else self.open[most:]
        for deferred in ready:
            deferred.callback(reply)

    def close(self) -> None:
        pass
