"""Which cases a captured request may be the first one of: found quickly, since most requests are of none, or of many.

Scripts that begin in the same way are read together, only those are looked at that are for such a command and for such
a client, and what came of a short request is kept, since many are said again and again.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec

from gateway.conformance.attempts import SAME, Asked, explained, read
from gateway.conformance.cases import LOGIN
from gateway.conformance.likening import bound
from gateway.conformance.scripts import Script
from gateway.dialects import Request, Terms

SHORT = 512
"""Bytes of a request, or of an answer, of which is kept what came of it."""

KEPT = 4096
"""Of each, at most."""


class Opening(msgspec.Struct, frozen=True):
    """A request that some scripts begin with; they have equal names and terms, too."""

    scripts: tuple[Script, ...]

    @property
    def first(self) -> Script:
        """As good as any."""
        return self.scripts[0]


Begun = tuple[Opening, dict[str, bytes], str]
"""What may begin, what is said for its names, and why it is not quite as the form has it, "" = it is."""


class Openings:
    """Those of all scripts of a listener."""

    def __init__(self, scripts: Sequence[Script]) -> None:
        self.scripts = tuple(scripts)
        self._needed = sorted({name for script in scripts for name in script.case.needs} - {LOGIN})
        groups: dict[Hashable, list[Script]] = {}
        for script in scripts:
            expect, case = script.turns[0].expect, script.case
            alike = msgspec.json.encode((expect.form, expect.lenient, case.needs, case.names))
            groups.setdefault(alike, []).append(script)
        self._all = [Opening(tuple(group)) for group in groups.values()]
        self._some: dict[Hashable, list[Opening]] = {}
        self._kept: dict[Hashable, list[Begun]] = {}

    def of(self, asked: Asked) -> list[Begun]:
        """What may begin with it."""
        known = tuple(asked.terms.goes_with(name) for name in self._needed)
        if len(asked.frame) > SHORT:
            return self._begun(asked, known)
        key = asked.frame, known
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            found = self._kept[key] = self._begun(asked, known)
        return found

    def _begun(self, asked: Asked, known: Hashable) -> list[Begun]:
        command = type(asked.request.command) if isinstance(asked.request, Request) else None
        some = self._some.get((command, known))
        if some is None:
            some = self._some[command, known] = [each for each in self._all if _may(each.first, command, asked.terms)]
        return [begun for opening in some if (begun := _read(opening, asked)) is not None]


def _may(script: Script, command: type | None, terms: Terms) -> bool:
    """Whether it begins with such a command, as far as we can read what it begins with."""
    return script.fits(terms) is not False and (script.plain is None or type(script.plain) is command)


def _read(opening: Opening, asked: Asked) -> Begun | None:
    script = opening.first
    turn = script.turns[0]
    if (found := turn.read(asked.frame)) is not None:
        return opening, found, ""
    said = read(turn, asked)
    if said is None and script.plain is not None and isinstance(asked.request, Request):
        names = bound(script.plain, asked.request.command, script.texts)
        said = None if names is None else (names, SAME)
    if said is None:
        return None
    names, lenient = said
    return opening, names, explained(turn, asked, {**script.stand_ins, **names}, lenient)
