"""The server's half of a grid connection: hellos, repetitions, what a missing topic means, and subscriptions."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.core.commands import Authenticate, Follow, MapGet, Ping
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Encoding, RecordBatch
from gateway.core.replies import Authenticated, Done, MapValue, Outcome
from gateway.dialects.dialect import Dialect, Refusal, Request, Settings
from gateway.dialects.frames import FrameBuffer
from gateway.dialects.grid.glance import glance
from gateway.dialects.grid.layout import measure_strictly
from gateway.dialects.grid.repeats import MOST_WAITING, Attempt, Key, Repeats
from gateway.dialects.grid.service import OPERATIONS, UNSUBSCRIBE
from gateway.dialects.grid.subscriptions import Step, Subscriptions
from gateway.dialects.grid.terms import HEAD, Asked, GridSettings, GridTerms, Hello, Unknown, grid_terms
from gateway.dialects.session import Call, Listener, ServerSession, Topics

_WATCHED = frozenset({Ping, Follow, Authenticate})
"""What there may be more to than to carry it out."""


class GridListener(Listener):
    """repeats: what is kept of answers, for all of its connections."""

    def __init__(self, dialect: Dialect, settings: Settings, encodings: Mapping[str, Encoding]) -> None:
        super().__init__(dialect, settings, encodings)
        assert isinstance(settings, GridSettings), "a grid listener has GridSettings"
        self.repeats = Repeats(settings.repeat_seconds, settings.repeat_entries, settings.repeat_bytes)
        self._sessions = 0

    def session(self, address: str = "127.0.0.1:0") -> GridSession:
        """See Listener."""
        self._sessions += 1
        return GridSession(self, grid_terms(self.terms(address)), self._sessions)


class GridSession(ServerSession):
    """Answers a hello and the end of a subscription itself, and a repetition with what the first attempt was answered.

    number: of this connection, from 1.
    """

    terms: GridTerms

    def __init__(self, listener: GridListener, terms: GridTerms, number: int = 1) -> None:
        super().__init__(listener, terms)
        self._frames = FrameBuffer(measure_strictly(terms), HEAD + terms.limit)
        self._repeats = listener.repeats
        self._attempts: dict[int, Attempt] = {}
        self._subscriptions = Subscriptions()
        self._number = number
        self._heard = False
        self._principal: str | None = None
        self._logins = 0
        self._told: set[int] = set()
        self._gone = False

    def known(self, principal: str) -> None:
        """See ServerSession."""
        self._principal = principal

    # -- what is asked

    def receive(self, data: bytes, now: float) -> list[Call]:
        """See ServerSession."""
        self._repeats.pass_to(now)
        self.terms.room = self.terms.limit
        if not self._heard:
            self._heard = True
            self.terms.owner = b"connection %d since %d" % (self._number, now * 1_000_000)
        return super().receive(data, now)

    @property
    def quiet(self) -> bool:
        """See ServerSession: what all of them share is told the time by whoever is heard next."""
        return not self._frames.pending

    def tick(self, now: float) -> None:
        """See ServerSession."""
        self._repeats.pass_to(now)
        super().tick(now)

    def refuse(self, refusal: Refusal) -> None:
        """See ServerSession.  An unknown opcode is told once: one session of a real client fills the table."""
        context = refusal.context
        if isinstance(context, Unknown) and context.number not in self._told:
            self._told.add(context.number)
            self.tell(
                f"asked for the unknown opcode {context.number:#04x} with a name of {context.name_length} bytes and a"
                f" key of {context.key_length}; what it means here is said in `opcodes` of the listener"
            )
        super().refuse(refusal)

    def close(self, reason: str) -> None:
        """See ServerSession."""
        super().close(reason)
        self._frames.rest()

    def calls(self, request: Request) -> list[Call]:
        """See ServerSession."""
        asked = request.context
        if type(request.command) not in _WATCHED and isinstance(asked, Asked) and not asked.digest:
            return [Call(self._ticket(), request)]
        if isinstance(asked, Hello):
            return self._answered(request)
        if isinstance(asked, Asked) and asked.opcode == UNSUBSCRIBE:
            self._subscriptions.cancel(asked.octets)
            return self._answered(request)
        call = Call(self._ticket(), request)
        if isinstance(request.command, Follow):
            return self._subscriptions.begin(call, request.command, self._ticket)
        if isinstance(request.command, Authenticate):
            self._logins += 1
        if isinstance(asked, Asked) and asked.digest and not self._logins:
            return self._once(call, (self._principal, asked.digest))
        return [call]

    def _answered(self, request: Request) -> list[Call]:
        super().answer(Call(self._ticket(), request), Done())
        return []

    def _once(self, call: Call, key: Key) -> list[Call]:
        """Nothing to carry out if it is a repetition.

        The key has who asks in it, and a request behind a login that is under way is none: an answer that is kept is
        not for those who could not have asked for it.
        """
        attempt = self._repeats.find(key)
        if attempt is None:
            attempt = self._repeats.begin(key)
            if attempt is not None:
                self._attempts[call.ticket] = attempt
            return [call]
        if attempt.outcome is not None:
            super().answer(call, attempt.outcome)
        elif len(attempt.waiting) < MOST_WAITING:
            attempt.waiting.append(lambda outcome: self._told_later(call, outcome))
        else:
            super().answer(call, CommandFailed(Fault.BUSY, "too many repetitions wait for the first attempt"))
        return []

    def _told_later(self, call: Call, outcome: Outcome) -> None:
        if not self._gone:
            super().answer(call, outcome)
            self.wake()

    def _calls(self, frames: list[bytes]) -> list[Call]:
        """See ServerSession."""
        looking = self.looking() if frames else None
        if looking is not None:
            topics: Topics = []
            answers = glance(frames, self.terms, looking, topics)
            if answers:
                looking.count(MapGet, len(answers))
                self._glanced(MapGet, MapValue, frames[: len(answers)], answers, topics)
                frames = frames[len(answers) :]
        return super()._calls(frames)

    # -- what is answered

    def answer(self, call: Call, outcome: Outcome) -> None:
        """See ServerSession."""
        request = call.request
        kind = type(request.command)
        if type(request.context) is Step:
            self._placed(request.context, outcome)
            return
        if kind is Authenticate:
            self._logins = max(0, self._logins - 1)
            if isinstance(outcome, Authenticated):
                self._principal = outcome.principal
        if isinstance(outcome, CommandFailed):
            outcome = _found(request, outcome)
        attempt = self._attempts.pop(call.ticket, None) if self._attempts else None
        ServerSession.answer(self, call, outcome)  # `super()` would take twice as long, of what every request takes
        if attempt is not None:
            self._repeats.end(attempt, outcome)
        if kind is Follow:
            self._subscriptions.end(call)

    # -- subscriptions

    def begun(self, call: Call) -> None:
        """See ServerSession."""
        self._say_next(call)

    def _placed(self, step: Step, outcome: Outcome) -> None:
        """A step before or behind a Follow has been carried out."""
        call = step.follow
        if call is None:
            return
        if isinstance(outcome, CommandFailed):
            self.ended(call, outcome)
            return
        waiting = self._subscriptions.placed(call, outcome)
        self._say_next(call)
        for batch in waiting:
            self.push(call, batch)

    def _say_next(self, call: Call) -> None:
        offsets = self._subscriptions.answer(call)
        if offsets is not None:
            self.say(self.dialect.encode_reply(call.request, offsets, self.terms))

    def push(self, call: Call, batch: RecordBatch) -> None:
        """See ServerSession.  Raises CommandFailed once the subscription is over, which ends the Follow."""
        wanted = self._subscriptions.wanted(call, batch)
        if wanted is not None:
            super().push(call, wanted)

    def ended(self, call: Call, failure: CommandFailed) -> None:
        """See ServerSession.  The connection lives; who cancelled the subscription knows."""
        subscription = self._subscriptions.end(call)
        if subscription is not None and not subscription.cancelled:
            super().answer(call, failure)

    def lost(self) -> None:
        """See ServerSession."""
        self._gone = True

    def missed(self, call: Call, outcome: Outcome) -> None:
        """See ServerSession.  Who repeats it, on another connection, gets the answer that this one would have got."""
        attempt = self._attempts.pop(call.ticket, None)
        if attempt is not None:
            found = _found(call.request, outcome) if isinstance(outcome, CommandFailed) else outcome
            self._repeats.end(attempt, found)


def _found(request: Request, failure: CommandFailed) -> Outcome:
    """Where there is no topic of that name, nothing is in it."""
    if failure.fault not in (Fault.NO_SUCH_TOPIC, Fault.NO_SUCH_NAMESPACE):
        return failure
    operation = OPERATIONS.get(request.context.opcode) if isinstance(request.context, Asked) else None
    return failure if operation is None or operation.missing is None else operation.missing
