"""A dialect that somebody drops into a folder of his own is served, and held to the contract of all dialects."""

from __future__ import annotations

import math
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from inspect import signature
from pathlib import Path

import pytest

from dialects import test_contract as contract
from system.peers import Lines, Stream
from system.processes import COMMAND, ROOT, GatewayProcess, environment

SECONDS = 120.0
"""For one run of the contract; it takes six."""

NOTES = '''\
"""Notes: u32be length, then `+topic NUL value` to leave one, or `?topic NUL` and a u64be number to read one.

Answers are `+` and the number of the note, `=` and the note, `-` for none yet, or `!` and the name of a fault.
"""

import struct

from gateway.core.commands import Fetch, Publish, Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical
from gateway.core.replies import Published, Records
from gateway.dialects import Dialect, Listener, Refusal, Request


def measure(held, start, scanned):
    return 4 + struct.unpack_from(">I", held, start)[0] if len(held) - start >= 4 else 0


def framed(body):
    return struct.pack(">I", len(body)) + body


def decode_request(frame, terms):
    kind, (name, nul, rest) = frame[4:5], frame[5:].partition(b"\\0")
    try:
        topic = Topic(terms.namespace, name.decode())
    except UnicodeDecodeError:
        return Refusal(CommandFailed(Fault.INVALID_NAME))
    if kind == b"+" and nul:
        return Request(Publish(topic, 0, canonical([Record(value=rest)], "notes"), create=1))
    if kind == b"?" and nul and len(rest) == 8 and rest[0] < 0x80:
        return Request(Fetch(topic, 0, int.from_bytes(rest), 1))
    return Refusal(CommandFailed(Fault.MALFORMED))


def encode_reply(request, outcome, terms):
    if isinstance(outcome, Published):
        return framed(b"+" + outcome.base.to_bytes(8))
    if isinstance(outcome, Records):
        found = [record for batch in outcome.batches for record in batch.records()]
        return framed(b"=" + (found[0].value or b"") if found else b"-")
    return framed(b"!" + outcome.fault.name.encode())


def encode_request(request, terms):
    match request.command:
        case Publish(topic=topic, to=0, batch=batch) if batch.count == 1:
            [record] = batch.records()
            if record == Record(value=record.value or b""):  # it has a value and nothing else
                return framed(b"+" + written(topic, terms) + b"\\0" + record.value)
        case Fetch(topic=topic, partition=0, start=int(start)) if 0 <= start < 1 << 63:
            return framed(b"?" + written(topic, terms) + b"\\0" + start.to_bytes(8))
    raise CommandFailed(Fault.UNSUPPORTED)


def written(topic, terms):
    if topic.namespace != terms.namespace or not isinstance(topic.name, str):
        raise CommandFailed(Fault.UNSUPPORTED)
    if "\\0" in topic.name:
        raise CommandFailed(Fault.UNREPRESENTABLE)
    return topic.name.encode()


def decode_reply(request, frame, terms):
    kind, rest, command = frame[4:5], frame[5:], request.command
    if kind == b"!" and rest.decode("ascii", "replace") in Fault.__members__:
        return CommandFailed(Fault[rest.decode()])
    if kind == b"+" and len(rest) == 8 and isinstance(command, Publish):
        return Published(0, int.from_bytes(rest), int.from_bytes(rest))
    if isinstance(command, Fetch) and (kind == b"=" or frame[4:] == b"-"):
        batches = (canonical([Record(value=rest)]).appended(command.start, 0),) if kind == b"=" else ()
        return Records(0, 0, 0, batches)
    raise CommandFailed(Fault.MALFORMED)


DIALECT = Dialect(
    name="notes",
    port=7777,
    tagged=False,
    max_frame=1 << 20,
    listener=Listener,
    measure_request=measure,
    measure_reply=measure,
    decode_request=decode_request,
    encode_reply=encode_reply,
    encode_request=encode_request,
    decode_reply=decode_reply,
    faults={fault: fault.name for fault in Fault},
)
'''

