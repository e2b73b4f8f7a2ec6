"""Requests that are meant to hurt, in every dialect: lengths, depths, counts, texts and bodies that are not what they
seem.  Each is a whole request, of our client or of a specification, in which one thing is another.

Each is to be refused.  Where its frame ends is known of all of them but those that `end` the connection.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import google_crc32c
from construct import BytesInteger, Container, GreedyBytes, Int8ub, Int16ub, Int32ub, Int64ub, Prefixed

import wire
from dialects.grid_frames import changed, frame, i32, i64, place
from gateway import compression
from gateway.core import commands as q
from gateway.core.records import CANONICAL, Header, Record, RecordBatch, canonical
from gateway.dialects.grid import numbers as grid_numbers
from gateway.dialects.grid.terms import HEAD, Hello
from gateway.dialects.iggy import spec as iggy_spec
from gateway.dialects.mlog import spec as mlog_spec
from gateway.dialects.native import spec as native_spec

KIB, MIB = 1 << 10, 1 << 20
HUGE = (1 << 31) - 1, 1 << 31, (1 << 32) - 1
"""The largest number with a sign, the smallest below zero, and the largest without one or -1 with one."""

DAMAGED = {
    "a byte that is none": b"\xff",
    "a text cut short": b"\xe4\xb8",
    "a long way to write a slash": b"\xc0\xaf",
    "half of a pair": "\ud800".encode("utf-8", "surrogatepass"),
    "beyond Unicode": "\U0010ffff".encode()[:1] + "\U00050000".encode()[1:],
}
"""What is no UTF-8."""

T = q.Topic("default", "t")
LISTED = q.ListTopics("default")
PAIR = canonical([Record(b"k", b"v")])


class Bomb(NamedTuple):
    """One request.  ends: the connection cannot go on after it."""

    name: str
    octets: bytes
    ends: bool = False


class Ground(NamedTuple):
    """Where bombs of a dialect fall.

    prelude: what is sent on each connection first, and not looked at.
    good:    what can be asked for, and is.
    topic:   of one partition, called `t` in the namespace `default`, is there.
    """

    dialect: str
    settings: dict[str, Any]
    prelude: bytes
    good: bytes
    bombs: list[Bomb]


def swept(
    name: str, whole: bytes, at: int, width: int, *, little: bool = False, left: int | None = None, exact: bool = True
) -> Iterator[Bomb]:
    """The length of `width` bytes at `at` is another, while the frame is as long as it was.

    left:  bytes that there are for what the length is about, and all behind it.
    exact: the frame is none with any other length; else only those count that go beyond it.
    """
    number = BytesInteger(width, swapped=little)
    left = len(whole) - at - width if left is None else left
    right = number.parse(whole[at:])
    own = (1 << 8 * width - 1) - 1, 1 << 8 * width - 1, (1 << 8 * width) - 1
    for length in sorted({0, 1, left - 1, left, left + 1, *HUGE, *own} - {right}):
        if 0 <= length < 1 << 8 * width and (exact or length > left):
            yield Bomb(f"{name} of {length}", whole[:at] + number.build(length) + whole[at + width :])


def outer(head: Callable[[int], bytes], most: int) -> Iterator[Bomb]:
    """Frames of any length, all zeros behind the head; most: of a frame, without its head."""
    for length in (0, 1, most - 1, most):
        yield Bomb(f"a frame of {length}", head(length) + bytes(length))
    for length in (most + 1, *HUGE):
        yield Bomb(f"a frame of {length}", head(length), ends=True)


def texts(name: str, asked: Callable[[str], bytes]) -> Iterator[Bomb]:
    """A text of a request is none.  asked: the request with a text in it, of any length."""
    for what, octets in DAMAGED.items():
        text = "q" * (1 + len(octets))
        yield Bomb(f"{name} with {what}", asked(text).replace(text.encode(), b"t" + octets))


def named(name: str) -> q.Topic:
    return q.Topic("default", name)


# -- cursus

LIMIT = 64 * KIB
"""Bytes of a frame where a listener can be told so."""

FRAME = Prefixed(Int32ub, GreedyBytes)
"""Of Cursus and of native."""

COUNTS = (100_001, *HUGE, 1 << 32, 1 << 63, 1 << 64, -1)
"""Of partitions: more than there may be of anything."""


def retold(whole: bytes, there: str, instead: bytes) -> bytes:
    """A frame with something else instead of the first match of a pattern."""
    payload, count = re.subn(there.encode(), lambda _: instead, FRAME.parse(whole), count=1)
    assert count == 1, there
    return bytes(FRAME.build(payload))


def cursus_create() -> bytes:
    return wire.request("cursus", q.CreateTopic(T, 1, if_exists=q.IfExists.GROW))


def cursus() -> Ground:
    sent = wire.request("cursus", q.Publish(T, 0, canonical([Record(b"k", b"v", producer=b"p", epoch=1, sequence=1)])))
    publish = wire.said("cursus", "a text PUBLISH without a key goes to the partitions in turn")
    negotiate = wire.said("cursus", "NEGOTIATE sorts features into served and not served")
    create = cursus_create()
    key, value = sent.index(b"k"), sent.index(b"v")
    places = {"topic": (sent.index(b"t") - 2, 2), "acks": (sent.index(b"1") - 1, 1), "producer": (key - 5, 2)}
    places |= {"count": (key - 5 - 16 - 4, 4), "key": (key - 2, 2), "value": (value - 4, 4)}
    places |= {"event type": (value + 1, 2), "metadata": (len(sent) - 2, 2)}
    bombs = [
        *outer(Int32ub.build, LIMIT - 4),
        *(bomb for name, at in places.items() for bomb in swept(f"a {name}", sent, *at)),
        *swept("an envelope", wire.request("cursus", LISTED), 4, 2, exact=False),
        *texts("a topic", lambda text: retold(create, "topic=t", f"topic={text}".encode())),
        *texts("a topic to write to", lambda text: retold(publish, "topic=orders", f"topic={text}".encode())),
        *(Bomb(f"{n} partitions", retold(create, "=t partitions=1", b"=u partitions=%d" % n)) for n in COUNTS),
        Bomb("many words", retold(create, "topic=t", b"a=b " * 15_000)),
        Bomb("many features", retold(negotiate, r"features=\S*", b"features=" + b"a," * 30_000)),
        *(Bomb(f"{name} that expands", FRAME.build(packed(name))) for name in compression.names()),
    ]
    return Ground("cursus", {"max_frame": LIMIT}, b"", wire.request("cursus", LISTED), bombs)


def packed(name: str) -> bytes:
    """A body of a few hundred bytes or KiB that becomes one of 10 MiB."""
    return compression.load(name).compress(bytes(10 * MIB))[: LIMIT - 4]


# -- the grid


def grid() -> Ground:
    def asked(command: q.Command) -> bytes:
        return wire.request("grid", command, 7)

    hello = wire.request("grid", q.Ping(), 7, Hello(opcode="PROTOCOL_HELLO", bitmap=(1 << 64) - 1))
    by_sender = frame("COUNTER_CAS", 7, b"t", b"k", i64(0) * 2, sender=b"c1:7")
    cas = asked(q.MapPut(T, b"k", b"bc", only=q.IfEquals(b"a")))
    pairs = asked(q.MapScan(T, keys=(b"a", b"b")))
    scan, poll = asked(q.MapScan(T, limit=1)), asked(q.Fetch(T, 0, 0, 1))
    zeros = bytes(7 * MIB)
    bombs = [
        *outer(lambda length: changed(frame("MAP_PUT", 7), length=length), LIMIT),
        *swept("a name", by_sender, *place("name_length"), left=24),
        *swept("a key", by_sender, *place("key_length"), left=17),
        *swept("a sender id", by_sender, by_sender.index(b"c1:7") - 2, 2),
        *swept("an old value", cas, cas.index(b"a") - 4, 4),
        *swept("a new value", cas, cas.index(b"bc") - 4, 4),
        *swept("a list", pairs, pairs.index(b"t") + 1, 4, left=2),
        *swept("an item", pairs, pairs.index(b"a") - 4, 4),
        *swept("a last item", pairs, pairs.index(b"b") - 4, 4),
        *texts("a map", lambda text: asked(q.MapPut(named(text), b"k", b"v"))),
        *texts("a user", lambda text: asked(q.Authenticate("plain", text, "secret"))),
        *(Bomb(f"a scan of {most}", scan[:-4] + i32(most)) for most in (-1, -(1 << 31))),
        *(Bomb(f"a poll from {at}", poll[:-12] + i64(at) + poll[-4:]) for at in (-1, -(1 << 63))),
        Bomb("a hello of a long text", hello[:HEAD] + Int16ub.build(0xFFFF) + hello[HEAD + 2 :]),
        Bomb("a frame of another kind", changed(by_sender, magic=0xDD), ends=True),
        Bomb("another version", changed(by_sender, version=9), ends=True),
    ]
    for name in ("lz4", "zstd"):
        flag, whole = grid_numbers.FLAGS[f"COMPRESSED_{name.upper()}"], grid_numbers.FLAGS["COMPRESSION_INTEGRITY"]
        squeezed = compression.load(name).compress(b"tk" + zeros)
        for length in (0, 1, LIMIT - 1, LIMIT, LIMIT + 1, len(zeros), *HUGE):
            checked = Int32ub[2].build([length, google_crc32c.value(zeros)]) + squeezed
            bombs.append(Bomb(f"{name} that says {length}", grid_packed(checked, flag | whole)))
        bombs.append(Bomb(f"{name} that says nothing", grid_packed(squeezed, flag)))
    settings = {"max_body": LIMIT, "compression": ("lz4", "zstd")}
    return Ground("grid", settings, hello, asked(q.Ping()), bombs)


def grid_packed(body: bytes, flags: int) -> bytes:
    """A MAP_PUT of a name and a key of one byte each."""
    return changed(frame("MAP_PUT", 7, value=body), flags=flags, key_length=1, name_length=1)


# -- iggy

IGGY_COUNTS = (100_001, *HUGE)
HEADED = canonical([Record(None, b"hi", headers=(Header(b"H", b"x"),))])


def iggy_g0() -> Ground:
    def asked(command: q.Command) -> bytes:
        return wire.request("iggy", command, generation="g0")

    sent, polled = asked(q.Publish(T, 0, HEADED)), asked(q.Fetch(T, 0, 0, 1))
    make = asked(q.CreateNamespace("s1", id=7))
    stream, header, value = sent.index(b"default"), sent.index(b"H"), sent.index(b"hi")
    places = {"stream": (stream - 1, 1), "topic": (stream + 8, 1), "partitioning": (stream + 11, 1)}
    places |= {"header block": (header - 8, 4), "header": (header - 4, 4)}
    places |= {"header value": (value - 9, 4), "payload": (value - 4, 4)}
    bombs = [
        *(bomb for name, at in places.items() for bomb in swept(f"a {name}", sent, *at, little=True)),
        *swept("a stream to read", polled, polled.index(b"default") - 1, 1, little=True, exact=False),
        *swept("a name", make, make.index(b"s1") - 1, 1, little=True, exact=False),
        *texts("a stream", lambda text: asked(q.CreateNamespace(text, id=7))),
        *texts("a user", lambda text: wire.request("iggy", login(text), generation="g1a")),
        *(Bomb(f"{n} partitions", asked(q.CreateTopic(named("t1"), n, id=9))) for n in IGGY_COUNTS),
    ]
    return _iggy("g0", b"", bombs)


def login(user: str) -> q.Authenticate:
    return q.Authenticate("plain", user, "iggy")


def iggy_g2c() -> Ground:
    def asked(command: q.Command) -> bytes:
        return wire.request("iggy", command, generation="g2c")

    sent, entry = asked(q.Publish(T, 0, HEADED)), asked(login("iggy"))
    stream, value, header = sent.index(b"default"), sent.index(b"hi"), sent.index(b"H")
    places = {"head": (8, 4), "stream": (stream - 1, 1), "topic": (stream + 8, 1), "partitioning": (stream + 11, 1)}
    places |= {"count": (stream + 16, 4), "header block": (value - 16, 4), "payload": (value - 12, 4)}
    places |= {"header": (header - 4, 4), "header value": (len(sent) - 5, 4)}
    bombs = [
        *(bomb for name, at in places.items() for bomb in swept(f"a {name}", sent, *at, little=True)),
        *swept("an end of a message", sent, stream + 24, 4, little=True),
        *swept("a user", entry, 8, 1, little=True, exact=False),
        *swept("a version", entry, entry.index(b"0.10") - 4, 4, little=True, exact=False),
        *texts("a stream", lambda text: asked(q.CreateNamespace(text))),
    ]
    return _iggy("g2c", asked(q.Ping()), bombs)


def _iggy(generation: str, prelude: bytes, bombs: list[Bomb]) -> Ground:
    """A connection that begins with a frame of 0 is one of 0.11, which is hung up on."""
    frames = [*outer(iggy_spec.Int32ul.build, LIMIT - 4)]
    if not prelude:
        frames[0] = frames[0]._replace(ends=True)
    settings = {"max_frame": LIMIT, "generation": generation}
    return Ground("iggy", settings, prelude, wire.request("iggy", q.Ping(), generation=generation), [*frames, *bombs])


# -- mlog

MLOG_MOST = 4 * MIB
NO_U32 = (1 << 32, 1 << 63, 1 << 64, -1, 1.5, "1")
VARINTS = (9, 10, *HUGE, 1 << 32, 1 << 63, (1 << 64) - 1)


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def mlog_asked(command: q.Command, coding: str = "json") -> Container:
    """Type and payload of a request."""
    return mlog_spec.FRAME.parse(wire.request("mlog", command, coding=coding))


def with_payload(asked: Container, payload: bytes) -> bytes:
    return bytes(mlog_spec.FRAME.build({"type": asked.type, "payload": payload}))


def said_otherwise(asked: Container, there: bytes, instead: bytes) -> bytes:
    """A message with something else instead of a part of it."""
    assert there in asked.payload
    return with_payload(asked, asked.payload.replace(there, instead, 1))


ONE, TWO = canonical([Record(value=b"a")]), canonical([Record(value=b"a"), Record(value=b"b")])


def in_values(values: bytes) -> bytes:
    """A message of several values, which are these."""
    several = mlog_asked(q.Publish(T, 0, TWO))
    (listed,) = re.findall(rb"\[.*\]", several.payload)
    return said_otherwise(several, listed, values)


def mlog() -> Ground:
    depth = 10_000
    nested = {"arrays": b"[" * depth + b"]" * depth, "objects": b'{"a":' * depth + b"0" + b"}" * depth}
    nested["arrays without an end"] = b"[" * depth
    one, several = mlog_asked(q.Publish(T, 0, ONE)), mlog_asked(q.Publish(T, 0, TWO))
    topic = one.payload[1 : one.payload.index(b",") + 1]
    keys = b"{" + b",".join(b'"%x":0' % at for at in range(MLOG_MOST // 10)) + b"}"
    acks, fetch = b'"Acks":1', mlog_asked(q.Fetch(T, 0, 0, 5))
    create = mlog_asked(q.CreateTopic(named("TOPIC"), 1))
    bombs = [
        *(Bomb(f"{what} in no field", with_payload(one, b'{"x":' + text + b"}")) for what, text in nested.items()),
        *(Bomb(f"{what} in a value", in_values(text)) for what, text in nested.items()),
        Bomb("many keys", with_payload(several, keys)),
        Bomb("many times the same key", said_otherwise(one, topic, topic * (MLOG_MOST // 12 - 4))),
        Bomb("many values", in_values(b"[" + b'"",' * (MLOG_MOST // 3 - 20) + b'"YQ=="]')),
        Bomb("many values that can be read", in_values(b"[" + b'"",' * 100_000 + b'"YQ=="]')),
        Bomb("many openings", with_payload(several, b"{" + b"[" * (MLOG_MOST - 1))),
        Bomb("many digits", said_otherwise(one, acks, b'"Acks":' + b"1" * (MLOG_MOST - 40))),
        Bomb("many backslashes", said_otherwise(one, b"YQ==", b"\\" * (MLOG_MOST - 40))),
        *texts("a topic", lambda text: wire.request("mlog", q.Publish(named(text), 0, ONE))),
        *texts("a topic to make", lambda text: wire.request("mlog", q.CreateTopic(named(text), 1))),
        Bomb("a topic with half of a pair in words", said_otherwise(create, b"TOPIC", rb"\ud800")),
        *(
            Bomb(f"MaxCount {n}", said_otherwise(fetch, b'"MaxCount":5', b'"MaxCount":' + json.dumps(n).encode()))
            for n in NO_U32
        ),
        *(Bomb(f"Acks {n}", said_otherwise(one, acks, b'"Acks":%d' % n)) for n in HUGE),
        *(
            Bomb(f"a type of {type}", Int16ub.build(type) + with_payload(one, b"{}")[2:], ends=True)
            for type in (29, 0x7FFF, 0xFFFF)
        ),
    ]
    return Ground("mlog", {}, b"", wire.request("mlog", q.FetchOffsets(T, q.Group("g"))), bombs)


def mlog_protobuf() -> Ground:
    depth = 10_000
    produce = mlog_asked(q.Publish(T, 0, canonical([Record(value=b"hi")])), "protobuf")
    name, value = produce.payload.index(b"t"), produce.payload.index(b"hi")

    def create(text: str) -> bytes:
        return wire.request("mlog", q.CreateTopic(named(text), 1), coding="protobuf")

    bombs = [
        *outer(lambda length: Int16ub.build(produce.type) + Int32ub.build(length), MLOG_MOST),
        *texts("a topic in protobuf", create),
        *(Bomb(f"a length of {n}", at_a_byte(produce, name - 1, varint(n))) for n in VARINTS),
        *(Bomb(f"a value of {n}", at_a_byte(produce, value - 1, varint(n))) for n in VARINTS),
        Bomb("groups in groups", with_payload(produce, b"\x1b" * depth + b"\x1c" * depth)),
        Bomb("a number without an end", with_payload(produce, b"\x18" + b"\xff" * 100)),
    ]
    good = wire.request("mlog", q.FetchOffsets(T, q.Group("g")), coding="protobuf")
    return Ground("mlog", {"coding": "protobuf"}, b"", good, bombs)


def at_a_byte(asked: Container, at: int, instead: bytes) -> bytes:
    return with_payload(asked, asked.payload[:at] + instead + asked.payload[at + 1 :])


# -- native

NOT_ONE = (2, 100_001, *HUGE)
WIDE = {"text": 0xDB, "bytes": 0xC6}
"""How the widest values of a kind begin, whose lengths have four bytes."""

RECORD = PAIR.body[1:]
MARKED = 0xABCDEF01
"""A number that stands nowhere else in a request."""


def native_asked(command: q.Command) -> bytes:
    return wire.request("native", command, 7)


def widened(node: Container) -> Container:
    """A value in which every text and bytes has a length of four bytes."""
    kind, _ = native_spec.HEADS[node.head]
    body = [widened(item) for item in node.body] if kind == "array" else node.body
    return Container(head=WIDE.get(kind, node.head), body=body)


def wide(whole: bytes) -> bytes:
    value = widened(native_spec.MESSAGE.parse(FRAME.parse(whole)).value)
    return bytes(FRAME.build(native_spec.MESSAGE.build({"value": value})))


def native_publish(records: bytes, count: int) -> bytes:
    """One batch of what is said to be so many records."""
    whole = native_asked(q.Publish(T, 0, RecordBatch(CANONICAL, records, MARKED)))
    return whole.replace(Int32ub.build(MARKED), Int32ub.build(count))


def native_create(partitions: int) -> bytes:
    asked = native_asked(q.CreateTopic(named("u"), MARKED << 31))
    return asked.replace(Int64ub.build(MARKED << 31), Int64ub.build(partitions))


def claimed(head: int, count: int) -> bytes:
    """What begins a value of so many parts."""
    return bytes(Int8ub.build(head) + Int32ub.build(count))


def listing() -> bytes:
    """How a MapScan of some keys begins."""
    asked = FRAME.parse(native_asked(q.MapScan(T, keys=(b"KEY",))))
    return bytes(asked[: asked.index(b"KEY") - 3])


def native() -> Ground:
    sent = wide(native_asked(q.Publish(T, 0, PAIR)))
    narrow = FRAME.parse(native_asked(q.Publish(T, 0, PAIR)))
    at = {"namespace": sent.index(b"default"), "encoding": sent.index(b"msgpack"), "body": sent.index(PAIR.body)}
    at["topic"] = sent.index(b"t", at["namespace"] + len("default"))
    depth = {"arrays": b"\x91" * 10_000, "maps": b"\x81\0" * 5000, "long arrays": claimed(0xDD, 1) * 10_000}
    heads = {"array": 0xDD, "map": 0xDF, "text": 0xDB, "octets": 0xC6, "extension": 0xC9}
    command = narrow.index(b"Publish") - 2
    places = {"a frame": b"", "a command": narrow[:command], "a topic": narrow[: narrow.index(b"default") - 2]}
    places |= {"a list of keys": listing()}
    claims = [(what, claimed(head, n), n) for what, head in heads.items() for n in HUGE]
    bombs = [*outer(Int32ub.build, LIMIT - 4)]
    for name, start in at.items():
        bombs += swept(f"a {name}", sent, start - 4, 4)
    for where, before in places.items():
        bombs += [Bomb(f"{what} for {where}", FRAME.build(before + inside)) for what, inside in depth.items()]
        bombs += [
            Bomb(f"{what} of {n} for {where}", FRAME.build(before + head + bytes(50))) for what, head, n in claims
        ]
    bombs += [
        *(Bomb(f"{n} records", native_publish(claimed(0xDD, n) + RECORD, n)) for n in NOT_ONE),
        *(Bomb(f"a batch of {n}", native_publish(PAIR.body, n)) for n in (0, *NOT_ONE)),
        *(Bomb(f"records of {what}", native_publish(PAIR.body[:1] + inside, 1)) for what, inside in depth.items()),
        *texts("a topic", lambda text: native_asked(q.CreateTopic(named(text), 1))),
        *(Bomb(f"{n} partitions", native_create(n)) for n in COUNTS if 0 <= n < 1 << 64),
    ]
    return Ground("native", {"max_frame": LIMIT}, b"", wire.request("native", q.Ping(), 5), bombs)


# -- pipe


def pipe() -> Ground:
    def asked(command: q.Command) -> bytes:
        return wire.request("pipe", command, 1)

    produce = asked(q.Publish(T, q.Balanced(), PAIR))
    consume, make = asked(q.Fetch(T, 0, 0)), asked(q.CreateTopic(named("u"), 7, if_exists=q.IfExists.KEEP))
    head = produce[: produce.index(b"PRODUCE")]
    most = 65_536
    numbers = [str(n).encode() for n in (1, *HUGE, (1 << 63) - 1, 1 << 63, 1 << 64, -1)] + [b"9" * 60_000]
    bombs = [
        *(Bomb(f"a line of {size}", b"V" * (size - 1) + b"\n") for size in (1, 2, most - 1, most)),
        *(Bomb(f"a line of {size}", b"V" * (size - 1) + b"\n", ends=True) for size in (most + 1, 2 * most)),
        Bomb("a line without an end", b"V" * most, ends=True),
        Bomb("many bars", head + b"|" * 60_000 + b"\n"),
        Bomb("many words", produce.replace(b"t k:v", b"t " * 30_000)),
        Bomb("many blanks", produce.replace(b"t k:v", b" " * 60_000)),
        *texts("a topic", lambda text: asked(q.Publish(named(text), q.Balanced(), PAIR))),
        *texts("a topic to read", lambda text: asked(q.Fetch(named(text), 0, 0))),
        *texts("a group", lambda text: asked(q.JoinGroup(T, text, "m", q.Heartbeats(10.0)))),
        Bomb("a long topic", asked(q.Publish(named("t" * 60_000), q.Balanced(), PAIR))),
        *(Bomb(f"partition {n[:20].decode()}", consume.replace(b" 0 0", b" " + n + b" 0")) for n in numbers),
        *(Bomb(f"offset {n[:20].decode()}", consume.replace(b" 0 0", b" 0 " + n)) for n in numbers[5:]),
        *(Bomb(f"{n[:20].decode()} partitions", make.replace(b" 7 ", b" " + n + b" ")) for n in numbers[1:]),
    ]
    return Ground("pipe", {}, b"", asked(q.FetchOffsets(T, q.Group("g"), (0,))), bombs)


GROUNDS = {
    "cursus": cursus,
    "grid": grid,
    "iggy g0": iggy_g0,
    "iggy g2c": iggy_g2c,
    "mlog": mlog,
    "mlog protobuf": mlog_protobuf,
    "native": native,
    "pipe": pipe,
}


# -- as long as a listener takes them by itself


def words() -> Bomb:
    return Bomb("words", retold(cursus_create(), "topic=t", b"a=b " * (16 * MIB - 20)))


def entries() -> Bomb:
    commit = q.CommitOffsets(T, q.Group("g"), {0: 5, 1: 6}, member="m", generation=1)
    return Bomb("entries", retold(wire.request("cursus", commit), "P0:5,P1:6", b"P0:1," * (12 * MIB)))


def keys() -> Bomb:
    count = 4 * MIB - 10
    return Bomb("keys", frame("MAP_GET_ALL", 7, b"t", value=i32(count) + bytes(4 * count)))


def headers() -> Bomb:
    asked = iggy_spec.FRAME.parse(wire.request("iggy", q.Publish(T, 0, HEADED), generation="g0"))
    key, value = asked.index(b"H"), asked.index(b"hi")
    block = asked[key - 4 : value - 4] * (16 * MIB // 11 - 10)
    sized = iggy_spec.Prefixed(iggy_spec.Int32ul, GreedyBytes)
    return Bomb("headers", iggy_spec.FRAME.build(asked[: key - 8] + sized.build(block) + asked[value - 4 :]))


def scanned() -> Bomb:
    count = 31 * MIB
    return Bomb("keys", FRAME.build(listing() + claimed(0xDD, count) + b"\xc4\0" * count))


def numbers() -> Bomb:
    return Bomb("numbers", in_values(b"[" + b"[0]," * (MIB - 20) + b"[]]"))


LONGEST: dict[str, tuple[Callable[[], Ground], Callable[[], Bomb]]] = {
    "cursus words": (cursus, words),
    "cursus entries": (cursus, entries),
    "grid": (grid, keys),
    "iggy": (iggy_g0, headers),
    "mlog": (mlog, numbers),
    "native": (native, scanned),
}
"""Many small things in one frame: what they become in memory is more than they were on the wire."""
