"""Reads that outlive a connection: dialled again after a pause, until an answer has been waited for long enough."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from gateway.core.commands import Command
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Answer
from gateway.pipeline.asking import Connection
from gateway.pipeline.places import Place

SHORTEST, LONGEST = 0.05, 1.0
"""Seconds that bound a pause, which is drawn between 0 and a bound that doubles from the one to the other."""

PASSING = frozenset({Fault.UNAVAILABLE, Fault.TIMEOUT, Fault.BUSY, Fault.NOT_LEADER})
"""Faults that may be gone in a moment."""

R = TypeVar("R", bound=Answer)
T = TypeVar("T")


class GatewayFailed(RuntimeError):
    """What a Spark job fails with: a sentence that says what was wrong with which server."""


class Attempts:
    """One connection at a time to a place, for commands that may be asked twice.

    clock, sleep, draw: as time.monotonic, time.sleep and random.random are.
    """

    def __init__(
        self,
        place: Place,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._place = place
        self._clock = clock
        self._sleep = sleep
        self._draw = draw
        self._connection: Connection | None = None
        self._since: float | None = None  # when what goes on now was begun
        self._bound = SHORTEST

    def __getstate__(self) -> dict[str, object]:
        """A connection does not go to another process."""
        return self.__dict__ | {"_connection": None, "_since": None}

    @property
    def connection(self) -> Connection:
        """The one there is, or a new one.  Raises CommandFailed."""
        if self._connection is None:
            self._connection = Connection(self._place)
        return self._connection

    def close(self) -> None:
        """Hang up; the next connection is a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def begin(self) -> None:
        """From now on an answer is waited for."""
        if self._since is None:
            self._since = self._clock()

    def succeeded(self) -> None:
        """It is there."""
        self._since, self._bound = None, SHORTEST

    def pause(self, failure: CommandFailed) -> None:
        """Hang up, and wait before the next attempt.  Raises the failure if there is to be none."""
        self.close()
        self.begin()
        assert self._since is not None
        if failure.fault not in PASSING or self._clock() - self._since >= self._place.seconds:
            raise failure
        self._sleep(self._bound * self._draw())
        self._bound = min(2 * self._bound, LONGEST)

    def carry(self, step: Callable[[Connection], T]) -> T:
        """What a step returns that may be done twice.  Raises CommandFailed."""
        while True:
            self.begin()
            try:
                done = step(self.connection)
            except CommandFailed as failure:
                self.pause(failure)
            else:
                self.succeeded()
                return done

    def ask(self, command: Command, kind: type[R]) -> R:
        """The reply that a command names, which is of this kind.  Raises CommandFailed."""
        return self.carry(lambda connection: connection.ask(command, kind))


def told(place: Place, failure: CommandFailed) -> GatewayFailed:
    """A failure for people."""
    what = (failure.detail or failure.fault.value).removeprefix(f"{place.endpoint}: ")
    return GatewayFailed(f"{place.endpoint}: {_SENTENCES.get(failure.fault, '{what}').format(what=what, place=place)}")


_SENTENCES = {
    Fault.BAD_CREDENTIALS: "the user or the password is wrong (options user, and password or passwordFile)",
    Fault.UNAUTHENTICATED: "a login is wanted (options user, and password or passwordFile)",
    Fault.FORBIDDEN: "not allowed for this user: {what}",
    Fault.MALFORMED: "what was answered is not what this dialect says ({what}); is it the right port?",
    Fault.TIMEOUT: "{what} (option timeoutSeconds); is this dialect spoken there?",
    Fault.UNAVAILABLE: "it cannot be reached, or went away, and did not come back within {place.seconds:g} s"
    " (option timeoutSeconds): {what}",
    Fault.NO_SUCH_NAMESPACE: "there is no namespace {place.namespace!r} (option namespace)",
}
