"""Ids and settings that every gateway of a Kafka shares: a compacted topic of one partition, read by all of them.

What the records mean is in `claims`.  A thread follows the topic from its beginning for as long as the gateway runs; a
change is appended, and made when it has been read back, in the order that everybody sees.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic, OffsetSpec
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from gateway.backends.kafka.claims import NAMESPACES, Claim, Claims, Written, claimed
from gateway.backends.kafka.faults import is_code
from gateway.backends.kafka.turns import Turns
from gateway.core.commands import DEFAULT_NAMESPACE, DEFAULT_NAMESPACE_ID, TopicSettings
from gateway.core.deciding import MAX_ID
from gateway.core.faults import CommandFailed, Fault

if TYPE_CHECKING:
    from gateway.backends.kafka.cluster import Cluster

TOPIC = "__gateway"
"""Kafka's name of the registry."""

ATTEMPTS = 10
"""Ids that one claim may lose to other gateways before it is given up as BUSY."""

POLL_SECONDS = 0.2
"""That the following thread waits at most before it looks whether it should end."""

AT_ONCE = 500
"""Records that are applied at once in the reactor, some 3 us each."""

RETRY_SECONDS = 0.5
"""Between attempts to read the registry while there is no broker."""

_DEFAULT = Claim(NAMESPACES, DEFAULT_NAMESPACE, DEFAULT_NAMESPACE_ID, 0)

_EXISTS = (Fault.NAMESPACE_EXISTS, Fault.TOPIC_EXISTS, Fault.GROUP_EXISTS)
"""By the depth of the scope."""


class Place(msgspec.Struct, frozen=True, gc=False):
    """A topic as the registry knows it.

    kafka:      Kafka's name of it.
    partitions: how many, 0 = it is gone.
    created:    us since the epoch; of a native program's topic, when a gateway first saw it.
    settings:   as a gateway was told; what Kafka keeps itself may have been changed there.
    """

    namespace: str
    namespace_id: int
    name: str
    id: int
    kafka: str
    partitions: int
    created: int
    settings: TopicSettings

    @property
    def scope(self) -> str:
        """Of the claims of its groups."""
        return f"{self.namespace_id}/{self.id}"


