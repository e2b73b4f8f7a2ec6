"""A blocking client of any dialect, made of the gateway's own client half.

So it shows what two programs of ours can say to each other.  Whether that is what the protocol pages say, the peers in
peers.py tell, and frames that tests put together by hand.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from gateway.core.commands import Command
from gateway.core.records import RecordBatch, registry
from gateway.core.replies import Outcome
from gateway.dialects import ClientSession, Request, load
from system.peers import Stream


class Speaking(Stream):
    """A connection on which commands are asked for.

    settings: of the dialect, as a listener would have them.
    """

    def __init__(self, dialect: str, port: int, **settings: Any) -> None:
        super().__init__(port)
        spoken = load(dialect)
        listener = spoken.open(spoken.settings(**settings), registry(spoken.encodings))
        self._session = ClientSession(spoken, listener.terms(f"127.0.0.1:{port}"))
        self._tags = itertools.count(1)

    def ask(self, command: Command, context: object = None) -> Outcome:
        """What a command is answered.  context: as for Request, where the dialect has several ways to say it."""
        [outcome] = self.ask_all([command], context)
        return outcome

    def ask_all(self, commands: Sequence[Command], context: object = None) -> list[Outcome]:
        """What each of them is answered; all are sent before an answer is read."""
        tags = self.begin(commands, context)
        answered: dict[object, Outcome] = {}
        while len(answered) < len(tags):
            for request, outcome in self._session.receive(self.some()):
                assert not isinstance(outcome, RecordBatch), "nothing was followed"
                answered[request.tag] = outcome
        return [answered[tag] for tag in tags]

    def begin(self, commands: Sequence[Command], context: object = None) -> list[int]:
        """Send them, and read nothing.  Returns their tags."""
        tags = [next(self._tags) for _ in commands]
        for tag, command in zip(tags, commands, strict=True):
            self._session.ask(Request(command, tag, context))
        self.send(self._session.take())
        return tags

    def some(self) -> bytes:
        """The bytes that come next."""
        octets = self.socket.recv(1 << 20)
        if not octets:
            raise EOFError("the gateway hung up")
        return octets
