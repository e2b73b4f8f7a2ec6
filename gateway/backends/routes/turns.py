"""Turns: what one session asks keeps its order also where finding out whose it is takes time.

Hardly ever does anybody stand in line here.  Where a topic is found at once, its command goes to its owner at once, and
what the owner makes wait holds up nobody.  Only what has to be looked up first, or goes to one backend after the other,
keeps what the same session asks meanwhile behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.python.failure import Failure

from gateway.core.commands import Session

T = TypeVar("T")
U = TypeVar("U")


class _Line:
    """held: what is at its head is not done.  moving: somebody is giving turns."""

    __slots__ = ("held", "moving", "turns")

    def __init__(self) -> None:
        self.turns: deque[Deferred[None]] = deque()
        self.held = False
        self.moving = False


class Turns:
    """The lines of all sessions that have one; a session asks for no more at a time than its connection may."""

    def __init__(self) -> None:
        self._lines: dict[Session, _Line] = {}

    def waits(self, session: Session) -> bool:
        """Whether what this session asks has to stand in line."""
        return bool(self._lines) and session in self._lines

    def wait(self, session: Session, begin: Callable[[], U | Deferred[U]]) -> Deferred[U]:
        """What `begin` comes to when its turn has come."""
        turn: Deferred[None] = Deferred()
        self._lines[session].turns.append(turn)
        return _stepping(turn, lambda ignored: begin())

    def hold(self, session: Session, found: Deferred[T], step: Callable[[T], U | Deferred[U]]) -> Deferred[U]:
        """What `step` comes to once `found` fires.  Until it has been taken, the session's line stands still."""
        line = self._lines.setdefault(session, _Line())
        line.held = True
        answer = _stepping(found, step)
        found.addBoth(lambda ignored: self._go_on(session, line))
        return answer

    def _go_on(self, session: Session, line: _Line) -> None:
        line.held = False
        if line.moving:  # it was found at once, while turns are given
            return
        line.moving = True
        while line.turns and not line.held:
            line.turns.popleft().callback(None)
        line.moving = False
        if not line.held:
            del self._lines[session]


def _stepping(found: Deferred[T], step: Callable[[T], U | Deferred[U]]) -> Deferred[U]:
    """What `step` comes to once `found` fires, which itself waits for neither.

    Cancelling it abandons the wait, not the work: a step not yet taken is taken, and its own wait then given up.
    """
    begun: list[Deferred[Any]] = []

    def give_up(answer: Deferred[Any]) -> None:
        for one in begun:
            one.cancel()

    answer: Deferred[U] = Deferred(give_up)

    def there(value: T) -> None:
        one: Deferred[Any] = maybeDeferred(step, value)
        one.addBoth(lambda result: None if answer.called else answer.callback(result))
        begun.append(one)
        if answer.called:
            one.cancel()

    def failed(failure: Failure) -> None:
        if not answer.called:
            answer.errback(failure)

    found.addCallbacks(there, failed)
    return answer
