"""Judges a client: plays a server for it, case after case, and looks at every byte that it sends.

A person makes the client do what each case asks for, guided by what `guide` is told; or a driver does
(gateway.conformance.drivers).  For each case and each way of playing it the world is new: nothing is there but what the
case gives.
"""

from __future__ import annotations

import random
import re
import string
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import msgspec
from twisted.internet.defer import Deferred, DeferredSemaphore, gatherResults
from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import IListeningPort, IReactorProcess, IReactorTime

from gateway import dialects
from gateway.conformance.cases import Case
from gateway.conformance.driving import DRIVERS, Driver, Introduction
from gateway.conformance.expressions import evaluate
from gateway.conformance.hearings import Hearing
from gateway.conformance.hosts import Playing, Stage
from gateway.conformance.playing import Ruling, Way
from gateway.conformance.prompts import Asked, Driving, Guide, Prompt, calls_of, filled, said, waits_for
from gateway.conformance.results import Result, left_out, result
from gateway.core.commands import Command, Session
from gateway.core.faults import CommandFailed
from gateway.core.records import registry
from gateway.dialects import Dialect, Settings

WAYS: tuple[Way, ...] = ("whole", "bytes")
"""How answers to a client are cut: each in one write, or a byte a write."""

LOOPBACK = "tcp:0:interface=127.0.0.1"

AT_ONCE = 4
"""Drivers that run at the same time, each with a port of its own."""

PATIENCE = 15.0
"""Seconds that a driver has until its client first says what is awaited: some take a while to be loaded."""

_LETTERS = string.ascii_lowercase + string.digits


class Seat:
    """A port of the kit; one case at a time is played there."""

    def __init__(self, stage: Stage, listening: IListeningPort) -> None:
        self.stage = stage
        self._listening = listening
        host = listening.getHost()
        self.host, self.port = str(getattr(host, "host", "")), int(getattr(host, "port", 0))

    @property
    def address(self) -> str:
        """`host:port` that a client on this machine dials."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::", "") else self.host
        return f"{host}:{self.port}"

    def close(self) -> Deferred[None] | None:
        """Listen no more."""
        return self._listening.stopListening()


class Kind(msgspec.Struct, frozen=True):
    """What kind of client is judged.

    settings: those of a listener that it goes with.  calls: what a driver of it can do, None = a person can do all.
    patience: seconds until what is awaited first has to come, None = for ever.
    """

    dialect: Dialect
    settings: Settings
    calls: frozenset[str] | None = None
    patience: float | None = None


class ClientJudge:
    """Plays cases of role `client`.  told: called with each result as it is there."""

    def __init__(
        self,
        kind: Kind,
        prompt: Prompt,
        seats: Sequence[Seat],
        clock: IReactorTime,
        *,
        ways: Sequence[Way] = WAYS,
        slow: bool = False,
        told: Callable[[Result], None] = lambda _: None,
        seed: int = 0,
    ) -> None:
        self._kind = kind
        self._prompt = prompt
        self._free = deque(seats)
        self._clock = clock
        self._ways = ways
        self._slow = slow
        self._told = told
        self._seed = seed
        self._encodings = registry(each for name in dialects.names() for each in dialects.load(name).encodings)

    async def judge(self, cases: Sequence[Case]) -> list[Result]:
        """What comes of them, in their order; as many at a time as there are seats."""
        room = DeferredSemaphore(len(self._free))
        return list(await gatherResults([room.run(self._judged, case) for case in cases], consumeErrors=True))

    def _judged(self, case: Case) -> Deferred[Result]:
        return Deferred.fromCoroutine(self._all_ways(case))

    async def _all_ways(self, case: Case) -> Result:
        seat = self._free.popleft()
        try:
            ways = self._ways[:1] if case.whole else self._ways
            found = self._left_out(case) or result(case, [await self._played(case, way, seat) for way in ways])
        finally:
            self._free.append(seat)
        self._told(found)
        return found

    def _left_out(self, case: Case) -> Result | None:
        if case.slow and not self._slow:
            return left_out(case, "it takes seconds; --slow plays it")
        for name, wanted in case.needs.items():
            if getattr(self._kind.settings, name, None) != wanted:
                return left_out(
                    case, f"it is for clients that go with {name} = {wanted!r}; --setting says that it does"
                )
        missing = {str(call.get("call")) for call in calls_of(case)} - (self._kind.calls or set())
        if self._kind.calls is not None and (missing or not case.do):
            return left_out(case, f"the driver cannot make it {', '.join(sorted(missing)) or 'do that'}")
        return None

    async def _played(self, case: Case, way: Way, seat: Seat) -> Ruling:
        kind = self._kind
        names = self._names(case, way, seat)
        hearing = Hearing(case, names, kind.dialect, patience=kind.patience, way=way)
        playing = Playing(hearing, kind.dialect, kind.settings, self._encodings, self._clock, way)
        try:
            await self._prepare(case, names, playing)
        except CommandFailed as failure:
            hearing.broke(f"what has to be there before could not be made: {failure}")
        end = self._prompt.begin(self._asked(case, names, seat), hearing.remarked)
        if isinstance(end, Deferred):
            end = await end
        seat.stage.playing = playing
        playing.begin()
        try:
            return await playing.done
        finally:
            seat.stage.playing = None
            playing.close()
            if isinstance(ended := end(), Deferred):
                await ended

    def _names(self, case: Case, way: Way, seat: Seat) -> dict[str, bytes]:
        """The same at each run with that seed, whatever else is played at the time."""
        chance = random.Random(f"{self._seed} {case.id} {way}")
        own = {name: re.sub(r"\?", lambda _: chance.choice(_LETTERS), text) for name, text in case.names.items()}
        host, _, port = seat.address.rpartition(":")
        return {
            name: text.encode() for name, text in {**own, "address": seat.address, "host": host, "port": port}.items()
        }

    async def _prepare(self, case: Case, names: Mapping[str, bytes], playing: Playing) -> None:
        for expression in case.given:
            command = cast(Command, evaluate(said(expression, names), self._encodings))
            reply = playing.backend.memory.execute(command, Session(0))
            if isinstance(reply, Deferred):
                await reply

    def _asked(self, case: Case, names: Mapping[str, bytes], seat: Seat) -> Asked:
        calls = tuple(filled(call, names) for call in calls_of(case))
        return Asked(case, said(case.ask, names), calls, seat.address, waits_for(case, names))


# -- the two modes


async def seated(reactor: object, endpoints: Sequence[str]) -> list[Seat]:
    """A seat at each.  Raises OSError or twisted's CannotListenError where one is taken."""
    seats = []
    for endpoint in endpoints:
        stage = Stage()
        seats.append(Seat(stage, await serverFromString(reactor, endpoint).listen(stage)))
    return seats


