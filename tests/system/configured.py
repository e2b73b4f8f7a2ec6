"""A gateway that is told everything in a file, and clients of it that speak TLS."""

from __future__ import annotations

import os
import signal
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from gateway.core.commands import Command, CreateTopic, DescribeTopic, FetchOffsets, Group, MapGet, Topic
from system.peers import Stream
from system.processes import GatewayProcess, until

PROMPT = 1.0
"""Seconds within which who is not wanted is refused."""

S = TypeVar("S", bound=Stream)


class Configured(GatewayProcess):
    """One gateway for as long as the block runs.  text: what is in its file; listeners are on free ports of loopback.

    `ports` is by the names of the dialects, so there is one listener of each.
    """

    def __init__(self, directory: Path, text: str, *options: str) -> None:
        super().__init__(directory)
        self._file = directory / "gateway.toml"
        self._file.write_text(text)
        self._more: Sequence[str] = options

    def _options(self) -> list[str]:
        return [f"--config={self._file}", *self._more]

    def reload(self, text: str | None = None, said: str = "were read again") -> None:
        """Have it read its file again, another one if there is one, and wait until it says how that went."""
        if text is not None:
            self._file.write_text(text)
        before = self._times(said)
        os.kill(self.pid, signal.SIGHUP)
        until(lambda: self._times(said) > before, 5.0, "it is read again")

    def _times(self, said: str) -> int:
        return sum(said in line for line in list(self.log))


def listener(dialect: str, **said: str) -> str:
    """A section.  said: values as TOML has them."""
    lines = [f"[listener.{dialect}]", f'dialect = "{dialect}"', 'endpoint = "tcp:0:interface=127.0.0.1"']
    return "\n".join([*lines, *(f"{key} = {value}" for key, value in said.items())]) + "\n"


def trusting(authority: Path, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    """A client that believes that authority, and shows that certificate."""
    context = ssl.create_default_context(cafile=str(authority))
    if certificate is not None:
        context.load_cert_chain(*map(str, certificate))
    return context


def secured(peer: S, context: ssl.SSLContext, name: str = "localhost") -> S:
    """The same peer, in TLS from here on.  Raises ssl.SSLError."""
    try:
        peer.socket = context.wrap_socket(peer.socket, server_hostname=name)
    except OSError:
        peer.close()
        raise
    return peer


def refusal(peer: Stream) -> tuple[bytes, float]:
    """What is sent to it until the gateway hangs up, and after how many seconds it does."""
    began = time.monotonic()
    peer.socket.settimeout(5.0)
    return peer.rest(), time.monotonic() - began


def about(name: str) -> dict[str, Command]:
    """Of each dialect something that it can ask of a topic of that name."""
    topic = Topic("default", name)
    return {
        "cursus": DescribeTopic(topic),
        "grid": MapGet(topic, b"key"),
        "iggy": DescribeTopic(topic),
        "mlog": CreateTopic(topic, 1),
        "native": DescribeTopic(topic),
        "pipe": FetchOffsets(topic, Group("group"), (0,)),
    }
