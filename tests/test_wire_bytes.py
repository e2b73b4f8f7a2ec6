"""Wire bytes stand in the cases and vectors beside the dialects, and in no test.

What a test sends, or wants to be sent, it has from a codec, from the specification of a dialect or from a case, so that
each byte is written down in one place.  What looks like bytes of a dialect in a test is found here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gateway.dialects.cursus.commands import READ
from gateway.dialects.grid.numbers import OPCODES
from gateway.dialects.mlog.fields import MESSAGES

TESTS = Path(__file__).parent

ELSEWHERE: dict[str, str] = {
    "admin/seats.py": "what telnet says of a window",
    "admin/test_console_calling.py": "what telnet and terminals say",
    "admin/test_console_escapes.py": "values of records, which steer a terminal",
    "admin/test_console_ssh.py": "what SSH says of a terminal",
    "backends/test_kafka_membership.py": "what the gateway says to Kafka, in Kafka's own protocol",
    "compression/test_compression.py": "blocks of snappy-java, which is a format of its own",
    "conformance/small_clients.py": "clients that are right, or wrong on purpose, and know nothing of our codecs",
    "conformance/test_patterns.py": "toy bytes that try the form language, of no dialect",
    "conformance/test_playing.py": "toy frames behind a byte of length, of no dialect",
    "conformance/test_vectors.py": "toy bytes that try the spellings of a case, of no dialect",
    "dialects/test_frames.py": "frames of its own, of no dialect",
    "dialects/test_mlog_metadata.py": "what the project writes into its Raft log, and sends to nobody",
    "dialects/test_seam.py": "three toy dialects of its own",
    "net/test_users.py": "a digest that RFC 7914 has",
    "plugins/test_dropin_dialect.py": "a dialect that is dropped in, with its vectors",
}
"""A file whose bytes are of no dialect, or wrong on purpose, and why."""

PACKING = ("bytes.fromhex", "unhexlify", "struct.pack", "struct.Struct", "Struct", "to_bytes")

KEYS = {field.encode_name for kind in MESSAGES for field in msgspec.structs.fields(kind)}

NAMES = {*OPCODES, *READ}
"""Of commands: alone, and as text, they are no bytes of one."""

SPOKEN = [
    re.compile(rb"(?m)^ ?V\d ?\|"),  # pipe
    re.compile(rb"ERROR: |^(%s)( \w+=|$)" % "|".join(READ).encode()),  # cursus
    re.compile(rb'^\{"(%s)":' % "|".join(KEYS).encode(), re.IGNORECASE),  # mlog
]


def binary(octets: bytes) -> bool:
    """Whether that is more than text, or a value with a strange byte in it."""
    text = octets.decode("utf-8", "replace")
    if text.isprintable() and "\ufffd" not in text:
        return False
    return len(octets) >= 4 and sum(octet < 9 or 13 < octet < 32 or octet > 126 for octet in octets) >= 2


def heard(call: ast.Call) -> bool:
    """Whether it reads what another program has said in hex, as a part of its JSON."""
    return ast.unparse(call.func).endswith("fromhex") and isinstance(call.args[0], ast.Subscript | ast.Attribute)


def written(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The lines with something that looks like bytes of a dialect, and how it begins."""
    sentences = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(PACKING) and not heard(node):
            yield node.lineno, ast.unparse(node)[:60]
        if isinstance(node, ast.Constant) and isinstance(node.value, bytes | str) and id(node) not in sentences:
            text = node.value
            octets = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
            spoken = text not in NAMES and any(form.search(octets) for form in SPOKEN)
            if spoken or (isinstance(text, bytes) and binary(text)):
                yield node.lineno, repr(text)[:60]


FILES = sorted(str(path.relative_to(TESTS)) for path in TESTS.rglob("*.py") if path != Path(__file__))


@pytest.mark.parametrize("file", FILES)
def test_no_wire_bytes_are_written_by_hand(file: str) -> None:
    found = list(written(ast.parse((TESTS / file).read_text("utf-8"))))
    assert found == [] or file in ELSEWHERE


def test_who_is_excepted_has_a_reason_to_be() -> None:
    for file in ELSEWHERE:
        assert list(written(ast.parse((TESTS / file).read_text("utf-8")))), file
