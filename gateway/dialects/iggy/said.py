"""What a request leaves for its answer, and what the two ends of a connection have agreed on: the generation."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.core.commands import Authenticate
from gateway.dialects.dialect import Request, Settings, Terms
from gateway.dialects.iggy.generations import AFTER_LOGIN, G0, G1A, GENERATIONS, NEWEST, Generation, spoken_by


class Login(msgspec.Struct, frozen=True, gc=False):
    """How somebody logged in.

    version: of the client's library, None = it did not say, as before 0.5 and with a token.
    remark:  what it says beside that.
    token:   it was a token, from which nothing follows.
    """

    version: str | None
    remark: str = ""
    token: bool = False

    @property
    def candidates(self) -> tuple[Generation, ...]:
        """The generations it may speak, the likeliest first."""
        if self.token:
            return AFTER_LOGIN
        return (G1A,) if self.version is None else spoken_by(self.version)


class Narrowed(msgspec.Struct, frozen=True, gc=False):
    """A request that only some of the generations in question could have sent; it is read as the first of them."""

    candidates: tuple[Generation, ...]


class IggySettings(Settings, frozen=True, kw_only=True):
    """`max_frame` counts the length field.

    generation: what all clients of the listener speak; `auto` = as each says in its login, G0 without one.  Of our own
                client: what it speaks to the server; `auto` = the newest we have, which is what it says in its login,
                and G0 as long as it has not logged in.  G0 itself has no login.
    poll_bytes: of records in one answer to POLL.
    """

    generation: Literal["auto", "g0", "g1a", "g1b_texts", "g1b", "g2a", "g2b", "g2c"] = "auto"
    poll_bytes: Annotated[int, Meta(ge=1, le=64 << 20)] = 8 << 20


class IggyTerms(Terms):
    """candidates: the generations that the peer may speak, the likeliest first; one, but after a login that says none.
    fixed: they are the operator's word, which no login changes.
    """

    def begin(self, settings: Settings) -> None:
        """See Terms."""
        assert isinstance(settings, IggySettings), "an Iggy listener has IggySettings"
        self.poll_bytes = settings.poll_bytes
        self.fixed = settings.generation != "auto"
        self.candidates: tuple[Generation, ...] = (GENERATIONS[settings.generation] if self.fixed else G0,)

    def heard(self, context: object) -> None:
        """What a request says of who sent it."""
        if isinstance(context, Narrowed | Login) and not self.fixed:
            self.candidates = context.candidates

    def agree(self, generation: Generation) -> None:
        """Our client has logged in as one that speaks this."""
        if not self.fixed:
            self.candidates = (generation,)

    def goes_with(self, setting: str) -> object:
        """See Terms."""
        if setting != "generation":
            return super().goes_with(setting)
        return None if self.open or len(self.candidates) > 1 else self.candidates[0].name

    @property
    def open(self) -> bool:
        """Nobody has logged in, nor did the operator say what is spoken."""
        return not self.fixed and self.candidates == (G0,)


def generation_of(context: object, terms: Terms) -> Generation:
    """The generation in which a request was said, or is to be."""
    if isinstance(context, Generation):
        return context
    assert isinstance(terms, IggyTerms), "an Iggy connection has IggyTerms"
    if isinstance(context, Narrowed | Login) and not terms.fixed:
        return context.candidates[0]
    return terms.candidates[0]


def asked_in(request: Request, terms: Terms) -> Generation:
    """The generation in which our client asks: what was agreed on, but it logs in as one that speaks the newest."""
    assert isinstance(terms, IggyTerms), "an Iggy connection has IggyTerms"
    if isinstance(request.command, Authenticate) and request.context is None and terms.open:
        return NEWEST
    return generation_of(request.context, terms)
