"""The console over SSH: a terminal for who asks for one, plain lines for who does not, one verb for `ssh HOST VERB`.

Keys alone let anybody in.  Which user they claim to be does not matter; the log says which key it was.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import cast

from twisted.conch.avatar import ConchUser
from twisted.conch.error import ConchError
from twisted.conch.interfaces import IConchUser
from twisted.conch.ssh.channel import SSHChannel
from twisted.conch.ssh.common import getNS
from twisted.conch.ssh.connection import OPEN_RESOURCE_SHORTAGE
from twisted.conch.ssh.factory import SSHFactory
from twisted.conch.ssh.session import parseRequest_pty_req, parseRequest_window_change
from twisted.conch.ssh.transport import SSHServerTransport
from twisted.conch.ssh.userauth import SSHUserAuthServer
from twisted.cred.portal import IRealm, Portal
from twisted.internet.interfaces import IAddress, IDelayedCall, IPushProducer, ITransport
from twisted.python.failure import Failure
from zope.interface import Interface, implementer

from gateway.admin.console import CROWDED, MAX_DESKS, Desks
from gateway.admin.desk import MAX_WIDTH, Desk
from gateway.admin.ssh_keys import AuthorizedKeys, KeyChecker, open_host_key
from gateway.net.addresses import shown

LOGIN_SECONDS = 30.0
"""From the connection to the first desk, and how long one may be kept without any."""

TRIES = 10
"""Keys that may be offered: an agent offers all it has."""

MAX_CONNECTIONS = 2 * MAX_DESKS


class SSHConsole(SSHFactory):
    """See console.ssh_factory."""

    noisy = False

    def __init__(self, desks: Desks, host_key: Path, authorized_keys: Path) -> None:
        key = open_host_key(host_key)
        kept = AuthorizedKeys(authorized_keys)
        kept.read()
        self.desks = desks
        self.open: set[Transport] = set()
        self.publicKeys = {key.sshType(): key.public()}
        self.privateKeys = {key.sshType(): key}
        self.portal = Portal(Realm(desks), [KeyChecker(kept)])

    def buildProtocol(self, addr: IAddress | None) -> SSHServerTransport | None:  # type: ignore[override]
        """See IProtocolFactory.  None = there are too many, and Twisted hangs up."""
        return super().buildProtocol(addr) if len(self.open) < MAX_CONNECTIONS else None

    def stopFactory(self) -> None:
        """See IProtocolFactory: the port was closed."""
        self.desks.close()


class Transport(SSHServerTransport):
    """One connection: it ends if nobody sits at a desk of it."""

    factory: SSHConsole

    def connectionMade(self) -> None:
        """See IProtocol."""
        super().connectionMade()  # type: ignore[no-untyped-call]  # little in conch has types
        self.sitting: set[Session] = set()
        self.factory.open.add(self)
        self._look: IDelayedCall = self.factory.desks.clock.callLater(LOGIN_SECONDS, self._look_again)

    def connectionLost(self, reason: Failure | None = None) -> None:
        """See IProtocol."""
        self.factory.open.discard(self)
        if self._look.active():
            self._look.cancel()
        super().connectionLost(reason)
        for session in list(self.sitting):
            session.closed()

    def receiveError(self, reasonCode: int, description: bytes) -> None:
        """See SSHTransportBase.  That somebody leaves is no error."""
        self._log.debug("console: the peer ended it, {code}: {why!r}", code=reasonCode, why=description)

    def _look_again(self) -> None:
        if self.sitting:
            self._look = self.factory.desks.clock.callLater(LOGIN_SECONDS, self._look_again)
        else:
            assert self.transport is not None
            self.transport.abortConnection()  # type: ignore[attr-defined]  # ITCPTransport


class Login(SSHUserAuthServer):
    """Not Twisted's ten hours."""

    loginTimeout = LOGIN_SECONDS  # type: ignore[assignment]
    attemptsBeforeDisconnect = TRIES

    def serviceStarted(self) -> None:
        """See SSHService."""
        self.clock = cast(Transport, self.transport).factory.desks.clock
        super().serviceStarted()  # type: ignore[no-untyped-call]


SSHConsole.protocol = Transport
SSHConsole.services = {**SSHFactory.services, b"ssh-userauth": Login}


