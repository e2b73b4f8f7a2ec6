"""A connection to a server on a plain blocking socket, of any dialect: what Spark's workers ask through."""

from __future__ import annotations

import functools
import itertools
import socket
import ssl
import time
from collections.abc import Iterable, Mapping
from typing import Self, TypeVar

from gateway.core.commands import Command, Ping, Session
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Encoding, RecordBatch, registry
from gateway.core.replies import Answer, Outcome, Reply
from gateway.dialects import ClientSession, Request, load, names
from gateway.pipeline.places import Place

_READ = 1 << 18

_WHOLE = 10
"""Times `Place.seconds` that an answer may take of which something comes again and again, but never all."""

R = TypeVar("R", bound=Answer)


@functools.cache
def _encodings() -> Mapping[str, Encoding]:
    return registry(encoding for name in names() for encoding in load(name).encodings)


class Connection:
    """One connection, logged in.  Of no use any more after UNAVAILABLE or TIMEOUT.

    Raises CommandFailed: UNAVAILABLE where nobody answers, BAD_CREDENTIALS, UNSUPPORTED for a server of another
    version.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        spoken = place.spoken
        terms = spoken.dialect.open(spoken.settings, _encodings()).terms("")
        self._session = ClientSession(spoken.dialect, terms)
        self._answered: dict[object, Outcome] = {}
        self._tags = itertools.count(1)
        self._turns: dict[object, int] = {}
        self._socket = self._dial()
        try:
            self._greet()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    # -- one command after the other

    def ask(self, command: Command, kind: type[R]) -> R:
        """The reply that the command names, which is of this kind; composed of several requests if need be.

        Raises CommandFailed.
        """
        reply = self._carry_out(command)
        assert isinstance(reply, kind), f"{type(reply).__name__} instead of {kind.__name__}"
        return reply

    def _carry_out(self, command: Command) -> Reply:
        try:
            return self._say(command)
        except CommandFailed as failure:
            if failure.fault is not Fault.UNSUPPORTED:
                raise
            return self._compose(command, failure)

    def _say(self, command: Command) -> Reply:
        """As it is, or not at all."""
        outcome = self.answer(self.send(command))
        if isinstance(outcome, CommandFailed):
            raise outcome
        return outcome

    def _compose(self, command: Command, failure: CommandFailed) -> Reply:
        """Nothing that is awaited here ever waits, so the first step is the last."""
        from gateway.backends.remote.composing import Ask, compose  # only where a wire lacks words

        upstream = self.place.spoken.dialect.upstream
        assert upstream is not None, "what a place speaks can be asked"
        carry_out, say = (lambda step, _: self._carry_out(step)), (lambda step, _: self._say(step))
        steps = compose(command, Ask(carry_out, say, Session(0), self._turns), upstream, failure)  # type: ignore[arg-type]
        try:
            steps.send(None)
        except StopIteration as done:
            reply: Reply = done.value
            return reply
        raise AssertionError("it waited")

    # -- several at once

    def send(self, command: Command, context: object = None) -> int:
        """Ask, and do not wait.  Returns the tag to `answer` by.  Raises CommandFailed for what cannot be said."""
        if self._session.closing:
            raise CommandFailed(Fault.UNAVAILABLE, f"{self.place.endpoint} cannot be understood any more")
        tag = next(self._tags)
        self._session.ask(Request(command, tag, context))
        self._flush()
        return tag

    def answer(self, tag: int) -> Outcome:
        """What was answered to that; waits for it.  Raises CommandFailed where no answer can come any more."""
        until = time.monotonic() + _WHOLE * self.place.seconds
        while tag not in self._answered:
            if time.monotonic() > until:
                raise self._lost(TimeoutError())
            for request, outcome in self._session.receive(self._some()):
                assert not isinstance(outcome, RecordBatch), "nothing was followed"
                self._answered[request.tag] = outcome
        return self._answered.pop(tag)

    def answers(self, tags: Iterable[int]) -> list[Outcome]:
        """The same for several."""
        return [self.answer(tag) for tag in tags]

    # -- the socket

    def _dial(self) -> socket.socket:
        host, port = self.place.address
        try:
            context = ssl.create_default_context(cafile=self.place.ca_file or None) if self.place.tls else None
            sock = socket.create_connection((host, port), self.place.seconds)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                sock = context.wrap_socket(sock, server_hostname=host)
        except OSError as error:
            raise self._lost(error) from error
        return sock

    def _greet(self) -> None:
        upstream = self.place.spoken.dialect.upstream
        if upstream is not None and upstream.hello is not None:
            hello = upstream.hello(self._session.terms)
            self._session.ask(hello)
            self._flush()
            self._heed(self._answer_to(hello))
        login = self.place.login
        if login is not None:
            self._heed(self.answer(self.send(login)))

    def _answer_to(self, hello: Request) -> Outcome:
        assert isinstance(hello.tag, int) and isinstance(hello.command, Ping), "it is a greeting"
        return self.answer(hello.tag)

    def _heed(self, outcome: Outcome) -> None:
        if isinstance(outcome, CommandFailed):
            raise outcome

    def _flush(self) -> None:
        try:
            self._socket.sendall(self._session.take())
        except OSError as error:
            raise self._lost(error) from error

    def _some(self) -> bytes:
        try:
            octets = self._socket.recv(_READ)
        except OSError as error:
            raise self._lost(error) from error
        if not octets:
            raise self._lost(EOFError("it hung up"))
        return octets

    def _lost(self, error: Exception) -> CommandFailed:
        if isinstance(error, TimeoutError):
            return CommandFailed(Fault.TIMEOUT, f"{self.place.endpoint}: no answer within {self.place.seconds:g} s")
        return CommandFailed(Fault.UNAVAILABLE, f"{self.place.endpoint}: {error}")
