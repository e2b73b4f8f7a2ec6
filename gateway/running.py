"""Commands that are done when something in the reactor is."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

import click
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorCore
from twisted.python.failure import Failure

T = TypeVar("T")


def finished(reactor: IReactorCore, work: Coroutine[Deferred[Any], Any, T]) -> T:
    """Run the reactor until the work is done; what it came to.  Raises what it raised, Abort if it was interrupted."""
    outcome: list[T | Failure] = []

    def begin() -> None:
        done = Deferred.fromCoroutine(work).addBoth(outcome.append)
        done.addBoth(lambda _: reactor.stop())

    reactor.callWhenRunning(begin)
    reactor.run()
    if not outcome:
        raise click.Abort
    if isinstance(outcome[0], Failure):
        outcome[0].raiseException()
    return outcome[0]
