"""No secret that a client says is in a file: with the right words, with the wrong ones, and with damaged ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import wire
from capture.recording import Recorded, unpacked
from gateway import compression, dialects
from gateway.capture.redaction import LEFT_OUT, MASKED, MASKS
from gateway.core import commands as q
from gateway.dialects.cursus.spec import Long
from gateway.net.users import User, Users, new_password, new_token
from net.peers import Peer, produce

SECRET = wire.CANARY.encode()
ANN, TOKEN = q.Authenticate("plain", "ann", wire.CANARY), q.Authenticate("token", "", wire.CANARY)


def packed(name: str, frame: bytes) -> bytes:
    """The same frame, its payload compressed."""
    return bytes(Long.build(compression.load(name).compress(Long.parse(frame))))


CURSUS = [wire.request("cursus", ANN), *wire.secrets("cursus")]
SAID: dict[str, list[bytes]] = {
    "cursus": CURSUS + [packed(name, frame) for name in ("gzip", "zstd", "lz4", "snappy") for frame in CURSUS],
    "iggy": [
        *(wire.request("iggy", each, generation=made) for each in (ANN, TOKEN) for made in ("g1a", "g2c")),
        *wire.secrets("iggy"),
    ],
    "grid": [wire.request("grid", ANN, 1), *wire.secrets("grid")],
    "native": [wire.request("native", ANN, 1), wire.request("native", TOKEN, 2), *wire.secrets("native")],
}
"""What holds a secret where the dialect has a place for one."""


def users(secret: str) -> Users:
    return Users([User("ann", 1, new_password(secret, 1), (new_token()[1],))], run=lambda work: _done(work()))


def _done(result: bool) -> object:
    from twisted.internet.defer import succeed

    return succeed(result)


def written(node: Recorded) -> bytes:
    """All that is in files, unpacked."""
    node.capture.close()
    return b"".join(unpacked(path) for path in node.files())


@pytest.mark.parametrize("keep", ["all", "faults"])
@pytest.mark.parametrize("password", [wire.CANARY, "another"])
@pytest.mark.parametrize("dialect", SAID)
def test_the_canary_is_in_no_file(tmp_path: Path, dialect: str, password: str, keep: str) -> None:
    """Each on a connection of its own, and all on one; frames that break the protocol have rings written."""
    node = Recorded(tmp_path, dialect, {"keep": keep}, users=users(password))
    together = node.connect()
    for frame in SAID[dialect]:
        for peer in (node.connect(), together):
            peer.send(frame)
            peer.read()
    octets = written(node)
    assert SECRET not in octets and SECRET[:12] not in octets and SECRET[-10:] not in octets
    if keep == "all":
        assert octets.count(MASKED.encode()) + octets.count(LEFT_OUT.encode()) >= len(SAID[dialect])


def test_the_canary_would_be_found(tmp_path: Path) -> None:
    node = Recorded(tmp_path, "pipe")
    node.connect().send(wire.request("pipe", produce(b"k", SECRET), 1))
    assert SECRET in written(node)


def kept(tmp_path: Path, dialect: str, *frames: bytes) -> list[tuple[bytes, str]]:
    """What is kept of frames that come in."""
    node = Recorded(tmp_path, dialect)
    peer: Peer = node.connect()
    for frame in frames:
        peer.send(frame)
    return [(row.frame, row.note) for row in node.rows() if row.direction == "in"]


@pytest.mark.parametrize("dialect", ["cursus", "iggy", "grid", "native"])
def test_a_login_is_kept_with_asterisks_of_the_same_length(tmp_path: Path, dialect: str) -> None:
    said, masked = (wire.request(dialect, q.Authenticate("plain", "ann", secret), 1) for secret in ("pw", "**"))
    assert kept(tmp_path, dialect, said) == [(masked, MASKED)]


def test_a_token_on_a_line_is_masked_and_what_a_record_says_is_not(tmp_path: Path) -> None:
    line = wire.said("cursus", "what a message says of a token is the message")
    assert kept(tmp_path, "cursus", line) == [(line.replace(b"auth_token=abc", b"auth_token=***"), MASKED)]


def test_compressed_text_without_a_secret_is_kept(tmp_path: Path) -> None:
    frame = wire.said("cursus", "a text command may be compressed: the broker decompresses every frame")
    assert kept(tmp_path, "cursus", frame) == [(frame, "")]


def test_every_dialect_has_a_mask() -> None:
    assert set(MASKS) == set(dialects.names())


def test_of_a_dialect_without_a_mask_what_is_no_request_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without: dict[str, Callable[..., object]] = {name: mask for name, mask in MASKS.items() if name != "pipe"}
    monkeypatch.setattr("gateway.capture.redaction.MASKS", without)
    good = wire.request("pipe", produce(b"k", b"v"), 1)
    assert kept(tmp_path, "pipe", good, b"LOGIN ann secret\n") == [(good, ""), (b"", LEFT_OUT)]
