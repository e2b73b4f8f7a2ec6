"""The server's half of an mlog connection: failures that this dialect takes for answers, and the life of a stream."""

from __future__ import annotations

from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import CommittedOffsets, Done, Outcome, Reply
from gateway.dialects.mlog.terms import MlogTerms
from gateway.dialects.session import Call, Listener, ServerSession

_EASED: dict[tuple[type[q.Command], Fault], Reply] = {
    (q.CommitOffsets, Fault.NO_SUCH_TOPIC): Done(),
    (q.FetchOffsets, Fault.NO_SUCH_TOPIC): CommittedOffsets({}),
    (q.FetchOffsets, Fault.NO_SUCH_GROUP): CommittedOffsets({}),
    (q.FetchOffsets, Fault.OTHER_TOPIC): CommittedOffsets({}),
    (q.FetchOffsets, Fault.NO_SUCH_OFFSET): CommittedOffsets({}),
}
"""What is no failure here.  A commit for a topic that does not exist succeeds, as in the project; there it is kept for
a topic to come, here it is not."""


class MlogListener(Listener):
    """Its connections are MlogSessions; they share nothing."""

    def session(self, address: str = "127.0.0.1:0") -> MlogSession:
        """See Listener."""
        terms = self.terms(address)
        assert isinstance(terms, MlogTerms), "an mlog listener has MlogTerms"
        return MlogSession(self, terms)


class MlogSession(ServerSession):
    """Once a stream has begun it hears no requests: its records go on until the connection ends."""

    def answer(self, call: Call, outcome: Outcome) -> None:
        """See ServerSession."""
        if isinstance(outcome, CommandFailed):
            outcome = _EASED.get((type(call.request.command), outcome.fault), outcome)
        super().answer(call, outcome)

    def begun(self, call: Call) -> None:
        """See ServerSession."""
        self.deafen()

    def ended(self, call: Call, failure: CommandFailed) -> None:
        """See ServerSession.  The peer is told why, which the project has no word for."""
        self.say(self.dialect.encode_reply(call.request, failure, self.terms))
        super().ended(call, failure)
