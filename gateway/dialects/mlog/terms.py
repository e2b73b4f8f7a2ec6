"""What an operator may say of an mlog listener, and what a request leaves for its answer."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.dialects.dialect import Settings, Terms
from gateway.dialects.mlog.coding import CODINGS, Coding
from gateway.dialects.mlog.layout import Message

HEAD = 6
"""Bytes before a payload."""

MAX_PAYLOAD = 4 << 20
"""Bytes, the project's own limit, of answers too."""

MAX_FRAME = HEAD + MAX_PAYLOAD


class MlogSettings(Settings, frozen=True, kw_only=True):
    """`max_frame` counts the head.

    strict_close:            a payload that cannot be read ends the connection without an answer, as in the project.
    fetch_zero_is_committed: a consumer that asks for offset 0 gets what comes after its last commit, as in the project.
    strict_replicas:         a topic with replicas beside its leader is refused, since there is no node to have them.
    node_id:                 what this node is called in ListTopics.
    fetch_stream:            serve type 10, for which the project has a number and no client.
    coding:                  what our client speaks; as a server we answer in the coding of each request.
    """

    max_frame: Annotated[int, Meta(ge=0, le=MAX_FRAME)] = 0
    strict_close: bool = False
    fetch_zero_is_committed: bool = True
    strict_replicas: bool = False
    node_id: Annotated[str, Meta(min_length=1, max_length=255)] = "node-1"
    fetch_stream: bool = False
    coding: Literal["json", "protobuf"] = "json"


class MlogTerms(Terms):
    """The settings, at hand; the two ends agree on nothing else."""

    def begin(self, settings: Settings) -> None:
        """See Terms."""
        assert isinstance(settings, MlogSettings), "an mlog listener has MlogSettings"
        self.strict_close = settings.strict_close
        self.fetch_zero_is_committed = settings.fetch_zero_is_committed
        self.strict_replicas = settings.strict_replicas
        self.node_id = settings.node_id
        self.fetch_stream = settings.fetch_stream
        self.coding: Coding = CODINGS[settings.coding]


class Asked(msgspec.Struct, frozen=True, gc=False):
    """How a command was put.

    coding: of the payload.  type: of the frame.
    said:   the request itself, where it says what the command does not.
    """

    coding: Coding
    type: int
    said: Message | None = None


PLAIN = {(coding, type): Asked(coding, type) for coding in CODINGS.values() for type in range(29)}
"""Those that say nothing beside the command, made once."""
