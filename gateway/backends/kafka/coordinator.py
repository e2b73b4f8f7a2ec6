"""What is asked of Kafka's group coordinators on nobody's behalf.  Every method blocks: they are for threads.

They raise KafkaException, which `Cluster.call` makes a CommandFailed of.  Plain TCP, as everything that is told no more
than HOST:PORT.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from gateway.backends.kafka import protocol
from gateway.backends.kafka.faults import is_early
from gateway.backends.kafka.protocol import Committed, Refused, Seen

T = TypeVar("T")

SECONDS = 8.0
"""For one answer, so that it is there within the deadline of a command."""

RETRY_SECONDS = 0.1
"""Between attempts while there is no coordinator, or nobody answers."""

MAX_IDLE = 16
"""Connections kept for the next who asks."""

MAX_KNOWN = 10_000
"""Groups of which the coordinator is remembered."""

Address = tuple[str, int]

_ELSEWHERE = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)

_MEMBERS_ONLY = (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS)

_IN_USE = (KafkaError.GROUP_SUBSCRIBED_TO_TOPIC, KafkaError.NON_EMPTY_GROUP)


class Coordinator:
    """bootstrap: `HOST:PORT[,HOST:PORT...]`.  admin: the client that asks for the rest; called in a thread."""

    def __init__(self, bootstrap: str, admin: Callable[[], AdminClient]) -> None:
        self._servers = [_address(server) for server in bootstrap.split(",")]
        self._admin = admin
        self._lock = threading.Lock()
        self._known: dict[str, Address] = {}
        self._idle: list[tuple[Address, socket.socket]] = []
        self._closed = False

    def close(self) -> None:
        """Keep no connection."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for _, peer in idle:
            peer.close()

    # -- offsets

    def ends(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Partition -> the next offset to be written."""
        asked = {TopicPartition(topic, at): OffsetSpec.latest() for at in partitions}
        if not asked:
            return {}
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                return self._ends(asked)
            except KafkaException as failure:
                if not is_early(failure) or time.monotonic() > deadline:
                    raise
            time.sleep(RETRY_SECONDS)
            self._learn_leaders(topic)

    def _learn_leaders(self, topic: str) -> None:
        """Raises KafkaException, also if there is no such topic (of which no leader is known for good)."""
        error = self._admin().list_topics(topic, SECONDS).topics[topic].error
        if error is not None and not is_early(KafkaException(error)):
            raise KafkaException(error)

    def _ends(self, asked: dict[TopicPartition, OffsetSpec]) -> dict[int, int]:
        level = IsolationLevel.READ_UNCOMMITTED
        answers = self._admin().list_offsets(asked, isolation_level=level, request_timeout=SECONDS)
        return {at.partition: answer.result(SECONDS).offset for at, answer in answers.items()}

    def committed(self, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Partition -> next offset to read, where one was committed."""
        asked = protocol.offset_fetch(group, topic, partitions)
        return self._ask(group, asked, protocol.offset_fetched).get(topic, {})

    def all_committed(self, group: str) -> Committed:
        """All there is."""
        return self._ask(group, protocol.offset_fetch(group), protocol.offset_fetched)

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> bool:
        """As nobody in particular.  False: the group has members, and then Kafka takes commits from them only."""
        asked = protocol.offset_commit(group, topic, offsets)
        return self._ask_unless(_MEMBERS_ONLY, group, asked, protocol.offset_committed)

    def forget(self, group: str, topic: str, partitions: Iterable[int]) -> bool:
        """Forget what was committed.  False: members read the topic, and then Kafka forgets nothing of it."""
        asked = protocol.offset_delete(group, topic, partitions)
        try:
            return self._ask_unless(_IN_USE, group, asked, protocol.offset_deleted)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise
            return True

    # -- groups

    def listed(self) -> list[str]:
        """The ids of all groups."""
        answer = self._admin().list_consumer_groups(request_timeout=SECONDS).result(SECONDS)
        if answer.errors and not answer.valid:
            raise answer.errors[0]
        return [group.group_id for group in answer.valid]

    def members(self, group: str) -> list[Seen]:
        """Who is in a group; a group that does not exist has nobody.

        Members that say `group.protocol=consumer` (KIP-848) are in a group of another kind, and are not seen.
        """
        return self._ask(group, protocol.describe_groups(group), protocol.described_groups)

    def bury(self, group: str, member: str) -> None:
        """Say for a member that it has left, if it is not known to have."""
        asked = protocol.leave_group(group, member)
        self._ask_unless((KafkaError.UNKNOWN_MEMBER_ID,), group, asked, protocol.left_group)

    def delete(self, group: str) -> None:
        """The whole group, if nobody is in it and it has committed nothing any more; else it stays."""
        if self.all_committed(group) or self.members(group):
            return
        ignored = (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.NON_EMPTY_GROUP)
        self._ask_unless(ignored, group, protocol.delete_groups(group), protocol.deleted_groups)

    # -- asking.  What is asked may be asked twice: committing or forgetting again changes nothing.

    def _ask_unless(self, codes: tuple[int, ...], group: str, asked: bytes, read: Callable[[bytes], None]) -> bool:
        """False: it was refused with one of the codes."""
        try:
            self._ask(group, asked, read)
        except KafkaException as failure:
            if failure.args[0].code() not in codes:
                raise
            return False
        return True

    def _ask(self, group: str, asked: bytes, read: Callable[[bytes], T]) -> T:
        """What its coordinator says, whoever that comes to be.  Raises KafkaException."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                return read(self._exchange(self._coordinator(group, deadline), asked, deadline))
            except Refused as refused:
                if refused.code not in _ELSEWHERE or time.monotonic() > deadline:
                    raise KafkaException(KafkaError(refused.code)) from refused
            except (OSError, ValueError) as error:
                if self._closed or time.monotonic() > deadline:
                    reason = KafkaError(KafkaError._TRANSPORT, f"the coordinator of {group!r}: {error}")
                    raise KafkaException(reason) from error
            self._known.pop(group, None)
            time.sleep(RETRY_SECONDS)

    def _coordinator(self, group: str, deadline: float) -> Address:
        """Raises Refused, OSError."""
        known = self._known.get(group)
        if known is not None:
            return known
        asked = protocol.find_coordinator(group)
        for left in range(len(self._servers), 0, -1):
            server = self._servers[left - 1]
            share = time.monotonic() + (deadline - time.monotonic()) / left
            try:
                found = protocol.found_coordinator(self._exchange(server, asked, share))
                break
            except OSError:
                if left == 1:
                    raise
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[group] = found
        return found

    def _exchange(self, address: Address, request: bytes, deadline: float) -> bytes:
        """One answer for one request, on a connection that nobody else has meanwhile."""
        peer = self._connection(address, deadline)
        try:
            peer.settimeout(max(0.01, deadline - time.monotonic()))
            peer.sendall(request)
            answer = _exactly(peer, int.from_bytes(_exactly(peer, 4), "big"))
        except BaseException:
            peer.close()
            self._hang_up(address)
            raise
        with self._lock:
            if not self._closed and len(self._idle) < MAX_IDLE:
                self._idle.append((address, peer))
                return answer
        peer.close()
        return answer

    def _hang_up(self, address: Address) -> None:
        """Where one connection has broken, the others have too."""
        with self._lock:
            broken = [peer for where, peer in self._idle if where == address]
            self._idle = [(where, peer) for where, peer in self._idle if where != address]
        for peer in broken:
            peer.close()

    def _connection(self, address: Address, deadline: float) -> socket.socket:
        with self._lock:
            for at, (where, peer) in enumerate(self._idle):
                if where == address:
                    del self._idle[at]
                    return peer
        peer = socket.create_connection(address, max(0.01, deadline - time.monotonic()))
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return peer


def _address(server: str) -> Address:
    host, _, port = server.strip().rpartition(":")
    return host.strip("[]"), int(port)


def _exactly(peer: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        more = peer.recv(size - len(received))
        if not more:
            raise OSError("it hung up")
        received += more
    return bytes(received)
