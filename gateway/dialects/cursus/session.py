"""The server's half of a Cursus connection: what is negotiated holds for what comes after it."""

from __future__ import annotations

from gateway.core.replies import Done
from gateway.dialects.cursus.negotiation import STRUCTURED_ERRORS
from gateway.dialects.cursus.terms import CursusTerms, Negotiation
from gateway.dialects.dialect import Request
from gateway.dialects.session import Call, Listener, ServerSession


class CursusSession(ServerSession):
    """Answers NEGOTIATE itself.

    The terms change as soon as it is read, and every request remembers the terms it was read under: so requests behind
    it in one chunk are under the new ones and requests before it under the old, whenever their answers are written.
    """

    def calls(self, request: Request) -> list[Call]:
        """See ServerSession."""
        if not isinstance(request.context, Negotiation):
            return super().calls(request)
        assert isinstance(self.terms, CursusTerms), "a Cursus listener has CursusTerms"
        self.answer(Call(self._ticket(), request), Done())
        self.terms.structured_errors = STRUCTURED_ERRORS in request.context.enabled
        return []


class CursusListener(Listener):
    """Its connections are CursusSessions."""

    def session(self, address: str = "127.0.0.1:0") -> CursusSession:
        """See Listener."""
        return CursusSession(self, self.terms(address))
