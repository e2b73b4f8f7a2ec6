"""What the cases of clients look like in captured traffic: requests on one connection, each with the answer it needs.

Compiled once for all connections of a listener.  Left out is what no capture can show on one connection: a case that
needs several of them, that the server hangs up, or that a request stays without an answer though more is to come; and
one that is like another to the byte, and differs only in what a person or a driver is asked for.
"""

from __future__ import annotations

import msgspec

from gateway.conformance.cases import LOGIN, Case, Expect, Pause, Send, Silence, load
from gateway.conformance.comparing import Reader, reading
from gateway.conformance.meanings import filled
from gateway.conformance.patterns import Octets, Pattern, Span, blanks_of
from gateway.core.commands import Command
from gateway.dialects import Dialect, Listener, Request, Terms

ADDRESS = "127.0.0.1:0"


class Turn(msgspec.Struct, frozen=True):
    """A request that is awaited, and what it is answered.

    read, lenient: a frame -> what it says for the names, see gateway.conformance.patterns.reading.
    chosen: it has blanks, which a client fills anew: two requests that are the same to the byte are one, said twice.
    answer: None = the case gives none.  told: reads a captured one.
    """

    expect: Expect
    read: Reader
    lenient: tuple[Reader, ...]
    chosen: bool
    answer: Pattern | None = None
    told: Reader | None = None


class Script(msgspec.Struct, frozen=True):
    """One case.

    silence:   what it ends with.
    terms:     those that its forms are read by.
    stand_ins: a text for each of its own names, as long as one of a run.
    texts:     these, as text and as octets, and whose they are.
    wanted:    its first request under these names, and without any.
    plain:     what it says under them, None = our decoder knows no such command.
    """

    case: Case
    turns: tuple[Turn, ...]
    silence: Silence | None
    terms: Terms
    stand_ins: dict[str, bytes]
    texts: dict[object, str]
    wanted: tuple[bytes, bytes]
    plain: Command | None

    def fits(self, terms: Terms) -> bool | None:
        """Whether it is for a client on these terms; None = that is not known yet."""
        needs = {name: wanted for name, wanted in self.case.needs.items() if name != LOGIN}
        known = {name: terms.goes_with(name) for name in needs}
        if any(value is not None and value != needs[name] for name, value in known.items()):
            return False
        return None if None in known.values() else True


def scripts(listener: Listener) -> tuple[Script, ...]:
    """Of the dialect's cases those that a capture can show.  Raises BadCase."""
    cases = [case for case in load(listener.dialect.name) if case.role == "client"]
    unlike: dict[bytes, Case] = {}
    for case in cases:
        unlike.setdefault(msgspec.json.encode((case.steps, case.needs, case.aside)), case)
    return tuple(script for case in unlike.values() if (script := _script(case, listener)) is not None)


def _script(case: Case, listener: Listener) -> Script | None:
    turns, silence = _turns(case), None
    if isinstance(case.steps[-1], Silence):
        silence = case.steps[-1]
    if not turns or any(turn.answer is None for turn in turns[:-1]) or (silence and turns[-1].answer is None):
        return None
    dialect = listener.dialect
    settings = msgspec.structs.replace(listener.settings, **case.settings)
    terms = dialect.open(settings, listener.encodings).terms(ADDRESS)
    stand_ins = {name: text.replace("?", "k").encode() for name, text in case.names.items()}
    form = turns[0].expect.form
    wanted = filled(form, stand_ins), filled(form, dict.fromkeys(stand_ins, b""))
    texts: dict[object, str] = {said: name for name, text in stand_ins.items() for said in (text, text.decode())}
    return Script(case, tuple(turns), silence, terms, stand_ins, texts, wanted, _plain(dialect, wanted[0], terms))


def _plain(dialect: Dialect, frame: bytes, terms: Terms) -> Command | None:
    request = dialect.decode_request(frame, terms)
    return request.command if isinstance(request, Request) else None


def _turns(case: Case) -> list[Turn]:
    """None at all of a case that cannot be captured."""
    if len({step.on for step in case.steps}) > 1 or any(isinstance(step, Silence) for step in case.steps[:-1]):
        return []
    turns: list[Turn] = []
    blanks: dict[str, Octets | Span] = {}
    for step in case.steps:
        match step:
            case Expect():
                turns.append(_awaited(step, blanks))
                blanks |= blanks_of(step.form)
            case Send(form=form):
                if not turns:
                    return []
                _answer(turns, form, blanks)
                blanks |= blanks_of(form)
            case Silence() | Pause():
                pass
            case _:
                return []
    return turns


def _awaited(step: Expect, blanks: dict[str, Octets | Span]) -> Turn:
    readers = tuple(reading(form, blanks) for form in (step.form, *step.lenient))
    return Turn(step, readers[0], readers[1:], chosen=bool(blanks_of(step.form)))


def _answer(turns: list[Turn], form: Pattern, blanks: dict[str, Octets | Span]) -> None:
    """It is that of the oldest request without one; where all have theirs, more of the last."""
    at = next((at for at, turn in enumerate(turns) if turn.answer is None), len(turns) - 1)
    whole = (*(turns[at].answer or ()), *form)
    turns[at] = msgspec.structs.replace(turns[at], answer=whole, told=reading(whole, blanks))
