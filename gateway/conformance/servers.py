"""Judges a server: plays the cases of a dialect against it, over real connections."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, cast

import msgspec
from twisted.internet.defer import Deferred, DeferredSemaphore, gatherResults, succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IDelayedCall, IReactorTime, IStreamClientEndpoint, ITCPTransport
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from gateway.backends.remote.backend import RemoteBackend
from gateway.backends.remote.ways import Way as Spoken
from gateway.conformance.cases import LOGIN, Case, Closed, Expect, unimplemented
from gateway.conformance.expressions import evaluate
from gateway.conformance.patterns import Exactly, Known, Pattern, blanks_of, fill
from gateway.conformance.playing import WAYS, Dial, Drop, Play, Ruling, Way, Write
from gateway.conformance.results import Result, left_out, result
from gateway.core.commands import Authenticate, Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import registry
from gateway.dialects import Dialect, Settings
from gateway.net.sockets import tune

AT_ONCE = 16
"""Cases that are played at the same time."""

PATIENCE, PAUSE = 40, 0.5
"""How often a run plays a case again into which somebody else has come, and the seconds before that, more or less."""

_LETTERS = string.ascii_lowercase + string.digits


class Subject(msgspec.Struct, frozen=True):
    """A server that is judged.

    settings: those of its listener, as far as they are known; a case that needs others is left out.
    login:    who asks for what has to be there before.
    guest:    that is whom any fresh server lets in; whether this one looks at who logs in nobody said.
    """

    dialect: Dialect
    endpoint: IStreamClientEndpoint
    name: str
    clock: IReactorTime
    settings: Settings
    login: Authenticate | None = None
    guest: bool = False


async def reach(subject: Subject) -> None:
    """Make one connection, and hang up.  Raises CommandFailed(UNAVAILABLE) where nobody answers."""
    factory = Factory.forProtocol(Protocol)
    factory.noisy = False
    try:
        protocol = cast(Protocol, await subject.endpoint.connect(factory))
    except Exception as error:  # whatever an endpoint makes of it
        raise CommandFailed(Fault.UNAVAILABLE, f"{subject.name} cannot be reached: {error}") from error
    if protocol.transport is not None:
        protocol.transport.loseConnection()


class Judge:
    """Plays cases.

    chosen: ways in which each is played.  slow: those that take seconds, too.
    told:   called with each result as it is there.
    """

    def __init__(
        self,
        subject: Subject,
        *,
        ways: Sequence[Way] = WAYS,
        slow: bool = False,
        told: Callable[[Result], None] = lambda _: None,
        seed: int = 0,
    ) -> None:
        self._subject = subject
        self._ways = ways
        self._slow = slow
        self._told = told
        self._random = random.Random(seed)
        self._foreign = unimplemented(subject.dialect.name)
        self._encodings = registry(subject.dialect.encodings)
        way = Spoken(
            subject.dialect, subject.settings, self._encodings, subject.clock, self._random.random, subject.login
        )
        self._preparing = RemoteBackend(way, subject.endpoint, subject.name)
        self._session = Session(0)
        self._patience = PATIENCE

    def close(self) -> None:
        """Hang up."""
        self._preparing.close()

    async def judge(self, cases: Sequence[Case]) -> list[Result]:
        """What comes of them, in their order."""
        found: dict[int, Result] = {}
        for alone, at_once in ((False, AT_ONCE), (True, 1)):
            chosen = {at: case for at, case in enumerate(cases) if case.alone is alone}
            found |= zip(chosen, await self._some(chosen.values(), at_once), strict=True)
        return [found[at] for at in range(len(cases))]

    async def _some(self, cases: Iterable[Case], at_once: int) -> list[Result]:
        room = DeferredSemaphore(at_once)
        return list(await gatherResults([self._judged(case, room) for case in cases], consumeErrors=True))

    def _judged(self, case: Case, room: DeferredSemaphore) -> Deferred[Result]:
        found = self._left_out(case)
        if found is None:
            return room.run(lambda: Deferred.fromCoroutine(self._all_ways(case)))
        self._told(found)  # not in its turn: where hundreds are left out, each would wait within the one before
        return succeed(found)

    async def _all_ways(self, case: Case) -> Result:
        ways = self._ways[:1] if case.whole else self._ways
        if len(ways) == 1 and steady_of(case):
            ways = (ways[0], ways[0])  # what is to be the same each time needs two
        rulings: list[Ruling] = []
        steady: dict[str, Pattern] = {}
        for way in ways:
            rulings.append(await self._in_peace(case, way, steady))
            steady = said_always(case, rulings[-1].names) | steady
        found = result(case, rulings)
        self._told(found)
        return found

    async def _in_peace(self, case: Case, way: Way, steady: Mapping[str, Pattern]) -> Ruling:
        """Again, if somebody else has come between two looks at the same."""
        ruling = await self._played(case, way, steady)
        while self._patience and came_between(case, ruling):
            self._patience -= 1
            await deferLater(self._subject.clock, PAUSE * (0.5 + self._random.random()))
            ruling = await self._played(case, way, steady)
        return ruling

    def _left_out(self, case: Case) -> Result | None:
        if case.slow and not self._slow:
            return left_out(case, "it takes seconds; --slow plays it")
        if LOGIN in case.needs and (self._subject.login is None or self._subject.guest):
            return left_out(case, "it needs a server that lets in nobody but who it knows; --user says who that is")
        if lacking := case.lacks(self._subject.settings):
            return left_out(case, f"it needs a listener with {lacking}; --setting says that there is one")
        return None

    async def _played(self, case: Case, way: Way, steady: Mapping[str, Pattern]) -> Ruling:
        names = {name: self._own(text) for name, text in case.names.items()}
        if (login := self._subject.login) is not None:
            names |= {"principal": login.principal.encode(), "secret": login.secret.encode()}
        dialect = self._subject.dialect
        known = names | said_now(steady, names)
        play = Play(case, known, dialect.measure_reply, tagged=dialect.tagged, way=way, foreign=self._foreign)
        try:
            await self._prepare(case, names)
        except CommandFailed as failure:
            play.broke(f"what has to be there before could not be made: {failure}")
        return await Playing(play, self._subject).done

    def _own(self, text: str) -> bytes:
        return re.sub(r"\?", lambda _: self._random.choice(_LETTERS), text).encode()

    async def _prepare(self, case: Case, names: dict[str, bytes]) -> None:
        for expression in case.given:
            said = re.sub(r"\{(\w+)\}", lambda found: names[found[1]].decode(), expression)
            command = evaluate(said, self._encodings)
            reply = self._preparing.execute(command, self._session)  # type: ignore[arg-type]  # a case says commands
            if isinstance(reply, Deferred):
                await reply


def came_between(case: Case, ruling: Ruling) -> bool:
    """Whether what is everybody's was another one when it was asked for the second time."""
    if not case.alone or ruling.verdict != "FAIL" or not 0 <= ruling.step < len(case.steps):
        return False
    step = case.steps[ruling.step]
    return isinstance(step, Expect) and step in case.steps[: ruling.step]


