"""Topics that are asked for again and again: the same value for the same bytes, made once."""

from __future__ import annotations

from gateway.core.commands import MAX_NAME, Topic

MOST_TOPICS = 256
"""That a connection remembers."""


class Topics(dict[bytes, Topic]):
    """Topics by their names on the wire, MOST_TOPICS at the most: a connection asks for few, and for those often.

    Raises UnicodeDecodeError for what is no name.
    """

    def __init__(self, namespace: str) -> None:
        super().__init__()
        self._namespace = namespace

    def __missing__(self, name: bytes) -> Topic:
        topic = Topic(self._namespace, name.decode())
        if len(self) == MOST_TOPICS:
            self.clear()
        if len(name) <= MAX_NAME:  # no backend has one that is longer
            self[name] = topic
        return topic
