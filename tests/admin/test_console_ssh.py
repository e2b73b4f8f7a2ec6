"""The console over SSH: who has a key, and what a session is.  The client is Twisted's, over a wire of this process."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.conch.ssh.channel import SSHChannel
from twisted.conch.ssh.common import NS
from twisted.conch.ssh.connection import SSHConnection
from twisted.conch.ssh.keys import FingerprintFormats, Key
from twisted.conch.ssh.transport import SSHClientTransport
from twisted.conch.ssh.userauth import SSHUserAuthClient
from twisted.internet.defer import Deferred, succeed
from twisted.logger import capturedLogs, formatEvent

from admin.seats import ELSEWHERE, OURS, Office
from gateway.admin.console import MAX_DESKS, Desks, ssh_factory
from gateway.admin.ssh import LOGIN_SECONDS, MAX_CONNECTIONS, SSHConsole
from gateway.admin.ssh_keys import AuthorizedKeys, open_host_key
from gateway.core import commands as q
from gateway.core.records import Record
from net.peers import Wire

MINE = Key(Ed25519PrivateKey.generate())
OTHER = Key(Ed25519PrivateKey.generate())
ORDERS = q.Topic("default", "orders")


class Session(SSHChannel):
    """What a client opens; keeps what it hears.  asks: requests to make, by name."""

    name = b"session"

    def __init__(self, asks: list[tuple[bytes, bytes]], **given: Any) -> None:
        super().__init__(**given)
        self.asks = asks
        self.heard = b""
        self.granted: list[bool] = []
        self.status: int | None = None
        self.ended = False

    def channelOpen(self, specificData: bytes) -> None:
        for kind, octets in self.asks:
            asked = self.conn.sendRequest(self, kind, octets, wantReply=True)
            asked.addCallbacks(lambda _: self.granted.append(True), lambda _: self.granted.append(False))

    def openFailed(self, reason: Any) -> None:
        self.ended = True

    def dataReceived(self, data: bytes) -> None:
        self.heard += data

    def request_exit_status(self, octets: bytes) -> None:
        (self.status,) = struct.unpack(">L", octets)

    def closed(self) -> None:
        self.ended = True


class Agent(SSHUserAuthClient):
    """Offers one key and nothing else.  signs: with what it proves to have it."""

    def __init__(self, key: Key, signs: Key, instance: SSHConnection) -> None:
        super().__init__(b"whoever", instance)
        self._key: Key | None = key
        self._signs = signs

    def getPublicKey(self) -> Key | None:
        key, self._key = self._key, None
        return key.public() if key else None

    def getPrivateKey(self) -> Deferred[Key]:
        return succeed(self._signs)


class Peer(SSHClientTransport):
    """One SSH client, joined to a server in this process."""

    def __init__(
        self, office: Office, factory: SSHConsole, key: Key, *sessions: Session, signs: Key | None = None
    ) -> None:
        self.office = office
        self.key = key
        self.signs = signs or key
        self.sessions = sessions
        self.host = b""
        self.server: Any = factory.buildProtocol(ELSEWHERE)
        assert self.server is not None, "there is room for it"
        self.out, self.wire = Wire(None, ELSEWHERE), Wire(None, ELSEWHERE)
        self.server.makeConnection(self.wire)
        self.makeConnection(self.out)
        self.flow()

    def verifyHostKey(self, hostKey: bytes, fingerprint: str) -> Deferred[bool]:
        self.host = hostKey
        return succeed(True)

    def connectionSecure(self) -> None:
        self.connection = SSHConnection()
        self.connection.serviceStarted = self.opened
        self.requestService(Agent(self.key, self.signs, self.connection))

    def opened(self) -> None:
        for session in self.sessions:
            self.connection.openChannel(session)

    def flow(self) -> None:
        """Everything that is on its way arrives."""
        while True:
            self.office.settle()
            there, back = self.out.read(), self.wire.read()
            if not there and not back:
                return
            if there:
                self.server.dataReceived(there)
            if back:
                self.dataReceived(back)

    def lose(self) -> None:
        self.server.connectionLost(None)
        self.connectionLost(None)


@pytest.fixture
def office() -> Office:
    office = Office()
    office.publish(ORDERS, Record(b"user1", b"Ann"))
    return office


@pytest.fixture
def factory(office: Office, tmp_path: Path) -> SSHConsole:
    (tmp_path / "authorized_keys").write_bytes(
        b"# who may come in\n\n" + MINE.public().toString("OPENSSH", comment=b"ann@laptop") + b"\n"
    )
    (tmp_path / "authorized_keys").chmod(0o644)
    made = SSHConsole(Desks(office.view, 600.0, office.clock), tmp_path / "host_key", tmp_path / "authorized_keys")
    made.doStart()
    return made


def pty(width: int) -> tuple[bytes, bytes]:
    return b"pty-req", NS(b"xterm") + struct.pack(">4L", width, 24, 0, 0) + NS(b"")


def shell(width: int = 80) -> Session:
    return Session([pty(width), (b"shell", b"")])


def execute(line: bytes, *before: tuple[bytes, bytes]) -> Session:
    return Session([*before, (b"exec", NS(line))])


def test_who_has_a_key_gets_a_terminal_and_the_log_says_whose_it_was(office: Office, factory: SSHConsole) -> None:
    session = shell(60)
    peer = Peer(office, factory, MINE, session)
    assert session.granted == [True, True]
    assert b"durability memory" in session.heard and session.heard.endswith(b"gateway> \x1b[K")
    with capturedLogs() as logs:
        session.write(b"topic o\tx\x7f\rdrain yes\rquit\r")
        peer.flow()
    said = OURS.sub(b"", session.heard).decode()
    assert "PARTITION  START  END" in said and "The gateway is stopping." in said
    assert session.ended and session.status == 0
    assert "console: ann@laptop from 192.0.2.7:40001 stops the gateway" in [formatEvent(event) for event in logs]


def test_a_verb_behind_the_host_is_carried_out_and_the_session_ends(office: Office, factory: SSHConsole) -> None:
    session = execute(b"topics --json")
    Peer(office, factory, MINE, session)
    assert [one["name"] for one in json.loads(session.heard)] == ["orders"]
    assert session.ended and session.status == 0 and b"\r" not in session.heard


def test_a_verb_with_a_terminal_gets_the_line_ends_of_one(office: Office, factory: SSHConsole) -> None:
    session = execute(b"topics", pty(40))
    Peer(office, factory, MINE, session)
    lines = session.heard.decode().split("\r\n")
    assert (
        lines[0].startswith("TOPIC") and all(len(line) <= 40 for line in lines) and "\x1b" not in session.heard.decode()
    )


def test_without_a_terminal_lines_are_read_to_the_end(office: Office, factory: SSHConsole) -> None:
    session = Session([(b"shell", b"")])
    peer = Peer(office, factory, MINE, session)
    session.write(b"map orders user1\n")
    peer.connection.sendEOF(session)
    peer.flow()
    assert session.heard == b"key    user1\nvalue  Ann\n" and session.ended


def test_a_terminal_that_changes_its_size_is_heard(office: Office, factory: SSHConsole) -> None:
    session = shell(140)
    peer = Peer(office, factory, MINE, session)
    peer.connection.sendRequest(session, b"window-change", struct.pack(">4L", 40, 24, 0, 0))
    session.write(b"listeners\r")
    peer.flow()
    assert b"(no room for TLS" in session.heard


def test_another_key_is_let_nowhere(office: Office, factory: SSHConsole) -> None:
    session = shell()
    Peer(office, factory, OTHER, session)
    assert session.granted == [] and session.heard == b""


def test_nor_is_who_only_knows_a_public_key(office: Office, factory: SSHConsole) -> None:
    session = shell()
    Peer(office, factory, MINE, session, signs=OTHER)
    assert session.granted == [] and session.heard == b""


def test_a_key_that_is_taken_out_of_the_file_is_let_in_no_more(
    office: Office, factory: SSHConsole, tmp_path: Path
) -> None:
    (tmp_path / "authorized_keys").write_bytes(OTHER.public().toString("OPENSSH"))
    mine, other = shell(), shell()
    Peer(office, factory, MINE, mine)
    Peer(office, factory, OTHER, other)
    assert not mine.granted and other.granted == [True, True]


def test_a_file_that_others_can_write_lets_nobody_in(office: Office, factory: SSHConsole, tmp_path: Path) -> None:
    (tmp_path / "authorized_keys").chmod(0o666)
    session = shell()
    with capturedLogs() as logs:
        Peer(office, factory, MINE, session)
    assert not session.granted
    assert any("can be written by others" in (formatEvent(event) or "") for event in logs)


@pytest.mark.parametrize("kind", [b"direct-tcpip", b"x11", b"forwarded-tcpip"])
def test_there_are_sessions_and_nothing_else(office: Office, factory: SSHConsole, kind: bytes) -> None:
    session = shell()
    session.name = kind
    Peer(office, factory, MINE, session)
    assert session.granted == [] and session.ended


def test_one_connection_does_not_get_more_desks_than_there_are(office: Office, factory: SSHConsole) -> None:
    sessions = [shell() for _ in range(MAX_DESKS + 3)]
    peer = Peer(office, factory, MINE, *sessions)
    assert sum(session.granted == [True, True] for session in sessions) == MAX_DESKS
    peer.lose()
    assert not factory.desks.crowded


def test_who_does_not_log_in_or_opens_nothing_is_hung_up_on(office: Office, factory: SSHConsole) -> None:
    silent = factory.buildProtocol(ELSEWHERE)
    assert silent is not None
    wire = Wire(None, ELSEWHERE)
    silent.makeConnection(wire)
    idle = Peer(office, factory, MINE)
    busy = Peer(office, factory, MINE, shell())
    office.clock.advance(LOGIN_SECONDS)
    assert wire.disconnected and idle.wire.disconnected and not busy.wire.disconnected


def test_there_are_only_so_many_connections(office: Office, factory: SSHConsole) -> None:
    for _ in range(MAX_CONNECTIONS):
        made = factory.buildProtocol(ELSEWHERE)
        assert made is not None
        made.makeConnection(Wire(None, ELSEWHERE))
    assert factory.buildProtocol(ELSEWHERE) is None


def test_a_connection_that_is_lost_leaves_nothing_behind(office: Office, factory: SSHConsole) -> None:
    session = shell()
    peer = Peer(office, factory, MINE, session)
    session.write(b"tap native\r")
    peer.flow()
    assert office.node.port.taps._wanted
    peer.lose()
    assert not office.node.port.taps._wanted and not factory.open
    assert office.clock.getDelayedCalls() == []


def test_who_does_not_read_is_answered_no_further(office: Office, factory: SSHConsole) -> None:
    for number in range(200):
        office.publish(ORDERS, Record(b"k", b"%d" % number + b"x" * 1000))
    one = len(office.script("records orders 0 0 200 --json"))
    session = Session([(b"shell", b"")], localWindow=1000)
    peer = Peer(office, factory, MINE, session)
    adjust, peer.connection.adjustWindow = peer.connection.adjustWindow, lambda channel, octets: None
    session.write(b"records orders 0 0 200 --json\n" * 5)
    peer.flow()
    [there] = [one for one in peer.server.service.channels.values()]
    assert len(session.heard) == 1000 and len(there.buf) <= one, "one answer waits, and no more"
    peer.connection.adjustWindow = adjust
    adjust(session, 10 * one)
    peer.flow()
    assert len(session.heard) == 5 * one


def test_a_host_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "host_key"
    made = open_host_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert open_host_key(path) == made and made.sshType() == b"ssh-ed25519"


def test_the_host_key_is_the_one_that_clients_see(office: Office, factory: SSHConsole, tmp_path: Path) -> None:
    assert Peer(office, factory, MINE).host == open_host_key(tmp_path / "host_key").public().blob()


def test_a_host_key_that_cannot_be_used_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("nothing")
    path.chmod(0o600)
    with pytest.raises(ValueError, match="is no private key"):
        open_host_key(path)
    path.write_bytes(MINE.public().toString("OPENSSH"))
    with pytest.raises(ValueError, match="is a public key"):
        open_host_key(path)
    path.write_bytes(MINE.toString("OPENSSH", subtype="v1", passphrase=b"secret"))
    with pytest.raises(ValueError, match="without a passphrase"):
        open_host_key(path)
    path.chmod(0o640)
    with pytest.raises(ValueError, match="can be read by others"):
        open_host_key(path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot read or make"):
        open_host_key(tmp_path / "file" / "key")


def test_keys_that_cannot_be_read_are_a_sentence_at_the_start(office: Office, tmp_path: Path) -> None:
    host, path = str(tmp_path / "host_key"), tmp_path / "keys"
    with pytest.raises(ValueError, match=r"cannot read .*keys: No such file"):
        ssh_factory(office.view, host, str(path), 600.0, office.clock)
    path.write_text("# nobody\nssh-ed25519 nothing\n")
    with pytest.raises(ValueError, match=r"keys:2 is no public key"):
        ssh_factory(office.view, host, str(path), 600.0, office.clock)
    path.write_bytes(MINE.public().toString("OPENSSH"))
    [(_, name)] = AuthorizedKeys(path).read()
    assert name == MINE.fingerprint(FingerprintFormats.SHA256_BASE64)
