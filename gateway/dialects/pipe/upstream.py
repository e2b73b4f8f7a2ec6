"""What a V1 server can be asked for.  asking.py and cluster_asking.py write it.

What holds there is so in the newest stage of the project: handler.go, group.go and storage.go.  LatestOffsets and Ping
are no part of it: they are said beside what brokers tell each other only, and that changes something there.
"""

from __future__ import annotations

from gateway.core.commands import (
    CommitOffsets,
    CreateTopic,
    Fetch,
    FetchOffsets,
    JoinGroup,
    LeaveGroup,
    ListTopics,
    Publish,
    SyncGroup,
)
from gateway.dialects.pipe.asking import WRITE
from gateway.dialects.pipe.cluster_asking import PLAIN
from gateway.dialects.upstream import Upstream

_MADE = "a server makes topics at their first use, with as many partitions as it likes"

UPSTREAM = Upstream(
    commands=frozenset({*WRITE, *PLAIN}),
    refused={
        Publish: "several records at once, a partition by number, or by another key than the record's; a key or value "
        "with white space, a key with a colon, a line beyond 65,536 bytes",
        Fetch: "anything but an offset of a partition, and committing it too",
        JoinGroup: "a member without a name, one that lives by its connection or is made anew at each join, a group "
        "that has to be there, a group by id",
        LeaveGroup: "leaving in whatever generation it is",
        CommitOffsets: "several partitions at once, offsets that must rise or be bounded, half a fence, and readers "
        "outside groups; one without a member is understood by servers of the first stage alone",
        FetchOffsets: "several partitions at once, and readers outside groups",
        CreateTopic: "a topic that has to be new, or grows; one with settings or a chosen id",
        ListTopics: "another namespace than that of the listener",
    },
    unsaid={
        Publish: {
            "to": "the record's key chooses, by FNV-1a-32; records without one are in the partition of the empty key",
            "create": _MADE,
        },
        Fetch: {
            "max_records": "all that there are are sent; the answer is cut when it is read",
            "max_bytes": "all that there are are sent; the answer is cut when it is read",
            "wait": "answered at once",
            "create": _MADE,
            "reader": "nobody is told who reads, which only matters to who commits",
        },
        JoinGroup: {
            "liveness": "a member is forgotten that is not heard of for 10 s",
            "resume": "who is a member stays one, in the generation that there is",
            "create": _MADE,
            "exclusive": "a group has the topic of the newest JOIN, and members for another topic are forgotten",
        },
    },
    unheard={
        Publish: "whether it was stored before",
        Fetch: "where the partition begins; of records all but their values and offsets",
        JoinGroup: "whether a membership was resumed",
        SyncGroup: "whether a membership was resumed",
        FetchOffsets: "where partitions end; an offset of 0 is none that was committed",
        CreateTopic: "all but how many partitions there are",
        ListTopics: "all but names; those with brackets are left out",
    },
)
