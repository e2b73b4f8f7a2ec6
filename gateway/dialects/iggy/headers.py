"""User headers of Iggy messages, with key kinds (`iggy.g2c`) and without.

    [u8 kind of the key] · u32+key · u8 kind of the value · u32+value       one after the other, little-endian

Key and value have 1 to 255 bytes, and those of a kind with a fixed width have that width.  Kinds are numbered as
core.records.HeaderKind is.  Source: protocol page, sections 2 and 3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import msgspec

from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import WIDTHS, Header, HeaderKind
from gateway.dialects.iggy.places import Places, malformed

_u32 = struct.Struct("<I")
_KINDS = {int(kind): (kind, WIDTHS.get(kind, 0)) for kind in HeaderKind}
_LONGEST = 255
_KEY, _VALUE = 4018, 4019  # the server's numbers for one that cannot be


def read_headers(block: bytes, key_kinds: bool) -> tuple[Header, ...]:
    """The headers of one message.  Raises CommandFailed(MALFORMED)."""
    return tuple(Header(key, value, kind, key_kind) for key_kind, key, kind, value in _fields(block, key_kinds))


def weigh(block: bytes, key_kinds: bool) -> int:
    """Bytes of all values.  Raises CommandFailed(MALFORMED)."""
    return sum(len(value) for _, _, _, value in _fields(block, key_kinds))


def weigh_all(buffer: bytes, found: Iterable[Places], key_kinds: bool) -> int:
    """Bytes of the header values of the messages found in a buffer.  Raises CommandFailed(MALFORMED)."""
    known = {b"": 0}  # messages of one producer often have the same headers
    total = 0
    for _, first, last, *_ in found:
        block = buffer[first:last]
        if block not in known:
            known[block] = weigh(block, key_kinds)
        total += known[block]
    return total


def write_headers(headers: Iterable[Header], key_kinds: bool) -> bytes:
    """The same bytes again; headers must be such as `carried` lets pass."""
    out: list[bytes] = []
    for header in headers:
        if key_kinds:
            out.append(bytes((header.key_kind,)))
        out += (_u32.pack(len(header.key)), header.key, bytes((header.kind,)))
        out += (_u32.pack(len(header.value)), header.value)
    return b"".join(out)


class Blocks:
    """Writes the headers of records that other encodings hold, and counts the records of which something is lost.

    key_kinds: names have kinds; where they have none they are text.
    policy:    what becomes of headers that this wire cannot carry.  Text that is not UTF-8, at which real clients give
               the whole answer up, has U+FFFD (`replace`) or \\xff and the like (`escape`) for bytes that are none; a
               header that is too long or empty is left out; `reject` refuses either.
    changed:   records of which a header was left out or changed.  untyped: those of which a name lost its kind.
    """

    def __init__(self, key_kinds: bool, policy: str) -> None:
        self.changed = 0
        self.untyped = 0
        self._key_kinds = key_kinds
        self._policy = policy

    def write(self, headers: tuple[Header, ...]) -> bytes:
        """Those for which there is room.  Raises CommandFailed(UNREPRESENTABLE)."""
        shown = [self._shown(header) for header in headers]
        kept = [header for header in shown if carried(header, self._key_kinds)]
        if self._policy == "reject" and len(kept) < len(headers):
            raise _refused("a header whose name or value is empty or longer than 255 bytes")
        self.changed += len(kept) < len(headers) or any(new is not old for new, old in zip(kept, headers, strict=False))
        self.untyped += not self._key_kinds and any(header.key_kind is not HeaderKind.TEXT for header in kept)
        return write_headers(kept, self._key_kinds)

    def _shown(self, header: Header) -> Header:
        key, value = header.key, header.value
        if header.key_kind is HeaderKind.TEXT or not self._key_kinds:
            key = self._text(key)
        if header.kind is HeaderKind.TEXT:
            value = self._text(value)
        same = key is header.key and value is header.value
        return header if same else msgspec.structs.replace(header, key=key, value=value)

    def _text(self, octets: bytes) -> bytes:
        try:
            octets.decode()
        except UnicodeDecodeError:
            if self._policy == "reject":
                raise _refused("text in a header that is not UTF-8") from None
            instead = "backslashreplace" if self._policy == "escape" else "replace"
            return octets.decode(errors=instead).encode()
        return octets


def _refused(what: str) -> CommandFailed:
    return CommandFailed(Fault.UNREPRESENTABLE, what)


def carried(header: Header, key_kinds: bool) -> bool:
    """Whether this wire has room for a header.  Where keys have no kinds, theirs is no reason against it."""
    key, value = len(header.key), len(header.value)
    if not (0 < key <= _LONGEST and 0 < value <= _LONGEST):
        return False
    return value == WIDTHS.get(header.kind, value) and (not key_kinds or key == WIDTHS.get(header.key_kind, key))


def _fields(block: bytes, key_kinds: bool) -> Iterator[tuple[HeaderKind, bytes, HeaderKind, bytes]]:
    """(kind of key, key, kind, value) of each header."""
    at, size, key_kind = 0, len(block), HeaderKind.TEXT
    while at < size:
        if key_kinds:
            key_kind, key, at = _typed(block, at, _KEY)
        else:
            key, at = _octets(block, at, _KEY)
        kind, value, at = _typed(block, at, _VALUE)
        yield key_kind, key, kind, value


def _typed(block: bytes, at: int, status: int) -> tuple[HeaderKind, bytes, int]:
    """(kind, bytes, place behind them)."""
    known = _KINDS.get(block[at]) if at < len(block) else None
    if known is None:
        raise malformed("a header of no kind")
    kind, width = known
    octets, end = _octets(block, at + 1, status)
    if width and len(octets) != width:
        raise malformed(f"{len(octets)} bytes in a header are no {kind.name}")
    return kind, octets, end


def _octets(block: bytes, at: int, status: int) -> tuple[bytes, int]:
    """status: what it is called that they are none, or too many."""
    try:
        size = _u32.unpack_from(block, at)[0]
    except struct.error:
        raise malformed("the headers end within a length") from None
    end = at + 4 + size
    if not 0 < size <= _LONGEST:
        raise CommandFailed(Fault.MALFORMED, f"{size} bytes in a header where 1 to {_LONGEST} can be", status=status)
    if end > len(block):
        raise malformed("a header key or value that is cut short")
    return block[at + 4 : end], end
