"""One command as several requests, for a server whose protocol has no words for it as it is.

Nothing is pretended: what comes of it is what the command means, but for being done in steps, between which others may
do something too.  docs/backends.md lists these ways; what has none stays UNSUPPORTED.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.partitioners import PARTITIONERS
from gateway.core.records import canonical
from gateway.core.replies import Reply
from gateway.dialects.upstream import Upstream

SHORTEST_NAP, LONGEST_NAP = 0.02, 0.2
"""Seconds between two looks at a server that cannot be waited at; each is twice as long as the one before."""

MAX_TURNS = 10_000
"""Topics of which it is kept whose turn it is among their partitions."""


class Ask:
    """Has commands of one session carried out, composed themselves if need be.

    say:   the same for what is not to be composed.
    turns: topic -> how many batches have left their partition open.
    """

    def __init__(self, execute: Execute, say: Execute, session: q.Session, turns: dict[q.Topic, int]) -> None:
        self._execute = execute
        self._say = say
        self._session = session
        self._turns = turns

    async def __call__(self, command: q.Command) -> Reply:
        """The reply that the command names.  Raises CommandFailed."""
        reply = self._execute(command, self._session)
        return await reply if isinstance(reply, Deferred) else reply

    async def plainly(self, command: q.Command) -> Reply:
        """The same of a command that goes as it is, or not at all."""
        reply = self._say(command, self._session)
        return await reply if isinstance(reply, Deferred) else reply

    def turn(self, topic: q.Topic) -> int:
        """0, 1, 2, ... for each topic."""
        if len(self._turns) >= MAX_TURNS:
            self._turns.clear()
        turn = self._turns[topic] = self._turns.get(topic, -1) + 1
        return turn


Execute = Callable[[q.Command, q.Session], Reply | Deferred[Reply]]

Steps = Callable[[Any, Ask], Awaitable[Reply] | None]
"""What else to do for a command, None = this is not what keeps it from being said."""

changed = msgspec.structs.replace


def unsupported(what: str) -> CommandFailed:
    """What no steps can do either."""
    return CommandFailed(Fault.UNSUPPORTED, f"the upstream has no words for {what}")


R = TypeVar("R", bound=r.Answer)


async def _told(kind: type[R], answered: Awaitable[Reply]) -> R:
    """The reply, which is of the kind that its command names."""
    reply = await answered
    assert isinstance(reply, kind), f"{type(reply).__name__} instead of {kind.__name__}"
    return reply


# -- topics


def _made_first(command: q.Publish | q.Fetch | q.JoinGroup | q.MapPut | q.MapAdd, ask: Ask) -> Awaitable[Reply] | None:
    """A topic is made when there turns out to be none, and not by what is asked of it."""
    if not command.create:
        return None

    async def steps() -> Reply:
        plain = changed(command, create=0)
        try:
            return await ask(plain)
        except CommandFailed as failure:
            if failure.fault is not Fault.NO_SUCH_TOPIC:
                raise
        await ask(q.CreateTopic(command.topic, command.create, if_exists=q.IfExists.KEEP))
        return await ask(plain)

    return steps()


def _created_if_absent(command: q.CreateTopic, ask: Ask) -> Awaitable[Reply] | None:
    """Look first, then ask for it in the server's own way."""
    if command.id is not None or command.if_exists is q.IfExists.GROW:
        return None

    async def steps() -> Reply:
        try:
            found = await ask(q.DescribeTopic(command.topic))
        except CommandFailed as failure:
            if failure.fault is not Fault.NO_SUCH_TOPIC:
                raise
            return await _made(command, ask)
        if command.if_exists is q.IfExists.FAIL:
            raise CommandFailed(Fault.TOPIC_EXISTS, str(command.topic.name))
        return found

    return steps()


async def _made(command: q.CreateTopic, ask: Ask) -> Reply:
    """There was none; a server that only makes what is new refuses if somebody else was quicker."""
    try:
        return await ask.plainly(changed(command, if_exists=q.IfExists.GROW))
    except CommandFailed as failure:
        if failure.fault is not Fault.UNSUPPORTED:
            raise
    if command.if_exists is q.IfExists.FAIL:
        return await ask.plainly(changed(command, if_exists=q.IfExists.KEEP))
    try:
        return await ask.plainly(changed(command, if_exists=q.IfExists.FAIL))
    except CommandFailed as taken:
        if taken.fault is not Fault.TOPIC_EXISTS:
            raise
    return await ask(q.DescribeTopic(command.topic))


def _listed(command: q.DescribeTopic, ask: Ask) -> Awaitable[Reply] | None:
    """Found among all."""
    name = command.topic.name
    if not isinstance(name, str):
        return None

    async def steps() -> Reply:
        topics = await _told(r.Topics, ask(q.ListTopics(command.topic.namespace)))
        for topic in topics.topics:
            if topic.name == name:
                return topic
        raise CommandFailed(Fault.NO_SUCH_TOPIC, name)

    return steps()


