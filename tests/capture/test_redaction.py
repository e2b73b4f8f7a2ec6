"""No secret that a client says is in a file: with the right words, with the wrong ones, and with damaged ones."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from capture.recording import Recorded, unpacked
from gateway import compression, dialects
from gateway.capture.redaction import LEFT_OUT, MASKED, MASKS
from gateway.net.users import User, Users, new_password, new_token
from net.peers import Peer

CANARY = "canary-3f9a77c1"
SECRET = CANARY.encode()


def cursus(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def iggy(code: int, payload: bytes) -> bytes:
    return struct.pack("<II", 4 + len(payload), code) + payload


def text8(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def grid(opcode: int, key: bytes, value: bytes, *, version: int = 2, key_length: int | None = None) -> bytes:
    length = len(key) if key_length is None else key_length
    body = key + value
    return struct.pack(">BBIIBHBBB", 0xDC, opcode, 1, len(body), 0, length, 0, 0, version) + body


def native(*values: object) -> bytes:
    body = msgspec.msgpack.encode(values)
    return struct.pack(">I", len(body)) + body


def packed(name: str, text: bytes) -> bytes:
    return cursus(compression.load(name).compress(text))


SAID: dict[str, list[bytes]] = {
    "cursus": [
        cursus(b"\0\0AUTH principal=ann token=" + SECRET),
        cursus(b"\0\0AUTH token=" + SECRET + b" principal=ann"),
        cursus(b"\0\0AUTH principal=ann secret=" + SECRET),
        cursus(b"\0\0AUTH ann " + SECRET),
        cursus(b"AUTH principal=\xff token=" + SECRET),
        cursus(b"\0\0LIST principal=ann auth_token=" + SECRET),
        cursus(b"\0\0CREATE topic=orders partitions=1 principal=ann auth_token=" + SECRET),
        cursus(b"\0\0METADATA topic=orders principal=ann token=" + SECRET),
        cursus(b"\0\0NONSENSE principal=ann auth_token=" + SECRET),
        cursus(b"\0\0LIST extra words auth_token=" + SECRET),
        cursus(b"\0\0HEARTBEAT auth_token=" + SECRET + b" token=" + SECRET),
        cursus(b"\0\0CONSUME topic=orders partition=x principal=ann AUTH_TOKEN=" + SECRET),
        *(packed(name, b"\0\0AUTH principal=ann token=" + SECRET) for name in ("gzip", "zstd", "lz4", "snappy")),
        *(packed(name, b"\0\0LIST auth_token=" + SECRET) for name in ("gzip", "zstd")),
        cursus(b"\0\0NEGOTIATE version=1 auth_token=" + SECRET),
    ],
    "iggy": [
        iggy(38, text8(b"ann") + text8(SECRET)),
        iggy(38, text8(b"ann") + text8(SECRET) + struct.pack("<I", 5) + b"0.8.0" + struct.pack("<I", 0)),
        iggy(38, text8(b"ann") + text8(SECRET)[:-2]),
        iggy(38, b"\xff" + SECRET),
        iggy(44, text8(SECRET)),
        iggy(44, b"\xff" + SECRET),
        iggy(33, text8(b"bob") + text8(SECRET)),
        iggy(37, text8(b"bob") + text8(SECRET) + text8(SECRET)),
    ],
    "grid": [
        grid(0x70, b"ann", SECRET),
        grid(0x70, b"\xff", SECRET),
        grid(0x70, b"ann", SECRET, key_length=200),
        grid(0x70, b"ann", SECRET, version=9),
    ],
    "native": [
        native(1, ["Authenticate", "plain", "ann", CANARY]),
        native(2, ["Authenticate", "token", "", CANARY]),
        native(3, ["Authenticate", "plain", 7, CANARY]),
        native(4, ["Authenticate", CANARY]),
    ],
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
@pytest.mark.parametrize("password", [CANARY, "another"])
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
    node = Recorded(tmp_path, "cursus")
    node.connect().send(cursus(b"\0\0LIST not_secret=" + SECRET))
    assert SECRET in written(node)


def kept(tmp_path: Path, dialect: str, *frames: bytes) -> list[tuple[bytes, str]]:
    """What is kept of frames that come in."""
    node = Recorded(tmp_path, dialect)
    peer: Peer = node.connect()
    for frame in frames:
        peer.send(frame)
    return [(row.frame, row.note) for row in node.rows() if row.direction == "in"]


@pytest.mark.parametrize(
    ("dialect", "frame"),
    [
        ("cursus", cursus(b"\0\0AUTH principal=ann token=%b")),
        ("iggy", iggy(38, text8(b"ann") + text8(b"%b"))),
        ("grid", grid(0x70, b"ann", b"%b")),
    ],
)
def test_a_login_is_kept_with_asterisks_of_the_same_length(tmp_path: Path, dialect: str, frame: bytes) -> None:
    said, masked = frame.replace(b"%b", b"pw"), frame.replace(b"%b", b"**")
    assert kept(tmp_path, dialect, said) == [(masked, MASKED)]


def test_a_token_on_a_line_is_masked_and_what_a_record_says_is_not(tmp_path: Path) -> None:
    line = b"\0\0PUBLISH topic=t partition=0 producerId=p acks=1 principal=a auth_token=%b message=my token=x"
    found = kept(tmp_path, "cursus", cursus(line % b"abc"))
    assert found == [(cursus(line % b"***"), MASKED)]


def test_compressed_text_without_a_secret_is_kept(tmp_path: Path) -> None:
    frame = packed("gzip", b"\0\0LIST")
    assert kept(tmp_path, "cursus", frame) == [(frame, "")]


def test_every_dialect_has_a_mask() -> None:
    assert set(MASKS) == set(dialects.names())


def test_of_a_dialect_without_a_mask_what_is_no_request_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without: dict[str, Callable[..., object]] = {name: mask for name, mask in MASKS.items() if name != "pipe"}
    monkeypatch.setattr("gateway.capture.redaction.MASKS", without)
    good = b"V1|1|PRODUCE|orders k:v\n"
    assert kept(tmp_path, "pipe", good, b"LOGIN ann secret\n") == [(good, ""), (b"", LEFT_OUT)]
