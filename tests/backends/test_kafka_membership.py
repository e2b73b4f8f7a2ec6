"""What of groups over Kafka is pure: names, generations, turns, silence, the order of commits."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable

import pytest
from twisted.internet.defer import Deferred

from gateway.backends.kafka import protocol
from gateway.backends.kafka.members import Member, Party
from gateway.backends.kafka.offsets import Lane
from gateway.backends.kafka.polling import generation_in
from gateway.backends.kafka.turns import Turns
from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault

TOPIC = q.Topic("default", "orders")
CONNECTED = q.WhileConnected()
BEATING = q.Heartbeats(10.0)


def party() -> Party[None]:
    numbers = itertools.count()
    return Party(lambda: f"{next(numbers):04d}")


def join(at: Party[None], name: str, life: q.Heartbeats | q.WhileConnected = BEATING, **more: object) -> Member[None]:
    """As the roster does, with the session 1."""
    command = q.JoinGroup(TOPIC, "g", name, life, **more)  # type: ignore[arg-type]
    called = at.name_for(command, 1)
    if called not in at.members:
        at.members[called] = Member(called, None, command.distinct)
        at.members[called].timeout = 10.0
    at.members[called].session = 1 if isinstance(life, q.WhileConnected) else None
    return at.members[called]


def faulty(failure: pytest.ExceptionInfo[CommandFailed]) -> tuple[Fault, dict[str, int | str]]:
    return failure.value.fault, failure.value.facts


# -- generations


def test_a_member_is_in_no_generation_until_it_is_assigned_and_in_none_while_it_is_revoked() -> None:
    member: Member[None] = Member("c", None, False)
    with pytest.raises(CommandFailed) as failure:
        member.check(0)
    assert faulty(failure) == (Fault.STALE_GENERATION, {"current": 1, "requested": 0, "member": "c"})
    member.assigned(4, (0, 1))
    member.check(4)
    member.revoked()
    for requested in (4, 5):
        with pytest.raises(CommandFailed) as failure:
            member.check(requested)
        assert faulty(failure) == (Fault.STALE_GENERATION, {"current": 5, "requested": requested, "member": "c"})
    member.assigned(5, (1,))
    member.check(5)
    with pytest.raises(CommandFailed) as failure:
        member.check(4)
    assert failure.value.facts["current"] == 5


def test_a_member_owns_what_it_was_assigned_last() -> None:
    member: Member[None] = Member("c", None, False)
    member.assigned(1, (0, 1))
    member.check_owns(1)
    member.assigned(2, (0,))
    with pytest.raises(CommandFailed) as failure:
        member.check_owns(1)
    assert faulty(failure) == (Fault.NOT_OWNER, {"partition": 1, "generation": 2, "member": "c"})


def test_who_waits_is_told_once_that_it_is_settled_or_never_will_be() -> None:
    told: list[str] = []
    member: Member[None] = Member("c", None, False)
    member.wait(lambda: told.append("assigned"))
    member.failed(CommandFailed(Fault.UNAVAILABLE), False)
    assert (told, member.waited_for) == ([], True)
    member.assigned(1, ())
    member.assigned(2, ())
    assert (told, member.waited_for, member.trouble) == (["assigned"], False, None)
    member.failed(CommandFailed(Fault.UNAVAILABLE), True)  # of a member that is in, which is nobody's trouble
    assert member.trouble is None
    member.revoked()
    member.wait(lambda: told.append("hopeless"))
    member.failed(CommandFailed(Fault.UNAVAILABLE), True)
    member.wait(lambda: told.append("left"))
    member.left()
    assert told == ["assigned", "hopeless", "left"]


def test_an_id_that_kafka_waits_for_in_vain_is_handed_on() -> None:
    dead: list[str] = []
    member: Member[None] = Member("c", None, False, dead.append)
    member.lost("rdkafka-1")
    assert dead == ["rdkafka-1"]


# -- turns


def test_partitions_are_given_in_turn_and_again_if_it_had_to_wait() -> None:
    member: Member[None] = Member("c", None, False)
    assert member.turn(None) is None
    member.assigned(1, (1, 3))
    assert [member.turn(None) for _ in range(3)] == [1, 3, 1]
    assert member.turn(1) == 1
    assert member.turn(0) == 3


def test_the_partition_held_is_the_one_given_last_until_it_is_lost() -> None:
    member: Member[None] = Member("c", None, False)
    member.assigned(1, (1, 3))
    with pytest.raises(CommandFailed) as failure:
        member.held(4)
    assert faulty(failure) == (Fault.NO_SUCH_PARTITION, {"partition": 0, "partitions": 4})
    member.turn(None)
    assert member.held(4) == 1
    member.revoked()
    with pytest.raises(CommandFailed):
        member.held(4)
    member.assigned(2, (1,))
    assert member.held(4) == 1
    member.assigned(3, (3,))
    member.assigned(4, (1, 3))
    with pytest.raises(CommandFailed):  # somebody else may have read there meanwhile
        member.held(4)


# -- names


def test_a_name_is_a_member_s_own_unless_it_asks_for_a_new_one_each_time() -> None:
    group = party()
    assert join(group, "c") is join(group, "c")
    assert join(group, "").name == "member-0000"
    first, second = join(group, "d", distinct=True), join(group, "d", distinct=True)
    assert (first.name, second.name) == ("d-0001", "d-0002")
    assert join(group, "d-0001", distinct=True) is first
    assert join(group, "c", distinct=True).name == "c-0003"
    assert join(group, "c", distinct=True, resume=1).name == "c"


def test_a_connection_is_one_member_as_long_as_it_gives_no_name() -> None:
    group = party()
    assert join(group, "", CONNECTED) is join(group, "", CONNECTED)
    assert join(group, "") is not join(group, "")
    assert group.bound(1).name == "member-0000"
    with pytest.raises(CommandFailed) as failure:
        group.bound(2)
    assert faulty(failure) == (Fault.NOT_A_MEMBER, {"member": "2"})


def test_names_that_are_all_taken_are_refused() -> None:
    group: Party[None] = Party(lambda: "7")
    join(group, "c", distinct=True)
    with pytest.raises(CommandFailed) as failure:
        join(group, "c", distinct=True)
    assert failure.value.fault is Fault.BUSY


def test_who_leaves_is_the_newest_that_was_made_of_its_name_unless_it_says_its_generation() -> None:
    group = party()
    join(group, "d", distinct=True).assigned(3, (0,))
    newest = join(group, "d", distinct=True)
    newest.assigned(3, (1,))
    bound = join(group, "", CONNECTED)
    assert group.leaving(q.LeaveGroup(TOPIC, "g", "d"), 1) is newest
    assert group.leaving(q.LeaveGroup(TOPIC, "g", "d-0000", 3), 1).name == "d-0000"
    assert group.leaving(q.LeaveGroup(TOPIC, "g", ""), 1) is bound
    for name, generation, fault in (
        ("d", 3, Fault.NOT_A_MEMBER),
        ("e", None, Fault.NOT_A_MEMBER),
        ("d-0000", 2, Fault.STALE_GENERATION),
    ):
        with pytest.raises(CommandFailed) as failure:
            group.leaving(q.LeaveGroup(TOPIC, "g", name, generation), 1)
        assert failure.value.fault is fault


# -- silence, and who speaks


def test_members_that_live_by_heartbeats_are_silent_after_their_timeout_unless_they_wait() -> None:
    group = party()
    member, bound = join(group, "c"), join(group, "", CONNECTED)
    member.heard = bound.heard = 5.0
    assert group.silent(15.0) == []
    assert group.silent(15.1) == [member]
    member.wait(lambda: None)
    assert group.silent(15.1) == []


def test_who_commits_for_others_is_in_the_group_and_owns_the_partition_if_anybody_does() -> None:
    group = party()
    assert group.speaker([0]) is None
    a, b, c = (join(group, name) for name in "abc")
    b.assigned(1, (0,))
    a.assigned(1, (1,))
    assert group.speaker([0]) is b
    assert group.speaker([1]) is a
    assert group.speaker([7]) in (a, b)
    b.revoked()
    assert group.speaker([0]) is a
    a.revoked()
    assert group.speaker([0]) in (a, b, c)


# -- commits in order


def test_commits_on_one_way_go_one_after_another_and_what_waits_goes_as_one() -> None:
    sent: list[tuple[dict[int, int], Deferred[bool]]] = []

    def send(offsets: dict[int, int]) -> Deferred[bool]:
        done: Deferred[bool] = Deferred()
        sent.append((offsets, done))
        return done

    lane = Lane(send)
    said: list[tuple[int, object]] = []
    for number, offsets in enumerate(({0: 1}, {0: 2, 1: 1}, {0: 3})):
        lane.put(offsets).addBoth(lambda result, number=number: said.append((number, result)))
    assert [offsets for offsets, _ in sent] == [{0: 1}]
    sent[0][1].callback(True)
    assert said == [(0, True)]
    assert [offsets for offsets, _ in sent] == [{0: 1}, {0: 3, 1: 1}]
    failure = CommandFailed(Fault.UNAVAILABLE)
    sent[1][1].errback(failure)
    assert [(number, getattr(result, "value", None)) for number, result in said[1:]] == [(1, failure), (2, failure)]
    assert not lane.busy


def test_turns_are_taken_one_after_another_and_thousands_that_wait_are_not_nested() -> None:
    turns = Turns()
    order: list[int] = []

    async def take(number: int) -> None:
        await turns.take()
        order.append(number)
        turns.give()

    turns.take()
    waiting = [Deferred.fromCoroutine(take(number)) for number in range(5000)]
    assert (order, turns.idle) == ([], False)
    turns.give()
    assert order == list(range(5000))
    assert turns.idle
    assert all(done.called for done in waiting)


# -- Kafka's own bytes


def test_a_generation_is_read_from_metadata_of_the_layout_that_is_known() -> None:
    assert generation_in(b"CGMDv2:" + struct.pack("<i", 7) + b"g\0m\0\1") == 7
    assert generation_in(b"CGMDv2:" + struct.pack("<i", -1) + b"g\0\0\1") == 0
    assert generation_in(b"CGMDv2:") == 0
    assert generation_in(b"CGMDv3:" + struct.pack("<i", 7)) == 0
    assert generation_in(object()) == 0


def test_requests_are_laid_out_as_kafka_says() -> None:
    """Length, key, version, correlation id and our name, then what the schemas of those versions say."""
    name = "00000000000767617465776179"
    group, topic = "000167", "00000001000174"
    for frame, expected in (
        (protocol.find_coordinator("g"), "000a0002" + name + group + "00"),
        (
            protocol.offset_commit("g", "t", {2: 258}),
            "00080005" + name + group + "ffffffff0000" + topic + "000000010000000200000000000001020000",
        ),
        (protocol.offset_fetch("g"), "00090004" + name + group + "ffffffff"),
        (
            protocol.offset_fetch("g", "t", [1, 2]),
            "00090004" + name + group + topic + "000000020000000100000002",
        ),
        (
            protocol.offset_delete("g", "t", [1, 258]),
            "002f0000" + name + group + topic + "000000020000000100000102",
        ),
        (protocol.leave_group("g", "m"), "000d0001" + name + group + "00016d"),
        (protocol.describe_groups("g"), "000f0002" + name + "00000001" + group),
        (protocol.delete_groups("g"), "002a0001" + name + "00000001" + group),
    ):
        assert frame[4:].hex() == expected
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4


BEGUN = "0000000000000000"
"""Correlation id and throttle time."""


def refused(read: Callable[[bytes], object], answer: str) -> int:
    with pytest.raises(protocol.Refused) as failure:
        read(bytes.fromhex(answer))
    return failure.value.code


def test_a_coordinator_is_read() -> None:
    answer = BEGUN + "0000ffff000000010002616200002384"
    assert protocol.found_coordinator(bytes.fromhex(answer)) == ("ab", 9092)
    assert refused(protocol.found_coordinator, BEGUN + "000fffffffffffff0000ffffffff") == 15


def test_committed_offsets_are_read_but_for_those_that_there_are_not() -> None:
    row = "{:08x}{:016x}0000{:04x}"
    rows = row.format(0, 5, 0) + row.format(1, (1 << 64) - 1, 0)
    topics = "0000000200017400000002" + rows + "00017500000001" + row.format(3, (1 << 64) - 1, 0)
    assert protocol.offset_fetched(bytes.fromhex(BEGUN + topics + "0000")) == {"t": {0: 5}}
    assert refused(protocol.offset_fetched, BEGUN + "000000000010") == 16
    wrong = "0000000100017400000001" + row.format(0, 0, 3) + "0000"
    assert refused(protocol.offset_fetched, BEGUN + wrong) == 3


def test_codes_of_partitions_are_looked_at_one_by_one() -> None:
    topics = "000000010001740000000200000001000000000102{}"
    protocol.offset_committed(bytes.fromhex(BEGUN + topics.format("0000")))
    assert refused(protocol.offset_committed, BEGUN + topics.format("0019")) == 25
    deleted = "00000000{}00000000"
    protocol.offset_deleted(bytes.fromhex(deleted.format("0000") + topics.format("0000")))
    assert refused(protocol.offset_deleted, deleted.format("0000") + topics.format("0056")) == 86
    assert refused(protocol.offset_deleted, deleted.format("0045") + "00000000") == 69
    protocol.left_group(bytes.fromhex(BEGUN + "0000"))
    assert refused(protocol.left_group, BEGUN + "0019") == 25
    protocol.deleted_groups(bytes.fromhex(BEGUN + "000000010001670000"))
    assert refused(protocol.deleted_groups, BEGUN + "000000010001670044") == 68


def test_members_of_a_group_are_read_with_what_they_were_assigned() -> None:
    assignment = "000000000001000174000000020000000000000003ffffffff"
    member = "00016d0000000000000000"
    group = "000000016700015300016300017200000002"
    members = member + f"{len(assignment) // 2:08x}" + assignment + member + "00000000"
    first, second = protocol.described_groups(bytes.fromhex(BEGUN + "00000001" + group + members))
    assert (first.id, first.assignment, second.assignment) == ("m", {"t": [0, 3]}, {})
    assert refused(protocol.described_groups, BEGUN + "000000010010" + group[4:-8] + "00000000") == 16


def test_answers_that_are_cut_short_are_noticed() -> None:
    answer = bytes.fromhex(BEGUN + "0000ffff000000010002616200002384")
    for end in range(len(answer)):
        with pytest.raises(ValueError, match="too early"):
            protocol.found_coordinator(answer[:end])
