"""Commands as clients of some dialect ask them: plain names, plain values, and every field other than its default now
and then."""

from __future__ import annotations

import hypothesis.strategies as st

from gateway.core import commands as q
from gateway.core.records import Record, canonical

names = st.sampled_from(["orders", "logs", "x.y"])
topics = st.builds(q.Topic, st.just("default"), names)
by_number = st.builds(q.Topic, st.sampled_from(["default", "sales", 1]), st.sampled_from(["orders", 1, 2]))
anywhere = topics | topics | by_number
partitions = st.integers(0, 3)
offsets = st.integers(0, 1 << 40)
groups = st.sampled_from(["g", "workers"])
group = st.builds(q.Group, groups | st.just(3))
readers = group | st.builds(q.Consumer, st.sampled_from(["c", 1]))
members = st.sampled_from(["m", "worker-1", ""])
generations = st.integers(1, 9)
keys = st.sampled_from([b"user1", b"user2"])
payloads = st.sampled_from([b"v", b"hello", b"42"])
waits = st.sampled_from([0.0, 0.0, 0.5, 3.0])
create = st.sampled_from([0, 0, 1, 3])
keyed = st.builds(Record, key=keys, value=payloads)
plain = st.builds(Record, value=payloads)
numbered = st.builds(
    lambda first, count: [Record(value=b"v", producer=b"p-1", epoch=1, sequence=first + at) for at in range(count)],
    st.integers(1, 5),
    st.integers(1, 3),
)
batches = st.one_of(st.lists(plain, min_size=1, max_size=3), st.lists(keyed, min_size=1, max_size=2), numbered)
limits = {"max_records": st.sampled_from([0, 1, 100]), "max_bytes": st.sampled_from([1 << 20, 1 << 16])}
partitioners = st.sampled_from(["fnv1a_32", "fnv1a_64", "xxh32", "murmur3", "xxh32_from_1"])
starts = st.one_of(
    offsets,
    st.builds(q.FromTime, st.sampled_from([0, 1_700_000_000_000_000])),
    st.just(q.First()),
    st.builds(q.Last, st.integers(1, 9)),
    st.builds(q.Next, readers, st.sampled_from([0, 0, 7])),
)
settings = st.builds(
    q.TopicSettings,
    retention_us=st.sampled_from([0, 0, 3_600_000_000]),
    cleanup=st.sampled_from(["delete", "delete", "compact"]),
    idempotent=st.booleans(),
)
liveness = st.one_of(st.builds(q.Heartbeats, st.sampled_from([10.0, 30.0])), st.just(q.WhileConnected()))
sharers = st.booleans()


ORDERS = q.Topic("default", "orders")
simple: list[q.Command] = [
    q.JoinGroup(ORDERS, "g", "m", q.Heartbeats(30.0), distinct=True),
    q.JoinGroup(ORDERS, "g", "m", q.Heartbeats(10.0), distinct=True, exclusive=True),
    q.CreateGroup(ORDERS, "g", if_exists=q.IfExists.KEEP),
    q.Follow(ORDERS, 0, q.Next(q.Group("g"))),
    q.Fetch(ORDERS, 0, q.Next(q.Group("g")), 10, wait=0.5),
    q.CommitOffsets(ORDERS, q.Group("g"), {0: 5}),
    q.FetchOffsets(ORDERS, q.Group("g"), (0,)),
    q.CreateTopic(ORDERS, 1),
]
"""What hardly ever comes together by chance, since a dialect has words for one form of it only."""


def _publish_by_key(record: Record, partitioner: str, topic: q.Topic, acks: q.Acks, make: int) -> q.Publish:
    return q.Publish(topic, q.ByKey(record.key or b"", partitioner), canonical([record], "test"), acks, make)


