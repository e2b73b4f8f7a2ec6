"""The columns of captured traffic: as frames, as commands, and as cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from gateway.capture.rows import Header, Row
from gateway.pipeline.exchange import Exchange
from gateway.pipeline.overheard import Judged

BATCH = 4096
"""Rows of an Arrow batch."""

HEAVY = 8 << 20
"""Bytes of frames in it, about: a frame may be long."""


class Frame(msgspec.Struct, frozen=True, gc=False):
    """A row, where it stands, and what the header of its file says.  number: in the file, from 0."""

    file: str
    number: int
    header: Header
    row: Row


class Command(msgspec.Struct, frozen=True, gc=False):
    """An exchange, and what the header of its file says."""

    header: Header
    exchange: Exchange


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What came of a case on one connection, and what the header of its file says."""

    header: Header
    judged: Judged


class Column(msgspec.Struct, frozen=True):
    """One column.

    said:  what it holds, for people.
    read:  its value in a Frame, a Command or a Verdict.
    needs: the field of exchanges.Wanted that it takes, "" = rows say it by themselves.
    """

    type: DataType
    said: str
    read: Callable[[Any], object]
    needs: str = ""


RUN = StructType(
    [
        StructField("partition", IntegerType(), nullable=False),
        StructField("first", LongType(), nullable=False),
        StructField("records", LongType(), nullable=False),
    ]
)
"""Records with consecutive offsets, from `first` on."""

_OFFSETS = MapType(IntegerType(), LongType(), valueContainsNull=False)
_TEXT, _LONG, _TIME = StringType(), LongType(), TimestampType()


def _row(name: str, kind: DataType, said: str) -> Column:
    return Column(kind, said, attrgetter(f"row.{name}"))


def _exchange(name: str, kind: DataType, said: str, needs: str = "") -> Column:
    return Column(kind, said, attrgetter(f"exchange.{name}"), needs)


PROCESS = {
    "node": Column(_TEXT, "what the gateway calls itself", attrgetter("header.node")),
    "started": Column(
        _TIME, "when its process began: tells apart connections of one number", attrgetter("header.started")
    ),
}

FRAMES: dict[str, Column] = {
    "file": Column(_TEXT, "its path", attrgetter("file")),
    "number": Column(_LONG, "the row's number in the file, from 0", attrgetter("number")),
    **PROCESS,
    "time": _row("time", _TIME, "when it happened"),
    "connection": _row("connection", _LONG, "its number in the process, from 1"),
    "dialect": _row("dialect", _TEXT, "what is spoken"),
    "listener": _row("listener", _TEXT, "the listener's name"),
    "direction": _row("direction", _TEXT, "in, out, open, close; gap, torn, damaged: rows are missing, see note"),
    "frame": _row("frame", BinaryType(), "the bytes"),
    "ticket": _row("ticket", _LONG, "what an answer has in common with its request; -1: nothing was asked"),
    "kind": _row("kind", _TEXT, "the command; empty: none"),
    "namespace": _row("namespace", _TEXT, "what it is about"),
    "topic": _row("topic", _TEXT, "likewise"),
    "outcome": _row("outcome", _TEXT, "of an answer: the reply or, in capitals, the fault"),
    "latency": _row("latency", _LONG, "of an answer: us since its request was heard"),
    "principal": _row("principal", _TEXT, "who the client is known to be; empty: nobody"),
    "note": _row("note", _TEXT, "open: the client's address; missing rows: how many; else what was done to the frame"),
}

