"""A line that is edited on a terminal: cursor, history, completion.  A long one slides under what is seen of it."""

from __future__ import annotations

import codecs
from collections.abc import Callable

from rich.cells import cell_len
from twisted.conch.insults.insults import FUNCTION_KEYS, ServerProtocol
from twisted.conch.recvline import HistoricRecvLine

MAX_LINE = 1000
"""Characters of one line."""

MAX_HISTORY = 200
"""Lines that are remembered."""

MAX_KEY = 32
"""Bytes of what one key sends."""

CTRL = {letter: bytes([ord(letter) - 64]) for letter in "ABCDEFHKLNPUW"}


class Screen(ServerProtocol):
    """The other end's terminal: its bytes are keys.  A key that never ends is forgotten."""

    def dataReceived(self, data: bytes) -> None:
        """See IProtocol."""
        super().dataReceived(data)  # type: ignore[no-untyped-call]  # nothing in conch has types
        if self.state == b"bracket-escaped" and len(self.escBuf) > MAX_KEY:
            self.state = b"data"

    def write(self, data: bytes) -> None:
        """As it is: what writes here ends lines as terminals want it."""
        assert self.transport is not None
        self.transport.write(data)


class Editor(HistoricRecvLine):
    """typed: is given each line.  complete: is asked at TAB, with what stands before the cursor.
    left: Ctrl-D on an empty line.

    width: cells of the terminal.
    """

    def __init__(
        self, typed: Callable[[str], None], complete: Callable[[str], None], left: Callable[[], None], width: int
    ) -> None:
        self._typed = typed
        self._complete = complete
        self._left = left
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._prompt = ""
        self._first = 0
        self._hidden = False
        self._changed = False
        self.width = width or 80

    def connectionMade(self) -> None:
        """See TerminalProtocol."""
        super().connectionMade()  # type: ignore[no-untyped-call]
        self.keyHandlers |= {
            b"\x08": self.handle_BACKSPACE,
            CTRL["A"]: self.handle_HOME,
            CTRL["B"]: self.handle_LEFT,
            CTRL["C"]: self._drop,
            CTRL["D"]: self._leave,
            CTRL["E"]: self.handle_END,
            CTRL["F"]: self.handle_RIGHT,
            CTRL["K"]: lambda: self._cut(self.lineBufferIndex, len(self.lineBuffer)),
            CTRL["L"]: self._clear,
            CTRL["N"]: self.handle_DOWN,
            CTRL["P"]: self.handle_UP,
            CTRL["U"]: lambda: self._cut(0, self.lineBufferIndex),
            CTRL["W"]: lambda: self._cut(self._word(), self.lineBufferIndex),
        }

    def initializeScreen(self) -> None:
        """What is on the terminal already stays there."""
        self.mode = "insert"

    def ask(self, prompt: str, hidden: bool) -> None:
        """Begin a line.  hidden: it is neither shown nor remembered."""
        self._prompt, self._hidden = prompt, hidden
        self.lineBuffer, self.lineBufferIndex, self._first = [], 0, 0
        self.drawInputLine()

    def insert(self, text: str) -> None:
        """As if it had been typed."""
        for ch in text:
            self.characterReceived(ch.encode(), True)
        self.flush()

    def say(self, line: bytes) -> None:
        """A line of its own, above the one that is typed."""
        self.terminal.write(b"\r\x1b[K" + line + b"\r\n")
        self.drawInputLine()

    def drawInputLine(self) -> None:
        """The prompt, as much of the line as there is room for, and the cursor where it belongs."""
        self._changed = False
        room = max(self.width - cell_len(self._prompt) - 1, 8)
        shown, back = ("", 0) if self._hidden else self._window(room)
        self.terminal.write(f"\r{self._prompt}{shown}\x1b[K".encode() + (b"\x1b[%dD" % back if back else b""))

    def flush(self) -> None:
        """Draw the line if it has changed: once for many keys."""
        if self._changed:
            self.drawInputLine()

    def terminalSize(self, width: int, height: int) -> None:
        """See ITerminalProtocol."""
        self.width, self.height = width or 80, height

    # -- keys

    def keystrokeReceived(self, keyID: bytes, modifier: bytes | None) -> None:
        """See ITerminalProtocol.  What is no key here does nothing."""
        if modifier is not None:
            return
        if keyID in self.keyHandlers:
            if not self._hidden or keyID not in (
                self.terminal.UP_ARROW,
                self.terminal.DOWN_ARROW,
                CTRL["P"],
                CTRL["N"],
            ):
                self.keyHandlers[keyID]()  # type: ignore[no-untyped-call]
        elif keyID not in FUNCTION_KEYS:
            for ch in self._decoder.decode(keyID):
                if ch.isprintable():
                    self.characterReceived(ch.encode(), False)

    def characterReceived(self, ch: bytes, moreCharactersComing: bool) -> None:
        """ch: the UTF-8 of one character."""
        if len(self.lineBuffer) < MAX_LINE:
            self.lineBuffer.insert(self.lineBufferIndex, ch)
            self.lineBufferIndex += 1
            self._changed = True

    def handle_TAB(self) -> None:
        """Have what stands before the cursor completed."""
        if not self._hidden:
            self._complete(b"".join(self.lineBuffer[: self.lineBufferIndex]).decode())

    def handle_LEFT(self) -> None:
        """A character back."""
        self._go(self.lineBufferIndex - 1)

    def handle_RIGHT(self) -> None:
        """A character on."""
        self._go(self.lineBufferIndex + 1)

    def handle_HOME(self) -> None:
        """To the beginning."""
        self._go(0)

    def handle_END(self) -> None:
        """To the end."""
        self._go(len(self.lineBuffer))

    def handle_BACKSPACE(self) -> None:
        """Without the character before the cursor."""
        self._cut(self.lineBufferIndex - 1, self.lineBufferIndex)

    def handle_DELETE(self) -> None:
        """Without the character under the cursor."""
        self._cut(self.lineBufferIndex, self.lineBufferIndex + 1)

    def handle_INSERT(self) -> None:
        """Nothing is ever typed over."""

    def handle_UP(self) -> None:
        """The line before, of those that were typed."""
        super().handle_UP()  # type: ignore[no-untyped-call]
        self._forget()

    def handle_RETURN(self) -> None:
        """The line is done."""
        line = b"".join(self.lineBuffer)
        if line and not self._hidden and self.historyLines[-1:] != [line]:
            self.historyLines.append(line)
        self._forget()
        self.historyPosition = len(self.historyLines)
        self.flush()
        self.lineBuffer, self.lineBufferIndex = [], 0
        self.terminal.write(b"\r\n")
        self._typed(line.decode())

    def _deliverBuffer(self, buf: bytes) -> None:
        self.lineBufferIndex = 0
        for ch in buf.decode():
            self.characterReceived(ch.encode(), True)

    def _drop(self) -> None:
        self.flush()
        self.terminal.write(b"^C\r\n")
        self.ask(self._prompt, self._hidden)

    def _leave(self) -> None:
        if self.lineBuffer:
            self.handle_DELETE()
        else:
            self.terminal.write(b"\r\n")
            self._left()

    def _clear(self) -> None:
        self.terminal.write(b"\x1b[H\x1b[2J")
        self.drawInputLine()

    def _go(self, to: int) -> None:
        self.lineBufferIndex = min(max(to, 0), len(self.lineBuffer))
        self._changed = True

    def _cut(self, first: int, last: int) -> None:
        if first >= 0:
            del self.lineBuffer[first:last]
            self._go(first)

    def _word(self) -> int:
        """Where the word before the cursor begins."""
        at = self.lineBufferIndex
        while at and self.lineBuffer[at - 1] == b" ":
            at -= 1
        while at and self.lineBuffer[at - 1] != b" ":
            at -= 1
        return at

    def _forget(self) -> None:
        more = max(len(self.historyLines) - MAX_HISTORY, 0)
        del self.historyLines[:more]
        self.historyPosition = max(self.historyPosition - more, 0)

    def _window(self, room: int) -> tuple[str, int]:
        """What of the line is shown, and how many cells the cursor is before its end."""
        line = [ch.decode() for ch in self.lineBuffer]
        self._first = min(self._first, self.lineBufferIndex)
        while cell_len("".join(line[self._first : self.lineBufferIndex])) > room:
            self._first += 1
        while self._first and cell_len("".join(line[self._first - 1 :])) <= room:
            self._first -= 1
        last = self.lineBufferIndex
        while last < len(line) and cell_len("".join(line[self._first : last + 1])) <= room:
            last += 1
        return "".join(line[self._first : last]), cell_len("".join(line[self.lineBufferIndex : last]))
