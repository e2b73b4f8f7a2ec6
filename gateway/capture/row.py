"""The row: one frame, or one thing that happened, as every reader of a capture sees it."""

from __future__ import annotations

from typing import Literal

import msgspec

Direction = Literal["in", "out", "open", "close", "gap"]


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """See the package's docstring."""

    time: int
    connection: int
    dialect: str
    listener: str
    direction: Direction
    frame: bytes = b""
    ticket: int = -1
    kind: str = ""
    namespace: str = ""
    topic: str = ""
    outcome: str = ""
    latency: int = 0
    principal: str = ""
    note: str = ""

    @property
    def place(self) -> str:
        """What it is about, for people: the namespace only where it is not the usual one."""
        return self.topic if self.namespace in ("", "default") else f"{self.namespace}/{self.topic}".rstrip("/")


FIELDS = Row.__struct_fields__
