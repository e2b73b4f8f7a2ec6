"""A gateway that is broken in one of ten ways is caught in each, and the byte is pointed at; so is any flipped byte."""

from __future__ import annotations

import json
import random
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import msgspec
import pytest
from twisted.internet.defer import Deferred

from conformance.broken import CLOSE, Broken, Damage
from conformance.flips import Flip, Told
from conformance.judged import subject
from conformance.met import judged as played
from conformance.met import of_server
from conformance.test_grid_cases import OTHERS as GRID_LISTENERS
from conformance.test_mlog_cases import OTHER as MLOG_LISTENER
from gateway.conformance.cases import LOGIN, Expect, load
from gateway.conformance.comparing import Unlike, compare
from gateway.conformance.patterns import Exactly, Known, Octets, Part, Sized, Span, fill, pattern
from gateway.conformance.playing import Way
from gateway.conformance.results import Result
from gateway.conformance.servers import Judge
from gateway.core.commands import Authenticate
from gateway.dialects import load as dialect_of
from gateway.net.users import new_password
from system.configured import Configured, listener
from system.loops import Loop
from system.processes import GatewayProcess

BINARY = ("cursus", "pipe", "iggy", "grid", "mlog")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("whole"), "cursus", backend="memory") as gateway:
        yield gateway


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with Loop() as loop:
        yield loop


def each(change: object) -> Damage:
    """The same done to every frame."""
    return lambda frames: [change(frame) for frame in frames]  # type: ignore[operator]


def turned(frame: bytes, first: int, last: int) -> bytes:
    return frame[:first] + frame[first:last][::-1] + frame[last:]


def longer(frame: bytes) -> bytes:
    return framed(frame[4:] + b" ")[:4] + frame[4:]


def framed(text: bytes) -> bytes:
    return b"".join(fill(pattern({"frame": "{text}"}), {"text": text}))


def is_batch(frame: bytes) -> bool:
    return frame[4:6] == b"\xba\x7c"


def late(frames: Sequence[bytes]) -> list[bytes | float]:
    return [2.5, *frames]


def crossed(frames: Sequence[bytes]) -> list[bytes]:
    return list(reversed(frames)) if len(frames) == 2 else []


@dataclass
class Fault:
    """One way to be broken.  at: the byte of the frame that is to be pointed at, None = it depends on the case."""

    name: str
    case: str
    damage: Damage
    at: int | None
    way: Way = "whole"


# A batch begins: length u32be 0..3, magic 4..5, topic 6..15, partition 16..19, acks 20..21, flag 22, first and last
# sequence number i64be 23..38, count u32be 39..42, records from 43 on.
FAULTS = [
    Fault("wrong endian", "CUR-4.1.1", each(lambda f: turned(f, 39, 43) if is_batch(f) else f), 39),
    Fault("length one too high", "CUR-4.1.1", each(lambda f: longer(f) if is_batch(f) else f), 3),
    Fault("last byte missing", "CUR-4.1.1", each(lambda f: f[:-1] if is_batch(f) else f), None),
    Fault("wrong error", "CUR-2.21.2", each(lambda f: framed(f[4:].replace(b"topic_not", b"group_not"))), 11),
    Fault(
        "fields swapped", "CUR-4.1.1", each(lambda f: f[:23] + f[31:39] + f[23:31] + f[39:] if is_batch(f) else f), 30
    ),
    Fault("late", "CUR-2.21.2", late, 0),
    Fault("out of order", "CUR-2.21.2", crossed, None, "merged"),
    Fault("hangs up", "CUR-2.21.2", lambda frames: [CLOSE], 0),
    Fault("stale generation", "CUR-2.8.2", each(lambda f: f.replace(b"generation=2", b"generation=1")), 18),
    Fault("batch cut short", "CUR-4.1.1", each(lambda f: framed(f[4:80]) if is_batch(f) else f), 80),
]


SEEDS = count()
"""Each judge has names of its own."""


