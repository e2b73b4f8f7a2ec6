"""Writes that take time, and what stands in line behind them.

A session is answered as if each thing that it asks were done before the next, also if it does not wait for answers:
what only looks, or looks before it writes, waits for the writes of its session that came before it, and what writes
behind that waits for its turn.  Where nobody looks, writes wait for nothing.
"""

from __future__ import annotations

from collections import deque

from twisted.internet.defer import Deferred

from gateway.core.commands import Session, Written
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Outcome, Reply

_UNDECIDED = CommandFailed(Fault.INTERNAL, "not decided")


class Write:
    """One command on its way through the writer.

    line: what waits for this to be visible, None if nothing does.
    """

    __slots__ = ("command", "done", "line", "outcome", "session")

    def __init__(self, command: Written, session: Session) -> None:
        self.command = command
        self.session = session
        self.done: Deferred[Reply] = Deferred()
        self.outcome: Outcome = _UNDECIDED
        self.line: Line | None = None


class Line:
    """Of one session: in their order, what waits for its turn and the writes that must be visible by then."""

    def __init__(self) -> None:
        self._order: deque[Write | Deferred[None]] = deque()

    def enter(self, newest: Write | None) -> Deferred[None]:
        """A place at the end, behind that write; called back when it is its turn."""
        if newest is not None and newest.line is None:
            newest.line = self
            self._order.append(newest)
        turn: Deferred[None] = Deferred()
        self._order.append(turn)
        return turn

    def hold(self, write: Write) -> None:
        """Something that had its turn came to write: everybody else waits for that."""
        write.line = self
        self._order.appendleft(write)

    def move(self) -> bool:
        """Give everybody a turn up to the first write that is not visible.  Returns whether that was all."""
        order = self._order
        while order:
            first = order[0]
            if isinstance(first, Write):
                if first.line is not None:
                    return False
                order.popleft()
            else:
                order.popleft()
                first.callback(None)  # which does nothing if it was given up
        return True
