"""The topics there are: what the broker says, put together with what the registry says.

The broker is asked every few seconds, when a registry record tells of a change, and for a name that is not known.  What
is known is taken for true meanwhile: whoever then writes to a topic that is gone hears so from Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from confluent_kafka import KafkaError
from confluent_kafka.admin import ClusterMetadata
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from gateway.backends.kafka import names
from gateway.backends.kafka.claims import Claim
from gateway.backends.kafka.registry import Place
from gateway.core import commands as q
from gateway.core.commands import TopicSettings
from gateway.core.faults import CommandFailed, Fault

if TYPE_CHECKING:
    from gateway.backends.kafka.cluster import Cluster

REFRESH_SECONDS = 3.0
"""Between looks at what topics there are."""

LOOK_SECONDS = 4.0
"""That one look may take: an outage that is shorter holds commands up, and no more."""


class Catalog:
    """metadata: as the broker last gave it, None = not yet.

    partitions: how many, by Kafka's name of the topic.
    """

    _log = Logger()

    def __init__(self, cluster: Cluster) -> None:
        self.metadata: ClusterMetadata | None = None
        self.partitions: dict[str, int] = {}
        self._cluster = cluster
        self._places: dict[tuple[int | str, int | str], Place] = {}
        self._told: dict[tuple[int, int], Place] = {}
        self._watchers: list[Callable[[Place], None]] = []
        self._refreshing: Deferred[None] | None = None
        self._waiting: list[Deferred[None]] = []
        self._sweep: LoopingCall | None = None
        self._reached: bool | None = None

    def start(self) -> None:
        """Look now and then."""
        self._sweep = LoopingCall(self._look_around)
        self._sweep.clock = self._cluster.reactor
        self._sweep.start(REFRESH_SECONDS)

    def stop(self) -> None:
        """Look no more."""
        if self._sweep is not None and self._sweep.running:
            self._sweep.stop()

    # -- finding

    def place(self, topic: q.Topic) -> Place | Deferred[Place]:
        """See Cluster.place."""
        place = self._places.get((topic.namespace, topic.name))
        return Deferred.fromCoroutine(self.find(topic)) if place is None else place

    async def find(self, topic: q.Topic) -> Place:
        """The topic, by asking the broker if it is not known.  Raises NO_SUCH_NAMESPACE, NO_SUCH_TOPIC, UNAVAILABLE."""
        await self._cluster.registry.loaded()
        with suppress(CommandFailed):  # of a namespace that this gateway has not heard of
            if (known := self.known(topic)) is not None:
                return known
        await self._cluster.registry.caught_up()
        place = self.known(topic)
        if place is None:
            await self.refresh()
            await self._note(self._cluster.registry.namespace(topic.namespace), topic.name)
            place = self.known(topic)
        if place is None:
            raise CommandFailed(Fault.NO_SUCH_TOPIC, str(topic.name))
        return place

    def known(self, topic: q.Topic) -> Place | None:
        """The topic if broker and registry have it.  Raises CommandFailed(NO_SUCH_NAMESPACE)."""
        registry = self._cluster.registry
        namespace = registry.namespace(topic.namespace)
        claim = registry.claims.find(str(namespace.id), topic.name)
        place = None if claim is None else self._place(namespace, claim)
        if place is not None:
            self._places[topic.namespace, topic.name] = place
            self._told.setdefault((place.namespace_id, place.id), place)
        return place

    def all(self, namespace: Claim) -> list[Place]:
        """What is known of a namespace, by id."""
        claims = self._cluster.registry.claims.owned(str(namespace.id))
        places = [place for claim in claims if (place := self._place(namespace, claim)) is not None]
        return sorted(places, key=lambda place: place.id)

    async def census(self, namespaces: list[Claim]) -> None:
        """Ask the broker what there is in the namespaces, and give an id to whatever has none."""
        await self.refresh()
        there: dict[str, list[str]] = {namespace.name: [] for namespace in namespaces}
        for kafka in self.partitions:
            split = names.split_topic(kafka, self._cluster.registry)
            if split is not None and split[0] in there:
                there[split[0]].append(split[1])
        for namespace in namespaces:
            await self._cluster.registry.claim_all(str(namespace.id), there[namespace.name])

    async def _note(self, namespace: Claim, name: int | str) -> None:
        """Give a topic that is there an id."""
        if isinstance(name, str) and self._kafka(namespace, name) in self.partitions:
            await self._cluster.registry.claim_all(str(namespace.id), [name])

    def _place(self, namespace: Claim, claim: Claim) -> Place | None:
        kafka = self._kafka(namespace, claim.name)
        partitions = self.partitions.get(kafka, 0) if kafka is not None else 0
        if kafka is None or not partitions:
            return None
        settings = self._cluster.registry.claims.settings.get((namespace.id, claim.id), TopicSettings())
        return Place(namespace.name, namespace.id, claim.name, claim.id, kafka, partitions, claim.created, settings)

    def _kafka(self, namespace: Claim, name: str) -> str | None:
        """None = no topic can have that name."""
        try:
            return names.topic_name(namespace.name, name, self._cluster.registry)
        except CommandFailed:
            return None

    # -- keeping up

    def watch(self, changed: Callable[[Place], None]) -> None:
        """See Cluster.watch."""
        self._watchers.append(changed)

    def registered(self, scopes: set[str]) -> None:
        """Claims or settings in those scopes came or went."""
        if any("/" not in scope for scope in scopes):
            self._tell()
            self.refresh().addErrback(lambda ignored: None)  # the next look says what is wrong

    def refresh(self) -> Deferred[None]:
        """Ask the broker what topics there are; who asks while it is asked waits for the next answer."""
        done: Deferred[None] = Deferred()
        self._waiting.append(done)
        if self._refreshing is None:
            self._begin()
        return done

    def ask(self) -> ClusterMetadata:
        """In a thread: what the broker says."""
        admin = self._cluster.admin()
        try:
            return admin.list_topics(timeout=LOOK_SECONDS)
        finally:
            admin.poll(0)  # what it has to say and to log

    def _begin(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._refreshing = self._cluster.call(self.ask).addCallback(self._absorb)
        self._refreshing.addBoth(self._ended, waiting)

    def _ended(self, result: object, waiting: list[Deferred[None]]) -> None:
        self._refreshing = None
        if self._cluster.closing.is_set():
            waiting += self._waiting
        elif self._waiting:
            self._begin()
        for done in waiting:
            if not done.called:
                done.callback(result)  # type: ignore[arg-type]  # None, or the failure

    def _look_around(self) -> None:
        if self._refreshing is None:
            self.refresh().addCallbacks(lambda ignored: self._is_reached(""), self._unreached)

    def _unreached(self, failure: Failure) -> None:
        self._is_reached(self._cluster.trouble or str(failure.value))

    def _is_reached(self, trouble: str) -> None:
        """Say so when that changes."""
        if self._cluster.closing.is_set():
            return
        if trouble and self._reached is not False:
            self._log.error(
                "kafka at {bootstrap} cannot be reached, commands fail until it can: {trouble}",
                bootstrap=self._cluster.bootstrap,
                trouble=trouble,
            )
        elif not trouble and self._reached is not True:
            self._log.info("kafka at {bootstrap} answers", bootstrap=self._cluster.bootstrap)
        self._reached = not trouble

    def _absorb(self, metadata: ClusterMetadata) -> None:
        before, self.metadata = self.partitions, metadata
        self.partitions = {}
        for kafka, topic in metadata.topics.items():
            count = len(topic.partitions) or (before.get(kafka, 0) if _is_hesitant(topic.error) else 0)
            if count:
                self.partitions[kafka] = count
        self._cluster.trouble = ""
        if self.partitions != before:
            self._tell()

    def _tell(self) -> None:
        """Tell of what has changed of the places that were given out; they are looked up anew then."""
        self._places = {}
        for key, place in list(self._told.items()):
            now = self._still(place)
            if now == place:
                continue
            if now is None:
                del self._told[key]
            else:
                self._told[key] = now
            if now is None or now.partitions != place.partitions:
                self._tell_of(now or msgspec.structs.replace(place, partitions=0))

    def _tell_of(self, place: Place) -> None:
        for changed in self._watchers:
            try:
                changed(place)
            except Exception:  # a defect of one part must not keep the others from knowing
                self._log.failure("{name} has changed, and somebody could not cope", name=place.kafka)

    def _still(self, place: Place) -> Place | None:
        try:
            namespace = self._cluster.registry.namespace(place.namespace_id)
        except CommandFailed:
            return None
        claim = self._cluster.registry.claims.find(str(namespace.id), place.id)
        return None if claim is None else self._place(namespace, claim)


def _is_hesitant(error: KafkaError | None) -> bool:
    """Whether the broker does not know yet, rather than know that there is no such topic."""
    return error is not None and error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART
