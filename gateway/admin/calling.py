"""The other end of the console: passes keys and answers between a terminal, or a pipe, and a gateway.

Of telnet (RFC 854) it knows what that needs: it lets the console echo and edit, and says how big the terminal is.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import struct
import sys
import termios
import tty
from collections.abc import Iterator
from types import FrameType

IAC, DONT, DO, WONT, WILL, SB, SE = 255, 254, 253, 252, 251, 250, 240
ECHO, SGA, NAWS = 1, 3, 31

LEAVE = b"\x1d"
"""Ctrl-], as in telnet: leaves whatever the gateway does."""

_ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:.%\w]+)\]|([^\s:\[\]]+))(?::([0-9]{1,5}))?")

CONNECT_SECONDS = 5.0
CHUNK = 65_536

OFFER = bytes([IAC, DO, ECHO, IAC, DO, SGA])
"""The console does both of its own accord; asked for first, it need not find out whether we want that."""


class Telnet:
    """What comes from the console: its options are answered, the rest is for the terminal.

    answers: bytes to send.
    """

    def __init__(self) -> None:
        self.answers = b""
        self._begun = b""

    def take(self, octets: bytes) -> bytes:
        """What of it is to be shown.  A command that is not whole waits for its rest."""
        octets, self._begun = self._begun + octets, b""
        shown = bytearray()
        at = 0
        while at < len(octets):
            if octets[at] != IAC:
                end = octets.find(IAC, at)
                end = len(octets) if end < 0 else end
                shown += octets[at:end]
            else:
                end = _command_end(octets, at)
                if end < 0:
                    self._begun = octets[at:]
                    break
                shown += self._obey(octets[at + 1 : end])
            at = end
        return bytes(shown)

    def _obey(self, command: bytes) -> bytes:
        verb, option = command[0], command[1:2]
        if verb == IAC:
            return b"\xff"
        if verb == WILL and option[0] not in (ECHO, SGA):
            self.answers += bytes([IAC, DONT]) + option
        elif verb == DO and option[0] != NAWS:
            self.answers += bytes([IAC, WONT]) + option
        return b""


def call(host: str, port: int) -> int:
    """Talk until one of the two ends it.  Returns the exit status: 3 = nobody answers there."""
    try:
        peer = socket.create_connection((host, port), CONNECT_SECONDS)
    except OSError as error:
        sys.stderr.write(f"gateway console: cannot reach {host}:{port}: {error.strerror or error}\n")
        return 3
    peer.settimeout(None)
    with peer, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        if sys.stdin.isatty() and sys.stdout.isatty():
            with _raw(), _sized(peer) as resized:
                _pass_on(peer, resized, by_key=True)
        else:
            peer.sendall((naws() if sys.stdout.isatty() else b"") + b"\n")  # who speaks first is not offered a terminal
            _pass_on(peer, None, by_key=False)
    return 0


def parse_address(address: str, port: int) -> tuple[str, int]:
    """`HOST`, `HOST:PORT` or `[HOST]:PORT`.  Raises ValueError, with a sentence."""
    found = _ADDRESS.fullmatch(address)
    number = port if found is None or found[3] is None else int(found[3])
    if found is None or not 0 < number < 65536:
        raise ValueError(f"{address} is no HOST:PORT")
    return found[1] or found[2], number


def naws() -> bytes:
    """How big the terminal is (RFC 1073)."""
    size = os.get_terminal_size(sys.stdout.fileno())
    octets = struct.pack("!HH", size.columns, size.lines).replace(b"\xff", b"\xff\xff")
    return bytes([IAC, WILL, NAWS, IAC, SB, NAWS]) + octets + bytes([IAC, SE])


def typed(octets: bytes) -> bytes:
    """Keys, as telnet has them."""
    return octets.replace(b"\xff", b"\xff\xff").replace(b"\r", b"\r\0")


def _pass_on(peer: socket.socket, resized: int | None, *, by_key: bool) -> None:
    telnet, keys, out = Telnet(), sys.stdin.fileno(), sys.stdout.fileno()
    watched: list[socket.socket | int] = [peer, keys, *([] if resized is None else [resized])]
    while True:
        ready, _, _ = select.select(watched, [], [])
        if peer in ready:
            octets = peer.recv(CHUNK)
            if not octets:
                return
            _write(out, telnet.take(octets))
            if telnet.answers and keys in watched:
                peer.sendall(telnet.answers)
                telnet.answers = b""
        if resized in ready and resized is not None:
            os.read(resized, CHUNK)
            peer.sendall(naws())
        if keys in ready:
            octets = os.read(keys, CHUNK)
            if by_key and LEAVE in octets:
                return
            if octets:
                peer.sendall(typed(octets) if by_key else octets.replace(b"\xff", b"\xff\xff"))
            else:
                watched.remove(keys)
                peer.shutdown(socket.SHUT_WR)


def _write(out: int, octets: bytes) -> None:
    while octets:
        octets = octets[os.write(out, octets) :]


def _command_end(octets: bytes, at: int) -> int:
    """Where the command that begins there ends, -1 = it is not whole."""
    verb = octets[at + 1] if at + 1 < len(octets) else -1
    if verb == SB:
        end = octets.find(bytes([IAC, SE]), at + 2)
        return end + 2 if end >= 0 else -1
    size = 3 if verb in (WILL, WONT, DO, DONT) else 2
    return at + size if verb >= 0 and at + size <= len(octets) else -1


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    """The terminal gives every key as it is, and is as it was afterwards, whatever ends us."""
    keys = sys.stdin.fileno()
    before = termios.tcgetattr(keys)

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    previous = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    tty.setraw(keys)
    try:
        yield
    finally:
        termios.tcsetattr(keys, termios.TCSADRAIN, before)
        for number, done in previous.items():
            signal.signal(number, done)


@contextlib.contextmanager
def _sized(peer: socket.socket) -> Iterator[int]:
    """Tells the console how big the terminal is.  What it yields can be read when that changes."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def changed(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(writer, b"!")

    previous = signal.signal(signal.SIGWINCH, changed)
    peer.sendall(naws() + OFFER)
    try:
        yield reader
    finally:
        signal.signal(signal.SIGWINCH, previous)
        os.close(reader)
        os.close(writer)