SPEC = """\
from construct import Const, ConstructError, GreedyBytes, Int32ub, Int64ub, NullTerminated, Prefixed, Select, Struct
from construct import GreedyString, Terminated

NAME = NullTerminated(GreedyString("utf8"))
LEAVE = Struct(Const(b"+"), "topic" / NAME, "value" / GreedyBytes, Terminated)
READ = Struct(Const(b"?"), "topic" / NAME, "number" / Int64ub, Terminated)
REQUEST = Struct("body" / Prefixed(Int32ub, Select(LEAVE, READ)), Terminated)


def parse_request(frame):
    try:
        found = REQUEST.parse(frame).body
    except ConstructError:
        return None
    return None if found.get("number", 0) >> 63 else found
"""

LEFT = 'Publish(Topic("default", "{}"), 0, canonical([Record(value={})], "notes"), create=1)'
WANTED = 'Fetch(Topic("default", "{}"), 0, {}, 1)'
MALFORMED = "0000000a 21 4d414c464f524d4544"
KEPT = 'Records(0, 0, 8, (canonical([Record(value=b"abc")]),))'

CASES = [
    (
        "a note is left",
        "00000006 2b 6f 00 616263",
        "00000009 2b 0000000000000007",
        LEFT.format("o", 'b"abc"'),
        "Published(0, 7, 7)",
    ),
    (
        "a note may be empty",
        "00000003 2b 6f 00",
        "00000009 2b 0000000000000000",
        LEFT.format("o", 'b""'),
        "Published(0, 0, 0)",
    ),
    (
        "a note may hold NUL",
        "00000005 2b 6f 00 0000",
        "00000009 2b 0000000000000001",
        LEFT.format("o", 'hex("0000")'),
        "Published(0, 1, 1)",
    ),
    (
        "a topic may have any name",
        "00000006 2b c3a9 00 6162",
        "00000009 2b 0000000000000001",
        LEFT.format("\u00e9", 'b"ab"'),
        "Published(0, 1, 1)",
    ),
    (
        "a note is refused",
        "00000006 2b 6f 00 616264",
        "00000005 21 42555359",
        LEFT.format("o", 'b"abd"'),
        "CommandFailed(Fault.BUSY)",
    ),
    ("a note is read", "0000000b 3f 6f 00 0000000000000007", "00000004 3d 616263", WANTED.format("o", 7), KEPT),
    (
        "there is none yet",
        "0000000b 3f 6f 00 0000000000000008",
        "00000001 2d",
        WANTED.format("o", 8),
        "Records(0, 0, 0)",
    ),
    (
        "there is no such topic",
        "0000000b 3f 78 00 0000000000000000",
        "0000000e 21 4e4f5f535543485f544f504943",
        WANTED.format("x", 0),
        "CommandFailed(Fault.NO_SUCH_TOPIC)",
    ),
    ("nothing is no request", "00000000", MALFORMED, "", "MALFORMED"),
    ("another word is no request", "00000003 2a 6f 00", MALFORMED, "", "MALFORMED"),
    ("a name has an end", "00000002 2b 6f", MALFORMED, "", "MALFORMED"),
    ("a name is UTF-8", "00000003 2b ff 00", "0000000d 21 494e56414c49445f4e414d45", "", "INVALID_NAME"),
    ("a number has 8 bytes", "0000000a 3f 6f 00 00000000000000", MALFORMED, "", "MALFORMED"),
    ("a number is below 2^63", "0000000b 3f 6f 00 8000000000000000", MALFORMED, "", "MALFORMED"),
]
"""Name, request, answer, command, outcome; or no command, and the fault of the refusal."""


def vector(name: str, when: str, then: str, command: str, outcome: str) -> str:
    """The case as gateway/conformance/vectors.py wants it."""
    means = [f"command = '{command}'", f"outcome = '{outcome}'"] if command else [f'refusal = "{outcome}"']
    roles = ['roles = ["server"]'] if outcome == KEPT else []
    said = [f'name = "{name}"', 'source = "its docstring"', f'when = "{when}"', f'then = "{then}"']
    return "\n".join(["[[case]]", *said, *means, *roles, ""])


def drop(directory: Path) -> Path:
    """Put the dialect there, as an operator would.  Returns what `--plugins` is told."""
    package = directory / "dialects" / "notes"
    (package / "vectors").mkdir(parents=True)
    (package / "__init__.py").write_text(NOTES)
    (package / "spec.py").write_text(SPEC)
    (package / "vectors" / "notes.toml").write_text("\n".join(vector(*case) for case in CASES))
    return directory


