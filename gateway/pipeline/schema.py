"""The columns of a topic as a DataFrame: one table, by which it is read and written.

A column is null where nothing was said.  A schema given by a user may name some of them, in any order; only those are
built, which is the way to prune columns here.

Numbers that a wire has as u64 are longs with the same 64 bits, as everywhere in Java: 2^64 - 1 is -1.  So are times,
in us since the epoch; what writes a frame takes a negative number for the u64 that it was.
"""

from __future__ import annotations

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from gateway.core.records import HeaderKind


class Column(msgspec.Struct, frozen=True):
    """One column.

    said:     what it holds, for people.
    nullable: whether it may be null.
    """

    type: DataType
    said: str
    nullable: bool = True


HEADER = StructType(
    [
        StructField("key", StringType()),
        StructField("value", BinaryType(), nullable=False),
        StructField("kind", StringType(), nullable=False),
        StructField("key_kind", StringType(), nullable=False),
        StructField("raw_key", BinaryType()),
    ]
)
"""key: null where it is no UTF-8 text, and then raw_key has its bytes.  The kinds are words of KINDS."""

COLUMNS: dict[str, Column] = {
    "namespace": Column(StringType(), "the topic's namespace", nullable=False),
    "topic": Column(StringType(), "its name", nullable=False),
    "partition": Column(IntegerType(), "from 0", nullable=False),
    "offset": Column(LongType(), "the record's number in its partition, from 0", nullable=False),
    "timestamp": Column(TimestampType(), "when it was appended, here or where it was before; null on wires without it"),
    "key": Column(BinaryType(), "what partitions and tables go by; never empty"),
    "value": Column(BinaryType(), "the payload; null is a tombstone"),
    "headers": Column(ArrayType(HEADER, containsNull=False), "in their order; none is an empty array", nullable=False),
    "origin_timestamp": Column(TimestampType(), "when it was made, as its producer says"),
    "id": Column(BinaryType(), "16 bytes, the most significant first"),
    "producer": Column(BinaryType(), "the id of an idempotent producer"),
    "epoch": Column(LongType(), "of that producer"),
    "sequence": Column(LongType(), "the number that this producer gave it"),
    "event_type": Column(BinaryType(), "of an event"),
    "schema_version": Column(LongType(), "of an event"),
    "aggregate_version": Column(LongType(), "of what the event happened to"),
    "metadata": Column(BinaryType(), "of an event"),
    "expiry": Column(TimestampType(), "when tables stop showing it"),
    "origin": Column(StringType(), "the dialect that wrote it"),
}

KINDS: dict[HeaderKind, str] = {kind: kind.name.lower() for kind in HeaderKind}
"""How kinds of headers are spelt in frames: `raw`, `text`, `int64`, ..."""

SCHEMA = StructType([StructField(name, column.type, column.nullable) for name, column in COLUMNS.items()])
"""All of them."""


def check_schema(schema: StructType) -> None:
    """Whether each column asked for is there, with that type.  Raises ValueError, with a sentence."""
    for field in schema.fields:
        column = COLUMNS.get(field.name)
        if column is None:
            raise ValueError(f"a topic has no column {field.name!r}; it has {', '.join(COLUMNS)}")
        if _plain(field.dataType) != _plain(column.type):
            wanted, given = column.type.simpleString(), field.dataType.simpleString()
            raise ValueError(f"the column {field.name} is {wanted}, not {given}; cast it once it is read")


def _plain(kind: DataType) -> str:
    """A type without what may be null in it, since a schema in words cannot say that."""
    return kind.simpleString()