class Registry:
    """claims: as far as they have been read; looked at in the reactor only.

    changed: called in the reactor with the scopes of claims that came or went.
    """

    _log = Logger()

    def __init__(self, cluster: Cluster, changed: Callable[[set[str]], None]) -> None:
        self.claims = Claims()
        self._cluster = cluster
        self._changed = changed
        self._is_loaded = False
        self._loading: list[Deferred[None]] = []
        self._end = 0
        self._unread: list[tuple[int, Deferred[None]]] = []
        self._trouble = "nothing was read yet"
        self._producer: Producer | None = None
        self._making = threading.Lock()
        self._claiming = Turns()  # many at once would take the ids from each other, and begin again
        self._thread = threading.Thread(target=self._run, name="kafka-registry", daemon=True)

    # -- looking

    def loaded(self) -> Deferred[None]:
        """Fires once all there was at the start has been read.  Fails with UNAVAILABLE after half the deadline."""
        done: Deferred[None] = Deferred()
        if self._is_loaded:
            done.callback(None)
        else:
            self._loading.append(done)
            self._cluster.expire(done, lambda: self._unavailable(self._trouble), self._cluster.seconds / 2)
        return done

    async def caught_up(self) -> None:
        """Has been read as far as it is written now: what another gateway was answered before is seen then."""
        await self.loaded()
        end = await self._cluster.call(self._ask_end)
        await self._read_to(end - 1)

    def namespace(self, reference: int | str) -> Claim:
        """By name or id.  Raises CommandFailed(NO_SUCH_NAMESPACE)."""
        if reference in (DEFAULT_NAMESPACE, DEFAULT_NAMESPACE_ID):
            return _DEFAULT
        found = self.claims.find(NAMESPACES, reference)
        if found is None:
            raise CommandFailed(Fault.NO_SUCH_NAMESPACE, str(reference))
        return found

    def namespaces(self) -> list[Claim]:
        """All, by id."""
        return sorted([*self.claims.owned(NAMESPACES), _DEFAULT], key=lambda claim: claim.id)

    def __contains__(self, namespace: object) -> bool:
        """Whether a namespace of that name is registered: what `names` asks."""
        return isinstance(namespace, str) and self.claims.find(NAMESPACES, namespace) is not None

    # -- writing

    async def claim(self, scope: str, name: str, id: int | None = None) -> Claim:
        """Take a name, with that id or the next one.  Raises *_EXISTS[taken], INVALID_ARGUMENT for an id out of range,
        BUSY, and what `append` does.
        """
        await self.loaded()
        for _ in range(ATTEMPTS):
            self.check_free(scope, name, id)
            wanted = self._id(scope, id)
            key, value = claimed(secrets.token_bytes(16), Claim(scope, name, wanted, self._cluster.now()))
            await self.append([(key, value)])
            found = self.claims.find(scope, name)
            if found is not None and self.claims.key(scope, name) == key:
                return found
            await self.append(self.claims.ending(key))
        raise CommandFailed(Fault.BUSY, "other gateways claim ids faster")

    async def claim_all(self, scope: str, names: Iterable[str]) -> None:
        """See that each of the names has an owner: what is there without us is noted by whoever sees it first."""
        await self.loaded()
        await self._claiming.take()
        try:
            await self._claim_all(scope, names)
        finally:
            self._claiming.give()

    async def _claim_all(self, scope: str, names: Iterable[str]) -> None:
        for _ in range(ATTEMPTS):
            missing = [name for name in names if self.claims.find(scope, name) is None]
            if not missing:
                return
            first, now = self._id(scope), self._cluster.now()
            made = [
                claimed(secrets.token_bytes(16), Claim(scope, name, first + at, now, native=True))
                for at, name in enumerate(dict.fromkeys(missing))
            ]
            await self.append(made)
            late = [ending for key, _ in made if not self.claims.owns(key) for ending in self.claims.ending(key)]
            await self.append(late)

    def check_free(self, scope: str, name: str, id: int | None) -> None:
        """Raises *_EXISTS: by the id first, as core.decisions does."""
        fault = _EXISTS[0 if scope == NAMESPACES else 1 + scope.count("/")]
        if id is not None and self._taken(scope, id):
            raise CommandFailed(fault, f"id {id}", taken="id")
        if self._taken(scope, name):
            raise CommandFailed(fault, name, taken="name")

    async def append(self, records: list[Written]) -> None:
        """Write, and wait until that has been read back.  Raises UNAVAILABLE, TIMEOUT, BUSY, FORBIDDEN."""
        if not records:
            return
        await self._read_to(await self._cluster.call(lambda: self._produce(records)))

    async def _read_to(self, offset: int) -> None:
        if offset < self._end:
            return
        read: Deferred[None] = Deferred()
        self._unread.append((offset, read))
        self._cluster.expire(read, lambda: self._unavailable("it was not read back"), self._cluster.seconds / 2)
        await read

    def _taken(self, scope: str, reference: int | str) -> bool:
        is_default = scope == NAMESPACES and reference in (DEFAULT_NAMESPACE, DEFAULT_NAMESPACE_ID)
        return is_default or self.claims.find(scope, reference) is not None

    def _id(self, scope: str, wanted: int | None = None) -> int:
        id = self.claims.next_id(scope) if wanted is None else wanted
        if not 1 <= id <= MAX_ID:
            raise CommandFailed(Fault.INVALID_ARGUMENT, f"an id is 1 to {MAX_ID}")
        return id

    def _produce(self, records: list[Written]) -> int:
        """In a thread: the offset of the last of them, all acknowledged."""
        producer = self._open_producer()
        said: list[tuple[KafkaError | None, int]] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            said.append((error, message.offset() or 0))

        for key, value in records:
            producer.produce(TOPIC, value, key, partition=0, on_delivery=delivered)
        producer.flush(self._cluster.seconds)
        if len(said) < len(records):
            raise CommandFailed(Fault.UNAVAILABLE, "whether the registry was written is not known")
        for error, _ in said:
            if error is not None:
                raise KafkaException(error)
        return max(offset for _, offset in said)

    def _open_producer(self) -> Producer:
        with self._making:
            if self._producer is None:
                told = {"acks": "all", "enable.idempotence": True, "linger.ms": 0, "message.timeout.ms": 8000}
                told["max.in.flight"] = 1  # as in sending.py
                self._producer = Producer(self._cluster.settings(**told))
            return self._producer

    # -- following, in a thread of its own

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """No more after what is being read."""
        waiting, self._loading = self._loading, []
        unread, self._unread = self._unread, []
        for done in (*waiting, *(read for _, read in unread)):
            if not done.called:
                done.errback(CommandFailed(Fault.UNAVAILABLE, "the gateway is closing"))

    def join(self, seconds: float) -> None:
        """Wait for the end, in another thread than the reactor's."""
        self._thread.join(seconds)
        self._producer = None

    def _run(self) -> None:
        while not self._cluster.closing.is_set():
            try:
                self._follow()
            except (KafkaException, TimeoutError) as error:
                self._cluster.from_thread(self._troubled, str(error) or "Kafka did not answer in time")
                self._cluster.closing.wait(RETRY_SECONDS)
            except Exception:  # a defect: without the registry nothing goes, so try again all the same
                self._log.failure("the registry cannot be read")
                self._cluster.closing.wait(RETRY_SECONDS)

    def _follow(self) -> None:
        """From the beginning until the end of this gateway, or of the topic.  Raises KafkaException."""
        self._open_producer()  # it takes a while to be ready, and may do so while we read
        self._make_topic()
        told = {"group.id": "gw.registry", "enable.auto.commit": False, "auto.offset.reset": "error"}
        consumer = Consumer(self._cluster.settings(**told, **{"enable.partition.eof": True}))
        try:
            consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
            self._read(consumer)
        finally:
            consumer.close()

    def _make_topic(self) -> None:
        admin = self._cluster.admin()
        if TOPIC in admin.list_topics(timeout=self._cluster.seconds).topics:
            return
        made = admin.create_topics([NewTopic(TOPIC, 1, -1, config={"cleanup.policy": "compact"})])
        try:
            made[TOPIC].result(self._cluster.seconds)
        except KafkaException as error:
            if not is_code(error, KafkaError.TOPIC_ALREADY_EXISTS):
                raise
        self._ask_end()

    def _ask_end(self) -> int:
        """In a thread: the next offset to be written."""
        partition, seconds = TopicPartition(TOPIC, 0), self._cluster.seconds / 2

        def ask() -> int:
            asked = {partition: OffsetSpec.latest()}
            said = self._cluster.admin().list_offsets(asked, request_timeout=seconds)
            return int(said[partition].result(seconds).offset)

        return self._cluster.insist(ask)

    def _read(self, consumer: Consumer) -> None:
        """All there is at first, then what comes as it comes."""
        records, end = self._gather(consumer, whole=True)
        claims = Claims()
        for record in records:
            claims.apply(*record)
        self._cluster.from_thread(self._begin, claims, end)
        while not self._cluster.closing.is_set():
            records, end = self._gather(consumer, whole=False)
            if records:
                self._cluster.from_thread(self._absorb, records, end)

    def _gather(self, consumer: Consumer, whole: bool) -> tuple[list[Written], int]:
        """Records, and the offset after them: up to the end if that is wanted, else until there is a pause."""
        records: list[Written] = []
        end = 0
        while not self._cluster.closing.is_set():
            message = consumer.poll(0 if records and not whole else POLL_SECONDS)
            error = None if message is None else message.error()
            if message is not None and error is None:
                records.append((message.key() or b"", message.value()))
                end = (message.offset() or 0) + 1
            elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                return records, max(end, message.offset() or 0) if message is not None else end
            elif error is not None and not _passing(error):
                raise KafkaException(error)
            if records and not whole and (message is None or len(records) >= AT_ONCE):
                break
        return records, end

    # -- back in the reactor

    def _begin(self, claims: Claims, end: int) -> None:
        """What was read from the beginning up to the offset `end`: at the start, or because the topic is a new one."""
        touched = {*self.claims.scopes(), *claims.scopes()}
        self.claims, self._is_loaded = claims, True
        self._reach(end, touched)

    def _absorb(self, records: list[Written], end: int) -> None:
        """What came then."""
        self._reach(end, {scope for record in records if (scope := self.claims.apply(*record)) is not None})

    def _reach(self, end: int, touched: set[str]) -> None:
        self._end = end
        self._changed(touched)
        loading, self._loading = self._loading, []
        read = [done for offset, done in self._unread if offset < end]
        self._unread = [(offset, done) for offset, done in self._unread if offset >= end]
        for done in (*loading, *read):
            if not done.called:
                done.callback(None)

    def _troubled(self, trouble: str) -> None:
        self._trouble = trouble

    def _unavailable(self, trouble: str) -> CommandFailed:
        return CommandFailed(Fault.UNAVAILABLE, f"the registry of ids cannot be read: {trouble}")


def _passing(error: KafkaError) -> bool:
    """Whether the client goes on by itself when the broker is back."""
    lost = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._TIMED_OUT)
    return error.code() in lost or (error.retriable() and error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART)
