"""gateway.conformance.fuzzing: damaged requests find nothing in a gateway, and a broken server is caught."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import wire
from conformance.broken import CLOSE, Broken, Damage
from conformance.judged import subject
from conformance.met import judged
from gateway.conformance.calling import Caller, Gone
from gateway.conformance.cases import parse
from gateway.conformance.damage import DAMAGES
from gateway.conformance.fields import cut
from gateway.conformance.fuzz import line
from gateway.conformance.fuzzing import Found, Fuzzer
from gateway.conformance.grammars import Grammar, filled
from gateway.conformance.promoting import promote
from gateway.conformance.servers import Subject
from gateway.conformance.trials import Failure, Trial
from gateway.core import commands as q
from gateway.core.replies import CommittedOffsets
from gateway.dialects import Request, load
from gateway.dialects.cursus.batch import MAGIC
from system.loops import Loop
from system.processes import GatewayProcess

DIALECTS = ["cursus", "pipe", "iggy", "grid", "mlog"]
NAMES = {"topic": b"t-123456", "group": b"g-123456"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("whole"), *DIALECTS, backend="memory") as gateway:
        yield gateway


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with Loop() as loop:
        yield loop


def grammar_of(found: Subject) -> Grammar:
    return Grammar(found.dialect, found.settings, found.login)


def plain(dialect: str) -> Grammar:
    return Grammar(load(dialect), load(dialect).settings())


def fuzzed(found: Subject, count: int = 300, seed: int = 1) -> list[Found]:
    return Fuzzer(grammar_of(found), Caller(found).attempt, seed=seed).run(count)


# -- the gateway


@pytest.mark.parametrize("dialect", DIALECTS)
def test_damaged_requests_find_nothing_in_a_gateway(gateway: GatewayProcess, loop: Loop, dialect: str) -> None:
    assert list(map(line, fuzzed(subject(loop, dialect, gateway.ports[dialect])))) == []


def test_an_older_generation_of_iggy_is_fuzzed_in_its_own_grammar(tmp_path: Path, loop: Loop) -> None:
    told = {"generation": "g1b"}
    with GatewayProcess(tmp_path, "iggy", backend="memory", settings={"iggy": told}) as gateway:
        assert list(map(line, fuzzed(subject(loop, "iggy", gateway.ports["iggy"], **told), 150))) == []


# -- servers that are broken


REFUSED = wire.told("pipe", "a blank line is a request of too few parts")
BLANK, BAD = REFUSED[: REFUSED.index(b"|BAD")], REFUSED[REFUSED.index(b"BAD") : REFUSED.rindex(b"|")]
"""How a refusal begins whose request said nothing of itself; and the code of every refusal."""


def swallows(frame: bytes) -> bytes:
    """It says nothing when it has to refuse."""
    return b"" if frame.startswith(BLANK) else frame


def agrees(frame: bytes) -> bytes:
    """It takes everything for a request."""
    if BAD not in frame:
        return frame
    asked = Request(q.FetchOffsets(q.Topic("default", "orders"), q.Group("g"), (0,)), frame.split(b"|")[1].decode())
    return wire.reply("pipe", asked, CommittedOffsets({}))


def hangs_up(frame: bytes) -> bytes:
    return CLOSE if frame.startswith(BLANK) else frame


def repeats(frame: bytes) -> bytes:
    return frame * 2 if BAD in frame else frame


def mumbles(frame: bytes) -> bytes:
    return b"what?\n" if BAD in frame else frame


def agrees_in_iggy(frame: bytes) -> bytes:
    return bytes(8) if frame == wire.told("iggy", "a code that nobody knows is error 3") else frame


def agrees_in_the_grid(frame: bytes) -> bytes:
    fine = wire.told("grid", "a value is put")
    refused = wire.told("grid", "an unknown opcode leaves the connection")
    return fine[:2] + frame[2:6] + fine[6:15] + frame[15:16] if frame[1] == refused[1] else frame


BROKEN: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("pipe", swallows, "unreadable"),  # the answer to the probe is none to what was refused
    ("pipe", agrees, "not refused"),
    ("pipe", hangs_up, "hung up"),
    ("pipe", repeats, "probe"),  # which is not answered with the second of them
    ("pipe", mumbles, "unreadable"),
    ("iggy", agrees_in_iggy, "not refused"),
    ("grid", agrees_in_the_grid, "not refused"),
]


def each(change: Callable[[bytes], bytes]) -> Damage:
    def done(frames: Sequence[bytes]) -> Sequence[bytes]:
        changed = [change(frame) for frame in frames]
        return [CLOSE] if CLOSE in changed else changed

    return done


@pytest.mark.parametrize(("dialect", "change", "kind"), BROKEN, ids=[change.__name__ for _, change, _ in BROKEN])
def test_a_broken_server_is_caught_and_the_failure_becomes_a_case(
    gateway: GatewayProcess, loop: Loop, tmp_path: Path, dialect: str, change: Callable[[bytes], bytes], kind: str
) -> None:
    broken = Broken(loop, gateway.ports[dialect], load(dialect).measure_reply, each(change))
    try:
        whole, wrong = subject(loop, dialect, gateway.ports[dialect]), subject(loop, dialect, broken.port)
        found = fuzzed(wrong, 100)
        assert kind in {each.failure.kind for each in found}
        smallest = min((each for each in found if each.failure.kind == kind), key=lambda each: len(each.octets))
        path = promote(smallest, grammar_of(wrong), tmp_path)
        [case] = parse(dialect, path.name, path.read_text())
        assert (case.level, case.source) == ("MUST", f"fuzz, seed {smallest.seed}")
        assert judged(loop, wrong, [case], ["whole"])[0].failed
        assert [result.verdict for result in judged(loop, whole, [case])] == ["PASS"]
    finally:
        broken.close()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_failure_of_any_dialect_becomes_a_case_that_a_gateway_passes(
    gateway: GatewayProcess, loop: Loop, tmp_path: Path, dialect: str
) -> None:
    whole = subject(loop, dialect, gateway.ports[dialect])
    asked: list[bytes] = []

    def kept(trial: Trial, patience: float) -> Failure | None:
        asked.append(trial.octets)
        return Caller(whole).attempt(trial, patience)

    grammar = grammar_of(whole)
    Fuzzer(grammar, kept, seed=3).run(25)
    for octets in asked:
        promote(Found(Failure("silence", "not really"), octets, octets, 3), grammar, tmp_path)
    cases = [case for path in sorted(tmp_path.iterdir()) for case in parse(dialect, path.name, path.read_text())]
    assert len(cases) == len(set(asked))
    unmet = [result for result in judged(loop, whole, cases, ["whole"]) if result.failed]
    assert [(result.case.id, result.why, result.ruling) for result in unmet] == []


def test_a_failure_shrinks_to_the_byte_that_does_it() -> None:
    grammar = plain("cursus")

    def afraid_of_ff(trial: Trial, patience: float) -> Failure | None:
        return Failure("silence", "it is afraid", "anything") if b"\xff" in trial.octets else None

    [found] = Fuzzer(grammar, afraid_of_ff, seed=5).run(200)
    assert found.octets.count(b"\xff") >= 1
    assert found.octets[found.at] != found.origin[found.at]
    assert len(found.octets) <= 8


def test_a_failure_is_reported_once_and_another_is_still_found() -> None:
    def moody(trial: Trial, patience: float) -> Failure | None:
        kind = "silence" if len(trial.octets) % 2 else "hung up"
        return Failure(kind, "it is moody", "anything")  # type: ignore[arg-type]  # one of the two

    found = Fuzzer(plain("pipe"), moody, seed=5).run(100)
    assert sorted(each.failure.kind for each in found) == ["hung up", "silence"]


def test_what_does_not_happen_again_is_said_so() -> None:
    counted = iter(range(1_000_000))

    def once(trial: Trial, patience: float) -> Failure | None:
        return Failure("silence", "it slept", "anything") if next(counted) == 10 else None

    [found] = Fuzzer(plain("pipe"), once, seed=5).run(50)
    assert not found.again
    assert "it did not happen again" in line(found)


def test_a_server_that_is_gone_is_not_asked_on_and_what_ended_it_is_said() -> None:
    asked: list[bytes] = []

    def dying(trial: Trial, patience: float) -> Failure | None:
        if len(asked) == 7:
            raise Gone("nobody listens any more")
        asked.append(trial.octets)
        return None

    [found] = Fuzzer(plain("mlog"), dying, seed=5).run(50)
    assert (found.failure.kind, found.octets) == ("gone", asked[-1])


def test_the_same_seed_sends_the_same_requests_and_another_does_not() -> None:
    def sent(seed: int) -> list[bytes]:
        octets: list[bytes] = []

        def kept(trial: Trial, patience: float) -> None:
            octets.append(trial.octets)

        Fuzzer(plain("grid"), kept, seed=seed).run(60)
        return octets

    assert sent(4) == sent(4)
    assert sent(4) != sent(5)


# -- what it is made of


@pytest.mark.parametrize("dialect", DIALECTS)
def test_fields_make_up_their_frame_and_are_more_than_words(dialect: str) -> None:
    grammar = plain(dialect)
    terms = grammar.greeted()
    for frame in grammar.seeds:
        fields = cut(frame, lambda octets: grammar.parse(octets, terms))
        assert b"".join(fields) == frame
        assert len(fields) > 1


def test_the_fields_of_a_batch_are_those_of_its_specification() -> None:
    grammar = plain("cursus")
    batch = next(frame for frame in grammar.seeds if frame[4:6] == MAGIC)
    fields = cut(batch, lambda octets: grammar.parse(octets, grammar.terms()))
    length, magic, size, topic = fields[:4]
    assert (int.from_bytes(length, "big"), magic) == (len(batch) - 4, MAGIC)
    assert int.from_bytes(size, "big") == len(topic)
    assert len(fields) > 15


@pytest.mark.parametrize("name", DAMAGES)
def test_no_damage_minds_what_it_is_done_to(name: str) -> None:
    choose = random.Random(name)
    for fields in ([b""], [b"\0"], [b"12", b"", b"ab" * 9], [b"999999999999999999999"]):
        for at in range(len(fields)):
            octets = b"".join(DAMAGES[name](list(fields), at, choose.randrange(256), [b"x", b"yz"]))
            assert len(octets) < 10_000


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_probe_is_a_request_of_its_dialect(dialect: str) -> None:
    grammar = plain(dialect)
    ask = filled(grammar.probe.ask, NAMES)
    assert grammar.framed(ask) == ([ask], b"")
    assert grammar.parse(ask, grammar.terms()) is not None
    assert grammar.mended(ask) == ask


# -- the command


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gateway.cli", "conformance", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_command_says_what_it_did(gateway: GatewayProcess) -> None:
    where = f"tcp:127.0.0.1:{gateway.ports['pipe']}"
    said = ran("fuzz", "--dialect", "pipe", "--connect", where, "--seed", "7", "--count", "50")
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines()[-1] == "pipe fuzz: 50 requests, 0 failures, seed 7"


def test_the_command_promotes_what_it_finds_to_a_file_that_the_server_command_plays(
    gateway: GatewayProcess, loop: Loop, tmp_path: Path
) -> None:
    broken = Broken(loop, gateway.ports["pipe"], load("pipe").measure_reply, each(hangs_up))
    try:
        wrong = f"tcp:127.0.0.1:{broken.port}"
        said = ran("fuzz", "--dialect=pipe", f"--connect={wrong}", "--seed=7", "--count=50", f"--promote={tmp_path}")
        assert said.returncode == 1
        assert "FAIL hung up" in said.stdout
        [path] = tmp_path.iterdir()
        judged = ran("server", "--dialect=pipe", f"--connect={wrong}", f"--file={path}")
        assert (judged.returncode, "1 FAIL" in judged.stdout) == (1, True)
    finally:
        broken.close()
    whole = f"tcp:127.0.0.1:{gateway.ports['pipe']}"
    assert ran("server", "--dialect=pipe", f"--connect={whole}", f"--file={path}").returncode == 0


def test_the_command_says_that_nobody_is_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        said = ran("fuzz", "--dialect=pipe", f"--connect=tcp:127.0.0.1:{free.getsockname()[1]}")
    assert (said.returncode, said.stdout) == (3, "")
    assert "cannot be reached" in said.stderr


def test_without_hypothesis_the_command_says_what_is_to_be_installed(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['hypothesis'] = None; from gateway.conformance.commands import main;"
        "sys.exit(main(['fuzz', '--dialect=pipe', '--connect=tcp:127.0.0.1:1']))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert said.returncode == 2
    assert "there is no hypothesis" in said.stderr and "polyglot-gateway[conformance]" in said.stderr
