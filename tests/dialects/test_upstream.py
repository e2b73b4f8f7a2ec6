"""What each dialect declares of its servers: every command arrives as it was asked, but for what is declared."""

from __future__ import annotations

import typing

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import Phase, assume, given, settings

from backends.test_contract import by_connection, commands
from dialects.upstream_commands import usual
from gateway.conformance import vectors
from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import registry
from gateway.dialects import Dialect, Refusal, Request, load, names
from gateway.dialects.upstream import Upstream

KINDS = frozenset(typing.get_args(q.Command))
REFUSED = {Fault.UNSUPPORTED, Fault.UNREPRESENTABLE, Fault.TOO_LARGE, Fault.EMPTY_BATCH, Fault.INVALID_NAME}
REFUSED |= {Fault.INVALID_ARGUMENT, Fault.INVALID_OFFSET}


def upstream_of(name: str) -> tuple[Dialect, Upstream]:
    dialect = load(name)
    assert dialect.upstream is not None, f"{name} declares no upstream"
    return dialect, dialect.upstream


def arrived(dialect: Dialect, command: q.Command, **said: str) -> q.Command | CommandFailed:
    """What the server understands, or why it was not asked.  said: settings of both."""
    encodings = registry(dialect.encodings)
    ours, theirs = (dialect.open(dialect.settings(**said), encodings).terms("127.0.0.1:1") for _ in "12")
    try:
        frame = dialect.encode_request(Request(command, 1), ours)
    except CommandFailed as failure:
        return failure
    assert dialect.measure_request(frame, 0, 0) == len(frame)
    request = dialect.decode_request(frame, theirs)
    assert not isinstance(request, Refusal), (command, frame, request)
    return request.command


def changed(asked: q.Command, heard: q.Command, declared: typing.Container[str]) -> list[str]:
    """Fields that arrived as something else, and are not declared."""
    assert type(asked) is type(heard), (asked, heard)
    return [
        field
        for field in asked.__struct_fields__
        if field not in declared and not alike(getattr(asked, field), getattr(heard, field))
    ]


def alike(asked: object, heard: object) -> bool:
    """Batches by their records' values: what else of a record is lost, the dialect's fidelity says."""
    if field_of_batch(asked) is not None:
        return field_of_batch(asked) == field_of_batch(heard)
    return asked == heard


def whole(command: q.Command) -> bool:
    """Whether its batch is one: drawn headers may be shorter than their kind, which no dialect lets in."""
    if isinstance(command, q.Publish):
        try:
            command.batch.encoding.walk(command.batch.body)
        except CommandFailed:
            return False
    return True


def field_of_batch(value: object) -> list[bytes] | None:
    records = getattr(value, "records", None)
    return None if records is None else [record.value or b"" for record in records()]


@pytest.mark.parametrize("name", names())
@given(command=commands | by_connection | usual)
@settings(max_examples=600)
def test_a_command_arrives_as_it_was_asked_or_as_declared(name: str, command: q.Command) -> None:
    assume(whole(command))
    dialect, upstream = upstream_of(name)
    heard = arrived(dialect, command)
    if isinstance(heard, CommandFailed):
        assert heard.fault in REFUSED
        return
    assert type(command) in upstream.commands
    assert changed(command, heard, upstream.unsaid.get(type(command), {})) == []


def can_be_said(dialect: Dialect, case: vectors.Case, command: q.Command) -> bool:
    """By itself, with nothing of the dialect's own beside it, which is how a proxy asks."""
    terms = dialect.open(msgspec.convert(case.settings, dialect.settings), registry(dialect.encodings)).terms("")
    try:
        return bool(dialect.encode_request(Request(command, 1), terms))
    except CommandFailed:
        return False


@pytest.mark.parametrize("name", names())
def test_every_kind_that_is_declared_can_be_said(name: str) -> None:
    """By some command of the dialect's own cases, in the client's role."""
    dialect, upstream = upstream_of(name)
    encodings = registry(dialect.encodings)
    asked = {
        type(command)
        for case in vectors.load(name)
        if "client" in case.roles and case.refusal is None
        for command in case.commands(encodings)
        if can_be_said(dialect, case, command)
    }
    assert asked - upstream.commands == set()
    assert upstream.commands - asked == set()


@pytest.mark.parametrize("name", names())
def test_what_is_declared_names_kinds_and_fields_that_there_are(name: str) -> None:
    _, upstream = upstream_of(name)
    assert upstream.commands <= KINDS
    for said in (upstream.refused, upstream.unsaid, upstream.unheard):
        assert set(said) <= upstream.commands
    assert upstream.waits <= upstream.commands
    for kind, fields in upstream.unsaid.items():
        assert set(fields) <= set(kind.__struct_fields__)
        assert all(fields.values())


@pytest.mark.parametrize("name", names())
def test_a_wait_that_arrives_is_declared_and_no_other(name: str) -> None:
    _, upstream = upstream_of(name)
    for kind in upstream.commands & {q.Fetch, q.Take}:
        assert ("wait" in upstream.unsaid.get(kind, {})) is (kind not in upstream.waits)


def test_usual_commands_are_of_every_kind() -> None:
    found: set[type] = set()

    @given(st.lists(usual, min_size=30, max_size=30))
    @settings(max_examples=100, database=None, phases=(Phase.generate,))
    def look(drawn: list[q.Command]) -> None:
        found.update(map(type, drawn))

    look()
    assert KINDS - found == set()
