"""gateway.net.attempts: who tries passwords waits longer and longer, and others do not."""

from __future__ import annotations

from gateway.net.attempts import FIRST, FORGET_SECONDS, FREE, LONGEST, MAX_KNOWN, Attempts


def test_mistyping_costs_nothing_and_trying_on_costs_more_each_time() -> None:
    attempts, delays = Attempts(), []
    for _ in range(FREE + 8):
        delays.append(attempts.delay("10.0.0.1", 0.0))
        attempts.failed("10.0.0.1", 0.0)
    assert delays[: FREE + 3] == [0.0] * FREE + [FIRST, 2 * FIRST, 4 * FIRST]
    assert delays[-1] == LONGEST
    assert attempts.delay("10.0.0.2", 0.0) == 0.0


def test_a_right_one_and_time_make_it_forgotten() -> None:
    attempts = Attempts()
    for _ in range(FREE + 1):
        attempts.failed("a", 0.0)
    assert attempts.delay("a", FORGET_SECONDS) > 0
    assert attempts.delay("a", FORGET_SECONDS + 1) == 0.0
    attempts.passed("a")
    assert attempts.delay("a", 1.0) == 0.0


def test_of_many_the_one_that_failed_longest_ago_is_forgotten() -> None:
    attempts = Attempts()
    for _ in range(FREE):
        attempts.failed("first", 0.0)
    for number in range(MAX_KNOWN):
        attempts.failed(str(number), 1.0)
    assert attempts.delay("first", 1.0) == 0.0
