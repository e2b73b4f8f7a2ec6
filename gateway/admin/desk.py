"""Where somebody sits at the console: bytes of a terminal or a plain stream become lines, and lines become bytes.

Bytes wait while a verb is carried out; who sends too many meanwhile is not read.  A terminal has a line that is
edited; a plain stream gets no escapes, and a program no prompts either.
"""

from __future__ import annotations

from collections.abc import Callable
from textwrap import wrap
from typing import Protocol, TypeVar

from rich.cells import cell_len
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.python.failure import Failure

from gateway.admin.answers import Line, prose
from gateway.admin.conversation import Conversation
from gateway.admin.editor import MAX_LINE, Editor, Screen
from gateway.admin.shown import harmless

MAX_AHEAD = 4096
"""Bytes that are typed ahead; then we stop reading."""

CLOSE_SECONDS = 5.0
"""How long who leaves may take to read the last lines."""

COMPLETE_SECONDS = 2.0
"""How long TAB may take."""

MOST_PROPOSED = 60

MAX_WIDTH = 1000
"""Cells of a line, whatever a peer says."""

ENDS = b"\r\nqQ\x03\x04"
"""What ends a look at frames."""

T = TypeVar("T")

BOLD, NORMAL = b"\x1b[1m", b"\x1b[0m"


class Wire(Protocol):
    """What carries the bytes of one desk."""

    def write(self, octets: bytes) -> None:
        """Send."""

    def read(self, on: bool) -> None:
        """Read, or do not."""

    def close(self) -> None:
        """Hang up when all is sent."""

    def abort(self) -> None:
        """Hang up."""


