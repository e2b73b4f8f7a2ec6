"""Keys and values on the wire <-> the bytes of a record.

`opaque`: they are the same bytes.

`loom_tagged`: the project's Java client writes type-tagged text: one letter, then the value as text.  S string, I int,
L long, D double, F float, H short, Y byte, C char, B bool, G BigDecimal, J BigInteger, U UUID, A byte[], N null, O
unsupported.  Whether a colon follows the letter is not known: `tag_separator`.  (Protocol page, section 2.)

- Text, S: the tag is taken off, so that other dialects see the text; readers of this one get it back.  Nothing is lost.
- What another dialect wrote comes with S, whatever its bytes are.
- The other types have no place in a record.  The listener's `policy` says what becomes of them:
    `replace`  the tag is taken off, and counted as lost in the field `type`: others see 42 for I42, readers of this
               dialect get S42.  I42 and S42 are one key.
    `reject`   they are refused.
    `escape`   they are kept behind a zero byte: others see 00 I42, readers of this dialect get I42.  Nothing is lost.
               Text that begins like that is kept like them, tag and all.
- A key or value that begins with none of the letters is refused, an empty one too.

It is used for keys of maps, elements of sets, keys of counters and locks, values of maps, messages of queues and
topics.  The numbers of counters, owners of locks and times are not text.
"""

from __future__ import annotations

from gateway.core.faults import CommandFailed, Fault
from gateway.dialects.losses import UNKNOWN, Losses, lose

TAGS = b"SILDFHYCBGJUANO"
TEXT = b"S"
ESCAPE = b"\0"


class Codec:
    """The opaque one."""

    def taken(self, octets: bytes) -> bytes:
        """What a record holds for bytes of the wire.  Raises CommandFailed: MALFORMED, UNREPRESENTABLE."""
        return octets

    def given(self, octets: bytes) -> bytes:
        """What the wire shows of the bytes of a record."""
        return octets


class Tagged(Codec):
    """Type-tagged text."""

    def __init__(self, separator: str, policy: str, losses: Losses) -> None:
        self._separator = separator.encode()
        self._policy = policy
        self._losses = losses

    def taken(self, octets: bytes) -> bytes:
        """See Codec."""
        tag, rest = octets[:1], octets[1:]
        if not tag or tag not in TAGS or not rest.startswith(self._separator):
            raise CommandFailed(Fault.MALFORMED, "a key or value begins with a type, such as S for text")
        rest = rest[len(self._separator) :]
        if tag == TEXT and not (self._policy == "escape" and _escaped(rest)):
            return rest
        if self._policy == "escape":
            return ESCAPE + tag + rest
        if self._policy == "reject":
            raise CommandFailed(Fault.UNREPRESENTABLE, f"the type {tag.decode()}; only text is taken here")
        lose(self._losses, "grid", UNKNOWN, "type")
        return rest

    def given(self, octets: bytes) -> bytes:
        """See Codec."""
        if self._policy == "escape" and _escaped(octets):
            return octets[1:2] + self._separator + octets[2:]
        return TEXT + self._separator + octets


def _escaped(octets: bytes) -> bool:
    return octets.startswith(ESCAPE) and len(octets) > 1 and octets[1] in TAGS


def codec(name: str, separator: str, policy: str, losses: Losses) -> Codec:
    """The one that settings name."""
    return Codec() if name == "opaque" else Tagged(separator, policy, losses)
