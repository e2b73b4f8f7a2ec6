"""What two runs may differ in, and what they may not."""

from __future__ import annotations

import pytest

from gateway.capture.comparing import Names, difference, first_of, records
from gateway.core import replies as r
from gateway.core.commands import TopicSettings
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, RecordBatch, canonical
from gateway.core.replies import Outcome


def batch(*values: bytes, base: int = 0, timestamp: int = 1, id: bytes = b"") -> RecordBatch:
    return canonical([Record(None, value, id=id) for value in values]).appended(base, timestamp)


def topic(created: int, bytes: int = 0, end: int = 3) -> r.TopicDescription:
    return r.TopicDescription(
        "n", "t", 1, created, TopicSettings(), (r.PartitionDescription(0, 0, end, bytes, created),)
    )


def group(member: str, generation: int = 1, owned: tuple[int, ...] = (0, 1)) -> r.GroupDescription:
    return r.GroupDescription("n", "t", "g", 1, generation, 2, (r.MemberDescription(member, owned, 5, 7),), 99)


ALIKE: list[tuple[Outcome, Outcome]] = [
    (topic(1, bytes=10), topic(2, bytes=20)),
    (r.Leader("a:1"), r.Leader("b:2")),
    (r.Joined("m-1234", 1, (0, 1)), r.Joined("m-9999", 4, (0, 1))),
    (group("m-1234", 1), group("m-9999", 7)),
    (r.Records(0, 0, 2, (batch(b"a", b"b", timestamp=5),)), r.Records(0, 0, 2, (batch(b"a", b"b", timestamp=9),))),
    (
        r.Records(0, 0, 2, (batch(b"a", b"b", id=b"1" * 16),)),
        r.Records(0, 0, 2, (batch(b"a", id=b"2" * 16), batch(b"b", base=1))),
    ),
    (
        CommandFailed(Fault.STALE_GENERATION, "a", current=2, requested=1),
        CommandFailed(Fault.STALE_GENERATION, "b", current=5, requested=4),
    ),
    (CommandFailed(Fault.NOT_A_MEMBER, member="m-1234"), CommandFailed(Fault.NOT_A_MEMBER, member="m-9999")),
]

UNLIKE: list[tuple[Outcome, Outcome, str]] = [
    (topic(1, end=3), topic(1, end=4), "TopicDescription.partitions[0].end: 3 was captured, 4 came now"),
    (r.Published(0, 1, 5), r.Published(0, 2, 6), "Published.base: 1 was captured, 2 came now"),
    (r.Count(1), r.Count(2), "Count.value: 1 was captured, 2 came now"),
    (r.Done(), r.Count(2), "Done: Done was captured, Count came now"),
    (
        group("m-1234"),
        group("m-9999", owned=(0,)),
        "GroupDescription.members[0].assignment: 2 were captured, 1 came now",
    ),
    (
        r.Records(0, 0, 1, (batch(b"a"),)),
        r.Records(0, 0, 1, (batch(b"b"),)),
        "Records.records[0].value: 'a' was captured, 'b' came now",
    ),
    (
        r.Records(0, 0, 1, (batch(b"a"),)),
        r.Records(0, 0, 1, (batch(b"a", base=1),)),
        "Records.records[0].offset: 0 was captured, 1 came now",
    ),
    (
        CommandFailed(Fault.OFFSET_GONE, requested=1, earliest=5, latest=9),
        CommandFailed(Fault.OFFSET_GONE, requested=1, earliest=6, latest=9),
        "CommandFailed.earliest: 5 was captured, 6 came now",
    ),
    (
        CommandFailed(Fault.NO_SUCH_TOPIC),
        CommandFailed(Fault.BUSY),
        "CommandFailed: NO_SUCH_TOPIC was captured, BUSY came now",
    ),
    (r.MapValue(None), r.MapValue(b""), "MapValue.value: None was captured, '' came now"),
    (r.Count(0), CommandFailed(Fault.BUSY), "Count: Count was captured, BUSY came now"),
]


def names() -> Names:
    found = Names()
    found.learn(("n", "t", "g"), r.Joined("m-1234", 1, ()), r.Joined("m-9999", 4, ()))
    return found


@pytest.mark.parametrize(("captured", "now"), ALIKE)
def test_what_every_run_makes_anew_is_no_difference(captured: Outcome, now: Outcome) -> None:
    assert difference(captured, now, names()) == ""


@pytest.mark.parametrize(("captured", "now", "why"), UNLIKE)
def test_everything_else_is_one_and_is_named(captured: Outcome, now: Outcome, why: str) -> None:
    assert difference(captured, now, names()) == why


def test_a_member_who_is_somebody_else_is_a_difference() -> None:
    found = difference(group("m-1234"), group("m-5555"), names())
    assert found == "GroupDescription.members[0].member: 'm-1234' was captured, 'm-5555' came now"


def test_what_is_pushed_is_compared_record_by_record_however_it_is_cut() -> None:
    one = records(batch(b"a", b"b", b"c"))
    assert first_of(one, [*records(batch(b"a")), *records(batch(b"b", b"c", base=1))]) == ""
    assert first_of(one, records(batch(b"a"))) == "", "as far as both go"
    assert "records[1].value" in first_of(one, records(batch(b"a", b"x", b"c")))


def test_a_generation_is_carried_over() -> None:
    assert names().generations["n", "t", "g", 1] == 4