def steady_of(case: Case) -> set[str]:
    """The blanks in which a server has to say the same whenever the case is played."""
    forms = [form for step in case.steps if isinstance(step, Expect | Closed) for form in step.lenient]
    forms += [step.form for step in case.steps if isinstance(step, Expect)]
    return {name for form in forms for name, blank in blanks_of(form).items() if blank.steady}


def said_always(case: Case, names: Mapping[str, bytes]) -> dict[str, Pattern]:
    """What its steady blanks say, with the case's own names as such in it.  names: what they stood for."""
    own = {names[name]: name for name in sorted(case.names, key=lambda name: len(names[name]), reverse=True)}
    each = re.compile(b"(%s)" % b"|".join(map(re.escape, own)))
    return {
        name: tuple(Known(own[part]) if part in own else Exactly(part) for part in each.split(names[name]))
        for name in steady_of(case) & names.keys()
    }


def said_now(steady: Mapping[str, Pattern], names: Mapping[str, bytes]) -> dict[str, bytes]:
    """The same where the case's own names are these."""
    return {name: b"".join(fill(parts, names)) for name, parts in steady.items()}


class Playing:
    """One Play on real connections.  done: its ruling."""

    def __init__(self, play: Play, subject: Subject) -> None:
        self.done: Deferred[Ruling] = Deferred()
        self._play = play
        self._subject = subject
        self._ends: dict[str, _End] = {}
        self._alarm: IDelayedCall | None = None
        play.begin(subject.clock.seconds())
        self.go_on()

    def received(self, on: str, octets: bytes) -> None:
        """Something came."""
        self._play.received(on, octets, self._subject.clock.seconds())
        self.go_on()

    def ended(self, on: str, *, clean: bool) -> None:
        """The other end hung up."""
        self._play.ended(on, self._subject.clock.seconds(), clean=clean)
        self.go_on()

    def broke(self, failure: Failure) -> None:
        """There is no connection."""
        self._play.broke(str(CommandFailed(Fault.UNAVAILABLE, f"{self._subject.name}: {failure.getErrorMessage()}")))
        self.go_on()

    def go_on(self) -> None:
        """Do what the play says."""
        for action in self._play.take():
            match action:
                case Dial(on=on):
                    self._ends[on] = _End(self, on)
                    self._ends[on].dial(self._subject.endpoint)
                case Write(on=on, chunks=chunks):
                    self._ends[on].write(chunks)
                case Drop(on=on, half=half):
                    self._ends[on].drop(half=half)
        if self._alarm is not None and self._alarm.active():
            self._alarm.cancel()
        if self._play.ruling is not None:
            if not self.done.called:
                self.done.callback(self._play.ruling)
        elif self._play.deadline is not None:
            clock = self._subject.clock
            self._alarm = clock.callLater(max(0.0, self._play.deadline - clock.seconds()), self._late)

    def soon(self, do: Callable[[], None]) -> None:
        """In the next turn of the reactor."""
        self._subject.clock.callLater(0, do)

    def _late(self) -> None:
        self._play.tick(self._subject.clock.seconds())
        self.go_on()


