"""Which server leads a topic, where that is not the one that is asked first."""

from __future__ import annotations

import re

from gateway.backends.remote.servers import Server
from gateway.backends.remote.ways import Way
from gateway.core import commands as q

MAX_LEADERS = 10_000
"""Topics of which it is kept who leads them."""

MAX_SERVERS = 64
"""Servers that lead them."""

_ADDRESS = re.compile(r"\[?([A-Za-z0-9.:_-]+?)\]?:([0-9]{1,5})")


class Leaders:
    """first: the server that is asked where nothing is known."""

    def __init__(self, way: Way, first: Server) -> None:
        self._way = way
        self._first = first
        self._topics: dict[q.Topic, str] = {}
        self._servers: dict[str, Server] = {}

    def known(self, topic: q.Topic | None) -> bool:
        """Whether somebody has said who leads it."""
        return topic in self._topics

    def of(self, topic: q.Topic | None) -> Server:
        """Whom to ask about a topic."""
        if not self._topics or topic is None or (name := self._topics.get(topic)) is None:
            return self._first
        return self._servers[name]

    def learn(self, topic: q.Topic, leader: str) -> bool:
        """That `host:port` leads it now.  Returns False if that cannot be dialed."""
        if leader not in self._servers and not self._dial(leader):
            return False
        if len(self._topics) >= MAX_LEADERS:
            self._topics.clear()
        self._topics[topic] = leader
        return True

    def forget(self, topic: q.Topic) -> None:
        """It is not known any more."""
        self._topics.pop(topic, None)

    def servers(self) -> list[Server]:
        """All there are."""
        return [self._first, *self._servers.values()]

    def sweep(self, now: float) -> None:
        """Deadlines; and a server that leads nothing any more is left."""
        for server in self.servers():
            server.sweep(now)
        leading = set(self._topics.values())
        for name, server in list(self._servers.items()):
            if name not in leading and server.idle:
                del self._servers[name]
                server.close()

    def _dial(self, leader: str) -> bool:
        found = _ADDRESS.fullmatch(leader)
        if found is None or int(found[2]) > 65_535 or self._way.reach is None:
            return False
        if len(self._servers) >= MAX_SERVERS:
            self._topics.clear()  # the next sweep leaves who is idle then
            return False
        endpoint = self._way.reach(found[1], int(found[2]))
        self._servers[leader] = Server(self._way, endpoint, leader, patient=False)
        return True
