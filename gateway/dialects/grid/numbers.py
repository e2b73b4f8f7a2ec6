"""The numbers of operations, statuses and flags: tables that an operator may replace, since nobody published them.

Source: protocol page, section 3.  Names are those of the project's MessageType, so that a real list can be pasted in.
"""

from __future__ import annotations

from collections.abc import Mapping

OPCODES: dict[str, int] = {
    "MAP_PUT": 0x01,
    "MAP_GET": 0x02,
    "MAP_DELETE": 0x03,
    "MAP_CONTAINS": 0x04,
    "MAP_SIZE": 0x05,
    "MAP_CLEAR": 0x06,
    "MAP_PUT_IF_ABSENT": 0x07,
    "MAP_REPLACE": 0x08,
    "MAP_REPLACE_CAS": 0x09,
    "MAP_PUT_WITH_TTL": 0x0A,
    "MAP_GET_AND_REMOVE": 0x0B,
    "MAP_KEYS": 0x0C,
    "MAP_VALUES": 0x0D,
    "MAP_SCAN": 0x0E,
    "MAP_GET_ALL": 0x0F,
    "QUEUE_OFFER": 0x20,
    "QUEUE_POLL": 0x21,
    "QUEUE_PEEK": 0x22,
    "QUEUE_SIZE": 0x23,
    "QUEUE_CLEAR": 0x24,
    "TOPIC_PUBLISH": 0x30,
    "TOPIC_SUBSCRIBE": 0x31,
    "TOPIC_POLL": 0x32,
    "TOPIC_UNSUBSCRIBE": 0x33,
    "SET_ADD": 0x40,
    "SET_REMOVE": 0x41,
    "SET_CONTAINS": 0x42,
    "SET_SIZE": 0x43,
    "SET_CLEAR": 0x44,
    "COUNTER_GET": 0x50,
    "COUNTER_SET": 0x51,
    "COUNTER_INCREMENT": 0x52,
    "COUNTER_DECREMENT": 0x53,
    "COUNTER_ADD": 0x54,
    "COUNTER_CAS": 0x55,
    "LOCK_TRY": 0x60,
    "LOCK_UNLOCK": 0x61,
    "LOCK_IS_LOCKED": 0x62,
    "AUTH": 0x70,
    "PING": 0x71,
    "PROTOCOL_HELLO": 0x72,
    "PROTOCOL_HELLO_ACK": 0x73,
    "RESPONSE_OK": 0x80,
    "RESPONSE_ERROR": 0x81,
    "RESPONSE_REDIRECT": 0x82,
    "RESPONSE_SERVER_BUSY": 0x83,
    "RESPONSE_SEQUENCE_LOST": 0x84,
    "TOPIC_MESSAGE": 0x90,
}

STATUSES: dict[str, int] = {
    "OK": 0,
    "NOT_FOUND": 1,
    "CONDITION_FAILED": 2,
    "BAD_REQUEST": 3,
    "UNAUTHORIZED": 4,
    "TOO_LARGE": 5,
    "UNSUPPORTED": 6,
    "INTERNAL": 7,
    "BUSY": 8,
    "NOT_LEADER": 9,
    "SEQUENCE_LOST": 10,
}

FLAGS: dict[str, int] = {
    "HAS_SENDER_ID": 0x01,
    "COMPRESSED_LZ4": 0x02,
    "COMPRESSED_ZSTD": 0x04,
    "COMPRESSION_INTEGRITY": 0x08,
}

FEATURE_BITS: dict[str, int] = {"lz4": 7, "zstd": 8}
"""Bit of a feature in the bitmap of a hello, from the lowest; in the order in which the project lists its features."""

PING_AGAIN = "CLUSTER_PING"
"""Another name of PING; it may have a number of its own."""

_UNSERVED = (
    "BATCH_",
    "CLUSTER_",
    "CP_",
    "EXECUTOR_",
    "LOCK_",
    "NEAR_CACHE_",
    "PARTITION_",
    "RAFT_",
    "SQL_",
    "TX_",
    "WAN_",
)
"""How the names begin of what the project has and the gateway answers with UNSUPPORTED."""


class Table:
    """Names and numbers, either way.

    code: name -> number.  name: number -> name; a name that is not served is in it too.
    """

    __slots__ = ("code", "name")

    def __init__(self, code: Mapping[str, int]) -> None:
        self.code = dict(code)
        self.name = {number: name for name, number in code.items() if name != PING_AGAIN}
        if PING_AGAIN in code:
            self.name[code[PING_AGAIN]] = "PING"


def opcodes(said: Mapping[str, int]) -> Table:
    """The table with what an operator said of it.  Raises ValueError, with a sentence, as the next two do."""
    return Table(_merged("opcodes", OPCODES, said))


def statuses(said: Mapping[str, int]) -> Table:
    """The same for statuses."""
    return Table(_merged("status", STATUSES, said))


def flags(said: Mapping[str, int]) -> dict[str, int]:
    """The same for flags, each of which is one bit."""
    found = _merged("flags", FLAGS, said)
    for name, bit in found.items():
        if bit.bit_count() != 1:
            raise ValueError(f"flags: {name} is {bit:#04x}, and a flag is one bit")
    return found


def feature_bits(said: Mapping[str, int]) -> dict[str, int]:
    """The same for the bits of features, 0..63."""
    return _merged("feature_bits", FEATURE_BITS, said, most=63)


def _merged(table: str, defaults: Mapping[str, int], said: Mapping[str, int], most: int = 255) -> dict[str, int]:
    for name, number in said.items():
        if name not in defaults and not (table == "opcodes" and name.startswith(_UNSERVED)):
            raise ValueError(f"{table}: there is no {name!r}; there are {', '.join(defaults)}")
        if not 0 <= number <= most:
            raise ValueError(f"{table}: {name} is {number}, and it has to be 0..{most}")
    whole = {**defaults, **said}
    owners: dict[int, str] = {}
    for name, number in whole.items():
        owner = owners.setdefault(number, name)
        if owner != name and {owner, name} != {"PING", PING_AGAIN}:
            raise ValueError(f"{table}: {owner} and {name} are both {number}")
    return whole
