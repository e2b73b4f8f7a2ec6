"""Threads for what blocks.  Knows nothing of Kafka, and little of the reactor: how to be called back in it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.python.failure import Failure

from gateway.core.faults import CommandFailed, Fault

T = TypeVar("T")

THREADS = 8
"""Calls that block at once."""

WAITING = 1000
"""Calls that may wait for a thread; the next is BUSY."""


class Job(Generic[T]):
    """One call, and who waits for it.  Settled in the reactor, once: by its result or by its deadline."""

    __slots__ = ("begun", "deadline", "done", "overdue", "result", "work")

    def __init__(self, work: Callable[[], T]) -> None:
        self.work = work
        self.done: Deferred[T] = Deferred()
        self.deadline: IDelayedCall | None = None
        self.overdue = False
        self.begun = False
        self.result: T | Failure | None = None


class Workers:
    """A bounded pool, whose end does not wait in the reactor.

    from_thread: calls in the reactor; nothing after the end.
    translate:   what an exception of the work becomes.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        from_thread: Callable[..., None],
        translate: Callable[[BaseException], BaseException],
        name: str,
    ) -> None:
        self._reactor = reactor
        self._from_thread = from_thread
        self._translate = translate
        self._name = name
        self._jobs: queue.SimpleQueue[Job[object] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._open: set[Job[object]] = set()
        self._ended = False

    def call(self, work: Callable[[], T], seconds: float) -> Deferred[T]:
        """Its result.  Fails with TIMEOUT after `seconds`; work that has not begun by then never does."""
        job: Job[T] = Job(work)
        if self._ended:
            job.done.errback(CommandFailed(Fault.UNAVAILABLE, "the gateway is closing"))
            return job.done
        if len(self._open) >= THREADS + WAITING:
            job.done.errback(CommandFailed(Fault.BUSY, f"{WAITING} calls wait for Kafka"))
            return job.done
        job.deadline = self._reactor.callLater(seconds, self._expire, job, seconds)
        self._open.add(job)  # type: ignore[arg-type]  # what it gives is between the job and its caller
        if len(self._threads) < THREADS and len(self._threads) < len(self._open):
            self._threads.append(self._thread())
        self._jobs.put(job)  # type: ignore[arg-type]
        return job.done

    def end(self) -> None:
        """Take no more, and fail what has not ended with UNAVAILABLE."""
        self._ended = True
        for job in list(self._open):
            self._give(job, Failure(CommandFailed(Fault.UNAVAILABLE, "the gateway is closing")))
        for _ in self._threads:
            self._jobs.put(None)

    def join(self, seconds: float) -> bool:
        """Wait for the threads, in another one than the reactor's.  Whether all have ended."""
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _thread(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name=f"{self._name}-{len(self._threads)}", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            if job.overdue:
                continue
            result: object
            try:
                result = job.work()
            except BaseException as error:  # whatever it is, whoever waits hears of it
                result = Failure(self._translate(error))
            self._from_thread(self._give, job, result)

    def _expire(self, job: Job[object], seconds: float) -> None:
        self._give(job, Failure(CommandFailed(Fault.TIMEOUT, f"Kafka did not answer within {seconds:g} s")))

    def _give(self, job: Job[object], result: object) -> None:
        if job.overdue:
            return
        job.overdue = True
        self._open.discard(job)
        if job.deadline is not None and job.deadline.active():
            job.deadline.cancel()
        if not job.done.called:  # else whoever waited has cancelled it
            job.done.callback(result)
