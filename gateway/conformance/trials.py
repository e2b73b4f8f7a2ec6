"""One damaged request and what a server makes of it, without a socket and without a clock.

What has to hold: every whole frame is answered, what is no request with a failure; where it is known where the next
frame begins the connection lives, and a probe behind it gets its own answer; where it is not, and nothing more comes,
the server hangs up.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from gateway.conformance.comparing import Unlike, compare
from gateway.conformance.grammars import Grammar, filled
from gateway.conformance.patterns import pattern
from gateway.core.commands import Acks, Authenticate, Follow, Publish
from gateway.core.faults import CommandFailed
from gateway.dialects import Refusal, Request

PATIENCE = 2.0
"""Seconds for all of it."""

LONGEST = 64 << 20
"""Bytes of the longest answer that is believed in."""

Kind = Literal["silence", "hung up", "not refused", "unreadable", "not asked", "probe", "no login", "gone"]


class Failure(msgspec.Struct, frozen=True):
    """What a server must not do.

    about: what was asked, as far as that was known.
    got:   the answer, if it is about one.  at: its byte from which on it is another one, -1 = none in particular.
    """

    kind: Kind
    why: str
    about: str = ""
    got: bytes = b""
    at: int = -1


class Asked(msgspec.Struct):
    """One frame.  refused: it is no request, says the specification."""

    octets: bytes
    said: Request | Refusal
    refused: bool

    @property
    def about(self) -> str:
        """For people."""
        return type(self.said.command).__name__ if isinstance(self.said, Request) else self.said.failure.fault.name

    @property
    def ends(self) -> bool:
        """The connection may end with it."""
        return isinstance(self.said, Refusal) and self.said.closing

    @property
    def follows(self) -> bool:
        """From here on the server says what it likes."""
        return isinstance(self.said, Request) and isinstance(self.said.command, Follow)

    @property
    def waits(self) -> bool:
        """The answer may take its time: there may be nothing to say yet, or logins are slowed down."""
        command = self.said.command if isinstance(self.said, Request) else None
        return isinstance(command, Authenticate | Follow) or getattr(command, "wait", 0) > 0

    @property
    def spared(self) -> bool:
        """There need be no answer."""
        command = self.said.command if isinstance(self.said, Request) else None
        return self.ends or (isinstance(command, Publish) and command.acks is Acks.NONE)


class Trial:
    """What is sent, and what comes of it.

    octets:  a request, maybe damaged.  names: what the probe is filled with.
    to_send: what leaves next, if anything.  finishing: nothing is sent behind it.
    whole:   it is known where the next frame begins.
    frames:  what the request is, frame by frame; a part of one at the end is one of them.
    over:    it is known what came of it.  failure: None = it is right.
    """

    def __init__(self, grammar: Grammar, octets: bytes, names: dict[str, bytes]) -> None:
        self.octets = octets
        self.failure: Failure | None = None
        self.over = False
        self.whole = True
        self.finishing = False
        self.to_send = b""
        self.frames: list[Asked] = []
        self._grammar = grammar
        self._dialect = grammar.dialect
        self._names = names
        self._terms = grammar.terms()
        self._greeting = grammar.greeting(self._terms)
        self._welcomed = self._greeting is not None
        self._held = bytearray()
        self._due: list[Asked] = []
        self._probed = self._following = self._ended = False
        if self._greeting is None:
            self._ask()
        else:
            self.to_send = self._greeting[1]

    def _ask(self) -> None:
        frames, rest = self._grammar.framed(self.octets)
        self.frames = self._read([*frames, rest] if rest else frames)
        self._due = list(self.frames)
        self.whole, self.finishing = not rest, bool(rest)
        self.to_send = self.octets + (b"" if rest else filled(self._grammar.probe.ask, self._names))

    def _read(self, frames: list[bytes]) -> list[Asked]:
        """What one frame agrees on may hold for the next, of which the specification knows nothing."""
        found: list[Asked] = []
        for frame in map(self._grammar.at_its_end, frames):
            said = self._dialect.decode_request(frame, self._terms)
            refused = self._grammar.refuses(frame, said, self._terms) if not found else isinstance(said, Refusal)
            found.append(Asked(frame, said, refused))
            self._grammar.heard(said, self._terms)
        return found

    @property
    def _foreign(self) -> bool:
        """The first bytes of a connection are those of another protocol that is known."""
        return self._grammar.foreign(self.octets) and not self._welcomed

    def skip_greeting(self) -> None:
        """As if a login had been answered: for who only wants to know what is asked."""
        self._terms, self._greeting = self._grammar.greeted(), None
        self._ask()

    @property
    def waits(self) -> bool:
        """What is not answered may take its time."""
        return any(asked.waits for asked in self._due)

    # -- what happens

    def received(self, octets: bytes) -> None:
        """The server said something."""
        self._held += octets
        while not self.over and self._held:
            size = self._dialect.measure_reply(self._held, 0, 0)
            if size > LONGEST:
                return self._fail("unreadable", f"an answer of {size} bytes", bytes(self._held))
            if not size or len(self._held) < size:
                return None
            frame = bytes(self._held[:size])
            del self._held[:size]
            self._heard(frame)
        if self.over and self._held and self.failure is None and not self._following:
            self._fail("not asked", f"{len(self._held)} bytes came behind the last answer", bytes(self._held))
        return None

    def ended(self) -> None:
        """The server hung up."""
        if self.over:
            return
        ending = next((at for at, asked in enumerate(self._due) if asked.ends), None)
        if self._greeting is not None:
            self._fail("no login", "it hung up on a login")
        elif not self.whole or self._ended or self._foreign:
            self.over = True
        elif ending is None:
            self._fail("hung up", "it hung up, though it is known where the next frame begins")
        elif any(not asked.spared and not asked.waits for asked in self._due[:ending]):
            self._fail("hung up", "it hung up before it had answered")
        else:
            self.over = True

    def late(self) -> None:
        """No more time is given to it."""
        if self.over:
            return
        if self._greeting is not None:
            self._fail("no login", "a login was not answered")
        elif self.waits:
            self.over = True
        elif self.whole:
            first = next((asked for asked in self._due if not asked.spared), None)
            self._fail(
                "silence", f"no answer to {'the request' if first else 'the probe behind it'}", bytes(self._held)
            )
        else:
            self._fail("silence", "neither more came nor was it hung up on", bytes(self._held))

    # -- answers

    def _heard(self, frame: bytes) -> None:
        if self._greeting is not None:
            self._logged_in(frame)
        elif self._dialect.reply_tag is not None:
            self._tagged(frame, self._dialect.reply_tag(frame))
        else:
            self._in_turn(frame)
        if not self.over and self._probed and all(asked.spared or asked.waits for asked in self._due):
            self.over = True

    def _logged_in(self, frame: bytes) -> None:
        assert self._greeting is not None, "there was one"
        outcome = self._dialect.decode_reply(self._greeting[0], frame, self._terms)
        if isinstance(outcome, CommandFailed):
            self._fail("no login", str(outcome), frame)
        else:
            self._greeting = None
            self._ask()

    def _in_turn(self, frame: bytes) -> None:
        while self._due:
            asked = self._due[0]
            if asked.spared and self._unlike_probe(frame) is None:
                del self._due[0]
                continue
            wrong = self._wrong(asked, frame)
            if wrong is None:
                return self._answered(asked)
            return self._refute(wrong)
        return self._probe(frame)

    def _tagged(self, frame: bytes, tag: object) -> None:
        probe = self._grammar.probe.tag
        wrong: Failure | None = None
        named = [asked for asked in self._due if asked.said.tag == tag]
        for asked in sorted(named, key=lambda asked: not asked.refused):  # which a failure is more likely of
            wrong = self._wrong(asked, frame)
            if wrong is None:
                return self._answered(asked)
        if wrong is not None:
            return self._refute(wrong)
        if tag == probe:
            return self._probe(frame)
        return self._fail("not asked", f"an answer to {tag}, which nobody asked", frame)

    def _answered(self, asked: Asked) -> None:
        self._due.remove(asked)
        self._ended = self._ended or asked.ends
        if asked.follows:
            self.over = self._following = True

    def _probe(self, frame: bytes) -> None:
        unlike = self._unlike_probe(frame)
        if not self.whole:
            self._fail("not asked", "an answer to what is not whole", frame)
        elif self._probed:
            self._fail("not asked", "a second answer to the probe", frame)
        elif unlike is not None:
            self._fail(
                "probe", f"the probe behind it was answered otherwise: {unlike.wanted} was wanted", frame, unlike.at
            )
        self._probed = True

    def _unlike_probe(self, frame: bytes) -> Unlike | None:
        found = compare(pattern(self._grammar.probe.answer), frame, self._names)
        return found if isinstance(found, Unlike) else None

    def _wrong(self, asked: Asked, frame: bytes) -> Failure | None:
        """What is wrong with an answer to that."""
        if asked.follows:
            return None
        said = asked.said if isinstance(asked.said, Request) else self._stand_in(asked.said)
        try:
            outcome = self._dialect.decode_reply(said, frame, self._terms)
        except CommandFailed as failure:
            return Failure("unreadable", f"it is no answer to that: {failure.detail}", asked.about, frame, 0)
        except KeyError:  # of a refusal nobody knows what its success would be
            return Failure("not refused", "what is no request was answered as if it were one", asked.about, frame, 0)
        if asked.refused and not isinstance(outcome, CommandFailed):
            return Failure("not refused", "what is no request was answered as if it were one", asked.about, frame, 0)
        return None

    def _stand_in(self, refusal: Refusal) -> Request:
        """A request that could have had this tag, and whose answer is a failure in the same words."""
        ask = filled(self._grammar.probe.ask, self._names)
        probe = self._dialect.decode_request(ask, self._grammar.terms())
        assert isinstance(probe, Request), "a probe is a request"
        return Request(probe.command, refusal.tag, refusal.context)

    def _refute(self, failure: Failure) -> None:
        self.failure, self.over = failure, True

    def _fail(self, kind: Kind, why: str, got: bytes = b"", at: int = -1) -> None:
        about = self._due[0].about if self._due else self.frames[-1].about if self.frames else ""
        self._refute(Failure(kind, why, about, got, at))
