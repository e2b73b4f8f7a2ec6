"""One talk at the console, from the login to the last line: what is typed becomes what is said.  Knows no socket."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from itertools import islice
from typing import Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from gateway.admin.answers import Answer, Line, prose, refused, told, written
from gateway.admin.shown import cut, harmless
from gateway.admin.verbs import JSON, VERBS, YES, Verb, find
from gateway.admin.view import View
from gateway.admin.watching import Watch
from gateway.admin.words import Wrong, split
from gateway.backends.wall import microseconds
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.commands import Session
from gateway.core.faults import CommandFailed
from gateway.net.attempts import origin

PROMPT = "gateway> "

TRIES = 3
"""Passwords that one talk may get wrong."""

TURN_SECONDS = 60.0
"""How long a person waits for a turn where others from the same place try passwords.  Programs wait LONGEST at most and
come again (net.attempts), so that there would be no turn for who types."""

NO_TURN = "Too many passwords are tried from where you are; try again in a minute."

DELAY = 1.0
"""Seconds after the first wrong one; twice as long after each more."""

PATIENCE = 30.0
"""Seconds that a verb may take."""

WATCH_SECONDS = 0.1
"""How often frames that were seen are shown."""

THERE_SECONDS = 2.0
"""How often it is looked whether what is watched is still there."""

LINES_AT_ONCE = 200
"""After so many the connections of the gateway have a turn."""

Work = Coroutine[Deferred[object], object, None]


class Desk(Protocol):
    """Where somebody sits: what is typed there, and what is shown.

    width:  cells of a line, 0 = as wide as it gets.  script: a program types, so nobody is prompted.
    full:   what was shown is not read fast enough.
    """

    width: int
    script: bool
    full: bool

    def ask(self, prompt: str, hidden: bool = False) -> Deferred[str | None]:
        """The next line; None = there will be no more.  hidden: it is not shown while it is typed."""

    def show(self, *lines: Line) -> None:
        """Some lines."""

    def room(self) -> Deferred[None]:
        """Fires when what was shown has been read, but for a little."""

    def stop(self) -> Deferred[None]:
        """Fires at Enter, `q` or Ctrl-C."""

    def hang_up(self) -> None:
        """When all is shown."""


class Conversation:
    """view: what there is to see, and who may log in; nobody = no login.  who: proved already, by a key.

    peer: the address, for the log.  wall: us since the epoch.
    """

    _log = Logger()

    def __init__(
        self,
        desk: Desk,
        view: View,
        clock: IReactorTime,
        *,
        peer: str = "",
        who: str = "",
        wall: Callable[[], int] = microseconds,
    ) -> None:
        self.view = view
        self.wall = wall
        self.as_json = False
        self._desk = desk
        self._clock = clock
        self._peer = peer
        self._who = who
        self._leaving = False
        self._lost = False
        self._talk: Deferred[None] | None = None
        self._running: Deferred[None] | None = None
        self._deadline: IDelayedCall | None = None

    def begin(self) -> None:
        """Ask who it is, where that matters, and go on to the end."""
        self._talk = Deferred.fromCoroutine(self._converse())
        self._talk.addErrback(self._broken)

    def lose(self) -> None:
        """Nobody is there any more: whatever runs is given up."""
        self._lost = True
        if self._talk is not None:
            self._talk.cancel()

    def interrupt(self) -> None:
        """Give up what runs, and go on."""
        if self._running is not None:
            self._running.cancel()

    async def complete(self, before: str) -> tuple[str, list[str]]:
        """What may stand at the end of a line: the part of it that is there, and all that begins so.  Never fails."""
        begins = _last_word(before)
        part = before[begins:]
        try:
            found = await self._proposed(split(before[:begins]), part)
        except (Wrong, CommandFailed):
            return part, []
        return part, [one for one in found if one.startswith(part)]

    # -- what verbs may do

    def leave(self) -> None:
        """See Console."""
        self._leaving = True

    def note(self, deed: str) -> None:
        """See Console."""
        self._log.info("console: {who} from {peer} {deed}", who=self._name, peer=self._peer, deed=deed)

    async def watch(self, watch: Watch, chosen: Callable[[Session], bool], there: Callable[[], bool]) -> None:
        """See Console.  What the reader does not take is counted, not kept."""
        self._unhurried()
        stopped = self._desk.stop()
        if not self._desk.script:
            self._desk.show(prose("(Enter or q ends this)"))

        def look() -> None:
            if not self._desk.full:
                self._show_all(watch.take())

        def still() -> None:
            if not there() and not stopped.called:
                self._desk.show(prose("It is gone."))
                stopped.callback(None)

        loops = [_every(WATCH_SECONDS, look, self._clock), _every(THERE_SECONDS, still, self._clock)]
        take_off = self.view.tap(chosen, watch.tap)
        try:
            await stopped
        finally:
            take_off()
            for loop in loops:
                loop.stop()
        self._show_all(watch.take())

    # -- the talk

    async def _converse(self) -> None:
        if (self.view.users and not self._who and not await self._log_in()) or self._lost:
            self._desk.hang_up()
            return
        if not self._desk.script:
            self._greet()
        while not self._leaving:
            line = await self._desk.ask(PROMPT)
            if line is None:
                break
            if line.strip():
                await self._obey(line)
        self._desk.hang_up()

    async def _log_in(self) -> bool:
        for wrong in range(TRIES):
            name = await self._desk.ask("login: ")
            secret = None if name is None else await self._desk.ask("password: ", hidden=True)
            if name is None or secret is None:
                return False
            if not await self._has_turn():
                self._desk.show(prose(NO_TURN))
                return False
            if await self._right(name, secret):
                return True
            await deferLater(self._clock, DELAY * 2**wrong)
            self._desk.show(prose("The user name or the password is wrong."))
        self._log.warn("console: {tries} wrong passwords from {peer}", tries=TRIES, peer=self._peer)
        return False

    async def _has_turn(self) -> bool:
        """Wait for it, among all that log in from there, however they do."""
        delay = self.view.attempts.delay(origin(self._peer), self._clock.seconds(), TURN_SECONDS)
        if delay > TURN_SECONDS:
            return False
        await deferLater(self._clock, delay)
        return True

    async def _right(self, name: str, secret: str) -> bool:
        attempts, address = self.view.attempts, origin(self._peer)
        try:
            checked = self.view.users.check(q.Authenticate("plain", name, secret))
            proved: r.Authenticated = await checked if isinstance(checked, Deferred) else checked
        except CommandFailed:
            attempts.failed(address, self._clock.seconds())
            return False
        attempts.passed(address)
        self._who = proved.principal
        self.note("logged in")
        return True

    def _greet(self) -> None:
        view = self.view
        state = f"durability {view.durability}" + ("" if view.ready() else ", stopping")
        self._desk.show(prose(f"polyglot-gateway {view.version}, {state}.  `help` lists the verbs, `quit` leaves."))

    async def _obey(self, line: str) -> None:
        self.as_json = False
        try:
            name, *arguments = split(line)
            self.as_json = JSON in arguments
            chosen = find(name)
            arguments = [one for one in arguments if one != JSON]
            chosen.check(arguments)
            await self._patiently(self._carry_out(chosen, arguments))
        except (Wrong, CommandFailed) as problem:
            self._desk.show(refused(problem, self.as_json))
        except CancelledError:
            if self._lost:
                raise
            self._desk.show(refused(Wrong("stopped"), self.as_json))
        except Exception:  # a defect of ours must not end the talk in which it is looked for
            self._log.failure("console: a verb failed")
            self._desk.show(refused(Wrong("a defect in the gateway; see its log"), self.as_json))
        await deferLater(self._clock, 0)  # others have a turn, however many lines there are

    async def _patiently(self, work: Work) -> None:
        late: list[bool] = []
        self._running = Deferred.fromCoroutine(work)

        def give_up(running: Deferred[None]) -> None:
            late.append(True)
            running.cancel()

        self._deadline = self._clock.callLater(PATIENCE, give_up, self._running)
        try:
            await self._running
        except CancelledError:
            if late:
                raise Wrong(f"there was no answer within {PATIENCE:g} s") from None
            raise
        finally:
            self._running = None
            self._unhurried()

    async def _carry_out(self, chosen: Verb, arguments: list[str]) -> None:
        answer = await chosen.carry_out(self, arguments)
        self._unhurried()
        lines = written(answer) if self.as_json and answer != Answer() else told(answer, self._desk.width)
        while part := list(islice(lines, LINES_AT_ONCE)):
            self._desk.show(*part)
            await self._desk.room()
            await deferLater(self._clock, 0)

    def _unhurried(self) -> None:
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()

    async def _proposed(self, typed: list[str], part: str) -> list[str]:
        if not typed:
            return list(VERBS)
        chosen = VERBS.get(typed[0])
        if chosen is None:
            return []
        at = len([one for one in typed[1:] if one != JSON])
        if part.startswith("-"):
            return [JSON]
        if at < len(chosen.takes):
            return await chosen.takes[at](self.view)
        return [YES] if chosen.confirms and at == chosen.most - 1 else []

    def _show_all(self, lines: list[str]) -> None:
        width = self._desk.width
        self._desk.show(*(Line(cut(harmless(line), width) if width else harmless(line)) for line in lines))

    @property
    def _name(self) -> str:
        return harmless(self._who) or "somebody"

    def _broken(self, failure: Failure) -> None:
        if failure.check(CancelledError) is None:
            self._log.failure("console: the talk broke off", failure)
            self._desk.hang_up()


def _last_word(before: str) -> int:
    """Where the last word of a line begins; its end, if it ends with a space."""
    begins, quoted, escaped = 0, False, False
    for at, ch in enumerate(before):
        if ch == '"' and not escaped:
            quoted = not quoted
        elif ch == " " and not quoted and not escaped:
            begins = at + 1
        escaped = ch == "\\" and not escaped
    return begins


def _every(seconds: float, do: Callable[[], None], clock: IReactorTime) -> LoopingCall:
    loop = LoopingCall(do)
    loop.clock = clock
    loop.start(seconds, now=False)
    return loop
