"""The backend seam: what carries a command out, and what makes such a thing.

This one file stands below `net`; it imports core and zope only (and Twisted's two types that the signatures name).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zope.interface import Attribute, Interface

from gateway.core.commands import Command, Follow, Session
from gateway.core.faults import CommandFailed
from gateway.core.records import Encoding, RecordBatch
from gateway.core.replies import Reply

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred
    from twisted.internet.interfaces import IPushProducer, IReactorTime


class IFollower(Interface):
    """Where followed records go."""

    def deliver(batch: RecordBatch) -> None:
        """The next records, in order."""

    def ended(failure: CommandFailed) -> None:
        """There will be no more, and why.  Not called after `stopProducing`."""


class IBackend(Interface):
    """Carries commands out.

    One with `immediate = True` answers small reads at once, but for the first few: they are tried past the queue.
    One with `topics()` gives descriptions of all its topics one by one, to who has other things to do between them.
    """

    durability: str = Attribute(
        "what a write has reached when it is answered: `memory`, `os`, `fsync`, or `replicated`: all in-sync replicas"
    )

    def execute(command: Command, session: Session) -> Reply | Deferred[Reply]:
        """Carry out one command.

        The Reply that the command names, at once where nothing has to be waited for, else a Deferred of it.  Raises, or
        fails with, CommandFailed; any other failure is a defect, is logged, and the peer sees INTERNAL.  Called again
        before the first fires.  Cancelling abandons the wait, not the work: an accepted Publish is still stored.
        """

    def follow(command: Follow, session: Session, follower: IFollower) -> IPushProducer | Deferred[IPushProducer]:
        """Push records to the follower until the producer is stopped; honours pause.  Fails as `execute` does."""

    def close() -> Deferred[None] | None:
        """Take no more, finish or abandon what runs, release.  Fires when it is safe to exit."""


class IBackendMaker(Interface):
    """A kind of backend, found as a plugin."""

    name: str = Attribute("what stands before the colon of `--backend NAME:ARGUMENT`")
    usage: str = Attribute("one line: what the argument is")

    def make(argument: str, encodings: Mapping[str, Encoding], reactor: IReactorTime) -> IBackend:
        """The backend for `--backend NAME:ARGUMENT`.  Raises ValueError, with a sentence for the user."""
