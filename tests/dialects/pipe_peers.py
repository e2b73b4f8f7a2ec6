"""A pipe listener before a memory, and who speaks V1 to it: in commands, and in what each of them is answered."""

from __future__ import annotations

from twisted.internet.task import Clock

from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical
from gateway.core.replies import Outcome, Reply
from gateway.dialects import Request
from gateway.dialects.pipe import asides as a
from gateway.dialects.pipe.cluster import Cluster
from gateway.dialects.pipe.session import PipeListener
from net.peers import Client, Node

Asked = q.Command | tuple[q.Command, a.Aside]
"""A command, and what stands beside it where it is one of brokers and administrators."""


class Broker:
    """One connection stays; who comes for one request only has one of his own."""

    def __init__(self, **settings: object) -> None:
        self.clock = Clock()
        self.backend = MemoryBackend(self.clock, lambda: 0)
        self.node = Node(self.backend, "pipe", self.clock, **settings)
        self.client = Client(self.node)

    @property
    def cluster(self) -> Cluster:
        listener = self.node.listening.listener
        assert isinstance(listener, PipeListener)
        return listener.cluster

    def outcomes(self, *asked: Asked, client: Client | None = None) -> list[Outcome]:
        """What each is answered, all of them sent in one piece."""
        client = client or self.client
        for number, each in enumerate(asked):
            client.session.ask(request(each, str(number)))
        client.peer.send(client.session.take())
        outcomes = [outcome for _, outcome in client.session.receive(client.peer.read())]
        assert len(outcomes) == len(asked)
        return outcomes  # type: ignore[return-value]  # nobody follows

    def say(self, *asked: Asked) -> list[Reply | Fault]:
        """The same, failures by their kind."""
        return [_kind(outcome) for outcome in self.outcomes(*asked)]

    def ask(self, asked: Asked) -> Reply | Fault:
        [answer] = self.say(asked)
        return answer

    def asks(self, *asked: Asked) -> list[Reply | Fault]:
        """The same, one after the other, each on a connection of its own that is lost behind it."""
        found = []
        for each in asked:
            client = Client(self.node)
            found += map(_kind, self.outcomes(each, client=client))
            client.peer.lose()
        return found

    def why(self, asked: Asked) -> str:
        """In which words it is refused."""
        [outcome] = self.outcomes(asked)
        assert isinstance(outcome, CommandFailed)
        return outcome.detail


def _kind(outcome: Outcome) -> Reply | Fault:
    return outcome.fault if isinstance(outcome, CommandFailed) else outcome


def request(asked: Asked, tag: str) -> Request:
    return Request(asked[0], tag, asked[1]) if isinstance(asked, tuple) else Request(asked, tag)


# -- what is asked


def of(topic: str) -> q.Topic:
    return q.Topic("default", topic)


def produce(key: bytes, value: bytes = b"v", topic: str = "orders") -> q.Publish:
    return q.Publish(of(topic), q.ByKey(key, "fnv1a_32"), canonical([Record(key, value)], "pipe"), create=3)


def join(member: str, assignor: str = "", topic: str = "orders", group: str = "team") -> q.JoinGroup:
    return q.JoinGroup(of(topic), group, member, q.Heartbeats(10.0), assignor, create=3)


def place(partition: int, aside: a.Aside, topic: str = "orders") -> Asked:
    return q.LatestOffsets(of(topic), partition), aside


def follow(partition: int, topic: str = "orders") -> Asked:
    return place(partition, a.PartitionRole(True), topic)


def lead(partition: int, topic: str = "orders") -> Asked:
    return place(partition, a.PartitionRole(False), topic)


def copy(partition: int, offset: int = 0, most: int = 100) -> Asked:
    return q.Fetch(of("orders"), partition, offset, most), a.BrokerFetch(1)


def create(topic: str, partitions: int, replicas: int = 1) -> Asked:
    return q.CreateTopic(of(topic), partitions, if_exists=q.IfExists.KEEP), a.Replication(replicas)


def register(broker: int, host: str = "h", port: int = 1, epoch: int = 0) -> Asked:
    return q.Ping(), a.RegisterBroker(broker, host, port, epoch)


def fence(broker: int, fenced: bool = True) -> Asked:
    return q.Ping(), a.FenceBroker(broker, fenced)


def alive(broker: int) -> Asked:
    return q.Ping(), a.BrokerHeartbeat(broker)


def reconcile(timeout: int) -> Asked:
    return q.Ping(), a.ReconcileBrokers(timeout)


def elect(topic: str) -> Asked:
    return place(0, a.Election(), topic)


def led_by(topic: str, partition: int, leader: int, *isr: int) -> Asked:
    return place(partition, a.PartitionLeader(leader, isr), topic)


LISTED: Asked = q.ListTopics("default"), a.Metadata()
