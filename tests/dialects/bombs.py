"""Requests that are meant to hurt, in every dialect: lengths, depths, counts, texts and bodies that are not what they
seem.  All are put together by hand, from the protocol pages.

Each is to be refused.  Where its frame ends is known of all of them but those that `end` the connection.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import google_crc32c

from gateway import compression

KIB, MIB = 1 << 10, 1 << 20
HUGE = (1 << 31) - 1, 1 << 31, (1 << 32) - 1
"""The largest number with a sign, the smallest below zero, and the largest without one or -1 with one."""

DAMAGED = {
    "a byte that is none": b"\xff",
    "a text cut short": b"\xe4\xb8",
    "a long way to write a slash": b"\xc0\xaf",
    "half of a pair": b"\xed\xa0\x80",
    "beyond Unicode": b"\xf4\x90\x80\x80",
}
"""What is no UTF-8."""


class Bomb(NamedTuple):
    """One request.  ends: the connection cannot go on after it."""

    name: str
    octets: bytes
    ends: bool = False


class Ground(NamedTuple):
    """Where bombs of a dialect fall.

    prelude: what is sent on each connection first, and not looked at.
    good:    a request and its answer.
    refused: whether a frame that answers says that something went wrong.
    topic:   of one partition, called `t` in the namespace `default`, is there.
    """

    dialect: str
    settings: dict[str, Any]
    prelude: bytes
    good: tuple[bytes, bytes]
    refused: Callable[[bytes], bool]
    bombs: list[Bomb]


def swept(
    name: str, frame: bytes, at: int, width: int, *, little: bool = False, left: int | None = None, exact: bool = True
) -> Iterator[Bomb]:
    """The length of `width` bytes at `at` is another, while the frame is as long as it was.

    left:  bytes that there are for what the length is about, and all behind it.
    exact: the frame is none with any other length; else only those count that go beyond it.
    """
    order = "little" if little else "big"
    left = len(frame) - at - width if left is None else left
    right = int.from_bytes(frame[at : at + width], order)  # type: ignore[arg-type]
    own = (1 << 8 * width - 1) - 1, 1 << 8 * width - 1, (1 << 8 * width) - 1
    for length in sorted({0, 1, left - 1, left, left + 1, *HUGE, *own} - {right}):
        if 0 <= length < 1 << 8 * width and (exact or length > left):
            damaged = frame[:at] + length.to_bytes(width, order) + frame[at + width :]  # type: ignore[arg-type]
            yield Bomb(f"{name} of {length}", damaged)


def outer(head: Callable[[int], bytes], most: int) -> Iterator[Bomb]:
    """Frames of any length, all zeros behind the head; most: of a frame, without its head."""
    for length in (0, 1, most - 1, most):
        yield Bomb(f"a frame of {length}", head(length) + bytes(length))
    for length in (most + 1, *HUGE):
        yield Bomb(f"a frame of {length}", head(length), ends=True)


def texts(name: str, frame: Callable[[bytes], bytes]) -> Iterator[Bomb]:
    for what, octets in DAMAGED.items():
        yield Bomb(f"{name} with {what}", frame(b"t" + octets))


# -- cursus

LIMIT = 64 * KIB
"""Bytes of a frame where a listener can be told so."""


def framed(payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + payload


def cursus() -> Ground:
    command = b"\0\0"
    record = b"".join(
        (
            struct.pack(">QQ", 0, 0),
            *(b"\0\1p", b"\0\1k"),
            struct.pack(">qI", 0, 1) + b"v",
            b"\0\0" + struct.pack(">IQ", 0, 0) + b"\0\0",
        )
    )
    sent = framed(b"\xba\x7c\0\1t" + bytes(4) + b"\0011" + struct.pack(">?QQi", False, 0, 0, 1) + record)
    places = {"topic": (6, 2), "acks": (13, 1), "count": (32, 4), "producer": (52, 2), "key": (55, 2)}
    places |= {"value": (66, 4), "event type": (71, 2), "metadata": (85, 2)}
    bombs = [
        *outer(lambda length: struct.pack(">I", length), LIMIT - 4),
        *(bomb for name, place in places.items() for bomb in swept(f"a {name}", sent, *place)),
        *swept("an envelope", framed(command + b"LIST"), 4, 2, exact=False),
        *texts("a topic", lambda topic: framed(command + b"CREATE topic=" + topic + b" partitions=1")),
        *texts(
            "a topic to write to",
            lambda topic: framed(command + b"PUBLISH topic=" + topic + b" producerId=p message=v"),
        ),
        *(Bomb(f"{count} partitions", framed(command + b"CREATE topic=u partitions=%d" % count)) for count in COUNTS),
        Bomb("many words", framed(command + b"CREATE " + b"a=b " * 15_000)),
        Bomb("many features", framed(command + b"NEGOTIATE version=1 features=" + b"a," * 30_000)),
        *(Bomb(f"{name} that expands", framed(packed(name))) for name in compression.names()),
    ]

    def refused(frame: bytes) -> bool:
        return frame[4:10] == b"ERROR:" or b'"status":"ERROR"' in frame

    return Ground(
        "cursus",
        {"max_frame": LIMIT},
        b"",
        (framed(b"\0\0LIST"), framed(b"OK count=1 topics=t")),
        refused,
        bombs,
    )


COUNTS = (100_001, *HUGE, 1 << 32, 1 << 63, 1 << 64, -1)
"""Of partitions: more than there may be of anything."""


def packed(name: str) -> bytes:
    """A body of a few hundred bytes or KiB that becomes one of 10 MiB."""
    return compression.load(name).compress(bytes(10 * MIB))[: LIMIT - 4]


# -- the grid


def grid_frame(opcode: int, name: bytes, key: bytes, value: bytes, flags: int = 0, sender: bytes = b"") -> bytes:
    body = name + sender + key + value
    head = struct.pack(">BBIIBHBBB", 0xDC, opcode, 7, len(body), flags, len(key), 0, len(name), 2)
    return head + body


def grid() -> Ground:
    by_sender = grid_frame(0x55, b"t", b"k", bytes(16), 1, struct.pack(">H", 4) + b"c1:7")
    cas = grid_frame(0x09, b"t", b"k", struct.pack(">i", 1) + b"a" + struct.pack(">i", 2) + b"bc")
    pairs = grid_frame(0x0F, b"t", b"", struct.pack(">ii", 2, 1) + b"a" + struct.pack(">i", 1) + b"b")
    zeros = bytes(7 * MIB)
    bombs = [
        *outer(lambda length: struct.pack(">BBIIBHBBB", 0xDC, 1, 7, length, 0, 0, 0, 0, 2), LIMIT),
        *swept("a name", by_sender, 14, 1, left=24),
        *swept("a key", by_sender, 11, 2, left=17),
        *swept("a sender id", by_sender, 17, 2),
        *swept("an old value", cas, 18, 4),
        *swept("a new value", cas, 23, 4),
        *swept("a list", pairs, 17, 4, left=2),
        *swept("an item", pairs, 21, 4),
        *swept("a last item", pairs, 26, 4),
        *texts("a map", lambda name: grid_frame(0x01, name, b"k", b"v")),
        *texts("a user", lambda name: grid_frame(0x70, b"", name, b"secret")),
        *(Bomb(f"a scan of {most}", grid_frame(0x0E, b"t", b"", struct.pack(">i", most))) for most in (-1, -(1 << 31))),
        *(Bomb(f"a poll from {at}", grid_frame(0x32, b"t", b"", struct.pack(">qi", at, 1))) for at in (-1, -(1 << 63))),
        Bomb("a hello of a long text", grid_frame(0x72, b"", b"", b"\xff\xff1.0.0")),
        Bomb("a frame of another kind", b"\xdd" + by_sender[1:], ends=True),
        Bomb("another version", by_sender[:15] + b"\x09" + by_sender[16:], ends=True),
    ]
    for name, flag in (("lz4", 2), ("zstd", 4)):
        squeezed = compression.load(name).compress(b"tk" + zeros)
        for length in (0, 1, LIMIT - 1, LIMIT, LIMIT + 1, len(zeros), *HUGE):
            checked = struct.pack(">II", length, google_crc32c.value(zeros)) + squeezed
            bombs.append(Bomb(f"{name} that says {length}", grid_packed(checked, flag | 8)))
        bombs.append(Bomb(f"{name} that says nothing", grid_packed(squeezed, flag)))
    hello = struct.pack(">H", 5) + b"1.0.0" + struct.pack(">H", 5) + b"1.0.0" + struct.pack(">iQ", 2, (1 << 64) - 1)
    return Ground(
        "grid",
        {"max_body": LIMIT, "compression": ("lz4", "zstd")},
        grid_frame(0x72, b"", b"", hello),
        (grid_frame(0x71, b"", b"", b"there?"), b"\xdc\x80" + grid_frame(0, b"", b"", b"there?")[2:]),
        lambda frame: frame[1] in (0x81, 0x83) and frame[13] != 0,
        bombs,
    )


def grid_packed(body: bytes, flags: int) -> bytes:
    """A MAP_PUT of the name t and the key k."""
    return struct.pack(">BBIIBHBBB", 0xDC, 1, 7, len(body), flags, 1, 0, 1, 2) + body


# -- iggy


def iggy_frame(code: int, payload: bytes) -> bytes:
    return struct.pack("<II", 4 + len(payload), code) + payload


IGGY_PLACE = b"\1\4\xff\xff\xff\xff" + b"\1\4\1\0\0\0"
"""The stream `default` and its first topic."""


def iggy_g0() -> Ground:
    header = struct.pack("<I", 1) + b"h\2" + struct.pack("<I", 1) + b"x"
    message = bytes(16) + struct.pack("<I", len(header)) + header + struct.pack("<I", 2) + b"hi"
    sent = iggy_frame(101, IGGY_PLACE + b"\2\4\1\0\0\0" + message)
    polled = iggy_frame(100, b"\1" + bytes(4) + IGGY_PLACE + struct.pack("<IBQIB", 1, 1, 0, 1, 0))
    make = iggy_frame(202, struct.pack("<I", 7) + b"\2s1")
    places = {"stream": (9, 1), "topic": (15, 1), "partitioning": (21, 1), "header block": (42, 4)}
    places |= {"header": (46, 4), "header value": (52, 4), "payload": (57, 4)}
    topics = (iggy_frame(302, b"\1\4\xff\xff\xff\xff" + struct.pack("<III", 9, n, 0) + b"\2t1") for n in IGGY_COUNTS)
    bombs = [
        *(bomb for name, place in places.items() for bomb in swept(f"a {name}", sent, *place, little=True)),
        *swept("a stream to read", polled, 14, 1, little=True, exact=False),
        *swept("a name", make, 12, 1, little=True, exact=False),
        *texts("a stream", lambda name: iggy_frame(202, struct.pack("<IB", 7, len(name)) + name)),
        *texts("a user", lambda name: iggy_frame(38, bytes([len(name)]) + name + b"\4iggy")),
        *(Bomb(f"{count} partitions", frame) for count, frame in zip(IGGY_COUNTS, topics, strict=True)),
    ]
    return _iggy("g0", b"", bombs)


IGGY_COUNTS = (100_001, *HUGE)


def iggy_g2c() -> Ground:
    before = b"\2\7default" + b"\2\1t" + b"\2\4\0\0\0\0"
    header = b"\2" + struct.pack("<I", 1) + b"h\2" + struct.pack("<I", 1) + b"x"
    message = bytes(48) + struct.pack("<II", len(header), 2) + bytes(8) + b"hi" + header
    index = struct.pack("<IIQ", 0, len(message), 0)
    sent = iggy_frame(101, struct.pack("<I", len(before) + 4) + before + struct.pack("<I", 1) + index + message)
    start = 12 + len(before) + 4 + len(index)
    places = {"head": (8, 4), "stream": (13, 1), "topic": (22, 1), "partitioning": (25, 1), "count": (30, 4)}
    places |= {"header block": (start + 48, 4), "payload": (start + 52, 4)}
    places |= {"header": (start + 67, 4), "header value": (start + 73, 4)}
    login = iggy_frame(38, b"\4iggy\4iggy" + struct.pack("<I", 6) + b"0.10.0" + struct.pack("<I", 0))
    bombs = [
        *(bomb for name, place in places.items() for bomb in swept(f"a {name}", sent, *place, little=True)),
        *swept("an end of a message", sent, 38, 4, little=True),
        *swept("a user", login, 8, 1, little=True, exact=False),
        *swept("a version", login, 18, 4, little=True, exact=False),
        *texts("a stream", lambda name: iggy_frame(202, bytes([len(name)]) + name)),
    ]
    return _iggy("g2c", iggy_frame(1, b""), bombs)


def _iggy(generation: str, prelude: bytes, bombs: list[Bomb]) -> Ground:
    """A connection that begins with a frame of 0 is one of 0.11, which is hung up on."""
    frames = [*outer(lambda length: struct.pack("<I", length), LIMIT - 4)]
    if not prelude:
        frames[0] = frames[0]._replace(ends=True)
    return Ground(
        "iggy",
        {"max_frame": LIMIT, "generation": generation},
        prelude,
        (iggy_frame(1, b""), bytes(8)),
        lambda frame: frame[:4] != bytes(4),
        [*frames, *bombs],
    )


# -- mlog


def mlog_frame(type: int, payload: bytes) -> bytes:
    return struct.pack(">HI", type, len(payload)) + payload


MLOG_MOST = 4 * MIB


def mlog() -> Ground:
    depth = 10_000
    nested = {"arrays": b"[" * depth + b"]" * depth, "objects": b'{"a":' * depth + b"0" + b"}" * depth}
    nested["arrays without an end"] = b"[" * depth
    keys = b"{" + b",".join(b'"%x":0' % at for at in range(MLOG_MOST // 10))
    many = {
        "keys": keys + b"}",
        "times the same key": b"{" + b'"Topic":"t",' * (MLOG_MOST // 12 - 1) + b'"Acks":1}',
        "values": b'{"Topic":"t","Acks":1,"Values":[' + b'"",' * (MLOG_MOST // 3 - 20) + b'"YQ=="]}',
        "values that can be read": b'{"Topic":"t","Acks":1,"Values":[' + b'"",' * 100_000 + b'"YQ=="]}',
        "openings": b"{" + b"[" * (MLOG_MOST - 1),
        "digits": b'{"Topic":"t","Value":"YQ==","Acks":' + b"1" * (MLOG_MOST - 40) + b"}",
        "backslashes": b'{"Topic":"t","Value":"' + b"\\" * (MLOG_MOST - 22),
    }
    produce = b"\x0a\1t\x12\2hi\x18\1"
    bombs = [
        *outer(lambda length: struct.pack(">HI", 2, length), MLOG_MOST),
        *(Bomb(f"{what} in no field", mlog_frame(2, b'{"x":' + text + b"}")) for what, text in nested.items()),
        *(Bomb(f"{what} in a value", mlog_frame(4, b'{"Values":' + text + b"}")) for what, text in nested.items()),
        *(Bomb(f"many {what}", mlog_frame(4, text)) for what, text in many.items()),
        *texts("a topic", lambda name: mlog_frame(2, b'{"Topic":"' + name + b'","Value":"YQ==","Acks":1}')),
        *texts("a topic to make", lambda name: mlog_frame(16, b'{"Topic":"' + name + b'"}')),
        *texts("a topic in protobuf", lambda name: mlog_frame(16, b"\x0a" + bytes([len(name)]) + name)),
        Bomb("a topic with half of a pair in words", mlog_frame(16, rb'{"Topic":"\ud800"}')),
        *(Bomb(f"a length of {n}", mlog_frame(2, b"\x0a" + varint(n) + produce[2:])) for n in VARINTS),
        *(Bomb(f"a value of {n}", mlog_frame(2, produce[:4] + varint(n) + produce[5:])) for n in VARINTS),
        Bomb("groups in groups", mlog_frame(2, b"\x1b" * depth + b"\x1c" * depth)),
        Bomb("a number without an end", mlog_frame(2, b"\x18" + b"\xff" * 100)),
        *(Bomb(f"MaxCount {n}", mlog_frame(8, json.dumps({"Topic": "t", "MaxCount": n}).encode())) for n in NO_U32),
        *(Bomb(f"Acks {n}", mlog_frame(2, json.dumps({"Topic": "t", "Value": "", "Acks": n}).encode())) for n in HUGE),
        *(Bomb(f"a type of {type}", mlog_frame(type, b"{}"), ends=True) for type in (29, 0x7FFF, 0xFFFF)),
    ]
    return Ground(
        "mlog",
        {},
        b"",
        (mlog_frame(14, b'{"Topic":"t","Id":"g"}'), mlog_frame(15, b'{"Offset":0}')),
        lambda frame: frame[:2] == b"\0\x14",
        bombs,
    )


NO_U32 = (1 << 32, 1 << 63, 1 << 64, -1, 1.5, "1")
VARINTS = (9, 10, *HUGE, 1 << 32, 1 << 63, (1 << 64) - 1)


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


# -- native


NATIVE_TOPIC = b"\x92\xdb\0\0\0\7default\xdb\0\0\0\1t"
ASKED = b"\x92\7"
"""How a request with the tag 7 begins."""

NATIVE_RECORD = b"\x92\xc4\1k\xc4\1v"


def native_publish(records: bytes, count: int) -> bytes:
    """One batch of what is said to be so many records."""
    batch = b"\x93\xdb\0\0\0\x0amsgpack.v1\xc6" + framed(records) + b"\xce" + struct.pack(">I", count)
    return framed(ASKED + b"\x94\xa7Publish" + NATIVE_TOPIC + b"\0" + batch)


def native_create(topic: bytes, partitions: int = 1) -> bytes:
    said = b"\x92\xa7default\xd9" + bytes([len(topic)]) + topic + b"\xcf" + struct.pack(">Q", partitions)
    return framed(ASKED + b"\x93\xabCreateTopic" + said)


def native() -> Ground:
    sent = native_publish(b"\x91" + NATIVE_RECORD, 1)
    texts_at = {"namespace": b"default", "encoding": b"msgpack", "body": b"\x91" + NATIVE_RECORD}
    at = {name: sent.index(text) for name, text in texts_at.items()} | {"topic": sent.index(b"\1t") + 1}
    depth = {"arrays": b"\x91" * 10_000, "maps": b"\x81\0" * 5000, "long arrays": b"\xdd\0\0\0\1" * 10_000}
    heads = {"array": b"\xdd", "map": b"\xdf", "text": b"\xdb", "octets": b"\xc6", "extension": b"\xc9"}
    places = {"a frame": b"", "a command": ASKED, "a topic": ASKED + b"\x94\xa7Publish"}
    places |= {"a list of keys": ASKED + b"\x95\xa7MapScan" + NATIVE_TOPIC + b"\xc0\0"}
    claimed = [(what, head + struct.pack(">I", n), n) for what, head in heads.items() for n in HUGE]
    bombs = [*outer(lambda length: struct.pack(">I", length), LIMIT - 4)]
    for name, start in at.items():
        bombs += swept(f"a {name}", sent, start - 4, 4)
    for where, before in places.items():
        bombs += [Bomb(f"{what} for {where}", framed(before + inside)) for what, inside in depth.items()]
        bombs += [Bomb(f"{what} of {n} for {where}", framed(before + head + bytes(50))) for what, head, n in claimed]
    bombs += [
        *(Bomb(f"{n} records", native_publish(b"\xdd" + struct.pack(">I", n) + NATIVE_RECORD, n)) for n in NOT_ONE),
        *(Bomb(f"a batch of {n}", native_publish(b"\x91" + NATIVE_RECORD, n)) for n in (0, *NOT_ONE)),
        *(Bomb(f"records of {what}", native_publish(b"\x91" + inside, 1)) for what, inside in depth.items()),
        *texts("a topic", native_create),
        *(Bomb(f"{n} partitions", native_create(b"u", n)) for n in COUNTS if 0 <= n < 1 << 64),
    ]
    return Ground(
        "native",
        {"max_frame": LIMIT},
        b"",
        (framed(b"\x92\5\x91\xa4Ping"), framed(b"\x92\5\x91\xa4Done")),
        lambda frame: frame[4:].startswith((b"\x95\7\xa1!", b"\x95\0\xa1!")),
        bombs,
    )


NOT_ONE = (2, 100_001, *HUGE)


# -- pipe


def pipe() -> Ground:
    def line(said: bytes) -> bytes:
        return b"V1|1|" + said + b"\n"

    most = 65_536
    numbers = [str(n).encode() for n in (1, *HUGE, (1 << 63) - 1, 1 << 63, 1 << 64, -1)] + [b"9" * 60_000]
    bombs = [
        *(Bomb(f"a line of {size}", b"V" * (size - 1) + b"\n") for size in (1, 2, most - 1, most)),
        *(Bomb(f"a line of {size}", b"V" * (size - 1) + b"\n", ends=True) for size in (most + 1, 2 * most)),
        Bomb("a line without an end", b"V" * most, ends=True),
        Bomb("many bars", line(b"|" * 60_000)),
        Bomb("many words", line(b"PRODUCE|" + b"t " * 30_000)),
        Bomb("many blanks", line(b"PRODUCE|" + b" " * 60_000)),
        *texts("a topic", lambda name: line(b"PRODUCE|" + name + b" k:v")),
        *texts("a topic to read", lambda name: line(b"CONSUME|" + name + b" 0 0")),
        *texts("a group", lambda name: line(b"JOIN|" + name + b" t member")),
        Bomb("a long topic", line(b"PRODUCE|" + b"t" * 60_000 + b" k:v")),
        *(Bomb(f"partition {n[:20].decode()}", line(b"CONSUME|t " + n + b" 0")) for n in numbers),
        *(Bomb(f"offset {n[:20].decode()}", line(b"CONSUME|t 0 " + n)) for n in numbers[5:]),
        *(Bomb(f"{n[:20].decode()} partitions", line(b"ADMIN_CREATE_TOPIC|u " + n + b" 1")) for n in numbers[1:]),
    ]
    return Ground(
        "pipe",
        {},
        b"",
        (line(b"OFFSET|g t 0"), b"V1|1|OK|offset=0\n"),
        lambda frame: b"|ERR|" in frame,
        bombs,
    )


GROUNDS = {
    "cursus": cursus,
    "grid": grid,
    "iggy g0": iggy_g0,
    "iggy g2c": iggy_g2c,
    "mlog": mlog,
    "native": native,
    "pipe": pipe,
}


# -- as long as a listener takes them by itself


def words() -> Bomb:
    return Bomb("words", framed(b"\0\0CREATE " + b"a=b " * (16 * MIB - 10)))


def entries() -> Bomb:
    return Bomb("entries", framed(b"\0\0BATCH_COMMIT topic=t group=g member=m generation=1 " + b"P0:1," * (12 * MIB)))


def keys() -> Bomb:
    count = 4 * MIB - 10
    return Bomb("keys", grid_frame(0x0F, b"t", b"", struct.pack(">i", count) + bytes(4 * count)))


def headers() -> Bomb:
    block = (struct.pack("<I", 1) + b"h\2" + struct.pack("<I", 1) + b"x") * (16 * MIB // 11 - 10)
    sized = struct.pack("<I", len(block)) + block
    return Bomb(
        "headers", iggy_frame(101, IGGY_PLACE + b"\2\4\1\0\0\0" + bytes(16) + sized + struct.pack("<I", 1) + b"x")
    )


def scanned() -> Bomb:
    count = 31 * MIB
    head = ASKED + b"\x95\xa7MapScan" + NATIVE_TOPIC + b"\xc0\0\xdd" + struct.pack(">I", count)
    return Bomb("keys", framed(head + b"\xc4\0" * count))


def numbers() -> Bomb:
    return Bomb("numbers", mlog_frame(4, b'{"Topic":"t","Acks":1,"Values":[' + b"[0]," * (MIB - 20) + b"[]]}"))


LONGEST: dict[str, tuple[Callable[[], Ground], Callable[[], Bomb]]] = {
    "cursus words": (cursus, words),
    "cursus entries": (cursus, entries),
    "grid": (grid, keys),
    "iggy": (iggy_g0, headers),
    "mlog": (mlog, numbers),
    "native": (native, scanned),
}
"""Many small things in one frame: what they become in memory is more than they were on the wire."""
