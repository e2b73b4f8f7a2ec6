"""system.ledger: it sees what the tests that use it are there to see."""

from __future__ import annotations

import pytest

from system.ledger import Ledger


@pytest.fixture
def ledger() -> Ledger:
    """p sent 1 to 4 once and was told of three; q sent 1 and 2, and 2 once more before it was told."""
    ledger = Ledger()
    ledger.sent("p", 1, 4)
    ledger.acknowledged("p", 1, 2)
    ledger.acknowledged("p", 3, 3, (1, 0))
    ledger.sent("q", 1, 2)
    ledger.acknowledged("q", 1, 1, (0, 2))
    ledger.sent("q", 2, 2)
    ledger.acknowledged("q", 2, 2)
    return ledger


@pytest.mark.parametrize(
    "stored",
    [
        {0: ["p-1", "p-2", "q-1", "q-2"], 1: ["p-3"]},
        {0: ["p-1", "p-2", "q-1", "q-2", "q-2"], 1: ["p-3", "p-4"]},  # not acknowledged, and there all the same
    ],
)
def test_nothing_is_wrong(ledger: Ledger, stored: dict[int, list[str]]) -> None:
    assert ledger.complaints(stored, once={"p"}) == []
    assert ledger.count == 5


@pytest.mark.parametrize(
    ("stored", "complaint"),
    [
        ({0: ["p-1", "p-2", "q-1", "q-2"], 1: []}, "('p', 3) was acknowledged and is not there"),
        (
            {0: ["p-1", "p-2", "q-1", "q-2"], 1: ["p-4", "p-3"]},
            "('p', 3) was acknowledged at (1, 0) and is at [(1, 1)]",
        ),
        (
            {0: ["p-1", "p-2", "q-1", "q-2", "p-2"], 1: ["p-3"]},
            "('p', 2) was sent 1 times and is there 2 times: [(0, 1), (0, 4)]",
        ),
        (
            {0: ["p-1", "p-2", "q-1", "q-2", "q-1"], 1: ["p-3"]},
            "('q', 1) was sent 1 times and is there 2 times: [(0, 2), (0, 4)]",
        ),
        ({0: ["p-2", "p-1", "q-1", "q-2"], 1: ["p-3"]}, "p 1 is at 0, 1, behind 2"),
        (
            {0: ["p-1", "p-2", "q-1", "q-2", "p-5"], 1: ["p-3"]},
            "('p', 5) was sent 0 times and is there 1 times: [(0, 4)]",
        ),
    ],
)
def test_what_is_lost_moved_repeated_out_of_order_or_invented_is_seen(
    ledger: Ledger, stored: dict[int, list[str]], complaint: str
) -> None:
    assert complaint in ledger.complaints(stored, once={"p"})


def test_what_was_sent_twice_may_be_there_twice_but_for_those_who_say_once(ledger: Ledger) -> None:
    stored = {0: ["p-1", "p-2", "q-1", "q-2", "q-2"], 1: ["p-3"]}
    assert ledger.complaints(stored, once={"p", "q"}) == [
        "('q', 2) was sent 2 times and is there 2 times: [(0, 3), (0, 4)]"
    ]