usual: st.SearchStrategy[q.Command] = st.one_of(
    st.just(q.Ping()),
    st.builds(q.Authenticate, st.sampled_from(["plain", "token"]), st.sampled_from(["ann", ""]), st.just("s3cret")),
    st.just(q.Logout()),
    st.just(q.Describe()),
    st.just(q.ListSessions()),
    st.builds(q.DescribeSession, st.sampled_from([None, 1])),
    st.builds(q.ListMemberships, st.sampled_from([None, 1])),
    st.just(q.EndSession()),
    st.builds(q.CreateNamespace, st.just("sales"), st.sampled_from([None, 9])),
    st.builds(q.DeleteNamespace, st.sampled_from(["sales", 9])),
    st.just(q.ListNamespaces()),
    st.builds(q.DescribeNamespace, st.sampled_from(["sales", 9]), st.booleans()),
    st.builds(
        q.CreateTopic,
        anywhere,
        st.integers(1, 4),
        settings | st.just(q.TopicSettings()),
        st.sampled_from(q.IfExists),
        st.sampled_from([None, None, 7]),
    ),
    st.builds(q.AlterTopic, anywhere, settings, st.sampled_from([None, "other"])),
    st.builds(q.DeleteTopic, anywhere),
    st.builds(q.ListTopics, st.sampled_from(["default", "sales", 9])),
    st.builds(q.DescribeTopic, anywhere),
    st.builds(q.CreatePartitions, anywhere, st.integers(1, 3)),
    st.builds(q.DeletePartitions, anywhere, st.integers(1, 3)),
    st.builds(
        lambda topic, to, records, acks, make: q.Publish(topic, to, canonical(records, "test"), acks, make),
        anywhere,
        partitions | st.just(q.Balanced()),
        batches,
        st.sampled_from(q.Acks),
        create,
    ),
    st.builds(_publish_by_key, keyed | plain, partitioners, anywhere, st.sampled_from(q.Acks), create),
    st.builds(
        q.Fetch,
        anywhere,
        partitions | st.none(),
        starts,
        **limits,
        wait=waits,
        commit=st.booleans(),
        create=create,
        reader=st.none() | readers,
    ),
    st.builds(q.Fetch, topics, partitions, offsets, **limits),
    st.builds(q.Follow, anywhere, partitions, starts, **limits),
    st.builds(q.LatestOffsets, anywhere, st.none() | partitions),
    st.builds(
        q.CommitOffsets,
        anywhere,
        readers,
        st.dictionaries(partitions | st.none(), offsets, min_size=1, max_size=2),
        st.none() | members,
        st.none() | generations,
        st.booleans(),
        st.booleans(),
    ),
    st.builds(q.FetchOffsets, anywhere, readers, st.none() | st.lists(partitions, min_size=1, max_size=2).map(tuple)),
    st.builds(q.DeleteOffsets, anywhere, readers, st.lists(partitions, min_size=1, max_size=2).map(tuple)),
    st.builds(q.CreateGroup, anywhere, groups, st.sampled_from([None, 7]), st.sampled_from(q.IfExists), sharers),
    st.builds(q.DeleteGroup, anywhere, groups | st.just(3)),
    st.builds(q.ListGroups, st.sampled_from(["default", "sales"]), st.sampled_from([None, "orders"])),
    st.builds(q.DescribeGroup, anywhere | st.just(q.Topic("default", "")), groups | st.just(3)),
    st.builds(
        q.JoinGroup,
        anywhere,
        groups | st.just(3),
        members,
        liveness,
        st.sampled_from(["", "range", "round_robin"]),
        st.booleans(),
        st.sampled_from([None, 2]),
        create,
        st.booleans(),
        st.booleans(),
    ),
    st.builds(q.SyncGroup, topics, groups, members, generations),
    st.builds(q.Heartbeat, topics, groups, members, generations),
    st.builds(q.LeaveGroup, topics, groups, members, st.none() | generations),
    st.builds(
        q.MapPut,
        anywhere,
        keys,
        payloads,
        st.sampled_from([0.0, 0.0, 2.5, 60.0]),
        st.sampled_from([q.Anyhow(), q.IfAbsent(), q.IfPresent(), q.IfEquals(b"v"), q.IfCount(4)]),
        create,
        st.booleans(),
    ),
    st.builds(q.MapGet, anywhere, keys),
    st.builds(q.MapRemove, anywhere, keys, st.sampled_from([q.Anyhow(), q.IfEquals(b"v")])),
    st.builds(q.MapSize, anywhere),
    st.builds(
        q.MapScan,
        anywhere,
        st.none() | keys,
        st.sampled_from([0, 10]),
        st.none() | st.lists(keys, max_size=2).map(tuple),
        st.booleans(),
    ),
    st.builds(q.MapClear, anywhere),
    st.builds(q.MapAdd, anywhere, keys, st.sampled_from([1, -3]), create),
    st.builds(q.Take, anywhere, waits),
    st.builds(q.Peek, anywhere),
    st.builds(q.QueueSize, anywhere),
    st.builds(q.QueueClear, anywhere),
    st.builds(q.FindLeader, st.none() | anywhere),
    st.sampled_from(simple),
)
