"""The places that members of this process have in Kafka's groups: one Consumer each, all polled by one thread.

A Consumer here only takes part in its group.  It is assigned nothing to read, whatever partitions the group gives it:
so it costs no fetch, and records are read elsewhere.  What it says is handed to the reactor.

Commits of a place are made by that same thread, which makes them one after another and knows at each whether the group
has moved on.  librdkafka gives partitions back only when commits on their way have been answered (it counts them in
`wait_commit_cnt` of rdkafka_assignment.c), so a commit that was accepted is there before the next owner is told that it
is one.
"""

from __future__ import annotations

import struct
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from gateway.backends.kafka.faults import failed
from gateway.core.faults import CommandFailed, Fault

BUSY_SECONDS = 0.002
"""Between two looks at all places while one of them waits for its group or for a commit: 50 us for 100 places."""

IDLE_SECONDS = 0.05
"""Between two looks otherwise."""

FromThread = Callable[..., None]
"""Calls its first argument in the reactor, with the rest."""

_MOVED_ON = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError._ASSIGNMENT_LOST,
)

_HOPELESS = (
    KafkaError.INCONSISTENT_GROUP_PROTOCOL,
    KafkaError.INVALID_SESSION_TIMEOUT,
    KafkaError.GROUP_MAX_SIZE_REACHED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
)
"""What librdkafka goes on to try in vain."""

_METADATA = b"CGMDv2:"
"""Begins a Consumer's group metadata; the generation follows (rd_kafka_consumer_group_metadata_write)."""


class Told(Protocol):
    """Who hears what becomes of a place; called in the reactor."""

    def assigned(self, generation: int, partitions: tuple[int, ...]) -> None:
        """The group has settled: these are its partitions."""

    def revoked(self) -> None:
        """The group is shared out anew, and this place has nothing until then."""

    def lost(self, kafka: str) -> None:
        """The same, because the coordinator was silent for too long.  It may go on to wait for the member of that id,
        while the place enters as another one.
        """

    def failed(self, failure: CommandFailed, hopeless: bool) -> None:
        """The group cannot be joined for the time being.  hopeless: or at all."""


class _Commit:
    """topic: Kafka's name.  generation: the one that the commit is for; None = any.

    done: called already once nobody waits any more.
    """

    __slots__ = ("done", "generation", "offsets", "topic")

    def __init__(self, topic: str, offsets: Mapping[int, int], generation: int | None, done: Deferred[None]) -> None:
        self.topic = topic
        self.offsets = offsets
        self.generation = generation
        self.done = done


