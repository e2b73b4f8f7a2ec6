"""Having a client do what a case asks for: a person is told, or a driver is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Protocol, cast

import msgspec
from twisted.internet.defer import Deferred

from gateway.conformance.cases import Case, Expect
from gateway.conformance.driving import Driver
from gateway.conformance.meanings import filled as written


class Asked(msgspec.Struct, frozen=True):
    """What the client is to do now.

    ask:     for a person.  calls: for a driver.
    address: `host:port` where the kit listens.
    waits:   what the kit waits for first, with something in every blank; see `waits_for`.
    """

    case: Case
    ask: str
    calls: tuple[object, ...]
    address: str
    waits: str


End = Callable[[], "Deferred[None] | None"]
"""What ends whatever a client is doing."""


class Prompt(Protocol):
    """Has the client do something."""

    def begin(self, asked: Asked, remark: Callable[[str], None]) -> End | Deferred[End]:
        """remark: told what the client says of it.  The case begins when the result is there."""


class Guide:
    """Tells a person, who may want to end first what the client still does of the case before."""

    def __init__(self, tell: Callable[[Asked], Deferred[None] | None]) -> None:
        self._tell = tell

    def begin(self, asked: Asked, remark: Callable[[str], None]) -> End | Deferred[End]:
        """See Prompt."""
        ready = self._tell(asked)
        return _nothing if ready is None else ready.addCallback(lambda _: _nothing)


def _nothing() -> None:
    """A person ends what a person has begun."""


class Driving:
    """Tells a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def begin(self, asked: Asked, remark: Callable[[str], None]) -> End:
        """See Prompt."""
        return self._driver.start(asked.address, asked.calls, remark).end


# -- what a case says


def calls_of(case: Case) -> list[dict[str, object]]:
    """What a driver is told, one after the other."""
    if not case.do:
        return []
    then = cast("list[dict[str, object]]", case.do.get("then", []))
    return [{name: value for name, value in case.do.items() if name != "then"}, *then]


def filled(value: object, names: Mapping[str, bytes]) -> object:
    """A call with the case's names in all its texts."""
    match value:
        case str():
            return said(value, names)
        case list():
            return [filled(each, names) for each in value]
        case dict():
            return {key: filled(each, names) for key, each in value.items()}
    return value


def said(text: str, names: Mapping[str, bytes]) -> str:
    """A text with the case's names in it."""
    return re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], found[0].encode()).decode(), text)


def waits_for(case: Case, names: Mapping[str, bytes]) -> str:
    """What is awaited first, with something in every blank: as text if it is one, else in hex."""
    for step in case.steps:
        if isinstance(step, Expect):
            octets = written(step.form, names)
            plain = octets.isascii() and octets.strip().decode().isprintable()
            return octets.decode() if plain else octets.hex(" ")
    return ""
