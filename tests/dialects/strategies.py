"""Commands, replies and records for hypothesis, in two widths.

PLAIN holds what every dialect could have words for: namespace `default`, names of lower-case ASCII, printable keys and
values.  WIDE holds whatever the model can, for the dialects and backends that claim to lose nothing.
"""

from __future__ import annotations

import string
from typing import get_args

from hypothesis import strategies as st

from gateway.core import commands as c
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.partitioners import PARTITIONERS
from gateway.core.records import WIDTHS, Header, HeaderKind, Record, RecordBatch, canonical

Commands = st.SearchStrategy[c.Command]

naturals = st.integers(0, c.MAX_OFFSET) | st.integers(0, 300)
small = st.integers(0, 20)
ids = st.integers(0, 0xFFFFFFFF)
seconds = st.floats(0, 0xFFFFFFFF) | st.sampled_from([0.0, 0.5, 10.0])
plain_names = st.text(string.ascii_lowercase + string.digits + "-_", min_size=1, max_size=12)
plain_octets = st.text(string.ascii_letters + string.digits, min_size=1, max_size=12).map(str.encode)
wide_names = st.text(st.characters(codec="utf-8"), max_size=12)
wide_octets = st.binary(max_size=40)


def maybe(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """It, or None."""
    return st.none() | strategy


# -- records


@st.composite
def headers(draw: st.DrawFn) -> Header:
    """A header whose value is as wide as its kind."""
    kind = draw(st.sampled_from(HeaderKind))
    width = WIDTHS.get(kind)
    value = draw(st.binary(max_size=10) if width is None else st.binary(min_size=width, max_size=width))
    return Header(draw(st.binary(max_size=10)), value, kind, draw(st.sampled_from([HeaderKind.TEXT, HeaderKind.RAW])))


wide_records = st.builds(
    Record,
    key=maybe(wide_octets),
    value=maybe(wide_octets),
    headers=st.lists(headers(), max_size=3).map(tuple),
    timestamp=naturals,
    origin_timestamp=naturals,
    id=st.just(b"") | st.binary(min_size=16, max_size=16),
    producer=st.binary(max_size=8),
    epoch=small,
    sequence=naturals,
    event_type=st.binary(max_size=8),
    schema_version=small,
    aggregate_version=naturals,
    metadata=wide_octets,
    expiry=naturals,
)
plain_records = st.builds(Record, key=maybe(plain_octets), value=plain_octets)


def batches(records: st.SearchStrategy[Record] = wide_records) -> st.SearchStrategy[RecordBatch]:
    """Batches of one to five records as a producer sends them, in the canonical encoding."""
    return st.lists(records, min_size=1, max_size=5).map(canonical)


@st.composite
def stored(draw: st.DrawFn, records: st.SearchStrategy[Record] = wide_records) -> RecordBatch:
    """A batch as it stands in a partition."""
    batch = draw(batches(records))
    return RecordBatch(batch.encoding, batch.body, batch.count, draw(naturals), draw(naturals), draw(plain_names))


# -- commands


class Words:
    """The strategies that commands are made of."""

    def __init__(self, wide: bool) -> None:
        self.name = wide_names if wide else plain_names
        self.octets = wide_octets if wide else plain_octets
        self.batch = batches(wide_records if wide else plain_records)
        self.reference = self.name | ids if wide else self.name
        self.namespace = self.reference if wide else st.just(c.DEFAULT_NAMESPACE)
        self.topic = st.builds(c.Topic, self.namespace, self.reference)
        self.number = naturals if wide else small
        groups, consumers = st.builds(c.Group, self.reference), st.builds(c.Consumer, self.reference)
        self.reader = groups | consumers if wide else groups
        starts: list[st.SearchStrategy[c.Start]] = [self.number, st.builds(c.First), st.builds(c.Next, self.reader)]
        if wide:
            starts += [st.builds(c.FromTime, naturals), st.builds(c.Last, naturals)]
            starts += [st.builds(c.Next, groups, naturals)]
        self.start = st.one_of(starts)
        keyed = st.builds(c.ByKey, self.octets, st.sampled_from(sorted(PARTITIONERS)))
        self.to = self.number | st.builds(c.Balanced) | keyed
        self.settings = st.builds(
            c.TopicSettings,
            naturals,
            naturals,
            st.sampled_from(["delete", "compact", "delete,compact"]),
            st.booleans(),
            st.booleans(),
            st.sampled_from(["", *PARTITIONERS]),
            st.dictionaries(self.name, self.name, max_size=3),
        )


def commands(wide: bool = False) -> dict[type[c.Command], Commands]:
    """A strategy for each kind of command."""
    w = Words(wide)
    number, flag = w.number, st.booleans()
    liveness = st.builds(c.Heartbeats, seconds) | st.builds(c.WhileConnected)
    member = st.just("") | w.name
    equal = st.builds(c.IfEquals, w.octets)
    counters = st.integers(-c.MAX_OFFSET - 1, c.MAX_OFFSET)
    put_if = st.builds(c.Anyhow) | st.builds(c.IfAbsent) | st.builds(c.IfPresent) | equal
    put_if |= st.builds(c.IfCount, counters)
    exists = st.sampled_from(c.IfExists)
    known = maybe(number) if wide else number  # None = the one that a member was last given
    offsets = st.dictionaries(known, number, max_size=4)
    partitions = st.lists(known, max_size=4).map(tuple)
    assignor = st.sampled_from(["", "range", "round_robin"])
    keys = maybe(st.lists(w.octets, max_size=3).map(tuple))
    fields: dict[type[c.Command], tuple[st.SearchStrategy[object], ...]] = {
        c.Ping: (),
        c.Authenticate: (st.sampled_from(["plain", "token"]), w.name, w.name),
        c.Logout: (),
        c.Describe: (),
        c.ListSessions: (),
        c.DescribeSession: (maybe(number),),
        c.ListMemberships: (maybe(number),),
        c.EndSession: (),
        c.CreateNamespace: (w.name, maybe(ids)),
        c.DeleteNamespace: (w.reference,),
        c.ListNamespaces: (),
        c.DescribeNamespace: (w.reference, flag),
        c.CreateTopic: (w.topic, number, w.settings if wide else st.just(c.TopicSettings()), exists, maybe(ids)),
        c.AlterTopic: (w.topic, w.settings, maybe(w.name)),
        c.DeleteTopic: (w.topic,),
        c.ListTopics: (w.namespace,),
        c.DescribeTopic: (w.topic,),
        c.CreatePartitions: (w.topic, number),
        c.DeletePartitions: (w.topic, number),
        c.Publish: (w.topic, w.to, w.batch, st.sampled_from(c.Acks), number),
        c.Fetch: (w.topic, maybe(number), w.start, number, number, seconds, flag, number, maybe(w.reader)),
        c.Follow: (w.topic, number, w.start, number, number),
        c.LatestOffsets: (w.topic, maybe(number)),
        c.CommitOffsets: (w.topic, w.reader, offsets, maybe(w.name), maybe(number), flag, flag),
        c.FetchOffsets: (w.topic, w.reader, maybe(partitions)),
        c.DeleteOffsets: (w.topic, w.reader, partitions),
        c.CreateGroup: (w.topic, w.name, maybe(ids), exists, flag),
        c.DeleteGroup: (w.topic, w.reference),
        c.ListGroups: (w.namespace, maybe(w.reference)),
        c.DescribeGroup: (w.topic, w.reference),
        c.JoinGroup: (w.topic, w.reference, member, liveness, assignor, flag, maybe(number), number, flag, flag),
        c.SyncGroup: (w.topic, w.reference, w.name, number),
        c.Heartbeat: (w.topic, w.reference, w.name, number),
        c.LeaveGroup: (w.topic, w.reference, member, maybe(number)),
        c.MapPut: (w.topic, w.octets, w.octets, seconds, put_if, number, flag),
        c.MapGet: (w.topic, w.octets),
        c.MapRemove: (w.topic, w.octets, st.builds(c.Anyhow) | equal),
        c.MapSize: (w.topic,),
        c.MapScan: (w.topic, maybe(w.octets), number, keys, flag),
        c.MapClear: (w.topic,),
        c.MapAdd: (w.topic, w.octets, counters, number),
        c.Take: (w.topic, seconds),
        c.Peek: (w.topic,),
        c.QueueSize: (w.topic,),
        c.QueueClear: (w.topic,),
        c.FindLeader: (maybe(w.topic),),
    }
    assert set(fields) == set(get_args(c.Command)), "a command is missing here"
    return {kind: st.builds(kind, *parts) for kind, parts in fields.items()}


# -- outcomes


def replies(wide: bool = False) -> dict[type[r.Reply], st.SearchStrategy[r.Reply]]:
    """A strategy for each kind of reply."""
    w = Words(wide)
    n, name, octets, flag = w.number, w.name, w.octets, st.booleans()

    def many(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
        return st.lists(strategy, max_size=3).map(tuple)

    percent = st.floats(0, 100)
    process = st.builds(r.ProcessDescription, n, percent, percent, n, n, n, n, n, name, name, name, name, n)
    memberships = many(st.builds(r.MembershipDescription, n, n, n, n))
    session = st.builds(r.SessionDescription, n, name, name, name, maybe(name), n, memberships, n)
    partition = st.builds(r.PartitionDescription, n, n, n, n, n)
    settings = w.settings if wide else st.just(c.TopicSettings())
    topic = st.builds(r.TopicDescription, name, name, n, n, settings, many(partition))
    namespace = st.builds(r.NamespaceDescription, n, name, n, n, n, n, many(topic))
    member = st.builds(r.MemberDescription, name, many(n), n, maybe(n))
    group = st.builds(r.GroupDescription, name, name, name, n, n, n, many(member), n)
    batch = stored(wide_records if wide else plain_records)
    fields: dict[type[r.Reply], tuple[st.SearchStrategy[object], ...]] = {
        r.Done: (),
        r.Authenticated: (name, n),
        r.NodeDescription: (name, name, name, n, n, n, n, n, n, n, n, maybe(process)),
        r.Sessions: (many(session),),
        r.Memberships: (memberships,),
        r.Namespaces: (many(namespace),),
        r.Topics: (many(topic),),
        r.Published: (n, n, n, flag),
        r.Records: (n, n, n, many(batch)),
        r.Offsets: (n, many(st.builds(r.PartitionOffsets, n, n, n))),
        r.CommittedOffsets: (st.dictionaries(n, n, max_size=4), st.dictionaries(n, n, max_size=4)),
        r.Groups: (many(group),),
        r.Joined: (name, n, many(n), flag),
        r.MapValue: (maybe(octets),),
        r.MapChanged: (flag, maybe(octets)),
        r.MapEntries: (many(st.tuples(octets, octets)),),
        r.Count: (st.integers(-c.MAX_OFFSET - 1, c.MAX_OFFSET),),
        r.Leader: (name,),
    }
    found: dict[type[r.Reply], st.SearchStrategy[r.Reply]]
    found = {kind: st.builds(kind, *parts) for kind, parts in fields.items()}
    found |= {
        r.SessionDescription: session,
        r.NamespaceDescription: namespace,
        r.TopicDescription: topic,
        r.GroupDescription: group,
    }
    assert set(found) == set(get_args(r.Reply)), "a reply is missing here"
    return found


@st.composite
def failures(draw: st.DrawFn) -> CommandFailed:
    """Any fault, with any detail and facts."""
    facts = draw(st.dictionaries(plain_names, naturals | wide_names, max_size=3))
    failure = CommandFailed(draw(st.sampled_from(Fault)), draw(wide_names))
    failure.facts.update(facts)
    return failure