# -- served


def ask(peer: Stream, body: bytes) -> bytes:
    peer.send(struct.pack(">I", len(body)) + body)
    (size,) = struct.unpack(">I", peer.exactly(4))
    return peer.exactly(size)


def test_a_dialect_in_a_folder_is_served_beside_the_others(tmp_path: Path) -> None:
    command = (*COMMAND, "--plugins", str(drop(tmp_path / "plugins")))
    with GatewayProcess(tmp_path, "notes", "pipe", command=command) as gateway:
        with Stream(gateway.ports["notes"]) as notes, Lines(gateway.ports["pipe"]) as lines:
            assert ask(notes, b"?orders\0" + bytes(8)) == b"!NO_SUCH_TOPIC"
            assert ask(notes, b"+orders\0first") == b"+" + bytes(8)
            assert ask(notes, b"+orders\0second") == b"+" + bytes(7) + b"\1"
            assert ask(notes, b"?orders\0" + bytes(7) + b"\1") == b"=second"
            assert ask(notes, b"?orders\0" + bytes(7) + b"\2") == b"-"
            assert ask(notes, b"what?") == b"!MALFORMED"
            assert lines.read_all("orders", 0) == ["first", "second"]
            assert lines.produce("orders", "k", "third") == (0, 2)
            assert ask(notes, b"?orders\0" + bytes(7) + b"\2") == b"=third", "and of what is said in V1 here"
        gateway.kill()
        gateway.start()
        with Stream(gateway.ports["notes"]) as notes:
            assert ask(notes, b"?orders\0" + bytes(8)) == b"=first"


# -- held to the contract

CONTRACT = ROOT / "tests" / "dialects" / "test_contract.py"

WITH_PLUGINS = """
import sys
from pathlib import Path

import pytest

from gateway.service import add_plugins

add_plugins(Path(sys.argv[1]))
sys.exit(pytest.main(sys.argv[2:]))
"""


def examine(plugins: Path) -> subprocess.CompletedProcess[str]:
    """The contract of all dialects, as it is, for the one in that folder; up to the first complaint."""
    chosen = ("-q", "-x", "-p", "no:cacheprovider", "-k", "[notes", str(CONTRACT))
    return subprocess.run(
        [sys.executable, "-c", WITH_PLUGINS, plugins, *chosen],
        cwd=ROOT,
        env=environment(ROOT),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def test_a_dialect_in_a_folder_keeps_the_contract(tmp_path: Path) -> None:
    done = examine(drop(tmp_path))
    assert done.returncode == 0, done.stdout[-10_000:]
    found = re.fullmatch(r"(\d+) passed, \d+ deselected in .*", done.stdout.splitlines()[-1])
    assert found is not None, "nothing is left out"
    assert int(found[1]) == len(PROMISES)


BROKEN = {
    "more is read than its specification has": (" and rest[0] < 0x80", ""),
    "a fault has no word": ("{fault: fault.name for fault in Fault}", "{Fault.BUSY: 'BUSY'}"),
    "an answer is no frame": ('if found else b"-")', 'if found else b"-") + b"\\0"'),
}
"""What is done to the dialect, that the contract has to find."""


@pytest.mark.parametrize("broken", BROKEN)
def test_a_dialect_that_breaks_the_contract_is_found(tmp_path: Path, broken: str) -> None:
    code = drop(tmp_path) / "dialects" / "notes" / "__init__.py"
    assert NOTES.count(BROKEN[broken][0]) == 1
    code.write_text(NOTES.replace(*BROKEN[broken]))
    done = examine(tmp_path)
    assert done.returncode == 1, done.stdout[-10_000:]
    assert "1 failed" in done.stdout.splitlines()[-1]


def promises() -> Iterator[str]:
    """Every test of the contract that is about one dialect, as often as it is run for each."""
    for name, promise in vars(contract).items():
        if name.startswith("test_") and "subject" in signature(promise).parameters:
            marks = [mark.args[1] for mark in getattr(promise, "pytestmark", []) if mark.name == "parametrize"]
            yield from [name] * math.prod(map(len, marks))


PROMISES = list(promises())
