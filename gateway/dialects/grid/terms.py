"""What an operator may say of a grid listener, what holds on a connection, and what a request leaves for its answer."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.compression import Compressor, load
from gateway.core.commands import Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.dialects.dialect import Settings, Terms
from gateway.dialects.grid import numbers
from gateway.dialects.grid.tagged import Codec, codec
from gateway.dialects.grid.version import parts
from gateway.dialects.topics import Topics

HEAD = 16
"""Bytes of the header."""

MAX_BODY = 16 << 20

Octet = Annotated[int, Meta(ge=0, le=255)]


class HelloSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What we say of ourselves in PROTOCOL_HELLO_ACK.

    version: of the library that we speak like.  min: the oldest client that is let in.
    """

    version: str = "1.0.0"
    min: str = "1.0.0"

    def __post_init__(self) -> None:
        """Raises ValueError for what is no version."""
        for text in (self.version, self.min):
            parts(text)


class GridSettings(Settings, frozen=True, kw_only=True):
    """`max_frame` counts the header; without it a frame may have 16 + `max_body` bytes.  `policy` is for types of
    `loom_tagged` that are not text: see tagged.py.

    opcodes, status, flags: name -> number, instead of those in numbers.py; names that are left out keep theirs.
    magic:             the first byte of every frame.
    versions:          what byte 15 may be.  The first of them is ours, in frames that answer nothing.
    max_body:          bytes of a body, compressed or not, of a request and of an answer.
    sender_len_width:  bytes of the length before a sender id.
    request_separator: what in a sender id stands between the client and the number of its request, "" = it is all
                       client.  Locks belong to the client.
    ttl_mode:          where the i64 milliseconds of MAP_PUT_WITH_TTL are in its value; `none` = nowhere.
    put_returns:       what the value of the answer to MAP_PUT and MAP_PUT_WITH_TTL is.
    value_codec:       `opaque` = keys and values are bytes; `loom_tagged`: see tagged.py, and tag_separator there.
    topic_push:        TOPIC_SUBSCRIBE has messages pushed.
    compression:       algorithms that may be agreed on, the one we compress with first.
    compress_above:    bytes of a body from which on we compress it, once that was agreed.
    feature_bits:      bit in the bitmap of a hello that stands for an algorithm.
    repeat_seconds:    how long an answer to a request with a sender id is kept for its repetition, 0 = not at all.
    repeat_entries:    how many are kept.  repeat_bytes: of values in them, together.
    """

    opcodes: dict[str, int] = msgspec.field(default_factory=dict)
    status: dict[str, int] = msgspec.field(default_factory=dict)
    flags: dict[str, int] = msgspec.field(default_factory=dict)
    magic: Octet = 0xDC
    versions: Annotated[tuple[Octet, ...], Meta(min_length=1)] = (2, 0, 1)
    max_body: Annotated[int, Meta(ge=64, le=1 << 30)] = MAX_BODY
    sender_len_width: Literal[1, 2, 4] = 2
    request_separator: str = ":"
    ttl_mode: Literal["value_prefix_i64", "value_suffix_i64", "none"] = "value_prefix_i64"
    put_returns: Literal["none", "previous"] = "none"
    value_codec: Literal["opaque", "loom_tagged"] = "opaque"
    tag_separator: Literal["", ":"] = ""
    topic_push: bool = False
    hello: HelloSettings = HelloSettings()
    compression: tuple[Literal["lz4", "zstd"], ...] = ()
    compress_above: Annotated[int, Meta(ge=0)] = 1024
    feature_bits: dict[str, int] = msgspec.field(default_factory=dict)
    repeat_seconds: Annotated[float, Meta(ge=0)] = 60.0
    repeat_entries: Annotated[int, Meta(ge=1)] = 100_000
    repeat_bytes: Annotated[int, Meta(ge=0)] = 64 << 20

    def __post_init__(self) -> None:
        """Raises ValueError, with a sentence, for tables that do not fit."""
        numbers.opcodes(self.opcodes)
        numbers.statuses(self.status)
        numbers.flags(self.flags)
        numbers.feature_bits(self.feature_bits)


