"""`tee:FIRST+SECOND`: serves from the first backend and copies every write to the second.

For shadowing a migration: `gateway run --plugins plugins --backend tee:sqlite:./old+sqlite:./new`.  Clients see the
first alone; their writes are answered once the second has its copy too, so it is never behind by more than what is in
flight.  A copy that fails fails nobody: it is logged, and from then on the second is known to differ.

Partitions that the first chose are kept.  Who is a member of a group is the first's affair; commits are copied, also
those of a partition that only the first knows: the one that a member was given last.

What is written to a table is copied as it was asked, in the order of the first's answers, and each store decides on its
own table and by its own clock whether a condition holds: the two may come to differ where what is asked about expires
just then.  Whatever is taken from a queue is taken from the second's as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec
from twisted.internet.defer import Deferred, gatherResults, maybeDeferred
from twisted.internet.interfaces import IPushProducer, IReactorTime
from twisted.logger import Logger
from twisted.plugin import IPlugin
from twisted.python.failure import Failure
from zope.interface import implementer

from gateway.backends import find_maker
from gateway.backends.interface import IBackend, IBackendMaker, IFollower
from gateway.core import commands as q
from gateway.core.commands import Session
from gateway.core.decisions import writes
from gateway.core.faults import CommandFailed
from gateway.core.records import Encoding
from gateway.core.replies import CommittedOffsets, Published, Records, Reply


@implementer(IBackend)
class Tee:
    """first: answers.  second: gets copies."""

    _log = Logger()

    def __init__(self, first: IBackend, second: IBackend) -> None:
        self._first = first
        self._second = second
        self.durability = first.durability
        self.commits = tuple(commits for backend in (first, second) for commits in getattr(backend, "commits", ()))

    def execute(self, command: q.Command, session: Session) -> Reply | Deferred[Reply]:
        """See IBackend."""
        if isinstance(command, q.CommitOffsets | q.DeleteOffsets) and None in _partitions(command):
            return self._execute_held(command, session)
        try:
            result = self._first.execute(command, session)
        except CommandFailed as failure:
            self._copy_made(Failure(failure), command, session)
            raise
        if not _copied(command):
            return result
        if isinstance(result, Deferred):
            asked = command, session
            return result.addCallbacks(self._copy, self._copy_made, callbackArgs=asked, errbackArgs=asked)
        return self._copy(result, command, session)

    def follow(
        self, command: q.Follow, session: Session, follower: IFollower
    ) -> IPushProducer | Deferred[IPushProducer]:
        """See IBackend."""
        return self._first.follow(command, session, follower)

    def close(self) -> Deferred[None]:
        """See IBackend."""
        closed = gatherResults([maybeDeferred(self._first.close), maybeDeferred(self._second.close)])
        return closed.addCallback(lambda ignored: None)

    def _execute_held(self, command: q.CommitOffsets | q.DeleteOffsets, session: Session) -> Deferred[Reply]:
        """One that is about the partition held.  Which that is, is asked just before: later it may be another."""
        asked = maybeDeferred(self._first.execute, q.FetchOffsets(command.topic, command.reader, (None,)), session)
        result = maybeDeferred(self._first.execute, command, session)

        def done(reply: Reply) -> Deferred[Reply]:
            return asked.addCallbacks(known, unknown, callbackArgs=(reply,), errbackArgs=(reply,))

        def known(held: CommittedOffsets, reply: Reply) -> Reply | Deferred[Reply]:
            [partition] = held.ends
            return self._copy(reply, _naming(partition, command), session)

        def unknown(failure: Failure, reply: Reply) -> Reply:
            self._failed(failure, command)
            return reply

        def failed(failure: Failure) -> Failure:
            asked.addErrback(lambda same: None)
            return failure

        return result.addCallbacks(done, failed)

    def _copy(self, reply: Reply, command: q.Command, session: Session) -> Reply | Deferred[Reply]:
        """The reply, once every copy that the command calls for is made or has failed."""
        made = [maybeDeferred(self._second.execute, copy, session) for copy in _copies(command, reply)]
        for one in made:
            one.addErrback(self._failed, command)
        if all(one.called and not one.paused for one in made):
            return reply
        return gatherResults(made).addCallback(lambda ignored: reply)

    def _copy_made(self, failure: Failure, command: q.Command, session: Session) -> Failure:
        """A read that fails, or a join, may have made its topic before; where it could not, neither will the second."""

        def refused(other: Failure) -> None:
            if getattr(other.value, "fault", other) is not getattr(failure.value, "fault", failure):
                self._failed(other, command)

        if isinstance(command, q.Fetch | q.JoinGroup):
            for copy in _made(command):
                maybeDeferred(self._second.execute, copy, session).addErrback(refused)
        return failure

    def _failed(self, failure: Failure, command: q.Command) -> None:
        self._log.error("not copied: {kind}: {failure}", kind=type(command).__name__, failure=failure.value)


def _copied(command: q.Command) -> bool:
    return (
        writes(command)
        or isinstance(command, q.Take)
        or bool(getattr(command, "create", 0))
        or bool(getattr(command, "commit", False))
    )


def _copies(command: q.Command, reply: Reply) -> list[q.Command]:
    """What the second backend is told, given what the first made of it."""
    if isinstance(command, q.Publish) and isinstance(reply, Published):
        return (
            [] if reply.duplicate else [*_made(command), msgspec.structs.replace(command, to=reply.partition, create=0)]
        )
    if isinstance(command, q.CommitOffsets):
        return [q.CommitOffsets(command.topic, command.reader, command.offsets)]
    if isinstance(command, q.Fetch) and isinstance(reply, Records):
        return [*_made(command), *_committed(command, reply)]
    if isinstance(command, q.JoinGroup):
        return _made(command)
    if isinstance(command, q.Take) and isinstance(reply, Records):
        return [q.Take(command.topic)] if reply.batches else []
    return [command]


def _partitions(command: q.CommitOffsets | q.DeleteOffsets) -> Collection[int | None]:
    return command.offsets if isinstance(command, q.CommitOffsets) else command.partitions


def _naming(partition: int, command: q.CommitOffsets | q.DeleteOffsets) -> q.Command:
    """The same, with that partition in place of None."""
    if isinstance(command, q.DeleteOffsets):
        partitions = tuple(partition if at is None else at for at in command.partitions)
        return q.DeleteOffsets(command.topic, command.reader, partitions)
    offsets = {partition if at is None else at: next for at, next in command.offsets.items()}
    return q.CommitOffsets(command.topic, command.reader, offsets)


def _made(command: q.Publish | q.Fetch | q.JoinGroup) -> list[q.Command]:
    """The topic that the command may have made."""
    if not command.create:
        return []
    return [q.CreateTopic(command.topic, command.create, if_exists=q.IfExists.KEEP)]


def _committed(command: q.Fetch, reply: Records) -> list[q.Command]:
    reader = command.read_by
    if not command.commit or not reply.batches or reader is None:
        return []
    return [q.CommitOffsets(command.topic, reader, {reply.partition: reply.batches[-1].end})]


@implementer(IPlugin, IBackendMaker)
class _Maker:
    name = "tee"
    usage = "tee:FIRST+SECOND (two backends)"

    def make(self, argument: str, encodings: Mapping[str, Encoding], reactor: IReactorTime) -> IBackend:
        """See IBackendMaker."""
        first, plus, second = argument.partition("+")
        if not plus:
            raise ValueError(f"tee wants two backends, such as tee:sqlite:./old+sqlite:./new, not {argument!r}")
        makers = [find_maker(spec) for spec in (first, second)]
        made = [maker.make(rest, encodings, reactor) for maker, rest in makers]
        return Tee(*made)


maker = _Maker()
