"""What takes time, and what stands in line behind it.

A session is answered as if each thing that it asks were done before the next, also if it does not wait for answers:
what only looks, or looks before it writes, waits for the writes of its session that came before it, and what writes
behind that waits for its turn.  A look that takes time itself, as a table that has to be read, is waited for as well.
Where nobody looks, writes wait for nothing.
"""

from __future__ import annotations

from collections import deque

from twisted.internet.defer import Deferred

from gateway.core.commands import Session, Written
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Outcome, Reply

_UNDECIDED = CommandFailed(Fault.INTERNAL, "not decided")


class Held:
    """Something a session began that is not over.

    line: what waits for that, None if nothing does, or it is over.
    """

    __slots__ = ("line", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.line: Line | None = None


class Write(Held):
    """One command on its way through the writer; it is over when it is visible."""

    __slots__ = ("command", "done", "outcome")

    def __init__(self, command: Written, session: Session) -> None:
        super().__init__(session)
        self.command = command
        self.done: Deferred[Reply] = Deferred()
        self.outcome: Outcome = _UNDECIDED


class Line:
    """Of one session: in their order, what waits for its turn and what must be over by then."""

    def __init__(self) -> None:
        self._order: deque[Held | Deferred[None]] = deque()

    def enter(self, newest: Write | None) -> Deferred[None]:
        """A place at the end, behind that write; called back when it is its turn."""
        if newest is not None and newest.line is None:
            newest.line = self
            self._order.append(newest)
        turn: Deferred[None] = Deferred()
        self._order.append(turn)
        return turn

    def hold(self, begun: Held) -> None:
        """Something that had its turn takes longer: everybody else waits for that."""
        begun.line = self
        self._order.appendleft(begun)

    def move(self) -> bool:
        """Give everybody a turn up to the first that is not over.  Returns whether that was all."""
        order = self._order
        while order:
            first = order[0]
            if isinstance(first, Held):
                if first.line is not None:
                    return False
                order.popleft()
            else:
                order.popleft()
                first.callback(None)  # which does nothing if it was given up
        return True
