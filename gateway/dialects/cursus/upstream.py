"""What a Cursus broker can be asked for by our client, and what of it is not said; asking.py says the rest."""

from __future__ import annotations

from gateway.core import commands as q
from gateway.dialects.cursus.asking import SAYABLE
from gateway.dialects.upstream import Upstream

_SIZE = {"max_bytes": "a frame of the broker's"}
_ONE_TOPIC = {"exclusive": "always: a group has one topic"}

UPSTREAM = Upstream(
    commands=SAYABLE,
    refused={
        q.Authenticate: "any mechanism but plain",
        q.CreateTopic: "unless it may exist and then grow; with an id, or settings or a name that CREATE does not take",
        q.Publish: "without a partition, since the answer does not say which it was; making the topic",
        q.Fetch: "but from an offset or a group's commit; a lower bound of that; without a partition; with a commit;"
        " making the topic",
        q.Follow: "but from a group's commit, without a lower bound",
        q.CommitOffsets: "of several partitions without a member; no further than the end",
        q.FetchOffsets: "but of one partition",
        q.CreateGroup: "unless it may exist; with an id",
        q.ListGroups: "of one topic",
        q.DescribeGroup: "with the topic by id",
        q.JoinGroup: "but with heartbeats, as a new member with a number to its name; a choice of assignor; making the"
        " topic; only if there is such a group",
        q.FindLeader: "of a topic: each of its partitions has one",
    },
    unsaid={
        q.Publish: {"acks": "none is said as leader: a real broker's log is corrupted by both in one partition"},
        q.Fetch: {
            "max_records": "of a Fetch without a limit 100,000",
            "reader": "nobody, unless the commit of a group is where it starts",
            **_SIZE,
        },
        q.Follow: {"max_records": "of a Follow without a limit 100,000", **_SIZE},
        q.CommitOffsets: {"rising": "always: an offset below the committed one is refused"},
        q.CreateGroup: _ONE_TOPIC,
        q.DescribeGroup: {"topic": "compared with the one in the answer"},
        q.JoinGroup: {"liveness": "a member that is not heard of for 10 s is dropped", **_ONE_TOPIC},
    },
    unheard={
        q.Authenticate: "the number of the user",
        q.CreateTopic: "ids, times, bounds and sizes, whether the topic is idempotent or for events",
        q.DescribeTopic: "ids, times and sizes, where partitions begin, replicas, whether the topic is idempotent or"
        " for events",
        q.ListTopics: "anything but names",
        q.Publish: "whether all of it was a duplicate",
        q.Fetch: "where the partition begins and ends, and the times of records",
        q.Follow: "the times of records",
        q.LatestOffsets: "of one partition, how many there are",
        q.FetchOffsets: "a commit of 0, which looks like none; where the partition ends",
        q.CreateGroup: "anything but names",
        q.ListGroups: "anything but names",
        q.DescribeGroup: "its id",
    },
    waits=frozenset({q.Fetch}),
    remembers=True,
    describes=True,
)
