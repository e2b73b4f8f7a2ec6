"""What a message is made of: a class says it, and `layout` reads it as rows for the codings.

Fields stand in the order of the project's structs, which is also their number in protobuf, from 1; the annotation says
how wide a number is, and the name is what Go calls it.
"""

from __future__ import annotations

import enum
from types import UnionType
from typing import Annotated, Final, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta


class Kind(enum.Enum):
    """What one value of a field is."""

    TEXT = "text"
    OCTETS = "octets"
    BOOL = "bool"
    U64 = "u64"
    I64 = "i64"
    U32 = "u32"
    I32 = "i32"
    U16 = "u16"
    RAW = "raw"
    """Whatever JSON says there, as it is written; bytes in protobuf."""
    MESSAGE = "message"


RANGES: Final = {
    Kind.U64: (0, (1 << 64) - 1),
    Kind.I64: (-(1 << 63), (1 << 63) - 1),
    Kind.U32: (0, (1 << 32) - 1),
    Kind.I32: (-(1 << 31), (1 << 31) - 1),
    Kind.U16: (0, (1 << 16) - 1),
}
"""Kind of number -> the lowest and the highest."""

# What msgspec checks while it decodes.  It knows no bound above 2^63-1: a U64 beyond that is read the slow way.
U64 = Annotated[int, Kind.U64, Meta(ge=0, le=(1 << 63) - 1)]
I64 = Annotated[int, Kind.I64, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
U32 = Annotated[int, Kind.U32, Meta(ge=0, le=(1 << 32) - 1)]
I32 = Annotated[int, Kind.I32, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
U16 = Annotated[int, Kind.U16, Meta(ge=0, le=(1 << 16) - 1)]
Octets = bytes | None
"""A slice of Go: None is nil, and as different from b"" as null is from an empty string."""

GO_NAMES: Final = {
    "id": "Id",
    "replica": "ReplicaNodeID",
    "leader_leo": "LeaderLEO",
    "leader": "LeaderNodeID",
    "designated": "DesignatedLeaderNodeID",
    "node_id": "NodeID",
    "is_isr": "IsISR",
    "leo": "LEO",
}
"""What Go calls a field, where that is not our name with capitals: topic is Topic, max_count MaxCount."""


def go_name(name: str) -> str:
    """Our name of a field -> the key in JSON."""
    return GO_NAMES.get(name) or "".join(word.capitalize() for word in name.split("_"))


class Message(msgspec.Struct, frozen=True, rename=go_name, forbid_unknown_fields=True):
    """What every message is; `forbid_unknown_fields` holds for the fast way of reading only, see go_json."""


# -- what the classes say, as rows


class Field(msgspec.Struct, frozen=True):
    """One field.

    attribute: in our class.  name: the key in JSON.  number: in protobuf.
    many:      a slice of them, None = nil.
    of:        the message that a value is, if it is one.
    zero:      what null is among many.
    """

    attribute: str
    name: str
    number: int
    kind: Kind
    many: bool = False
    of: type[Message] | None = None
    zero: object = None


_KINDS: Final = {str: Kind.TEXT, bytes: Kind.OCTETS, bool: Kind.BOOL, msgspec.Raw: Kind.RAW}
M = TypeVar("M", bound=Message)


def layout(message: type[Message]) -> tuple[Field, ...]:
    """The fields of a message, in order."""
    hints = get_type_hints(message, include_extras=True)
    names = zip(message.__struct_fields__, message.__struct_encode_fields__, strict=True)
    return tuple(_field(hints[at], at, name, number) for number, (at, name) in enumerate(names, 1))


def _field(hint: object, attribute: str, name: str, number: int) -> Field:
    hint = _bare(hint)
    many = get_origin(hint) is list
    item = get_args(hint)[0] if many else hint
    nil, item = item is not _bare(item), _bare(item)
    if get_origin(item) is Annotated:
        return Field(attribute, name, number, get_args(item)[1], many, zero=0)
    assert isinstance(item, type), f"{attribute} is annotated with what no coding knows"
    if issubclass(item, Message):
        return Field(attribute, name, number, Kind.MESSAGE, many, item, None if nil else item())
    return Field(attribute, name, number, _KINDS[item], many, zero=None if nil else item())


def _bare(hint: object) -> object:
    """What a hint says beside `| None`."""
    return get_args(hint)[0] if isinstance(hint, UnionType) or type(None) in get_args(hint) else hint
