"""gateway.net.attempts: who tries passwords waits longer and longer, over however many connections; others do not."""

from __future__ import annotations

import pytest

from gateway.net.attempts import FIRST, FORGET_SECONDS, FREE, LONGEST, MAX_KNOWN, MAX_UNDECIDED, Attempts, origin


def test_mistyping_costs_nothing_and_trying_on_costs_more_each_time() -> None:
    attempts, delays, now = Attempts(), [], 0.0
    for _ in range(FREE + 8):
        delays.append(attempts.delay("10.0.0.1", now))
        now += delays[-1]
        attempts.failed("10.0.0.1", now)
    assert delays == [0.0] * FREE + [FIRST * 2**at for at in range(6)] + [LONGEST] * 2
    assert attempts.delay("10.0.0.2", now) == 0.0


def test_who_tries_over_many_connections_at_once_tries_no_oftener() -> None:
    attempts = Attempts()
    for _ in range(FREE + 10):
        attempts.failed("a", 0.0)
    waits = [attempts.delay("a", 0.0) for _ in range(1000)]
    assert waits[0] == LONGEST
    assert all(wait > LONGEST for wait in waits[1:]), "they have no turn"
    assert attempts.delay("a", LONGEST) == LONGEST, "and took nobody's"


def test_so_many_logins_are_under_way_from_one_place_and_no_more() -> None:
    attempts = Attempts()
    for _ in range(MAX_UNDECIDED):
        assert not attempts.crowded("a")
        attempts.begun("a")
    assert attempts.crowded("a") and not attempts.crowded("b")
    attempts.ended("a")
    assert not attempts.crowded("a")


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


@pytest.mark.parametrize(
    ("peer", "place"),
    [
        ("10.1.2.3:5", "10.1.2.3"),
        ("[::1]:5", "::/64"),
        ("[2001:db8:1:2:3:4:5:6]:5", "2001:db8:1:2::/64"),
        ("[::ffff:10.1.2.3]:5", "::ffff:10.1.2.3"),
        ("a client on /run/gateway", ""),
    ],
)
def test_logins_count_together_that_come_from_one_address_or_one_ipv6_network(peer: str, place: str) -> None:
    assert origin(peer) == place