def _group_if_absent(command: q.CreateGroup, ask: Ask) -> Awaitable[Reply] | None:
    if command.id is not None or command.if_exists is q.IfExists.KEEP:
        return None

    async def steps() -> Reply:
        try:
            found = await ask(q.DescribeGroup(command.topic, command.group))
        except CommandFailed as failure:
            if failure.fault not in (Fault.NO_SUCH_GROUP, Fault.OTHER_TOPIC):
                raise
            return await ask(changed(command, if_exists=q.IfExists.KEEP))
        if command.if_exists is q.IfExists.FAIL:
            raise CommandFailed(Fault.GROUP_EXISTS, command.group)
        return found

    return steps()


def _offsets_described(command: q.LatestOffsets, ask: Ask) -> Awaitable[Reply]:
    """From the description of the topic."""

    async def steps() -> Reply:
        topic = await _told(r.TopicDescription, ask(q.DescribeTopic(command.topic)))
        found = [r.PartitionOffsets(at.index, at.start, at.end) for at in topic.partitions]
        if command.partition is not None:
            found = [at for at in found if at.partition == command.partition]
            if not found:
                raise CommandFailed(Fault.NO_SUCH_PARTITION, str(command.partition))
        return r.Offsets(len(topic.partitions), tuple(found))

    return steps()


# -- writing


def _placed_here(command: q.Publish, ask: Ask) -> Awaitable[Reply] | None:
    """The partition is chosen here, by how many there are."""
    if isinstance(command.to, int):
        return None
    to = command.to

    async def steps() -> Reply:
        count = (await _told(r.Offsets, ask(q.LatestOffsets(command.topic)))).partitions
        if not count:
            raise CommandFailed(Fault.NO_SUCH_PARTITION, "0")
        if isinstance(to, q.ByKey):
            if to.partitioner not in PARTITIONERS:
                raise CommandFailed(Fault.INVALID_ARGUMENT, f"the partitioner {to.partitioner!r}")
            return await ask(changed(command, to=PARTITIONERS[to.partitioner](to.key, count)))
        return await ask(changed(command, to=ask.turn(command.topic) % count))

    return steps()


def _one_by_one(command: q.Publish, ask: Ask) -> Awaitable[Reply] | None:
    """Each record for itself, in order; the first that fails ends it, with what was stored before it left there."""
    if command.batch.count < 2:
        return None
    records = command.batch.records()
    if isinstance(command.to, q.ByKey) and any((record.key or b"") != command.to.key for record in records):
        return None

    async def steps() -> Reply:
        stored: list[r.Published] = []
        for record in records:
            batch = canonical([record], command.batch.origin)
            try:
                stored.append(await _told(r.Published, ask(changed(command, batch=batch))))
            except CommandFailed as failure:
                if not stored or failure.fault is Fault.UNSUPPORTED:
                    raise
                raise CommandFailed(
                    Fault.UNAVAILABLE, f"{len(stored)} of {len(records)} were stored: {failure}"
                ) from None
        if len({one.partition for one in stored}) > 1:
            return r.Published(stored[0].partition, stored[0].base, stored[0].base)  # the others went elsewhere
        first, last = stored[0], stored[-1]
        return r.Published(first.partition, first.base, last.last, all(one.duplicate for one in stored))

    return steps()


# -- reading


def wait_here(
    command: q.Fetch | q.Take, ask: Ask, clock: IReactorTime, sleep: Callable[[float], Awaitable[None]]
) -> Awaitable[Reply]:
    """A wait at a server that answers at once: looks every now and then until there is something or time is over."""

    async def steps() -> Reply:
        until, nap = clock.seconds() + command.wait, SHORTEST_NAP
        while True:
            reply: Reply = await ask(changed(command, wait=0.0))
            left = until - clock.seconds()
            if (isinstance(reply, r.Records) and reply.batches) or left <= 0:
                return reply
            await sleep(min(nap, left))
            nap = min(2 * nap, LONGEST_NAP)

    return steps()


def _committed_behind(command: q.Fetch, ask: Ask) -> Awaitable[Reply] | None:
    """Read, then store where the reader goes on, then answer."""
    reader = command.read_by
    if not command.commit:
        return None

    async def steps() -> Reply:
        records = await _told(r.Records, ask(changed(command, commit=False)))
        if records.batches and reader is not None:
            await ask(q.CommitOffsets(command.topic, reader, {records.partition: records.batches[-1].end}))
        return records

    return steps()


def _from_offset(command: q.Fetch, ask: Ask) -> Awaitable[Reply] | None:
    """Where the read begins is asked before."""
    start, partition = command.start, command.partition
    if partition is None or isinstance(start, int | q.FromTime):
        return None

    async def steps() -> Reply:
        begin = await offset_of(start, command.topic, partition, ask)
        return await ask(changed(command, start=begin, reader=command.read_by if command.commit else None))

    return steps()


def _unread(command: q.Fetch, ask: Ask) -> Awaitable[Reply] | None:
    """Who reads does not matter for a read that commits nothing."""
    if command.commit or command.reader is None or command.partition is None:
        return None
    return ask(changed(command, reader=None))