class Seat:
    """One place in a group.  All but its making and `kafka` are for Polling's thread.

    settings: of the Consumer.  topic: Kafka's name.
    kafka:    the id that the group's coordinator gave it, "" = none yet.
    """

    def __init__(self, settings: dict[str, object], topic: str, from_thread: FromThread) -> None:
        self.kafka = ""
        self._settings = settings
        self._topic = topic
        self._told: Told
        self._from_thread = from_thread
        self._consumer: Consumer | None = None
        self._generation = 0
        self._settled = False
        self._commits: deque[_Commit] = deque()
        self._sent: list[_Commit] = []

    @property
    def busy(self) -> bool:
        """Whether something will happen soon."""
        return not self._settled or self.committing

    @property
    def committing(self) -> bool:
        """Whether there are commits that can be answered before the group settles again."""
        return bool(self._sent) or (self._settled and bool(self._commits))

    def take(self, told: Told) -> None:
        """Enter the group."""
        self._told = told
        calls = {"on_commit": self._committed, "error_cb": self._error}
        try:
            self._consumer = Consumer({**self._settings, **calls})
            rebalanced = {"on_assign": self._assigned, "on_revoke": self._revoked, "on_lost": self._lost}
            self._consumer.subscribe([self._topic], **rebalanced)
        except KafkaException as error:
            self._from_thread(self._told.failed, failed(error), True)

    def poll(self) -> None:
        """Look what there is to hear, and send what there is to send."""
        consumer = self._consumer
        if consumer is None:
            return
        message = consumer.poll(0)
        error = None if message is None else message.error()
        if error is not None:
            self._error(error)
        if self._commits and not self._sent and self._settled:
            self._send(consumer)

    def commit(self, commit: _Commit) -> None:
        """In the order in which they come.  One for no generation waits until the group has settled."""
        if commit.generation is not None and not self._is_current(commit.generation):
            self._refuse(commit)
        elif self._consumer is None:
            self._fire([commit], _GONE)
        else:
            self._commits.append(commit)
            if not self._sent and self._settled:
                self._send(self._consumer)

    def leave(self) -> None:
        """Give the place up.  Blocks until the group knows, or for as long as the broker is silent."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()
        left = [*self._sent, *self._commits]
        self._sent = []
        self._commits.clear()
        self._fire(left, _GONE)

    # -- what the Consumer says

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.assign([])
        said = generation_in(consumer.consumer_group_metadata())
        # one that joins again where nothing has changed is in the same generation as all the others
        self._generation = said if said >= max(1, self._generation) else self._generation + 1
        self._settled = True
        self.kafka = consumer.memberid() or ""
        own = tuple(sorted(at.partition for at in partitions if at.topic == self._topic))
        self._from_thread(self._told.assigned, self._generation, own)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._settled = False
        self._from_thread(self._told.revoked)
        kept = [commit for commit in self._commits if commit.generation is None]
        for commit in self._commits:
            if commit.generation is not None:
                self._refuse(commit)
        self._commits = deque(kept)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._revoked(consumer, partitions)
        self._from_thread(self._told.lost, self.kafka)

    def _error(self, error: KafkaError) -> None:
        """Most of it the client gets over by itself."""
        if error.code() in _HOPELESS:
            failure = CommandFailed(Fault.UNAVAILABLE, f"Kafka does not let us into the group: {error.str()}")
            self._from_thread(self._told.failed, failure, True)
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._from_thread(self._told.failed, failed(error), False)

    def _committed(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        sent, self._sent = self._sent, []
        error = error or next((at.error for at in partitions if at.error is not None), None)
        if error is None:
            self._fire(sent, None)
        elif error.code() not in _MOVED_ON:
            self._fire(sent, failed(error))
        elif sent and sent[0].generation is not None:
            for commit in sent:
                self._refuse(commit)
        else:  # they are for whatever comes next
            self._commits.extendleft(reversed(sent))

    # -- commits

    def _send(self, consumer: Consumer) -> None:
        """The first that wait, as far as they are for one generation, as one."""
        while self._commits and self._commits[0].done.called:  # its deadline is over
            self._commits.popleft()
        while self._commits and (not self._sent or self._sent[0].generation == self._commits[0].generation):
            self._sent.append(self._commits.popleft())
        merged = {(each.topic, at): offset for each in self._sent for at, offset in each.offsets.items()}
        if not merged:  # nothing waits, or nothing is said
            return self._sent_all(None)
        try:
            consumer.commit(offsets=[TopicPartition(*at, to) for at, to in merged.items()], asynchronous=True)
        except KafkaException as error:
            self._sent_all(failed(error))

    def _sent_all(self, failure: CommandFailed | None) -> None:
        sent, self._sent = self._sent, []
        self._fire(sent, failure)

    def _is_current(self, generation: int) -> bool:
        return self._settled and generation == self._generation

    def _refuse(self, commit: _Commit) -> None:
        current = self._generation if self._settled else self._generation + 1
        requested = commit.generation or 0
        self._fire([commit], CommandFailed(Fault.STALE_GENERATION, current=current, requested=requested))

    def _fire(self, commits: list[_Commit], failure: CommandFailed | None) -> None:
        for commit in commits:
            self._from_thread(_fire, commit.done, None if failure is None else Failure(failure))


class Polling:
    """The thread, and what it is told from the reactor."""

    _log = Logger()

    def __init__(self, from_thread: FromThread) -> None:
        self._from_thread = from_thread
        self._seats: set[Seat] = set()
        self._leaving: dict[Seat, Deferred[None]] = {}
        self._orders: deque[Callable[[], object]] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def take(self, seat: Seat, told: Told) -> None:
        """Enter the group and stay in it."""

        def take() -> None:
            self._seats.add(seat)
            seat.take(told)

        self._order(take)

    def commit(self, seat: Seat, topic: str, offsets: Mapping[int, int], generation: int | None) -> Deferred[None]:
        """Commit as a member, for any topic.

        Fails with STALE_GENERATION if that is not the one that the place is in any more.  A place that was left fails
        it with NOT_A_MEMBER.  It may wait for as long as the group does not settle.
        """
        done: Deferred[None] = Deferred()
        commit = _Commit(topic, offsets, generation, done)
        self._order(lambda: seat.commit(commit))
        return done

    def leave(self, seat: Seat) -> Deferred[None]:
        """Fires when the group knows.  What was committed before is answered first."""
        done: Deferred[None] = Deferred()
        self._order(lambda: self._leaving.setdefault(seat, done))
        return done

    def close(self) -> None:
        """No more polling.  Places that were not left lapse when the coordinator hears nothing of them."""
        self._stopping = True
        self._wake.set()

    def _order(self, order: Callable[[], object]) -> None:
        self._orders.append(order)
        self._wake.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kafka-members", daemon=True)
            self._thread.start()

    # -- in the thread

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            while self._orders:
                self._guarded(self._orders.popleft())
            for seat in list(self._seats):
                self._guarded(seat.poll)
            for seat in [seat for seat in self._leaving if not seat.committing]:
                self._leave(seat, self._leaving.pop(seat))
            self._wake.wait(BUSY_SECONDS if any(seat.busy for seat in self._seats) else IDLE_SECONDS)

    def _leave(self, seat: Seat, done: Deferred[None]) -> None:
        """In a thread of its own: it takes a few ms, but 5 s where the broker is frozen."""
        self._seats.discard(seat)

        def leave() -> None:
            self._guarded(seat.leave)
            self._from_thread(_fire, done, None)

        threading.Thread(target=leave, name="kafka-leave", daemon=True).start()

    def _guarded(self, step: Callable[[], object]) -> None:
        """What goes wrong with one place is not the others' affair."""
        try:
            step()
        except Exception:
            self._log.failure("a place in a group of Kafka")


_GONE = CommandFailed(Fault.NOT_A_MEMBER, "it has left", member="")


def _fire(done: Deferred[None], result: Failure | None) -> None:
    if not done.called:
        done.callback(result)


def generation_in(metadata: object) -> int:
    """Kafka's generation of the group, 0 = this client writes it in another way.

    There is no call that says it.  The same number in all gateways and for all members is better than one of ours, but
    nothing depends on it: without it every place counts its own.
    """
    at = len(_METADATA)
    if not isinstance(metadata, bytes) or not metadata.startswith(_METADATA) or len(metadata) < at + 4:
        return 0
    return max(0, int(struct.unpack_from("<i", metadata, at)[0]))
