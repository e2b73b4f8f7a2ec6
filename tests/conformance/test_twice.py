"""What a server chooses is held against what it says the next time, in the same case or when that is played anew."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest
from twisted.internet.defer import Deferred

from conformance import met
from conformance.broken import Broken
from conformance.judged import subject
from conformance.met import of_server, unmet
from gateway.conformance.cases import Case, Expect, Send, parse
from gateway.conformance.playing import LINGER, Play, Ruling, Way
from gateway.conformance.results import Result
from gateway.conformance.servers import Judge, said_always, said_now, steady_of
from gateway.conformance.vectors import BadCase
from gateway.core import commands as q
from gateway.dialects import load
from system.loops import Loop
from system.processes import GatewayProcess
from system.speaking import Speaking

CASE = """
[[case]]
id = "TST-1"
level = "MUST"
name = "it is said twice"
source = "this test"
role = "%s"
ask = "nothing"
steps = [%s]
"""


def case(steps: str, role: str = "server") -> Case:
    [found] = parse("none", "a.toml", CASE % (role, steps))
    return found


def measure(held: bytes | bytearray, start: int, scanned: int) -> int:
    """A byte of length, and that many."""
    return held[start] + 1 if len(held) > start else 0


def ruled(of: Case, *got: tuple[str, bytes], **names: bytes) -> Ruling:
    """As if these had come, on these connections."""
    play = Play(of, {"topic": b"abc", **names}, measure)
    play.begin(0.0)
    for on, octets in got:
        play.received(on, octets, 0.0)
    play.tick(LINGER)
    play.tick(5.0)
    assert play.ruling is not None
    return play.ruling


AGAIN = """{ send = "'what'" }, { expect = "03 ..*2 'k'", again = true }"""


def test_what_is_asked_again_has_to_be_answered_in_the_same_bytes() -> None:
    asked = case(AGAIN)
    assert [type(step) for step in asked.steps] == [Send, Expect, Send, Expect]
    assert asked.steps[0] == asked.steps[2]
    assert ruled(asked, ("a", b"\3ook"), ("a", b"\3ook")).verdict == "PASS"
    ruling = ruled(asked, ("a", b"\3ook"), ("a", b"\3oxk"))
    assert (ruling.verdict, ruling.step, ruling.at) == ("FAIL", 3, 2)


def test_something_else_may_be_asked_and_answered_alike() -> None:
    asked = case("""{ send = "'make'" }, { expect = "03 {id:2} 'k'", again = "'show' {id}" }""")
    ruling = ruled(asked, ("a", b"\3ook"), ("a", b"\3ook"))
    assert ruling.verdict == "PASS"
    assert [crossing.octets for crossing in ruling.crossings if crossing.what == "sent"] == [b"make", b"showoo"]


def test_two_answers_in_one_case_are_not_mixed_up() -> None:
    got = [("a", octets) for octets in (b"\3ook", b"\3ook", b"\3xxk", b"\3xxk")]
    assert ruled(case(f"{AGAIN}, {AGAIN}"), *got).verdict == "PASS"


@pytest.mark.parametrize(
    ("steps", "role"),
    [
        ("""{ expect = "00", again = true }""", "server"),
        ("""{ send = "00" }, { on = "b", expect = "00", again = true }""", "server"),
        ("""{ send = "00" }, { silence = 1, again = true }""", "server"),
        ("""{ expect = "00" }, { send = "00" }, { expect = "00", again = true }""", "client"),
    ],
)
def test_only_an_answer_of_a_server_is_asked_for_again(steps: str, role: str) -> None:
    with pytest.raises(BadCase, match="again"):
        case(steps, role)


SHUFFLED = """
    { on = "a", expect = "01 '1'", shuffled = true },
    { on = "b", expect = "01 '2'", shuffled = true },
    { on = "c", expect = "01 '3'", shuffled = true },
