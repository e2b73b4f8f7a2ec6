"""The admin console, as the service opens it: who may come in, and how many at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from twisted.internet.interfaces import IAddress, IProtocolFactory, IReactorTime
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import Logger

from gateway.admin.conversation import Conversation
from gateway.admin.desk import Desk
from gateway.admin.telnet import Teletype
from gateway.admin.view import View
from gateway.backends.wall import microseconds
from gateway.net.addresses import is_loopback, shown

MAX_DESKS = 32
"""That are taken at a time."""

STRANGER = "The console is for this machine only, until users are named in [users.NAME]."
CROWDED = f"{MAX_DESKS} others are at the console already."
STOPPING = "The gateway is stopping."


def console_factory(view: View, idle_seconds: float, clock: IReactorTime) -> IProtocolFactory:
    """The console over telnet.  Where users are named they log in; where none is, who comes from another machine is
    turned away.

    idle_seconds: who types nothing for so long is hung up on.
    """
    return TelnetConsole(Desks(view, idle_seconds, clock))


def ssh_factory(
    view: View, host_key: str, authorized_keys: str, idle_seconds: float, clock: IReactorTime
) -> IProtocolFactory:
    """The console over SSH, for who has one of the keys.

    host_key:        file of the private key of this server; made, for its owner alone, where there is none.
    authorized_keys: file with a public key a line; read at each login.
    idle_seconds:    who types nothing for so long is hung up on.

    Raises ValueError, with a sentence, for a key that cannot be used or made, and where the extra `ssh` is missing.
    """
    try:
        from gateway.admin.ssh import SSHConsole
    except ImportError as error:
        raise ValueError("the console over SSH needs pip install 'polyglot-gateway[ssh]'") from error
    return SSHConsole(Desks(view, idle_seconds, clock), Path(host_key), Path(authorized_keys))


class Desks:
    """All that are taken.  view, idle_seconds, clock: see console_factory.  wall: us since the epoch."""

    def __init__(
        self, view: View, idle_seconds: float, clock: IReactorTime, wall: Callable[[], int] = microseconds
    ) -> None:
        self.view = view
        self.idle_seconds = idle_seconds
        self.clock = clock
        self._wall = wall
        self._taken: set[Desk] = set()

    @property
    def crowded(self) -> bool:
        """Whether there is no room for one more."""
        return len(self._taken) >= MAX_DESKS

    def take(self, desk: Desk) -> None:
        """It is somebody's now."""
        self._taken.add(desk)

    def sit(self, desk: Desk, peer: str, who: str = "") -> None:
        """Begin the talk.  who: as whom a key was proved."""
        desk.begin(Conversation(desk, self.view, self.clock, peer=peer, who=who, wall=self._wall))

    def leave(self, desk: Desk) -> None:
        """Nobody is there any more."""
        self._taken.discard(desk)

    def close(self) -> None:
        """Send everybody home."""
        for desk in list(self._taken):
            desk.part(STOPPING)


class TelnetConsole(Factory):
    """See console_factory."""

    noisy = False
    _log = Logger()

    def __init__(self, desks: Desks) -> None:
        self._desks = desks

    def buildProtocol(self, addr: IAddress | None) -> Protocol:
        """See IProtocolFactory."""
        desks = self._desks
        assert addr is not None, "endpoints say who comes"
        if not desks.view.users and not is_loopback(addr):
            self._log.warn("console: turned away {peer}: {why}", peer=shown(addr), why=STRANGER)
            return TurnedAway(STRANGER)
        if desks.crowded:
            return TurnedAway(CROWDED)
        made = Teletype(desks.clock, desks.idle_seconds, lambda desk: desks.sit(desk, shown(addr)), desks.leave)
        desks.take(made.desk)
        return made

    def stopFactory(self) -> None:
        """See IProtocolFactory: the port was closed."""
        self._desks.close()


class TurnedAway(Protocol):
    """Says why, and hangs up."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence

    def connectionMade(self) -> None:
        """See IProtocol."""
        assert self.transport is not None
        self.transport.write(self._sentence.encode() + b"\r\n")
        self.transport.loseConnection()
