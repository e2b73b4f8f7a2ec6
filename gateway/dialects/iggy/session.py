"""The server's half of an Iggy connection: which generation its peer speaks, and who cannot be served at all."""

from __future__ import annotations

from gateway.dialects.dialect import Request
from gateway.dialects.iggy.generations import G0, Generation
from gateway.dialects.iggy.said import IggyTerms
from gateway.dialects.session import Call, Listener, ServerSession

NO_LENGTH = bytes(4)
"""How a frame of Iggy 0.11 begins, whose first 48 bytes are zero; a length that counts a code is at least 4."""

VSR = "a client of Iggy 0.11 or later, whose frames of 256-byte headers (VSR) are not spoken here; 0.10 is the newest"


class IggyListener(Listener):
    """Its connections are IggySessions; they share nothing."""

    def session(self, address: str = "127.0.0.1:0") -> IggySession:
        """See Listener."""
        terms = self.terms(address)
        assert isinstance(terms, IggyTerms), "an Iggy listener has IggyTerms"
        return IggySession(self, terms)


class IggySession(ServerSession):
    """Learns from what is asked which generation the peer speaks, and hangs up on one that is none of ours."""

    def __init__(self, listener: IggyListener, terms: IggyTerms) -> None:
        super().__init__(listener, terms)
        self._iggy = terms
        self._new = True

    def calls(self, request: Request) -> list[Call]:
        """See ServerSession."""
        if type(request.context) is not Generation:
            self._iggy.heard(request.context)
        return [Call(self._ticket(), request)]

    def stranger(self) -> str:
        """See ServerSession."""
        if self._iggy.candidates == (G0,):
            return "it speaks Iggy as it was before 0.0.20 (g0), which has no login, or has not logged in yet"
        return super().stranger()

    def _calls(self, frames: list[bytes]) -> list[Call]:
        if self._new and frames:
            self._new = False
            if frames[0] == NO_LENGTH:
                self.tell(VSR)
                self.close(VSR)
                return []
        return super()._calls(frames)
