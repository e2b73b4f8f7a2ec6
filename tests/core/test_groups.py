"""gateway.core.groups: what members of a group can rely on, whatever their dialects."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.core import commands as q
from gateway.core.decisions import perform
from gateway.core.faults import CommandFailed, Fault
from gateway.core.groups import Coordinator, Membership, assign_range, assign_round_robin
from gateway.core.replies import Done, Joined
from gateway.core.state import State

TOPIC = q.Topic("default", "orders")
OTHER = q.Topic("default", "bills")
CONNECTED, BEATING = q.WhileConnected(), q.Heartbeats(10.0)


class Room:
    """A coordinator, and the state it is about."""

    def __init__(self, partitions: int = 3) -> None:
        self.state = State()
        numbers = itertools.count(1)
        self.coordinator = Coordinator(self.state, lambda: f"{next(numbers):04d}")
        for topic in (TOPIC, OTHER):
            perform(self.state, q.CreateTopic(topic, partitions), 0)

    def join(
        self, member: str, now: float = 0.0, *, session: int = 0, topic: q.Topic = TOPIC, **more: object
    ) -> Joined:
        liveness = CONNECTED if session else BEATING
        joined, group = self.coordinator.join(q.JoinGroup(topic, "g", member, liveness, **more), session, now)  # type: ignore[arg-type]
        self.keep(group)
        return joined

    def keep(self, group: Membership) -> None:
        topic = q.Topic(group.topic.namespace.id, group.topic.id)
        perform(self.state, q.Regenerate(topic, group.name, group.generation), 0)

    def beat(self, member: str, generation: int, now: float = 0.0) -> Done:
        return self.coordinator.heartbeat(q.Heartbeat(TOPIC, "g", member, generation), now)

    def sync(self, member: str, generation: int, now: float = 0.0) -> Joined:
        return self.coordinator.sync(q.SyncGroup(TOPIC, "g", member, generation), now)[0]

    def leave(self, member: str, now: float = 0.0, *, session: int = 0, generation: int | None = None) -> None:
        self.keep(self.coordinator.leave(q.LeaveGroup(TOPIC, "g", member, generation), session, now))

    def turn(self, session: int, again: int | None = None) -> int | None:
        return self.coordinator.turn(TOPIC, "g", session, 0.0, again)

    def held(self, session: int) -> int:
        return self.coordinator.held(TOPIC, "g", session, 0.0)

    def bound(self, session: int | None = None) -> list[tuple[int, str, str]]:
        """(session, topic, group) of the members that live with a connection."""
        return sorted((id, group.topic.name, group.name) for id, group in self.coordinator.memberships(session))

    def commit(self, member: str, generation: int, partition: int, now: float = 0.0) -> None:
        self.coordinator.check(q.CommitOffsets(TOPIC, q.Group("g"), {partition: 1}, member, generation), now)


def refused(fault: Fault) -> pytest.RaisesExc[CommandFailed]:
    return pytest.raises(CommandFailed, check=lambda failure: failure.fault is fault)


@pytest.mark.parametrize("assign", [assign_range, assign_round_robin])
def test_every_partition_has_one_owner_and_shares_differ_by_one_at_most(assign: object) -> None:
    for members, partitions in itertools.product(range(1, 6), range(12)):
        owned = assign([str(member) for member in range(members)], partitions)  # type: ignore[operator]
        assert sorted(partition for share in owned.values() for partition in share) == list(range(partitions))
        assert len({len(share) for share in owned.values()} | {partitions // members}) <= 2


def test_the_first_member_owns_everything_in_generation_one() -> None:
    assert Room().join("a") == Joined("a", 1, (0, 1, 2))


def test_range_gives_blocks_and_round_robin_turns() -> None:
    room = Room()
    room.join("b")
    assert room.join("a").assignment == (0, 1)
    assert room.join("a", assignor="round_robin").assignment == (0, 2)


def test_joining_again_under_ones_own_name_changes_nothing() -> None:
    room = Room()
    assert room.join("a") == room.join("a")


def test_a_distinct_member_is_another_one_at_each_join() -> None:
    room = Room()
    assert [room.join("c1", distinct=True).member for _ in range(2)] == ["c1-0001", "c1-0002"]


def test_a_member_goes_on_in_its_generation_or_becomes_another() -> None:
    room = Room()
    first = room.join("c1", distinct=True)
    assert room.join(first.member, resume=1) == Joined(first.member, 1, (0, 1, 2), resumed=True)
    assert room.join("c2", distinct=True).generation == 2
    assert not room.join(first.member, resume=1).resumed


def test_whoever_lost_a_partition_learns_it_from_its_generation() -> None:
    room = Room()
    room.join("a")
    room.join("b")
    with refused(Fault.STALE_GENERATION) as stale:
        room.beat("a", 1)
    assert stale.value.facts == {"current": 2, "requested": 1, "member": "a"}
    assert room.sync("a", 2).assignment == (0, 1)


def test_only_the_owner_commits_and_only_in_its_generation() -> None:
    room = Room()
    room.join("a")
    room.join("b")
    room.commit("a", 2, 0)
    with refused(Fault.NOT_OWNER):
        room.commit("a", 2, 2)
    with refused(Fault.STALE_GENERATION):
        room.commit("a", 1, 0)
    with refused(Fault.NOT_A_MEMBER):
        room.commit("c", 2, 0)


def test_silence_costs_the_membership_and_a_heartbeat_keeps_it() -> None:
    room = Room()
    room.join("a", 0.0)
    room.join("b", 0.0)
    room.beat("a", 2, 9.0)
    with refused(Fault.STALE_GENERATION):
        room.beat("a", 2, 10.5)
    assert room.sync("a", 3, 10.5).assignment == (0, 1, 2)
    with refused(Fault.NOT_A_MEMBER):
        room.beat("b", 3, 10.5)


def test_a_connected_member_needs_no_heartbeat_and_ends_with_its_connection() -> None:
    room = Room()
    room.join("a", session=7)
    room.join("b", session=8)
    assert room.join("a", 1e6, session=7).generation == 2
    assert [group.generation for group in room.coordinator.end(7, 1e6)] == [3]
    assert room.coordinator.end(7, 1e6) == []
    assert room.turn(8) == 0
    with refused(Fault.NOT_A_MEMBER):
        room.turn(7)


def test_a_member_that_moved_to_another_connection_does_not_end_with_its_first() -> None:
    room = Room()
    room.join("a", session=7)
    room.join("a", session=8)
    assert room.coordinator.end(7, 0.0) == []
    assert room.turn(8) == 0


def test_turns_go_round_what_a_member_owns() -> None:
    room = Room()
    room.join("a", session=7)
    assert [room.turn(7) for _ in range(4)] == [0, 1, 2, 0]
    for session in range(8, 12):
        room.join(str(session), session=session)
    assert room.turn(7) is None, "more members than partitions"


def test_a_turn_can_be_had_again_as_long_as_its_partition_is_owned() -> None:
    room = Room()
    room.join("a", session=7)
    assert [room.turn(7), room.turn(7), room.turn(7, again=0), room.held(7), room.turn(7)] == [0, 1, 0, 0, 2]
    room.join("b", session=8)
    assert room.turn(7, again=2) in (0, 1), "that is the other's now"


# -- the partition that a member was given last


def test_a_member_holds_what_its_last_turn_was() -> None:
    room = Room()
    room.join("a", session=7)
    for _ in range(4):
        assert room.turn(7) == room.held(7) == room.held(7)


def test_two_members_of_two_connections_hold_partitions_of_their_own() -> None:
    room = Room(4)
    room.join("", session=7)
    room.join("", session=8)
    turns = [(room.turn(7), room.turn(8)) for _ in range(2)]
    assert turns == [(0, 2), (1, 3)]
    assert (room.held(7), room.held(8)) == (1, 3)
    with refused(Fault.NOT_A_MEMBER):
        room.held(9)


def test_who_has_read_nothing_holds_nothing() -> None:
    room = Room()
    with refused(Fault.NO_SUCH_GROUP):
        room.held(7)
    room.join("a")
    with refused(Fault.NOT_A_MEMBER):
        room.held(7)
    room.join("b", session=7)
    with refused(Fault.NO_SUCH_PARTITION) as nothing:
        room.held(7)
    assert nothing.value.facts == {"partition": 0, "partitions": 3}


def test_what_was_read_before_a_change_of_hands_does_not_count_for_another_partition() -> None:
    room = Room(2)
    room.join("b", session=8)
    assert [room.turn(8), room.turn(8), room.turn(8)] == [0, 1, 0]
    room.join("a", session=7)  # which takes partition 0
    with refused(Fault.NO_SUCH_PARTITION):
        room.held(8)
    assert room.turn(8) == room.held(8) == 1
    room.leave("", session=7)
    assert room.held(8) == 1, "that is still its own"


def test_a_member_that_comes_again_holds_nothing_of_before() -> None:
    room = Room()
    room.join("a", session=7)
    room.turn(7)
    room.leave("a")
    room.join("a", session=7)
    with refused(Fault.NO_SUCH_PARTITION):
        room.held(7)


# -- members without a name


def test_a_connection_that_joins_again_is_the_member_it_was() -> None:
    room = Room()
    first = room.join("", session=7)
    assert first == Joined("member-0001", 1, (0, 1, 2))
    assert room.join("", session=7) == first, "and the generation is the same"
    assert room.join("", session=8) == Joined("member-0002", 2, (2,))
    assert room.join("", session=7) == Joined("member-0001", 2, (0, 1))


def test_a_connection_whose_member_has_a_name_finds_it_without() -> None:
    room = Room()
    assert room.join("a", session=7) == room.join("", session=7) == Joined("a", 1, (0, 1, 2))


def test_members_that_live_by_heartbeats_are_others_each_time() -> None:
    room = Room()
    assert [room.join("").member for _ in range(2)] == ["member-0001", "member-0002"]


def test_a_connection_leaves_without_a_name_and_takes_nobody_else_with_it() -> None:
    room = Room()
    for session in (7, 8):
        room.join("", session=session)
    room.leave("", session=7)
    assert room.bound() == [(8, "orders", "g")]
    assert [room.turn(8) for _ in range(3)] == [0, 1, 2]
    with refused(Fault.NOT_A_MEMBER):
        room.leave("", session=7)
    room.join("a")
    with refused(Fault.NOT_A_MEMBER):
        room.leave("")


def test_who_says_a_generation_leaves_in_that_alone() -> None:
    room = Room()
    room.join("", session=7)
    room.join("", session=8)
    with refused(Fault.STALE_GENERATION):
        room.leave("", session=7, generation=1)
    room.leave("", session=7, generation=2)
    assert room.bound() == [(8, "orders", "g")]


# -- which connections are members


def test_memberships_are_those_of_members_that_live_with_a_connection() -> None:
    room = Room()
    assert room.bound() == []
    room.join("a")
    room.join("", session=7)
    room.join("b", session=7)
    room.join("", session=8)
    room.join("", session=7, topic=OTHER)
    assert room.bound() == [(7, "bills", "g"), (7, "orders", "g"), (8, "orders", "g")]
    assert room.bound(7) == [(7, "bills", "g"), (7, "orders", "g")]
    assert room.bound(9) == []


def test_memberships_end_with_the_member_the_connection_and_the_group() -> None:
    room = Room()
    for session, topic in ((7, TOPIC), (7, OTHER), (8, TOPIC), (9, OTHER)):
        room.join("", session=session, topic=topic)
    room.leave("", session=7)
    assert (room.bound(7), len(room.bound())) == ([(7, "bills", "g")], 3)
    room.coordinator.end(8, 0.0)
    assert room.bound() == [(7, "bills", "g"), (9, "bills", "g")]
    other = room.state.topic(OTHER)
    room.coordinator.forget(other.namespace.id, other.id)
    assert room.bound() == room.bound(7) == []
    room.join("", session=9, topic=OTHER)
    assert room.bound() == [(9, "bills", "g")], "it came again, without its members"
    assert room.bound(7) == []


def test_leaving_works_by_the_name_a_member_gave_or_the_one_it_got() -> None:
    room = Room()
    for _ in range(3):
        room.join("c1", distinct=True)
    room.leave("c1")
    assert sorted(room.coordinator.living(room.state.topic(TOPIC), "g", 0.0).members) == ["c1-0001", "c1-0002"]  # type: ignore[union-attr]
    room.leave("c1-0001", generation=4)
    with refused(Fault.NOT_A_MEMBER):
        room.leave("c1-0001")
    with refused(Fault.STALE_GENERATION):
        room.leave("c1-0002", generation=4)


def test_one_name_may_serve_two_topics_unless_a_member_wants_it_for_one() -> None:
    room = Room()
    room.join("a")
    with refused(Fault.OTHER_TOPIC) as other:
        room.join("a", topic=OTHER, exclusive=True)
    assert other.value.facts == {"expected": "orders", "actual": "bills"}
    assert room.join("a", topic=OTHER) == Joined("a", 1, (0, 1, 2))
    with refused(Fault.NO_SUCH_GROUP):
        room.coordinator.sync(q.SyncGroup(TOPIC, "h", "a", 1), 0.0)
    with refused(Fault.NO_SUCH_GROUP):
        room.coordinator.join(q.JoinGroup(TOPIC, "h", "a", BEATING, existing=True), 0, 0.0)
    with refused(Fault.INVALID_ARGUMENT):
        room.join("b", assignor="sticky")


def test_a_generation_never_comes_back() -> None:
    room = Room()
    room.join("a")
    room.join("b")
    again = Coordinator(room.state, lambda: "")
    joined, _ = again.join(q.JoinGroup(TOPIC, "g", "c", BEATING), 0, 0.0)
    assert joined.generation == 3


def test_more_partitions_are_shared_out_at_once() -> None:
    room = Room()
    room.join("a")
    perform(room.state, q.CreatePartitions(TOPIC, 2), 0)
    assert [group.generation for group in room.coordinator.resized(0.0)] == [2]
    assert room.coordinator.resized(0.0) == []
    assert room.sync("a", 2).assignment == (0, 1, 2, 3, 4)


def test_a_group_that_was_deleted_begins_anew() -> None:
    room = Room()
    room.join("a")
    topic = room.state.topic(TOPIC)
    perform(room.state, q.DeleteGroup(TOPIC, "g"), 0)
    room.coordinator.forget(topic.namespace.id, topic.id, "g")
    with refused(Fault.NO_SUCH_GROUP):
        room.beat("a", 1)
    assert room.coordinator.living(topic, "g", 0.0) is None


def test_a_group_is_full_before_names_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.core.groups.MAX_MEMBERS", 2)
    room = Room()
    room.join("a", distinct=True)
    room.join("a")
    with refused(Fault.BUSY):
        room.join("a", distinct=True)
    assert room.join("a-0001", distinct=True).member == "a-0001", "who is a member stays one"
    assert room.join("b", 11.0).assignment == (0, 1, 2), "there is room when others fall silent"


class Mixed(RuleBasedStateMachine):
    """Members of all kinds come, go, fall silent and commit; partitions come too."""

    def __init__(self) -> None:
        super().__init__()
        self.room = Room(2)
        self.now = 0.0
        self.seen: dict[str, Joined] = {}
        self.handed: dict[tuple[int, int], str] = {}
        self.generations = [0]

    members = st.sampled_from(["a", "b", "c", "d"])
    sessions = st.integers(1, 4)

    @rule(
        member=members,
        kind=st.sampled_from(["beating", "distinct", "connected"]),
        assignor=st.sampled_from(["", "range", "round_robin"]),
    )
    def join(self, member: str, kind: str, assignor: str) -> None:
        session = 1 + "abcd".index(member) if kind == "connected" else 0
        self.note(self.room.join(member, self.now, session=session, distinct=kind == "distinct", assignor=assignor))

    @precondition(lambda self: self.seen)
    @rule(draw=st.data())
    def sync(self, draw: st.DataObject) -> None:
        member = draw.draw(st.sampled_from(sorted(self.seen)))
        try:
            self.note(self.room.sync(member, max(self.generations), self.now))
        except CommandFailed as failure:
            assert failure.fault in (Fault.NOT_A_MEMBER, Fault.STALE_GENERATION)

    @precondition(lambda self: self.seen)
    @rule(draw=st.data(), partition=st.integers(0, 4))
    def commit(self, draw: st.DataObject, partition: int) -> None:
        """Whoever may commit holds the partition in the newest generation that was told to anybody."""
        known = draw.draw(st.sampled_from(sorted(self.seen.values(), key=lambda joined: joined.member)))
        try:
            self.room.commit(known.member, known.generation, partition, self.now)
        except CommandFailed:
            return
        assert partition in known.assignment
        assert known.generation == self.group().generation

    @rule(session=sessions)
    def join_without_a_name(self, session: int) -> None:
        """Once a member, a connection stays the same one."""
        bound = self.bound(session)
        joined = self.room.join("", self.now, session=session)
        assert joined.member in bound or not bound
        self.note(joined)

    @rule(member=members | st.just(""), session=sessions)
    def leave(self, member: str, session: int) -> None:
        bound = self.bound(session)
        try:
            self.room.leave(member, self.now, session=session)
        except CommandFailed as failure:
            assert failure.fault in (Fault.NOT_A_MEMBER, Fault.NO_SUCH_GROUP)
            assert member or not bound
        else:
            assert member or bound > self.bound(session)

    @rule(session=sessions)
    def read(self, session: int) -> None:
        """What a connection is given is its own, and is held until it is another's."""
        try:
            given = self.room.coordinator.turn(TOPIC, "g", session, self.now)
        except CommandFailed as failure:
            assert failure.fault in (Fault.NOT_A_MEMBER, Fault.NO_SUCH_GROUP)
            assert not self.bound(session)
            return
        assert given is None or self.room.coordinator.held(TOPIC, "g", session, self.now) == given

    @rule(session=sessions)
    def hang_up(self, session: int) -> None:
        for group in self.room.coordinator.end(session, self.now):
            self.room.keep(group)

    @rule(seconds=st.floats(0.1, 8.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: len(self.room.state.topic(TOPIC).partitions) < 5)
    @rule()
    def grow(self) -> None:
        perform(self.room.state, q.CreatePartitions(TOPIC, 1), 0)
        for group in self.room.coordinator.resized(self.now):
            self.room.keep(group)

    @invariant()
    def a_settled_group_owns_every_partition_once(self) -> None:
        group = self.group()
        if group is None or not group.members:
            return
        owned = sorted(partition for share in group.assignment.values() for partition in share)
        assert owned == list(range(len(group.topic.partitions)))
        assert set(group.assignment) == set(group.members)
        assert group.generation >= self.generations[-1], "a generation only rises"
        self.generations.append(group.generation)

    @invariant()
    def what_is_held_is_owned_and_who_is_bound_is_listed(self) -> None:
        group = self.group()
        if group is None:
            return
        for member, partition in group.given.items():
            assert partition in group.assignment[member]
        listed = {id for id, listed in self.room.coordinator.memberships(None) if listed is group}
        assert listed == {at.session for at in group.members.values()} - {None}
        assert all((id, group) in self.room.coordinator.memberships(id) for id in listed)

    def bound(self, session: int) -> set[str]:
        """Members that live with a connection."""
        group = self.group()
        members = {} if group is None else group.members
        return {name for name, at in members.items() if at.session == session}

    def note(self, joined: Joined) -> None:
        """No partition is handed to two members of one generation."""
        self.seen[joined.member] = joined
        for partition in joined.assignment:
            owner = self.handed.setdefault((joined.generation, partition), joined.member)
            assert owner == joined.member

    def group(self) -> Membership | None:
        return self.room.coordinator.living(self.room.state.topic(TOPIC), "g", self.now)


TestMixed = Mixed.TestCase