def judged(loop: Loop, port: int, id: str, way: Way) -> Result:
    [case] = [case for case in load("cursus") if case.id == id]
    judge = loop.call(lambda: Judge(subject(loop, "cursus", port), ways=[way], seed=next(SEEDS)))
    try:
        [result] = loop.call(lambda: Deferred.fromCoroutine(judge.judge([case])))
    finally:
        loop.call(judge.close)
    return result


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "-"))
def test_a_fault_is_caught_and_pointed_at(gateway: GatewayProcess, loop: Loop, fault: Fault) -> None:
    whole = judged(loop, gateway.ports["cursus"], fault.case, fault.way)
    assert whole.verdict == "PASS", whole.why
    broken = Broken(loop, gateway.ports["cursus"], dialect_of("cursus").measure_reply, fault.damage)
    try:
        ruling = judged(loop, broken.port, fault.case, fault.way).ruling
    finally:
        broken.close()
    assert ruling is not None and ruling.verdict == "FAIL"
    if fault.name == "last byte missing":
        assert ruling.at == len(ruling.got) == int.from_bytes(ruling.got[:4], "big") + 3
    elif fault.at is not None:
        assert ruling.at == fault.at, ruling
    else:
        assert ruling.at > 0 and ruling.got


def test_there_are_ten_of_them() -> None:
    assert len({fault.name for fault in FAULTS}) == 10


# -- every byte


def stand_ins(parts: Sequence[Part]) -> dict[str, bytes]:
    """Something for each blank that has a name."""
    found: dict[str, bytes] = {}
    for part in parts:
        match part:
            case Sized(parts=inner):
                found |= stand_ins(inner)
            case Octets(count=size, name=name) if name:
                found[name] = bytes(size)
            case Span(name=name, kind=kind):
                found[name] = b"7" if kind == "int" else b"x"
            case Known(name=name):
                found.setdefault(name, b"known-00")
    return found


def bytes_of(parts: Sequence[Part], names: dict[str, bytes]) -> tuple[bytes, set[int]]:
    """What the form looks like, and which of its bytes may be any."""
    octets, free = bytearray(), set()
    for part in parts:
        match part:
            case Sized(width=width, order=order, parts=inner):
                within, blanks = bytes_of(inner, names)
                free |= {len(octets) + width + at for at in blanks}
                octets += b"".join(fill([Sized(width, order, (Known("within"),))], {"within": within}))
            case Octets(count=size):
                free |= set(range(len(octets), len(octets) + size))
                octets += bytes(size)
            case Span(name=name):
                free |= set(range(len(octets), len(octets) + len(names[name])))
                octets += names[name]
            case Exactly() | Known():
                octets += fill([part], names)[0]
    return bytes(octets), free


@pytest.mark.parametrize("dialect", BINARY)
def test_any_flipped_byte_of_an_answer_that_a_server_may_not_choose_is_caught(dialect: str) -> None:
    judged = blank = 0
    for case in load(dialect):
        if case.role != "server":
            continue
        for step in case.steps:
            if isinstance(step, Expect):
                names = stand_ins(step.form)
                octets, free = bytes_of(step.form, names)
                for at in range(len(octets)):
                    if at not in free:
                        flipped = octets[:at] + bytes((octets[at] ^ 1,)) + octets[at + 1 :]
                        assert isinstance(compare(step.form, flipped, names), Unlike), (case.id, at)
                judged, blank = judged + len(octets), blank + len(free)
                assert not isinstance(compare(step.form, octets, names), Unlike), case.id
    assert judged and blank


# -- every byte of what our gateway says

SAMPLE = 16
"""Bytes of each case that `make test` looks at; `make soak` looks at all."""

LISTENERS = {
    "grid": ["", *GRID_LISTENERS.values()],
    "mlog": ["", "".join(f"{key} = {json.dumps(value)}\n" for key, value in MLOG_LISTENER.items())],
}
"""Settings beside those that a listener has by itself."""

_NODE = ("cpu", "used", "unused", "age", "read", "written", "clients")