async def offset_of(start: q.Start, topic: q.Topic, partition: int, ask: Ask) -> int:
    """The offset that a start means now.  Raises CommandFailed(UNSUPPORTED) for a time."""
    if isinstance(start, int):
        return start
    if isinstance(start, q.FromTime):
        raise unsupported("reading from a time")
    if isinstance(start, q.Next):
        return max(start.floor, await _committed(start.reader, topic, partition, ask))
    offsets = await _told(r.Offsets, ask(q.LatestOffsets(topic, partition)))
    [bounds] = offsets.offsets
    return bounds.start if isinstance(start, q.First) else max(bounds.start, bounds.end - start.count)


async def _committed(reader: q.Reader, topic: q.Topic, partition: int, ask: Ask) -> int:
    """0 if nothing was, and a group that does not exist has committed nothing."""
    try:
        committed = await _told(r.CommittedOffsets, ask(q.FetchOffsets(topic, reader, (partition,))))
    except CommandFailed as failure:
        if failure.fault is not Fault.NO_SUCH_GROUP:
            raise
        return 0
    return committed.offsets.get(partition, 0)


# -- offsets


def _offsets_one_by_one(command: q.FetchOffsets, ask: Ask) -> Awaitable[Reply] | None:
    partitions = command.partitions
    if partitions is not None and (len(partitions) < 2 or None in partitions):
        return None

    async def steps() -> Reply:
        asked = partitions
        if asked is None:
            latest = await _told(r.Offsets, ask(q.LatestOffsets(command.topic)))
            asked = tuple(range(latest.partitions))
        offsets: dict[int, int] = {}
        ends: dict[int, int] = {}
        for partition in asked:
            found = await _told(r.CommittedOffsets, ask(changed(command, partitions=(partition,))))
            offsets.update(found.offsets)
            ends.update(found.ends)
        return r.CommittedOffsets(offsets, ends)

    return steps()


def _commits_one_by_one(command: q.CommitOffsets, ask: Ask) -> Awaitable[Reply] | None:
    """Not all or none any more: the first that fails ends it."""
    if len(command.offsets) < 2:
        return None

    async def steps() -> Reply:
        for partition, offset in command.offsets.items():
            await ask(changed(command, offsets={partition: offset}))
        return r.Done()

    return steps()


STEPS: Mapping[type[q.Command], tuple[Steps, ...]] = {
    q.Publish: (_made_first, _placed_here, _one_by_one),
    q.Fetch: (_made_first, _committed_behind, _from_offset, _unread),
    q.JoinGroup: (_made_first,),
    q.MapPut: (_made_first,),
    q.MapAdd: (_made_first,),
    q.CreateTopic: (_created_if_absent,),
    q.DescribeTopic: (_listed,),
    q.CreateGroup: (_group_if_absent,),
    q.LatestOffsets: (_offsets_described,),
    q.FetchOffsets: (_offsets_one_by_one,),
    q.CommitOffsets: (_commits_one_by_one,),
}
"""Kind -> what else to try, in order."""

SAID: Mapping[type[q.Command], str] = {
    q.Publish: "`create`: CreateTopic where there is none, then again; a partition left open is chosen here; several"
    " records go one by one",
    q.Fetch: "`create` likewise; `commit`: CommitOffsets behind the read; First, Last and Next: the offset is asked"
    " before; `wait`: asked again every 20 to 200 ms",
    q.Take: "`wait`: asked again every 20 to 200 ms",
    q.Follow: "a Fetch behind the other",
    q.JoinGroup: "`create` likewise",
    q.MapPut: "`create` likewise",
    q.MapAdd: "`create` likewise",
    q.CreateTopic: "FAIL and KEEP: DescribeTopic before",
    q.DescribeTopic: "from ListTopics",
    q.CreateGroup: "FAIL: DescribeGroup before",
    q.LatestOffsets: "from DescribeTopic",
    q.FetchOffsets: "several partitions one by one",
    q.CommitOffsets: "several partitions one by one, so no longer all or none",
    q.Ping: "whether there is a connection",
    q.FindLeader: "this gateway; whether the topic is there, DescribeTopic says",
}
"""The same for people: kind -> how it is composed where it cannot be said as it is."""


def stands_for(kind: type[q.Command], upstream: Upstream) -> bool:
    """Whether a kind that a server has no words for at all is composed of others that it has."""
    if kind is q.LatestOffsets:
        return upstream.describes and q.DescribeTopic in upstream.commands
    other = {q.DescribeTopic: q.ListTopics, q.Follow: q.Fetch}.get(kind)
    return other in upstream.commands


async def compose(command: q.Command, ask: Ask, upstream: Upstream, failure: CommandFailed) -> Reply:
    """The first way that there is.  Raises CommandFailed: the failure that made us look for one, if there is none.

    What fails UNSUPPORTED has done nothing: what a step asks for first is what may not be said.
    """
    for steps in STEPS.get(type(command), ()):
        begun = None if steps is _offsets_described and not upstream.describes else steps(command, ask)
        if begun is None:
            continue
        try:
            return await begun
        except CommandFailed as other:
            if other.fault is not Fault.UNSUPPORTED:
                raise
    raise failure
