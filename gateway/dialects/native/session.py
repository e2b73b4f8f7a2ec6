"""What a native connection remembers: which record encodings the other end reads."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gateway.core.commands import Ping, Publish
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import CANONICAL
from gateway.core.replies import Done
from gateway.dialects.dialect import Refusal, Request, Settings, Terms
from gateway.dialects.session import Call, Listener, ServerSession

VERSION = 1
"""Of the command model: counted up when a command, a reply or a field of one changes."""


class Hello(msgspec.Struct, frozen=True):
    """The context of a request that is a greeting, and of nothing else."""

    version: int
    encodings: tuple[str, ...]


class NativeTerms(Terms):
    """reads: names of the encodings that the other end reads; the canonical one is always among them."""

    def begin(self, settings: Settings) -> None:
        """See Terms."""
        self.reads = frozenset({CANONICAL.name})

    def agree(self, encodings: Iterable[str]) -> None:
        """The other end has said what it reads."""
        self.reads = frozenset({CANONICAL.name, *encodings} & self.encodings.keys())


def hello(terms: Terms) -> Request:
    """The greeting of a client, to be asked before anything else.

    Its outcome is Done, and `terms` then know what the server reads; or CommandFailed(UNSUPPORTED) if it speaks another
    version of the model.
    """
    return Request(Ping(), 0, Hello(VERSION, tuple(sorted(terms.encodings))))


class NativeListener(Listener):
    """Nothing is shared; sessions and terms are the native ones."""

    def session(self, address: str = "127.0.0.1:0") -> ServerSession:
        """The server's half of a new connection."""
        return NativeSession(self, self.terms(address))


class NativeSession(ServerSession):
    """Answers a hello itself, and notes of records of which their writer does not say another that they are native."""

    _asked = False

    def calls(self, request: Request) -> list[Call]:
        """What a request asks of the backend: a hello nothing."""
        if not isinstance(request.context, Hello):
            self._asked = True
            return super().calls(_signed(request))
        if self._asked:
            self.refuse(Refusal(CommandFailed(Fault.MALFORMED, "a hello comes before everything else"), request.tag))
            return []
        assert isinstance(self.terms, NativeTerms)
        self._asked = True
        self.terms.agree(request.context.encodings)
        self.answer(Call(self._ticket(), request), Done())
        return []

    def ended(self, call: Call, failure: CommandFailed) -> None:
        """A Follow goes no further: that is said, and the connection lives."""
        self.answer(call, failure)


def _signed(request: Request) -> Request:
    command = request.command
    if not isinstance(command, Publish) or command.batch.origin:
        return request
    batch = msgspec.structs.replace(command.batch, origin="native")
    return Request(msgspec.structs.replace(command, batch=batch), request.tag, request.context)
