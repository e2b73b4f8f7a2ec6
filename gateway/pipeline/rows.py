"""Rows of a frame as records of a topic: the other way round from arrow.py.  Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from gateway.core.records import Header, HeaderKind, Record
from gateway.pipeline.schema import COLUMNS, HEADER, KINDS

FIELDS = Record.__struct_fields__

_WORD = (1 << 64) - 1
_TEXTUAL = ("key", "value", "producer", "event_type", "metadata")
_WHOLE = (LongType, IntegerType, ShortType, ByteType)
_KINDS = {word: kind for kind, word in KINDS.items()}


def check_columns(schema: StructType, needs_topic: bool = False) -> None:
    """Whether rows of this schema can be written.  Text stands for its UTF-8, any whole number for a long.

    needs_topic: the column `topic` says where each row goes.
    Raises ValueError, with a sentence.
    """
    names = schema.fieldNames()
    for field in schema.fields:
        if field.name not in COLUMNS:
            raise ValueError(
                f"a topic has no column {field.name!r}; it has {', '.join(COLUMNS)}: drop it, or put it into value"
            )
        if not _fits(field.name, field.dataType):
            wanted, given = COLUMNS[field.name].type.simpleString(), field.dataType.simpleString()
            raise ValueError(f"the column {field.name} is {wanted}, not {given}; cast it before it is written")
    if "value" not in names:
        raise ValueError("there is no column value, which is what a record holds")
    if needs_topic and "topic" not in names:
        raise ValueError("say which topic: with the option topic, or with a column of that name")


def _fits(name: str, given: DataType) -> bool:
    wanted = COLUMNS[name].type
    if isinstance(wanted, BinaryType) and name in _TEXTUAL:
        return isinstance(given, BinaryType | StringType)
    if isinstance(wanted, LongType | IntegerType):
        return isinstance(given, _WHOLE)
    if isinstance(wanted, ArrayType):
        return _fit_headers(given)
    return isinstance(given, TimestampType) if isinstance(wanted, TimestampType) else type(given) is type(wanted)


def _fit_headers(given: DataType) -> bool:
    """Structs with `key` and `value` at least, and nothing that is not a header's."""
    if not isinstance(given, ArrayType) or not isinstance(given.elementType, StructType):
        return False
    types = {field.name: field.dataType.simpleString() for field in given.elementType.fields}
    known = {field.name: field.dataType.simpleString() for field in HEADER.fields}
    return {"key", "value"} <= types.keys() and all(known.get(name) == kind for name, kind in types.items())


class Rows:
    """The rows of an Arrow batch, a list for each field of Record that is said.

    partitions: the column of that name, None = there is none.
    Raises ValueError, with a sentence, for headers that are none.
    """

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.count = batch.num_rows
        names = [name for name in FIELDS if name in batch.schema.names]
        self._columns = {name: _read(name, batch.column(name)) for name in names}
        self.keys: Sequence[bytes | None] | None = self._columns.get("key")
        self.partitions: list[int | None] | None = None
        if "partition" in batch.schema.names:
            self.partitions = batch.column("partition").to_pylist()

    def records(self, rows: Sequence[int] | None = None, **said: Iterable[object]) -> list[Record]:
        """Those rows as records, None = all.  said: fields that are so whatever the columns say."""
        count = self.count if rows is None else len(rows)
        plain = (itertools.repeat(default, count) for default in _PLAIN)
        chosen = (self._chosen(name, rows) for name in FIELDS)
        columns = [said.get(name) or found or none for name, found, none in zip(FIELDS, chosen, plain, strict=True)]
        return list(map(Record, *columns))

    def _chosen(self, name: str, rows: Sequence[int] | None) -> Iterable[object] | None:
        column = self._columns.get(name)
        return column if column is None or rows is None else [column[row] for row in rows]


_PLAIN = msgspec.structs.astuple(Record())


def _binary(column: pa.Array) -> pa.Array:
    return column if pa.types.is_binary(column.type) else column.cast(pa.binary())


def _octets(column: pa.Array) -> list[bytes]:
    """Null is empty."""
    return [octets or b"" for octets in _binary(column).to_pylist()]


def _key(column: pa.Array) -> list[bytes | None]:
    """An empty key is none, as on any wire."""
    return [octets or None for octets in _binary(column).to_pylist()]


def _value(column: pa.Array) -> list[bytes | None]:
    """Null is a tombstone."""
    found: list[bytes | None] = _binary(column).to_pylist()
    return found


def _numbers(column: pa.Array) -> list[int]:
    """Null is 0; longs are the u64 of the same bits."""
    return [value & _WORD for value in pc.fill_null(column.cast(pa.int64()), 0).to_pylist()]


_READ: dict[str, Callable[[pa.Array], list[Any]]] = {
    "key": _key,
    "value": _value,
    "headers": lambda column: list(_headers(column)),
    **dict.fromkeys(("timestamp", "origin_timestamp", "expiry", "epoch", "sequence"), _numbers),
    **dict.fromkeys(("schema_version", "aggregate_version"), _numbers),
}


def _read(name: str, column: pa.Array) -> list[Any]:
    reader: Callable[[pa.Array], list[Any]] = _READ.get(name, _octets)
    return reader(column)


# -- headers


def _headers(column: pa.Array) -> Iterator[tuple[Header, ...]]:
    """Null is none."""
    counts = pc.fill_null(pc.list_value_length(column), 0).to_pylist()
    made = iter(_each(column.flatten())) if any(counts) else iter(())
    return (tuple(itertools.islice(made, count)) if count else () for count in counts)


def _each(column: pa.StructArray) -> Iterator[Header]:
    count = len(column)
    said = {field.name: values.to_pylist() for field, values in zip(column.type, column.flatten(), strict=True)}
    none = [None] * count
    columns = (said.get(name, none) for name in ("key", "raw_key", "value", "kind", "key_kind"))
    for key, raw, value, kind, key_kind in zip(*columns, strict=True):
        octets = (raw or b"") if key is None else key.encode()
        yield Header(octets, value or b"", _kind(kind, HeaderKind.RAW), _kind(key_kind, HeaderKind.TEXT))


def _kind(word: str | None, otherwise: HeaderKind) -> HeaderKind:
    found = otherwise if word is None else _KINDS.get(word.lower())
    if found is None:
        raise ValueError(f"a header is of the kind {', '.join(_KINDS)}, not {word!r}")
    return found
