"""PROTOCOL_HELLO and its answer: which release of the library, which protocol, which features.

    value: writeUTF version · writeUTF oldest compatible version · i32 protocol version · i64 features

writeUTF is Java's: u16 length in bytes, then modified UTF-8, where NUL is c0 80 and what is beyond the first plane is a
pair of surrogates of three bytes each.  Source: protocol page, section 2.
"""

from __future__ import annotations

import struct

from gateway.core.faults import CommandFailed, Fault
from gateway.dialects.grid.terms import GridTerms, Hello
from gateway.dialects.grid.version import parts

_u16 = struct.Struct(">H")
_rest = struct.Struct(">iQ")


def read_utf(octets: bytes, start: int) -> tuple[str, int]:
    """A text as DataInput.readUTF has it, and where it ends.  Raises ValueError or struct.error."""
    end = start + 2 + _u16.unpack_from(octets, start)[0]
    inside = octets[start + 2 : end]
    if end > len(octets) or max(inside, default=0) >= 0xF0:
        raise ValueError("no text as Java writes it")
    text = inside.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le"), end


def write_utf(text: str) -> bytes:
    """The same the other way round.  Raises ValueError for a text that is too long."""
    units = text.encode("utf-16-le", "surrogatepass")
    pairs = [units[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(units), 2)]
    inside = "".join(pairs).encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    if len(inside) > 0xFFFF:
        raise ValueError("more text than a length of 16 bits can say")
    return _u16.pack(len(inside)) + inside


def read_hello(value: bytes, opcode: str, version: int) -> Hello:
    """What a peer says of itself.  Raises CommandFailed(MALFORMED)."""
    try:
        release, at = read_utf(value, 0)
        oldest, at = read_utf(value, at)
        if len(value) != at + _rest.size:
            raise ValueError(f"{len(value)} bytes")  # noqa: TRY301  # all that can be wrong is told alike
        protocol, bitmap = _rest.unpack_from(value, at)
        for text in (release, oldest):
            parts(text)
    except (ValueError, struct.error) as error:
        raise CommandFailed(Fault.MALFORMED, f"no hello: {error}") from error
    return Hello(opcode=opcode, version=version, release=release, oldest=oldest, protocol=protocol, bitmap=bitmap)


def write_hello(hello: Hello) -> bytes:
    """The value of a hello."""
    return write_utf(hello.release) + write_utf(hello.oldest) + _rest.pack(hello.protocol, hello.bitmap)


def own_hello(terms: GridTerms) -> Hello:
    """What we say of ourselves."""
    ours = terms.grid.hello
    return Hello(release=ours.version, oldest=ours.min, protocol=terms.grid.versions[0], bitmap=terms.bitmap)


def check(theirs: Hello, terms: GridTerms) -> None:
    """Raises CommandFailed(UNSUPPORTED) if the two ends cannot understand each other."""
    ours = terms.grid.hello
    if theirs.protocol not in terms.grid.versions:
        accepted = ", ".join(map(str, terms.grid.versions))
        raise CommandFailed(Fault.UNSUPPORTED, f"protocol version {theirs.protocol}, {accepted} are spoken here")
    if parts(theirs.release) < parts(ours.min):
        raise CommandFailed(Fault.UNSUPPORTED, f"version {theirs.release} is older than {ours.min}")
    if parts(ours.version) < parts(theirs.oldest):
        raise CommandFailed(Fault.UNSUPPORTED, f"version {ours.version} is spoken here, older than {theirs.oldest}")