class NamedTopics(Topics):
    """The same.  Raises CommandFailed(INVALID_NAME) for what is no name."""

    def __missing__(self, name: bytes) -> Topic:
        if not name:
            raise CommandFailed(Fault.INVALID_NAME, "the name is missing")
        try:
            return super().__missing__(name)
        except UnicodeDecodeError as error:
            raise CommandFailed(Fault.INVALID_NAME, "the name is not UTF-8") from error


class GridTerms(Terms):
    """The settings, at hand, and what the two ends have agreed on.

    ok:      the opcode of RESPONSE_OK, get: that of MAP_GET; found, missed: the statuses of what that finds or not.
    telling: the flags of bodies that do not begin with a name as it is, or have more than name, key and value.
    limit:   bytes of a body.
    agreed:  the algorithms that either end may compress with, ours first.
    room:    bytes that may come out of all bodies that are decompressed in one read, None = nobody keeps count.  A read
             full of small bombs costs no more than one of them.
    owner:   whom a lock belongs to that is taken without a sender id: this connection.
    """

    def begin(self, settings: Settings) -> None:
        """See Terms."""
        assert isinstance(settings, GridSettings), "a grid listener has GridSettings"
        self.grid = settings
        self.opcodes = numbers.opcodes(settings.opcodes)
        self.statuses = numbers.statuses(settings.status)
        self.flags = numbers.flags(settings.flags)
        self.magic = settings.magic
        self.versions = frozenset(settings.versions)
        self.ok = self.opcodes.code["RESPONSE_OK"]
        self.get = self.opcodes.code["MAP_GET"]
        self.found, self.missed = self.statuses.code["OK"], self.statuses.code["NOT_FOUND"]
        self.telling = sum(self.flags[name] for name in ("HAS_SENDER_ID", "COMPRESSED_LZ4", "COMPRESSED_ZSTD"))
        self.topics = NamedTopics(self.namespace)
        self.limit = max(0, settings.max_frame - HEAD) if settings.max_frame else settings.max_body
        self.codec: Codec = codec(settings.value_codec, settings.tag_separator, self.policy, self.losses)
        bits = numbers.feature_bits(settings.feature_bits)
        self.features = {name: 1 << bits[name] for name in settings.compression}
        self.agreed: dict[str, Compressor] = {}
        self.room: int | None = None
        self.owner = b"connection"

    @property
    def bitmap(self) -> int:
        """The features that we have."""
        return sum(self.features.values())

    def agree(self, bitmap: int) -> None:
        """The other end has said what it has."""
        self.agreed = {name: load(name) for name, bit in self.features.items() if bitmap & bit}


def grid_terms(terms: Terms) -> GridTerms:
    """The terms of a grid connection, as what they are."""
    assert isinstance(terms, GridTerms), "a grid connection has GridTerms"
    return terms


class Asked(msgspec.Struct, frozen=True, gc=False):
    """How a command was put.

    opcode:  its name, "" = of no operation.
    version: byte 15, which the answer echoes.
    sender:  the sender id, None = the flag was not set.
    keyed:   the key field was used where it could have been left out.
    octets:  the value of a PING, which comes back.
    digest:  what a repetition has in common with the first attempt; b"" = it does not matter if it is one.
    """

    opcode: str = ""
    version: int = 2
    sender: bytes | None = None
    keyed: bool = True
    octets: bytes = b""
    digest: bytes = b""


class Hello(Asked, frozen=True, gc=False):
    """A PROTOCOL_HELLO, beside Ping."""

    release: str = "1.0.0"
    oldest: str = "1.0.0"
    protocol: int = 2
    bitmap: int = 0


class NoFrame(Asked, frozen=True, gc=False):
    """Beside a Refusal: there is nobody to answer, only to hang up on."""


class Unknown(Asked, frozen=True, kw_only=True, gc=False):
    """Beside a Refusal: an opcode that is in no table, and the lengths that came with it."""

    number: int
    name_length: int
    key_length: int
