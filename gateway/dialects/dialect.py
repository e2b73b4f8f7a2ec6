"""What a dialect is: pure functions between frames and commands, and a table of faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from gateway.core.commands import DEFAULT_NAMESPACE, Command
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Encoding, RecordBatch
from gateway.core.replies import Outcome
from gateway.dialects.fidelity import Fidelity
from gateway.dialects.frames import Measure
from gateway.dialects.losses import Losses as Losses
from gateway.dialects.upstream import Upstream

if TYPE_CHECKING:
    from gateway.dialects.session import Listener

Tag = int | str | None


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operator may say of a listener; a dialect adds its own by inheriting.

    namespace:     the one whose topics a dialect without namespaces sees.
    advertise:     `host:port` that clients are told to dial, "" = the address they came in on.
    max_frame:     bytes of the longest frame accepted, 0 = the dialect's own limit.
    frame_seconds: a frame that is not whole after this is a reason to hang up.
    policy:        what becomes of a value that this wire cannot carry.
    """

    namespace: str = DEFAULT_NAMESPACE
    advertise: str = ""
    max_frame: int = 0
    frame_seconds: float = 10.0
    policy: Literal["replace", "reject", "escape"] = "replace"


class Terms:
    """What holds on one connection: the listener's settings, and what its two ends have agreed on since.

    advertise: `host:port` of this node as the peer can dial it.
    encodings: every record encoding this process knows, by name.
    """

    def __init__(
        self,
        settings: Settings,
        encodings: Mapping[str, Encoding],
        *,
        advertise: str = "127.0.0.1:0",
        losses: Losses | None = None,
    ) -> None:
        self.settings = settings
        self.namespace = settings.namespace
        self.policy = settings.policy
        self.advertise = settings.advertise or advertise
        self.encodings = encodings
        self.losses = Losses() if losses is None else losses
        self.begin(settings)

    def begin(self, settings: Settings) -> None:
        """What a dialect's own terms start with; called once."""

    def goes_with(self, setting: str) -> object:
        """The value of a setting that the peer is known to go with, None = that is not known yet."""
        return getattr(self.settings, setting, None)


class Request(msgspec.Struct, frozen=True, gc=False):
    """A command as one peer sent it.

    tag:     the peer's own correlation value, given back with the reply.
    context: what the dialect needs for the reply and the command does not say, e.g. which of two spellings it was.
    """

    command: Command
    tag: Tag = None
    context: object = None


class Refusal(msgspec.Struct, frozen=True):
    """A frame that is no command.  The detail of its failure is what the dialect says to the peer.

    closing: the connection cannot go on after the answer.
    """

    failure: CommandFailed
    tag: Tag = None
    closing: bool = False
    context: object = None


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """One wire language.  Every function is pure; `terms` is all it may know of the connection.

    port:           where its clients look for a server.
    hint:           a shell command that tries it out; `{host}` and `{port}` stand for the listener's.
    development:    user and password that its clients try first; accepted from loopback only, and only while no users
                    are configured.
    tagged:         the peer matches replies by tag, so they may leave in any order.
    max_frame:      bytes, header included; the default limit.
    decode_request: one whole frame -> Request, or Refusal if it is not one.  Never raises.
    encode_reply:   raises CommandFailed(UNREPRESENTABLE) for what policy `reject` refuses.  A Refusal is answered
                    with its own failure.  b"" = this dialect says nothing.
    encode_request: raises CommandFailed(UNSUPPORTED) for a command the dialect has no words for.
    decode_reply:   raises CommandFailed(MALFORMED) if the frame is no answer to that request.
    reply_tag:      the tag in a reply frame; tagged dialects only.
    encode_push:    a batch for a Follow; dialects that push.
    decode_push:    a pushed frame -> batch, None = only a sign of life, CommandFailed = the end.
    faults:         every Fault -> this dialect's code or word.
    encodings:      record encodings it adds.
    fidelity:       what of a record its producers can say and its readers see; None = it does not declare that.
    upstream:       what its servers can be asked for; None = it does not declare that, and cannot be proxied to.
    """

    name: str
    port: int
    hint: str = ""
    development: tuple[str, str] | None = None
    tagged: bool
    max_frame: int
    listener: type[Listener]
    settings: type[Settings] = Settings
    terms: type[Terms] = Terms
    measure_request: Measure
    measure_reply: Measure
    decode_request: Callable[[bytes, Terms], Request | Refusal]
    encode_reply: Callable[[Request | Refusal, Outcome, Terms], bytes]
    encode_request: Callable[[Request, Terms], bytes]
    decode_reply: Callable[[Request, bytes, Terms], Outcome]
    reply_tag: Callable[[bytes], Tag] | None = None
    encode_push: Callable[[Request, RecordBatch, Terms], bytes] | None = None
    decode_push: Callable[[Request, bytes, Terms], RecordBatch | CommandFailed | None] | None = None
    faults: Mapping[Fault, int | str]
    encodings: tuple[Encoding, ...] = ()
    fidelity: Fidelity | None = None
    upstream: Upstream | None = None

    def open(self, settings: Settings, encodings: Mapping[str, Encoding]) -> Listener:
        """What a listening port of this dialect shares among its connections."""
        return self.listener(self, settings, encodings)