FREE = {
    **{f"IGY-{number}": (*_NODE, *(f"{name}2" for name in _NODE)) for number in ("2.8.5", "3.9.8")},
    "IGY-3.9.7": tuple(f"{name}{again}" for name in (*_NODE, "threads", "disk") for again in ("", "2")),
    "PIP-2.2.1": ("index",),
    "PIP-2.2.3": ("first", "second", "third", "fourth", "fifth"),
    "PIP-2.2.5": ("number",),
    "PIP-2.2.6": ("first", "second"),
    "PIP-2.2.7": ("first",),
    "PIP-2.2.8": ("index",),
}
"""Blanks in which another byte can be said without anybody noticing; docs/conformance.md says why."""

NAMED = Authenticate("plain", "ann", "correct-horse")


def gateway_of(directory: Path, dialect: str, settings: str, *, named: bool = False) -> Configured:
    """named: it lets in nobody but who it knows."""
    auth = {"auth": '"required"'} if named else {}
    password = new_password(NAMED.secret, log_n=4).text()
    users = f'[users.{NAMED.principal}]\npassword = "{password}"\n' if named else ""
    directory.mkdir()
    return Configured(directory, 'backend.spec = "memory"\n' + listener(dialect, **auth) + settings + users)


def recorded(loop: Loop, directory: Path, dialect: str) -> list[Told]:
    """Every case of a server that does not take seconds, played twice."""
    results: list[Result] = []
    for number, settings in enumerate(LISTENERS.get(dialect, [""])):
        with gateway_of(directory / str(number), dialect, settings) as gateway:
            found = subject(loop, dialect, gateway.ports[dialect], **tomllib.loads(settings))
            missing = {case.id for case in of_server(dialect)} - {each.case.id for each in results if each.rulings}
            asked = [case for case in of_server(dialect) if case.id in missing]
            for alone in (True, False):  # first: what they list is short then
                some = [case for case in asked if case.alone is alone]
                results += played(loop, found, some, ("whole", "merged"), seed=2 * number + alone)
    closed = [case for case in load(dialect) if case.role == "server" and LOGIN in case.needs]
    if closed:
        with gateway_of(directory / "named", dialect, "", named=True) as gateway:
            found = subject(loop, dialect, gateway.ports[dialect])
            known = msgspec.structs.replace(found, login=NAMED, guest=False)
            results += played(loop, known, closed, ("whole", "merged"))
    return [Told(result) for result in results if result.verdict in ("PASS", "LENIENT")]


@pytest.fixture(scope="module", params=BINARY)
def recording(request: pytest.FixtureRequest, loop: Loop, tmp_path_factory: pytest.TempPathFactory) -> list[Told]:
    told = recorded(loop, tmp_path_factory.mktemp("recorded"), request.param)
    for each in told:
        assert each.again().verdict == each.ruling.verdict, each.result.case.id
    return told


def unnoticed(told: Sequence[Told], count: int | None) -> tuple[Counter[str], int]:
    """Blank of a case -> how many of its bytes; and how many were looked at.  count: of each case, None = all."""
    bits = random.Random(len(told))
    found: Counter[str] = Counter()
    looked = 0
    for each in told:
        octets = each.octets
        chosen = octets if count is None else bits.sample(octets, min(count, len(octets)))
        blanks = [each.unnoticed(Flip(crossing, at, bits.randrange(8))) for crossing, at in chosen]
        found.update(f"{each.result.case.id} {blank}" for blank in blanks if blank is not None)
        looked += len(chosen)
    return found, looked


def may_be(told: Sequence[Told]) -> set[str]:
    return {f"{each.result.case.id} {name}" for each in told for name in FREE.get(each.result.case.id, ())}


def test_a_flipped_byte_of_what_our_gateway_says_is_noticed(recording: list[Told]) -> None:
    found, _ = unnoticed(recording, SAMPLE)
    assert set(found) <= may_be(recording), found


@pytest.mark.long
def test_every_flipped_byte_of_what_our_gateway_says_is_noticed(recording: list[Told]) -> None:
    found, looked = unnoticed(recording, None)
    assert set(found) <= may_be(recording), found
    assert found.total() < looked / 100