class _End(Protocol):
    """The kit's end of one connection: what is to be written waits until it is made."""

    def __init__(self, playing: Playing, on: str) -> None:
        self._playing = playing
        self._on = on
        self._waiting: list[bytes] = []
        self._dropped: Literal["", "half", "whole"] = ""
        self._made = False

    def dial(self, endpoint: IStreamClientEndpoint) -> None:
        factory = Factory.forProtocol(lambda: self)
        factory.noisy = False
        endpoint.connect(factory).addErrback(self._playing.broke)

    def write(self, chunks: Sequence[bytes]) -> None:
        self._waiting += chunks
        if self._made:
            self._next()

    def drop(self, *, half: bool) -> None:
        self._dropped = "half" if half else "whole"
        if self._made and not self._waiting:
            self._hang_up()

    def connectionMade(self) -> None:
        """See IProtocol."""
        self._made = True
        tune(self.transport)
        self._next()

    def dataReceived(self, data: bytes) -> None:
        """See IProtocol."""
        self._playing.received(self._on, data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """See IProtocol."""
        self._made = False
        if self._dropped != "whole":
            self._playing.ended(self._on, clean=reason.check(ConnectionDone) is not None)

    def _next(self) -> None:
        """One write a turn of the reactor, so that they leave apart."""
        if not self._made or self.transport is None:
            return
        if self._waiting:
            self.transport.write(self._waiting.pop(0))
            if self._waiting:
                self._playing.soon(self._next)
                return
        if self._dropped:
            self._hang_up()

    def _hang_up(self) -> None:
        if self._dropped == "half":
            ITCPTransport(self.transport).loseWriteConnection()
        elif self.transport is not None:
            self.transport.loseConnection()
