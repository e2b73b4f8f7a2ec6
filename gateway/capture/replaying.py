"""`gateway capture replay`: what clients asked is asked again, of another server, and the answers are compared.

One connection for each that was captured, opened and closed where that one was.  A request goes out when the capture
says that it was answered, not when it was heard, so that of two requests that were under way together the one that was
answered first is carried out first, and each is waited for before the next goes out.  Two things go out earlier: what
stands before such a request on its connection, and, before an answer that was waited for on purpose (a Fetch with a
wait that found something in time, records for a Follow), everything that had been heard by then: it may be its cause.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import cast

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory

from gateway.capture.carrying import Carried
from gateway.capture.comparing import Names, difference, first_of, records
from gateway.capture.reading import Answers, Heard, Listeners, Unread, cut
from gateway.capture.redaction import MASKED
from gateway.capture.reports import Difference, Plan, Report, Unreachable
from gateway.capture.rows import Capture, Header, Row
from gateway.capture.words import words
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import RecordBatch
from gateway.dialects import Listener, Refusal, Request

ANSWER_SECONDS = 10.0
"""How long an answer may take, beside what it took when it was captured."""

REFUSING = (Fault.BAD_CREDENTIALS.name, "")
"""How a login ended that was not right, or is not known to have been: it is said again with what is left of it."""

Key = tuple[int, int]
"""When its process was started, and the number of a connection in it."""


class Talk:
    """A captured connection that is replayed: what was heard on it, and the one that takes its place."""

    def __init__(self, listener: Listener, clock: IReactorTime) -> None:
        self.heard = Heard(listener)
        self.captured = Answers(listener.dialect, listener.terms(""))
        self.carried = Carried(listener.dialect, listener.terms(""), clock)
        self.unsent: OrderedDict[int, Row] = OrderedDict()
        self.pushed: dict[int, list[object]] = {}


class Index:
    """What has to be known before the first row is replayed: how requests end, and which is the last of a connection.

    answered: (connection, ticket) -> the name of the outcome.  silent: those that are answered with nothing.
    """

    def __init__(self, files: Iterable[Capture]) -> None:
        self.answered: dict[tuple[Key, int], str] = {}
        self.silent: set[tuple[Key, int]] = set()
        self.rows = 0
        for file in files:
            for row in file:
                self.rows += 1
                if row.direction == "out" and row.ticket >= 0:
                    key = (file.header.started, row.connection), row.ticket
                    self.answered[key] = row.outcome
                    if not row.frame:
                        self.silent.add(key)


class Replay:
    """One run.  report: what has come of it so far."""

    def __init__(self, plan: Plan, index: Index, clock: IReactorTime) -> None:
        self.report = Report()
        self._plan = plan
        self._index = index
        self._clock = clock
        self._listeners = Listeners()
        self._names = Names()
        self._talks: dict[Key, Talk] = {}
        self._began: tuple[float, int] | None = None

    async def run(self, files: Iterable[Capture], progress: Callable[[int], None] = lambda row: None) -> Report:
        """Replay the files, in order, up to the first difference.  Raises Unreachable, NoCapture."""
        for number, (header, row) in enumerate(_rows(files)):
            progress(number)
            await self._pace(row)
            await self._step(header, row)
            if self.report.difference is not None:
                break
        for talk in list(self._talks.values()):
            await talk.carried.leave()
        return self.report

    async def _step(self, header: Header, row: Row) -> None:
        key = header.started, row.connection
        if row.direction == "gap":
            self.report.missing += int(row.note)
            return
        said = header.listeners.get(row.listener)
        if said is None or said.dialect not in self._plan.targets:
            self.report.skipped += 1
            return
        if row.direction == "close":
            await self._close(key)
            return
        talk = self._talks.get(key) or await self._open(header, row, key)
        if row.direction == "in":
            self._hear(talk, row)
        elif row.direction == "out" and row.ticket >= 0:
            await self._answered(key, talk, row)
        elif row.direction == "out":
            await self._said(talk, row)

    async def _open(self, header: Header, row: Row, key: Key) -> Talk:
        listener = self._listeners.make(header, row.listener)
        talk = Talk(listener, self._clock)
        endpoint = self._plan.targets[listener.dialect.name]
        try:
            await endpoint.connect(Factory.forProtocol(lambda: talk.carried))
        except Exception as error:  # each kind of endpoint fails in its own way, all of them for the user to mend
            raise Unreachable(f"cannot reach the {listener.dialect.name} server: {error}") from error
        self._talks[key] = talk
        self.report.connections += 1
        return talk

    async def _close(self, key: Key) -> None:
        talk = self._talks.pop(key, None)
        if talk is not None:
            self._send(key, talk)
            await talk.carried.leave()

    # -- requests

    def _hear(self, talk: Talk, row: Row) -> None:
        if talk.heard.hear(row) is None:
            self.report.unsent += 1
        else:
            talk.unsent[row.ticket] = row

    def _send(self, key: Key, talk: Talk, last: int | None = None) -> None:
        """What the connection has not sent yet, up to that ticket."""
        while talk.unsent and (last is None or next(iter(talk.unsent)) <= last):
            ticket, row = talk.unsent.popitem(last=False)
            request = talk.heard.requests.get(ticket)
            if request is None:
                continue
            request, octets = self._made(talk, row, request, self._index.answered.get((key, ticket), ""))
            talk.carried.ask(ticket, request, octets, silent=(key, ticket) in self._index.silent)
            self.report.requests += 1

    def _send_all(self) -> None:
        for key, talk in self._talks.items():
            self._send(key, talk)

    def _made(self, talk: Talk, row: Row, request: Request | Refusal, outcome: str) -> tuple[Request | Refusal, bytes]:
        """The request as it has to be said now, and its bytes: as they were captured, unless something in it was made
        by the server, or is a secret."""
        if not isinstance(request, Request):
            return request, row.frame
        command, context = self._renamed(request.command), request.context
        if row.note == MASKED and outcome not in REFUSING:
            if isinstance(command, q.Authenticate):
                command = self._with_secret(talk, command)
            elif isinstance(proof := getattr(context, "proof", None), q.Authenticate):
                context = msgspec.structs.replace(cast(msgspec.Struct, context), proof=self._with_secret(talk, proof))
        if command is request.command and context is request.context:
            return request, row.frame
        changed = Request(command, request.tag, context)
        try:
            return changed, talk.heard.dialect.encode_request(changed, talk.carried.answers.terms)
        except CommandFailed:
            return request, row.frame

    def _renamed(self, command: q.Command) -> q.Command:
        changes: dict[str, object] = {}
        member = getattr(command, "member", None)
        if member in self._names.to:
            changes["member"] = self._names.to[member]
        generation = getattr(command, "generation", None)
        if generation is not None:
            now = self._names.generations.get((*_group(command), generation), generation)
            changes |= {"generation": now} if now != generation else {}
        return msgspec.structs.replace(command, **changes) if changes else command

    def _with_secret(self, talk: Talk, command: q.Authenticate) -> q.Authenticate:
        user, password = talk.heard.dialect.development or ("", "")
        secret = self._plan.secrets.get(command.principal, password if command.principal == user else None)
        return command if secret is None else msgspec.structs.replace(command, secret=secret)

    # -- answers

    async def _answered(self, key: Key, talk: Talk, row: Row) -> None:
        request = talk.heard.requests.get(row.ticket)
        if request is None:
            return  # it was left out, or asked before the capture began
        self._send(key, talk, row.ticket)
        if _woken(request, row):
            self._send_all()
        del talk.heard.requests[row.ticket]
        if (key, row.ticket) in self._index.silent:
            return
        carried = talk.carried
        await carried.wait(lambda: row.ticket in carried.frames, ANSWER_SECONDS + row.latency / 1e6)
        now = carried.frames.pop(row.ticket, None)
        if now is None:
            self._differs(row, "the server hung up" if carried.gone else "there is no answer")
        else:
            self._compare(talk, request, row, now)

    def _compare(self, talk: Talk, request: Request | Refusal, row: Row, now: bytes) -> None:
        before, after = talk.captured.read(request, row.frame), talk.carried.answers.read(request, now)
        command = request.command if isinstance(request, Request) else None
        if isinstance(before, r.Joined) and isinstance(after, r.Joined):
            self._names.learn(_group(command), before, after)
        self.report.compared += 1
        if row.frame == now:
            self.report.equal += 1
        elif why := _unread(before, after) or difference(before, after, self._names):
            self._differs(row, why, now, (words(before), words(after)))

    async def _said(self, talk: Talk, row: Row) -> None:
        """What was pushed.  Ends and signs of life are a matter of time, and are passed over."""
        self._send_all()
        for frame in cut(talk.heard.dialect, row.frame):
            ticket = talk.carried.follow_of(frame)
            request = None if ticket is None else talk.heard.requests.get(ticket)
            batch = None if request is None else talk.captured.read(request, frame)
            if ticket is not None and isinstance(batch, RecordBatch):
                await self._pushed(talk, row, ticket, batch)

    async def _pushed(self, talk: Talk, row: Row, ticket: int, batch: RecordBatch) -> None:
        captured = talk.pushed.setdefault(ticket, [])
        done, carried = len(captured), talk.carried
        captured += records(batch)
        now = carried.pushed[ticket]
        await carried.wait(lambda: len(now) >= len(captured), ANSWER_SECONDS)
        self.report.records += len(captured) - done
        if len(now) < len(captured):
            self._differs(row, f"{len(captured)} records were pushed, {len(now)} came now")
        elif why := first_of(captured[done:], now[done:]):
            self._differs(row, why, says=(words(batch), ""))

    def _differs(self, row: Row, why: str, now: bytes = b"", says: tuple[str, str] = ("", "")) -> None:
        if self._plan.compare and self.report.difference is None:
            self.report.difference = Difference(row, why, row.frame, now, says)

    # -- time

    async def _pace(self, row: Row) -> None:
        if not self._plan.speed:
            return
        now = self._clock.seconds()
        if self._began is None:
            self._began = now, row.time
        due = self._began[0] + (row.time - self._began[1]) / 1e6 / self._plan.speed
        if due > now:
            waited: Deferred[None] = Deferred()
            self._clock.callLater(due - now, waited.callback, None)
            await waited


def _rows(files: Iterable[Capture]) -> Iterator[tuple[Header, Row]]:
    for file in files:
        for row in file:
            yield file.header, row


def _woken(request: Request | Refusal, row: Row) -> bool:
    """Whether that was waited for, and something came before the time was over."""
    wait = getattr(request.command, "wait", 0.0) if isinstance(request, Request) else 0.0
    return bool(wait) and row.latency < wait * 1e6


def _group(command: object) -> tuple[str, str, str]:
    topic, group = getattr(command, "topic", None), getattr(command, "group", None)
    if isinstance(command, q.CommitOffsets):
        group = command.reader.name
    return (str(topic.namespace), str(topic.name), str(group)) if isinstance(topic, q.Topic) else ("", "", "")


def _unread(before: object, after: object) -> str:
    """What cannot be read is compared to the byte, and was."""
    return "the bytes of an answer that cannot be read" if Unread in (type(before), type(after)) else ""
