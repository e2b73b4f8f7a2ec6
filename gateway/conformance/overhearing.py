"""A captured connection judged by the cases of clients: what was said, and what it was answered, beside their scripts.

Nobody knows what the client of a capture was asked for.  So a case is exercised only where all its requests are there
in their order, under any names, each with an answer like the script's; and nothing is held against a client that it
may have been told to do:

    PASS      every request is as the form has it
    LENIENT   one says the same in other bytes, see gateway.conformance.meanings
    FAIL      a request is the next one in everything but what a client itself has to keep from the one before;
              or one is said again, to the byte, where the case wants silence;
              or it is none of its dialect, and like no other case's as much as like this one's

An answer is like the script's if it is so to the byte; or if it says the same kind of reply, or the same fault, and
what differs in it does not come again in the requests behind it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from gateway.conformance.attempts import SAME, Asked, Attempt, Finding, explained, failed, read
from gateway.conformance.hearings import ALIKE
from gateway.conformance.likening import ESSENTIAL, leaves, parted
from gateway.conformance.meanings import filled, likeness, same_meaning
from gateway.conformance.openings import KEPT, SHORT, Openings
from gateway.conformance.scripts import Script, Turn
from gateway.core.commands import Ping
from gateway.core.faults import CommandFailed
from gateway.core.replies import Outcome
from gateway.dialects import Dialect, Refusal, Request, Terms

LONGEST = 2048
"""Bytes of a broken request that is compared with those of cases, which takes the square of them."""

MOST_BROKEN = 100
"""Of them, in one connection."""


class Overhearing:
    """One connection.  whole: its beginning was captured, too.

    `heard`, `answered` and `ended` are told what was captured, in its order; `take` has what came of it.
    """

    def __init__(self, dialect: Dialect, openings: Openings, *, whole: bool) -> None:
        self._dialect = dialect
        self._openings = openings
        self._whole = whole
        self._kinds: set[str] = set()
        self._attempts: dict[str, Attempt] = {}
        self._found: list[Finding] = []
        self._unsure: dict[tuple[str, str], tuple[Script, Finding]] = {}
        self._answers: dict[Hashable, dict[str, bytes] | None] = {}
        self._broken = 0
        self._terms: Terms | None = None

    # -- what was captured

    def heard(self, ticket: int, time: int, frame: bytes, request: Request | Refusal, terms: Terms) -> None:
        """A request, as the client sent it.  time: us."""
        self._go_on(time)
        self._terms = terms
        asked = Asked(self._dialect, ticket, time, frame, request, terms)
        taken = {id for id, attempt in list(self._attempts.items()) if self._is_of(attempt, asked)}
        if asked.fault is None:
            self._begin(asked, taken)
        elif not taken:
            self._blame(asked)
        self._kinds.add(asked.kind)

    def altered(self, ticket: int, time: int, kind: str) -> None:
        """A request of that kind that is not there as it was sent: a secret was taken out of it."""
        self._go_on(time)
        for attempt in list(self._attempts.values()):
            if ticket in attempt.waiting or kind in attempt.kinds(self._dialect):
                self._drop(attempt)
        self._kinds.add(kind)

    def answered(self, ticket: int, time: int, octets: bytes) -> None:
        """All that was said to the request of that ticket."""
        self._go_on(time)
        for attempt in [each for each in self._attempts.values() if ticket in each.waiting]:
            at = attempt.waiting.pop(ticket)
            if attempt.script.turns[at].answer is None:
                continue
            if self._is_like(attempt, at, octets):
                attempt.since = time
                self._settle(attempt)
            else:
                self._drop(attempt)

    def ended(self, time: int) -> None:
        """The connection is gone, or nothing more of it was captured; what is not through by now never is."""
        self._go_on(time)
        self._attempts.clear()

    def take(self) -> list[Finding]:
        """What was found since this was asked last."""
        self._decide()
        found, self._found = self._found, []
        return found

    # -- the next request of a case

    def _is_of(self, attempt: Attempt, asked: Asked) -> bool:
        """Whether the attempt takes it, or ends with it."""
        if asked.ticket in attempt.waiting and attempt.waits:  # that one will never be answered
            self._drop(attempt)
            return False
        turn = attempt.turn
        if turn is None:
            return self._is_again(attempt, asked)
        said = read(turn, asked)
        if said is None:
            return self._is_meant(attempt, turn, asked)
        found, lenient = said
        differs = attempt.differs(found)
        if differs & set(attempt.script.case.names):
            return False  # it is about something else
        if differs:
            what = " and ".join(sorted(differs))
            return self._fails(attempt, f"{asked.kind} came with another {what} than before", asked)
        return self._goes_on(attempt, turn, asked, found, lenient)

    def _goes_on(self, attempt: Attempt, turn: Turn, asked: Asked, found: dict[str, bytes], lenient: str) -> bool:
        if (asked.time - attempt.since) / 1e6 < turn.expect.after:
            self._drop(attempt)  # too early for a client by itself; its program may have wanted it
            return False
        attempt.goes_on(asked, found, explained(turn, asked, attempt.names, lenient))
        self._settle(attempt)
        return True

    def _is_meant(self, attempt: Attempt, turn: Turn, asked: Asked) -> bool:
        """Of what is not as the form has it, and our client would not say it so either."""
        form = turn.expect.form
        if asked.fault is not None:
            alike = len(asked.frame) <= LONGEST and likeness(filled(form, attempt.names), asked.frame) >= ALIKE
            return alike and self._fails(attempt, _no_request(asked), asked)
        if asked.kind == attempt.kind(len(attempt.asked), self._dialect):
            assert isinstance(asked.request, Request), "it is no refusal, or such are awaited"
            meant = same_meaning(form, asked.frame, asked.request, attempt.names, self._dialect, asked.terms)
            if meant is not None:
                return self._goes_on(attempt, turn, asked, meant, SAME)
            self._drop(attempt)
        elif asked.kind in attempt.kinds(self._dialect) or (turn.expect.next and not attempt.is_aside(asked)):
            self._drop(attempt)  # before its turn; or its program has begun something else
        return False

    def _is_again(self, attempt: Attempt, asked: Asked) -> bool:
        """Of what comes when all was said: whether it breaks a silence."""
        silence = attempt.script.silence
        if silence is None or asked.kind not in (silence.kinds or attempt.kinds(self._dialect)):
            return False
        turns = zip(attempt.script.turns, attempt.asked, strict=True)
        if any(turn.chosen and before.frame == asked.frame for turn, before in turns):
            return self._fails(attempt, f"{asked.kind} came again, as it was, which should not", asked)
        self._drop(attempt)
        return False

    def _fails(self, attempt: Attempt, why: str, asked: Asked) -> bool:
        """Unless an answer is still to come: nobody knows then whether the client has got the script's."""
        if attempt.waits:
            self._drop(attempt)
            return False
        self._end(attempt, failed(attempt.script, why, asked.frame))
        return True

    # -- the first one

    def _begin(self, asked: Asked, taken: set[str]) -> None:
        for opening, names, lenient in self._openings.of(asked):
            for script in opening.scripts:
                now = self._attempts.get(script.case.id)
                if script.case.id not in taken and (now is None or not now.waits) and self._may_begin(script):
                    attempt = self._attempts[script.case.id] = Attempt(script, asked, dict(names), lenient)
                    self._settle(attempt)

    def _may_begin(self, script: Script) -> bool:
        return not script.turns[0].expect.next or (self._whole and not self._kinds - set(script.case.aside))

    def _blame(self, asked: Asked) -> None:
        """No request at all: of the case that it is most like, if it is like one at all."""
        if len(asked.frame) > LONGEST or self._broken >= MOST_BROKEN:
            return
        self._broken += 1
        fit = [script for script in self._openings.scripts if script.fits(asked.terms) is not False]
        ranked = [(max(likeness(each, asked.frame) for each in script.wanted), script) for script in fit]
        alike, script = max(ranked, key=lambda pair: pair[0], default=(0.0, None))
        if script is not None and alike >= ALIKE:
            self._rule(script, failed(script, _no_request(asked), asked.frame))

    # -- answers

    def _is_like(self, attempt: Attempt, at: int, octets: bytes) -> bool:
        """Whether it is an answer that the script has there; it may say more of the names then."""
        if len(octets) > SHORT:
            told = self._told(attempt, at, octets)
        else:
            key = attempt.script.case.id, at, octets, tuple(attempt.known.items())
            if key not in self._answers:
                if len(self._answers) >= KEPT:
                    self._answers.clear()
                self._answers[key] = self._told(attempt, at, octets)
            told = self._answers[key]
        attempt.known |= told or {}
        return told is not None

    def _told(self, attempt: Attempt, at: int, octets: bytes) -> dict[str, bytes] | None:
        """What an answer says for the names, None = the script has another."""
        script, turn = attempt.script, attempt.script.turns[at]
        assert turn.told is not None and turn.answer is not None, "it has one"
        told = turn.told(octets)
        if told is not None and not attempt.differs(told):
            return told
        request = attempt.asked[at].request
        got = self._outcome(request, octets, script.terms)
        wanted = None if got is None else self._outcome(request, filled(turn.answer, attempt.names), script.terms)
        if isinstance(wanted, CommandFailed) and isinstance(got, CommandFailed):
            return {} if wanted.fault is got.fault else None
        if wanted is None or type(wanted) is not type(got):
            return None
        later = script.turns[at + 1 :]
        return {} if not later or self._is_enough(attempt, later, wanted, got) else None

    def _is_enough(self, attempt: Attempt, later: Sequence[Turn], wanted: object, got: object) -> bool:
        """Whether nothing that differs comes again in later requests."""
        differs = set(parted(wanted, got))
        if ESSENTIAL in differs:
            return False
        for turn in later if differs else ():
            request = self._dialect.decode_request(filled(turn.expect.form, attempt.names), attempt.script.terms)
            if isinstance(request, Refusal) or not differs.isdisjoint(leaves(request.command)):
                return False
        return True

    def _outcome(self, request: Request | Refusal, octets: bytes, terms: Terms) -> Outcome | None:
        """None = it is not one whole frame, or no answer to that."""
        asked = request if isinstance(request, Request) else Request(Ping(), request.tag, request.context)
        try:
            if self._dialect.measure_reply(octets, 0, 0) != len(octets):
                return None
            return self._dialect.decode_reply(asked, octets, terms)
        except Exception:  # what is no answer to a Ping need not be taken by a dialect
            return None

    # -- the end

    def _go_on(self, now: int) -> None:
        """It is that late."""
        for attempt in [each for each in self._attempts.values() if each.script.silence is not None]:
            if attempt.due is not None and now > attempt.due:
                self._end(attempt, attempt.passed())

    def _settle(self, attempt: Attempt) -> None:
        if attempt.script.silence is None and attempt.due is not None:
            self._end(attempt, attempt.passed())

    def _drop(self, attempt: Attempt) -> None:
        self._attempts.pop(attempt.script.case.id, None)

    def _end(self, attempt: Attempt, finding: Finding) -> None:
        self._drop(attempt)
        self._rule(attempt.script, finding)

    def _rule(self, script: Script, finding: Finding) -> None:
        if script.fits(script.terms if self._terms is None else self._terms):
            self._found.append(finding)
        else:
            self._unsure[finding.case, finding.verdict] = (script, finding)

    def _decide(self) -> None:
        """What was found before it was known what the client goes with."""
        if self._unsure and self._terms is not None:
            for key, (script, finding) in list(self._unsure.items()):
                fits = script.fits(self._terms)
                if fits is not None:
                    del self._unsure[key]
                if fits:
                    self._found.append(finding)


def _no_request(asked: Asked) -> str:
    assert isinstance(asked.request, Refusal), "it is none"
    return f"no request of {asked.dialect.name}: {asked.request.failure}"
