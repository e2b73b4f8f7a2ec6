"""Operations on nothing that is stored: AUTH, PING and the end of a subscription; and the table of all operations."""

from __future__ import annotations

from collections.abc import Callable

from gateway.core.commands import (
    Authenticate,
    Command,
    Fetch,
    Follow,
    IfCount,
    LatestOffsets,
    MapAdd,
    MapClear,
    MapGet,
    MapPut,
    MapRemove,
    MapScan,
    MapSize,
    Peek,
    Ping,
    Publish,
    QueueClear,
    QueueSize,
    Take,
)
from gateway.core.faults import CommandFailed, Fault
from gateway.dialects.grid import answers
from gateway.dialects.grid.atoms import COUNTERS, LOCKS, SETS, opcode_of_count, opcode_of_remove
from gateway.dialects.grid.layout import Frame
from gateway.dialects.grid.maps import MAPS, opcode_of_put, opcode_of_scan, write_nothing
from gateway.dialects.grid.messages import QUEUES, TOPICS
from gateway.dialects.grid.operation import Operation, Parts, malformed, sure, topic_of, unsupported
from gateway.dialects.grid.terms import Asked, GridTerms

UNSUBSCRIBE = "TOPIC_UNSUBSCRIBE"


def _read_auth(frame: Frame, terms: GridTerms) -> Command:
    """key: the user; value: roles or a secret, UTF-8."""
    try:
        return Authenticate("plain", frame.key.decode(), frame.value.decode())
    except UnicodeDecodeError as error:
        raise malformed("a user or a secret that is not UTF-8") from error


def _write_auth(command: Command, asked: Asked, terms: GridTerms) -> Parts:
    said = sure(command, Authenticate)
    if said.mechanism != "plain":
        raise unsupported(f"the mechanism {said.mechanism}")
    try:
        return Parts(said.principal.encode(), said.secret.encode())
    except UnicodeEncodeError as error:
        raise CommandFailed(Fault.UNREPRESENTABLE, "a user or a secret that is not Unicode") from error


def _read_ping(frame: Frame, terms: GridTerms) -> Command:
    return Ping()


def _write_ping(command: Command, asked: Asked, terms: GridTerms) -> Parts:
    return Parts(value=asked.octets)


def _read_unsubscribe(frame: Frame, terms: GridTerms) -> Command:
    """The session knows what it is about."""
    topic_of(frame, terms)
    return Ping()


OPERATIONS: dict[str, Operation] = {
    **MAPS,
    **QUEUES,
    **TOPICS,
    **SETS,
    **COUNTERS,
    **LOCKS,
    "AUTH": Operation(_read_auth, _write_auth, answers.AUTHENTICATED),
    "PING": Operation(_read_ping, _write_ping, answers.DONE),
    UNSUBSCRIBE: Operation(_read_unsubscribe, write_nothing, answers.DONE),
}
"""Name -> operation."""

_ASKING: dict[type[Command], str] = {
    Authenticate: "AUTH",
    Ping: "PING",
    MapGet: "MAP_GET",
    MapSize: "MAP_SIZE",
    MapClear: "MAP_CLEAR",
    MapAdd: "COUNTER_ADD",
    Publish: "TOPIC_PUBLISH",
    Fetch: "TOPIC_POLL",
    Follow: "TOPIC_SUBSCRIBE",
    LatestOffsets: "TOPIC_SUBSCRIBE",
    Take: "QUEUE_POLL",
    Peek: "QUEUE_PEEK",
    QueueSize: "QUEUE_SIZE",
    QueueClear: "QUEUE_CLEAR",
}


def _put(put: MapPut, terms: GridTerms) -> str:
    return opcode_of_count(put) if isinstance(put.only, IfCount) else opcode_of_put(put, terms)


def _remove(remove: MapRemove, terms: GridTerms) -> str:
    return opcode_of_remove(remove)


def _scan(scan: MapScan, terms: GridTerms) -> str:
    return opcode_of_scan(scan)


_CHOOSING: dict[type[Command], Callable[..., str]] = {MapPut: _put, MapRemove: _remove, MapScan: _scan}
"""Kinds that several operations ask for, and what tells which does."""

KINDS: frozenset[type[Command]] = frozenset({*_ASKING, *_CHOOSING})
"""Kinds of commands that our client can ask for."""


def opcode_of(command: Command, terms: GridTerms) -> str:
    """The name of the operation by which our client asks for a command.

    Raises CommandFailed: UNSUPPORTED, UNREPRESENTABLE for a time below 0.
    """
    kind = type(command)
    if kind in _CHOOSING:
        return _CHOOSING[kind](command, terms)
    if kind not in _ASKING:
        raise unsupported(kind.__name__)
    return _ASKING[kind]