"""


@pytest.mark.parametrize("order", ["123", "213", "231", "321"])
def test_who_gets_which_of_what_is_shuffled_does_not_matter(order: str) -> None:
    got = [(on, b"\1" + said.encode()) for on, said in zip("abc", order, strict=True)]
    assert ruled(case(SHUFFLED), *got).verdict == "PASS"


@pytest.mark.parametrize("order", ["113", "223", "124", "133"])
def test_what_is_shuffled_is_all_said_once(order: str) -> None:
    got = [(on, b"\1" + said.encode()) for on, said in zip("abc", order, strict=True)]
    assert ruled(case(SHUFFLED), *got).verdict == "FAIL"


def test_own_names_in_what_is_always_the_same_are_those_of_the_play() -> None:
    asked = case("""{ send = "00" }, { expect = { text = "no {why:text=}!" } }""")
    first = {**dict.fromkeys(asked.names, b"-"), "topic": b"t-aaa", "why": b"such topic: t-aaa or t-aa"}
    steady = said_always(asked, first)
    assert steady_of(asked) == {"why"}
    assert said_now(steady, {"topic": b"t-bbbb", "other": b"-", "group": b"-"}) == {
        "why": b"such topic: t-bbbb or t-aa"
    }


# -- against a gateway


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with Loop() as loop:
        yield loop


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("twice"), "cursus", backend="memory") as gateway:
        yield gateway


def judged(loop: Loop, port: int, cases: Sequence[Case], ways: Sequence[Way]) -> list[Result]:
    """In the order in which they were told."""
    told: list[Result] = []
    judge = loop.call(lambda: Judge(subject(loop, "cursus", port), ways=ways, told=told.append, seed=port))
    try:
        loop.call(lambda: Deferred.fromCoroutine(judge.judge(cases)))
    finally:
        loop.call(judge.close)
    return told


@pytest.mark.parametrize("ways", [("whole", "bytes"), ("whole",)])
def test_an_error_that_is_said_in_other_words_the_next_time_is_caught(
    gateway: GatewayProcess, loop: Loop, ways: tuple[Way, ...]
) -> None:
    times = count()

    def damage(frames: Sequence[bytes]) -> list[bytes]:
        changed = any(b"read message" in frame for frame in frames) and next(times) == 1
        return [frame.replace(b"read message", b"reed message") for frame in frames] if changed else list(frames)

    [asked] = [case for case in of_server("cursus") if case.id == "CUR-3.2.1"]
    broken = Broken(loop, gateway.ports["cursus"], load("cursus").measure_reply, damage)
    try:
        [result] = judged(loop, broken.port, [asked], ways)
    finally:
        broken.close()
    assert [ruling.verdict for ruling in result.rulings] == ["PASS", "FAIL"]
    assert result.ruling is not None and result.ruling.got[result.ruling.at - 2 :].startswith(b"reed message")


def test_a_case_that_is_played_alone_is_played_when_all_others_are_through(gateway: GatewayProcess, loop: Loop) -> None:
    some = [case for case in of_server("cursus") if case.id.startswith(("CUR-1.1.", "CUR-2.3.", "CUR-2.17."))]
    told = judged(loop, gateway.ports["cursus"], sorted(some, key=lambda case: not case.alone), ("whole",))
    alone = [result.case.alone for result in told]
    assert alone == sorted(alone) and 1 < sum(alone) < len(alone) - 1
    assert all(result.verdict == "PASS" for result in told)


def test_who_makes_topics_meanwhile_does_not_spoil_a_list(loop: Loop, tmp_path: Path) -> None:
    asked = [each for each in of_server("mlog") if each.alone]
    assert asked
    with GatewayProcess(tmp_path, "native", "mlog", backend="memory") as gateway:
        over = time.monotonic() + 1.0

        def make() -> None:
            with Speaking("native", gateway.ports["native"]) as peer:
                for number in count():
                    if time.monotonic() > over:
                        return
                    peer.ask(q.CreateTopic(q.Topic("default", f"made-{number}"), 1))
                    time.sleep(0.002)

        maker = threading.Thread(target=make)
        maker.start()
        results = met.judged(loop, subject(loop, "mlog", gateway.ports["mlog"]), asked)
        maker.join()
    assert unmet(results) == []