class Desk:
    """idle_seconds: who types nothing for so long is hung up on.

    width, script, full: see conversation.Desk.  newline: ends what is shown.
    terminal: the other end is one.  gone: nobody is there any more.
    """

    def __init__(self, wire: Wire, clock: IReactorTime, idle_seconds: float) -> None:
        self.width = 0
        self.script = False
        self.newline = b"\r\n"
        self.full = False
        self.terminal = False
        self.talk: Conversation | None = None
        self._wire = wire
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._held = bytearray()
        self._asked: Deferred[str | None] | None = None
        self._stop: Deferred[None] | None = None
        self._room: Deferred[None] | None = None
        self._proposing: Deferred[tuple[str, list[str]]] | None = None
        self._editor: Editor | None = None
        self._screen: Screen | None = None
        self._reading = True
        self._ended = False
        self._leaving: IDelayedCall | None = None
        self.gone = False
        self._heard = clock.seconds()
        self._idle = clock.callLater(idle_seconds, self._look_idle)

    def begin(self, talk: Conversation) -> None:
        """Somebody sits down."""
        self.talk = talk
        talk.begin()

    # -- what the wire tells us

    def heard(self, octets: bytes) -> None:
        """Bytes came in."""
        self._heard = self._clock.seconds()
        self._held += octets
        if b"\x03" in octets and self.terminal and self._asked is None and self._stop is None and self.talk:
            self._held.clear()
            self.talk.interrupt()
        self._feed()

    def ended(self) -> None:
        """No more will come; what did is still carried out."""
        self._ended = True
        self._feed()

    def lost(self) -> None:
        """The other end is gone."""
        self.gone = True
        for call in (self._idle, self._leaving):
            if call is not None and call.active():
                call.cancel()
        if self._proposing is not None:
            self._proposing.cancel()
        if self.talk is not None:
            self.talk.lose()

    def pause(self) -> None:
        """What was shown is not read fast enough."""
        self.full = True

    def resume(self) -> None:
        """It is again."""
        self.full = False
        waited, self._room = self._room, None
        if waited is not None:
            waited.callback(None)

    def size(self, width: int, height: int) -> None:
        """How big the terminal is; 0 = it does not say."""
        self.width = width
        if self._editor is not None:
            self._editor.terminalSize(width, height)

    def use_terminal(self) -> None:
        """From now on the other end is a terminal that leaves all of the line to us."""
        if self.terminal:
            return
        self.terminal = True
        self.width = self.width or 80
        self._editor = Editor(self._take, self._complete, self._left, self.width)
        self._screen = Screen(lambda: self._editor)  # type: ignore[no-untyped-call]
        self._screen.makeConnection(_Out(self._wire))  # type: ignore[no-untyped-call]

    # -- what the talk wants (see conversation.Desk)

    def ask(self, prompt: str, hidden: bool = False) -> Deferred[str | None]:
        """See conversation.Desk."""
        asked: Deferred[str | None] = Deferred()
        self._asked = asked
        if self._editor is not None:
            self._editor.ask(prompt, hidden)
        elif not self.script:
            self._wire.write(prompt.encode())
        self._feed()
        return asked

    def show(self, *lines: Line) -> None:
        """See conversation.Desk."""
        if self.gone or not lines:
            return
        octets = self.newline.join(self._drawn(line) for line in lines)
        if self._editor is not None and self._asked is not None:
            self._editor.say(octets)
        else:
            self._wire.write(octets + self.newline)

    def _drawn(self, line: Line) -> bytes:
        if line.kind == "prose" and self.width:
            return self.newline.join(harmless(part).encode() for part in wrap(line.text, self.width))
        octets = harmless(line.text).encode()
        return BOLD + octets + NORMAL if self.terminal and line.kind == "title" else octets

    def room(self) -> Deferred[None]:
        """See conversation.Desk."""
        if not self.full:
            return succeed(None)
        self._room = Deferred()
        return self._room

    def stop(self) -> Deferred[None]:
        """See conversation.Desk."""
        stop: Deferred[None] = Deferred()
        self._stop = stop
        stop.addBoth(self._stopped)
        self._clock.callLater(0, self._feed)
        return stop

    def hang_up(self) -> None:
        """See conversation.Desk."""
        if self.gone or self._leaving is not None:
            return
        self._wire.close()
        self._leaving = self._clock.callLater(CLOSE_SECONDS, self._wire.abort)

    def part(self, sentence: str) -> None:
        """Say why, and hang up."""
        self.show(*([] if self.script else [Line("")]), prose(sentence))
        self.hang_up()

    # -- bytes

    def _feed(self) -> None:
        """Give what waits to whoever waits for it."""
        while self._held and self._proposing is None and not self.gone:
            if self._stop is not None:
                if self._byte() in ENDS:
                    self._stop.callback(None)
            elif self._asked is None or not self._next():
                break
        if self._editor is not None:
            self._editor.flush()
        if self._ended and self._proposing is None:
            if self._stop is not None:
                self._stop.callback(None)
            if self._asked is not None:
                self._take(None)
        self._settle_reading()

    def _next(self) -> bool:
        """One key of a terminal, or one line; False = it is not whole."""
        if self._screen is not None:
            self._screen.dataReceived(self._byte())
            return True
        end = min((at for at in (self._held.find(b"\n"), self._held.find(b"\r")) if at >= 0), default=-1)
        if end < 0 and self._ended:
            end = len(self._held)
        if end < 0 or end > MAX_LINE:
            if len(self._held) > MAX_LINE:
                self._held.clear()
                self.part(f"A line has at most {MAX_LINE} characters.")
            return False
        line = self._held[:end].decode("utf-8", "replace")
        del self._held[: end + 1]
        self._take(line)
        return True

    def _take(self, line: str | None) -> None:
        asked, self._asked = self._asked, None
        if asked is not None:
            asked.callback(line)

    def _left(self) -> None:
        self._take(None)

    def _stopped(self, result: T) -> T:
        self._stop = None
        return result

    def _byte(self) -> bytes:
        octet = bytes(self._held[:1])
        del self._held[:1]
        return octet

    def _settle_reading(self) -> None:
        reading = len(self._held) <= MAX_AHEAD
        if reading is not self._reading and not self.gone:
            self._reading = reading
            self._wire.read(reading)

    # -- completion

    def _complete(self, before: str) -> None:
        assert self.talk is not None
        self._proposing = Deferred.fromCoroutine(self.talk.complete(before))
        self._proposing.addTimeout(COMPLETE_SECONDS, self._clock)
        self._proposing.addCallbacks(self._propose, self._unproposed)

    def _unproposed(self, failure: Failure) -> None:
        self._proposing = None
        if not self.gone:
            self._clock.callLater(0, self._feed)

    def _propose(self, found: tuple[str, list[str]]) -> None:
        self._proposing = None
        editor = self._editor
        if self.gone or editor is None:
            return
        part, choices = found
        more = _common(choices)[len(part) :]
        if more or len(choices) == 1:
            editor.insert(more + (" " if len(choices) == 1 else ""))
        elif choices:
            editor.say("\r\n".join(_beside(choices, self.width)).encode())
        self._clock.callLater(0, self._feed)

    # -- silence

    def _look_idle(self) -> None:
        left = self._heard + self._idle_seconds - self._clock.seconds()
        if left > 0:
            self._idle = self._clock.callLater(left, self._look_idle)
        else:
            self.part(f"Nothing was typed for {self._idle_seconds:g} s.")


class _Out:
    """What the editor writes to: it ends lines as terminals want it already."""

    def __init__(self, wire: Wire) -> None:
        self.write: Callable[[bytes], None] = wire.write


def _common(choices: list[str]) -> str:
    """What all of them begin with."""
    first, last = min(choices, default=""), max(choices, default="")
    alike = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:alike]


def _beside(choices: list[str], width: int) -> list[str]:
    """Choices in as many columns as there is room for."""
    shown = choices[:MOST_PROPOSED]
    cell = max(map(cell_len, shown)) + 2
    across = max(width // cell, 1)
    lines = [
        "".join(f"{one}{' ' * (cell - cell_len(one))}" for one in shown[at : at + across]).rstrip()
        for at in range(0, len(shown), across)
    ]
    return lines if len(choices) <= MOST_PROPOSED else [*lines, f"... and {len(choices) - MOST_PROPOSED:,} more"]