class Session(SSHChannel):
    """One desk (see Wire)."""

    name = b"session"

    def __init__(self, desks: Desks, who: str, **given: object) -> None:
        super().__init__(**given)  # type: ignore[arg-type]
        self._desks = desks
        self._who = who
        self._width = 0
        self._pty = False
        self.desk: Desk | None = None

    # -- what the peer asks for (RFC 4254, section 6)

    def request_pty_req(self, octets: bytes) -> bool:
        """A terminal."""
        _, (_, width, _, _), _ = parseRequest_pty_req(octets)
        self._pty, self._width = True, min(width, MAX_WIDTH)
        return True

    def request_window_change(self, octets: bytes) -> bool:
        """It has another size now."""
        height, width, _, _ = parseRequest_window_change(octets)
        if self.desk is not None:
            self.desk.size(min(width, MAX_WIDTH), height)
        return True

    def request_env(self, octets: bytes) -> bool:
        """Whatever is in its environment, it makes no difference."""
        return False

    def request_shell(self, octets: bytes) -> bool:
        """To talk."""
        return self._sit(b"")

    def request_exec(self, octets: bytes) -> bool:
        """One line, and no talk."""
        line, _ = getNS(octets)
        return self._sit(line.replace(b"\n", b" ") + b"\n")

    def _sit(self, line: bytes) -> bool:
        if self.desk is not None or self._desks.crowded:
            return False
        desk = self.desk = Desk(self, self._desks.clock, self._desks.idle_seconds)
        self._desks.take(desk)
        self._carrier.sitting.add(self)
        desk.script = bool(line) or not self._pty
        desk.newline = b"\r\n" if self._pty else b"\n"
        if not desk.script:
            desk.use_terminal()
        desk.size(self._width, 0)
        self._desks.clock.callLater(0, self._begin, line)  # behind the answer to this request
        return True

    def _begin(self, line: bytes) -> None:
        desk = self.desk
        if desk is None or desk.gone:
            return
        if line:
            desk.heard(line)
            desk.ended()
        self._desks.sit(desk, shown(self._socket.getPeer()), self._who)

    # -- what crosses

    def dataReceived(self, data: bytes) -> None:
        """See SSHChannel."""
        if self.desk is not None:
            self.desk.heard(data)

    def extReceived(self, dataType: int, data: bytes) -> None:
        """See SSHChannel."""

    def channelOpen(self, specificData: bytes) -> None:
        """See SSHChannel."""

    def eofReceived(self) -> None:
        """See SSHChannel."""
        if self.desk is not None:
            self.desk.ended()

    def closeReceived(self) -> None:
        """See SSHChannel."""
        self.loseConnection()  # type: ignore[no-untyped-call]

    def closed(self) -> None:
        """See SSHChannel."""
        desk, self.desk = self.desk, None
        if desk is not None:
            self._carrier.sitting.discard(self)
            desk.lost()
            self._desks.leave(desk)

    def stopWriting(self) -> None:
        """See SSHChannel."""
        if self.desk is not None:
            self.desk.pause()

    def startWriting(self) -> None:
        """See SSHChannel."""
        if self.desk is not None:
            self.desk.resume()

    # -- what the desk wants

    def read(self, on: bool) -> None:
        """See Wire."""
        reader = IPushProducer(self._socket)
        reader.resumeProducing() if on else reader.pauseProducing()

    def close(self) -> None:
        """See Wire."""
        assert self.conn is not None
        self.conn.sendRequest(self, b"exit-status", struct.pack(">L", 0))
        self.loseConnection()  # type: ignore[no-untyped-call]

    def abort(self) -> None:
        """See Wire."""
        self._socket.abortConnection()  # type: ignore[attr-defined]  # ITCPTransport

    @property
    def _carrier(self) -> Transport:
        assert self.conn is not None
        return cast(Transport, self.conn.transport)

    @property
    def _socket(self) -> ITransport:
        socket = self._carrier.transport
        assert socket is not None
        return socket


class Person(ConchUser):
    """Who has one of the keys.  who: which."""

    def __init__(self, desks: Desks, who: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._desks = desks
        self._who = who

    def lookupChannel(self, channelType: bytes, windowSize: int, maxPacket: int, data: bytes) -> Session:
        """See IConchUser."""
        if channelType != Session.name or self._desks.crowded:
            raise ConchError(CROWDED, OPEN_RESOURCE_SHORTAGE)
        return Session(
            self._desks, self._who, remoteWindow=windowSize, remoteMaxPacket=maxPacket, data=data, avatar=self
        )


@implementer(IRealm)
class Realm:
    """Everybody who has a key is the same here."""

    def __init__(self, desks: Desks) -> None:
        self._desks = desks

    def requestAvatar(
        self, avatarId: bytes | tuple[()], mind: object, *interfaces: type[Interface]
    ) -> tuple[type[Interface], object, Callable[[], None]]:
        """See IRealm."""
        who = avatarId.decode("utf-8", "replace") if avatarId else ""
        return IConchUser, Person(self._desks, who), lambda: None