COMMANDS: dict[str, Column] = {
    **PROCESS,
    "time": _exchange("time", _TIME, "when it was asked"),
    "connection": _exchange("connection", _LONG, "its number in the process, from 1"),
    "dialect": _exchange("dialect", _TEXT, "what is spoken"),
    "listener": _exchange("listener", _TEXT, "the listener's name"),
    "peer": _exchange("peer", _TEXT, "the client's address; null: the connection was there before the capture"),
    "principal": _exchange("principal", _TEXT, "who the client is known to be; empty: nobody"),
    "ticket": _exchange("ticket", _LONG, "the request's number in its connection, about"),
    "kind": _exchange("kind", _TEXT, "the command; empty: what was asked is none"),
    "namespace": _exchange("namespace", _TEXT, "what it is about"),
    "topic": _exchange("topic", _TEXT, "likewise"),
    "partition": _exchange("partition", IntegerType(), "likewise, where it is one", "content"),
    "records": _exchange("records", _LONG, "how many were written or read", "content"),
    "runs": _exchange("runs", ArrayType(RUN, containsNull=False), "which those were, if the answer tells", "content"),
    "reader": _exchange("reader", _TEXT, "group:NAME or consumer:NAME", "content"),
    "committed": _exchange("committed", _OFFSETS, "partition -> next offset to read that is stored then", "content"),
    "ends": _exchange("ends", _OFFSETS, "partition -> next offset to be written, at least, if told", "content"),
    "bytes_in": _exchange("bytes_in", _LONG, "of the request; null: it came before the capture"),
    "bytes_out": _exchange("bytes_out", _LONG, "of the answer; null: none"),
    "outcome": _exchange("outcome", _TEXT, "the reply or, in capitals, the fault; null: it was not answered"),
    "latency_us": _exchange("latency", _LONG, "from the request to its answer; null likewise"),
    "failure": _exchange("failure", _TEXT, "the sentence of an answer that says a fault", "content"),
    "details": _exchange("details", _TEXT, "the command as JSON, without secrets and records", "details"),
    "verdict": _exchange("verdict", _TEXT, "PASS, LENIENT, FAIL or INFO: see the job conformance", "verdict"),
    "shape": _exchange("shape", _TEXT, "the command with its choices, without values", "verdict"),
    "why": _exchange("why", _TEXT, "of a verdict that is not PASS", "verdict"),
    "frame": _exchange("frame", BinaryType(), "the bytes of the request"),
    "pushed": _exchange("pushed", BooleanType(), "no request: records for the Follow of that ticket, signs of life"),
    "note": _exchange("note", _TEXT, "what was done to them; missing rows: how many"),
    "missing": _exchange("missing", _TEXT, "gap, torn or damaged: no command, but rows are missing; else null"),
}


def _judged(name: str, kind: DataType, said: str) -> Column:
    return Column(kind, said, attrgetter(f"judged.{name}"))


CASES: dict[str, Column] = {
    **PROCESS,
    "time": _judged("time", _TIME, "when that was first so"),
    "connection": _judged("connection", _LONG, "its number in the process, from 1"),
    "dialect": _judged("dialect", _TEXT, "what is spoken"),
    "listener": _judged("listener", _TEXT, "the listener's name"),
    "peer": _judged("peer", _TEXT, "the client's address; null: the connection was there before the capture"),
    "principal": _judged("principal", _TEXT, "who the client is known to be at last; empty: nobody"),
    "case": _judged("case", _TEXT, "a case of the dialect's clients, by its id"),
    "verdict": _judged("verdict", _TEXT, "PASS, LENIENT, FAIL or INFO"),
    "times": _judged("times", _LONG, "how often it was exercised there with that verdict"),
    "why": _judged("why", _TEXT, "of the example, if it is not PASS"),
    "frame": _judged("frame", BinaryType(), "an example: the shortest request that shows it"),
    "missing": _judged("missing", _TEXT, "gap, torn or damaged: no case, but rows are missing; else null"),
    "note": _judged("note", _TEXT, "how many"),
}

R = TypeVar("R")


def schema_of(columns: Mapping[str, Column]) -> StructType:
    """All of them."""
    return StructType([StructField(name, column.type) for name, column in columns.items()])


def chosen(columns: Mapping[str, Column], schema: StructType) -> dict[str, Column]:
    """Those that a schema names.  Raises ValueError, with a sentence, for others and for other types."""
    for field in schema.fields:
        column = columns.get(field.name)
        if column is None:
            raise ValueError(f"a capture has no column {field.name!r}; it has {', '.join(columns)}")
        if field.dataType.simpleString() != column.type.simpleString():
            raise ValueError(
                f"the column {field.name} is {column.type.simpleString()}, not {field.dataType.simpleString()}"
            )
    return {field.name: columns[field.name] for field in schema.fields}


def batches(rows: Iterator[R], columns: Mapping[str, Column], weigh: Callable[[R], int]) -> Iterator[pa.RecordBatch]:
    """Rows as Arrow batches of these columns.  weigh: bytes of what is long in one."""
    schema = to_arrow_schema(schema_of(columns), timezone="UTC")
    while some := list(_some(rows, weigh)):
        arrays = [
            pa.array([_value(column.read(each)) for each in some], field.type)
            for field, column in zip(schema, columns.values(), strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _value(value: object) -> object:
    """As Arrow takes it."""
    if isinstance(value, dict):
        return list(value.items())
    return [msgspec.structs.asdict(each) for each in value] if isinstance(value, list) else value


def _some(rows: Iterator[R], weigh: Callable[[R], int]) -> Iterator[R]:
    weight = 0
    for row in islice(rows, BATCH):
        yield row
        weight += weigh(row)
        if weight > HEAVY:
            return
