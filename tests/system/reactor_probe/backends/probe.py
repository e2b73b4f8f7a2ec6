"""`probe:FILE=SPEC`: another backend, and how long the reactor stood still meanwhile, told in FILE at the end.

FILE is JSON: {"longest": seconds, "busiest": seconds, "over": [gaps above 50 ms], "looks": count}.  A gap is the time
between two looks that should be 5 ms apart, less these: whoever asked in between has waited as long.  The busiest is
the most that the reactor's thread has computed between two looks: its own doing, whatever else the machine does.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IPushProducer, IReactorTime
from twisted.internet.task import LoopingCall
from twisted.plugin import IPlugin
from zope.interface import implementer

from gateway.backends import find_maker
from gateway.backends.interface import IBackend, IBackendMaker, IFollower
from gateway.core import commands as q
from gateway.core.commands import Session
from gateway.core.records import Encoding
from gateway.core.replies import Reply

LOOK_SECONDS = 0.005
WORTH_TELLING = 0.05


class Looks:
    """Looks at the time every 5 ms, from the first turn of the reactor on."""

    def __init__(self, clock: IReactorTime) -> None:
        self._last = self._computed = 0.0
        self._longest = self._busiest = 0.0
        self._over: list[float] = []
        self._count = 0
        self._looking = LoopingCall(self._look)
        self._looking.clock = clock
        self._looking.start(LOOK_SECONDS, now=False)

    def _look(self) -> None:
        now, computed = time.perf_counter(), time.thread_time()
        if self._count:
            gap = now - self._last - LOOK_SECONDS
            self._longest = max(self._longest, gap)
            self._busiest = max(self._busiest, computed - self._computed)
            self._over += [gap] if gap > WORTH_TELLING else []
        self._last, self._computed = now, computed
        self._count += 1

    def end(self) -> str:
        """What was seen."""
        self._looking.stop()
        found = {"longest": self._longest, "busiest": self._busiest, "over": self._over, "looks": self._count}
        return json.dumps(found)


@implementer(IBackend)
class Probed:
    """backend: does the work.  path: where to tell."""

    def __init__(self, backend: IBackend, clock: IReactorTime, path: Path) -> None:
        self._backend = backend
        self._looks = Looks(clock)
        self._path = path
        self.durability = backend.durability

    def execute(self, command: q.Command, session: Session) -> Reply | Deferred[Reply]:
        """See IBackend."""
        return self._backend.execute(command, session)

    def follow(
        self, command: q.Follow, session: Session, follower: IFollower
    ) -> IPushProducer | Deferred[IPushProducer]:
        """See IBackend."""
        return self._backend.follow(command, session, follower)

    def close(self) -> Deferred[None]:
        """See IBackend."""
        self._path.write_text(self._looks.end())
        return maybeDeferred(self._backend.close)


@implementer(IPlugin, IBackendMaker)
class _Maker:
    name = "probe"
    usage = "probe:FILE=SPEC"

    def make(self, argument: str, encodings: Mapping[str, Encoding], reactor: IReactorTime) -> IBackend:
        """See IBackendMaker."""
        path, _, spec = argument.partition("=")
        maker, rest = find_maker(spec)
        return Probed(maker.make(rest, encodings, reactor), reactor, Path(path))


maker = _Maker()