async def judge_clients(
    reactor: object,
    kind: Kind,
    cases: Sequence[Case],
    endpoint: str,
    guide: Callable[[Asked], Deferred[None] | None],
    *,
    slow: bool = False,
    told: Callable[[Result], None] = lambda _: None,
    seed: int = 0,
) -> list[Result]:
    """A person makes the client do what `guide` is told, at `endpoint`; each case is played once, in one piece.

    A case begins at once, or when what `guide` returns has fired: until then nobody is let in, such as a client that
    still tries to do what the case before asked for.
    """
    seats = await seated(reactor, [endpoint])
    judge = ClientJudge(
        kind, Guide(guide), seats, cast(IReactorTime, reactor), ways=WAYS[:1], slow=slow, told=told, seed=seed
    )
    try:
        return await judge.judge(cases)
    finally:
        await _closed(seats)


async def drive_clients(
    reactor: object,
    kind: Kind,
    cases: Sequence[Case],
    *,
    driver: str = "",
    client_path: Path | None = None,
    endpoint: str = "",
    ways: Sequence[Way] = WAYS,
    slow: bool = False,
    told: Callable[[Result], None] = lambda _: None,
    seed: int = 0,
    patience: float = PATIENCE,
    at_once: int = AT_ONCE,
) -> tuple[Introduction, list[Result]]:
    """A driver makes its client do all of it; who that is, and what came of it.

    endpoint: where the kit listens, "" = free ports of loopback, several at once.
    Raises Undriven where the driver does not start: its client is not on `client_path`.
    """
    name = driver or DRIVERS.get(kind.dialect.name, "ours")
    settings = {each: getattr(kind.settings, each) for each in kind.settings.__struct_fields__}
    plain = {each: value for each, value in settings.items() if value != getattr(kind.dialect.settings(), each)}
    program = Driver(name, client_path, kind.dialect.name, plain, cast(IReactorProcess, reactor))
    known = await program.introduce()
    goes_with = msgspec.convert({**settings, **known.settings}, kind.dialect.settings, strict=False)
    kind = Kind(kind.dialect, goes_with, frozenset(known.calls), patience)
    fixed = f"tcp:{known.address.rpartition(':')[2]}:interface=127.0.0.1" if known.address else ""
    seats = await seated(reactor, [endpoint or fixed] if endpoint or fixed else [LOOPBACK] * at_once)
    judge = ClientJudge(
        kind, Driving(program), seats, cast(IReactorTime, reactor), ways=ways, slow=slow, told=told, seed=seed
    )
    try:
        return known, await judge.judge(cases)
    finally:
        await _closed(seats)


async def _closed(seats: Sequence[Seat]) -> None:
    for seat in seats:
        if isinstance(closed := seat.close(), Deferred):
            await closed
