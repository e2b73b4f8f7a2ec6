"""The server's half of a pipe connection: its last line, and what a V1 server would say of unknown groups."""

from __future__ import annotations

from gateway.core.commands import Command, CommitOffsets, FetchOffsets, Heartbeat, LeaveGroup, SyncGroup
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import CommittedOffsets, Outcome
from gateway.dialects.session import Call, Listener, ServerSession


class PipeSession(ServerSession):
    """Serves a last line without LF."""

    def last_words(self, rest: bytes) -> list[Call]:
        """Go's bufio.Scanner gives out what is left at the end of the stream as a line."""
        return self._calls([rest + b"\n"]) if rest else []

    def answer(self, call: Call, outcome: Outcome) -> None:
        """As ServerSession, in the terms of a server that knows groups and offsets by name alone."""
        if isinstance(outcome, CommandFailed):
            outcome = _as_v1(call.request.command, outcome)
        super().answer(call, outcome)


class PipeListener(Listener):
    """Its connections are PipeSessions."""

    def session(self, address: str = "127.0.0.1:0") -> PipeSession:
        """See Listener."""
        return PipeSession(self, self.terms(address))


def _as_v1(command: Command, failure: CommandFailed) -> Outcome:
    """What Flux says where we know more: its groups and offsets need no topic to be there.

    Source: core/internal/coordinator/group.go (a group of another topic is "group not found") and offset.go (0 for
    what is not in the table) of the project.
    """
    if isinstance(command, FetchOffsets):
        return CommittedOffsets({}) if failure.fault in _NOTHING_COMMITTED else failure
    fenced = isinstance(command, CommitOffsets) and command.member is not None
    if fenced or isinstance(command, SyncGroup | Heartbeat | LeaveGroup):
        meant = _MEMBERSHIP.get(failure.fault)
        return failure if meant is None else CommandFailed(meant, str(failure))
    return failure


_NOTHING_COMMITTED = {Fault.NO_SUCH_TOPIC, Fault.NO_SUCH_PARTITION, Fault.NO_SUCH_GROUP, Fault.NO_SUCH_OFFSET}
_MEMBERSHIP = {
    Fault.NO_SUCH_TOPIC: Fault.NO_SUCH_GROUP,
    Fault.OTHER_TOPIC: Fault.NO_SUCH_GROUP,
    Fault.NO_SUCH_PARTITION: Fault.NOT_OWNER,
}
