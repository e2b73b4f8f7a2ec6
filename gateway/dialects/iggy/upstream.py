"""What an Iggy server can be asked for.

Up to 0.4 (g0, g1a) creating is answered without a word, and in all generations sending and joining are: the replies
then are what presuming.py makes of the request.
"""

from __future__ import annotations

from gateway.core import commands as q
from gateway.dialects.iggy.asking import ASKING
from gateway.dialects.upstream import Upstream

_PLACED = "anything but one partition; a consumer that names none; in g0 a name, and a partition that a member names"
_MADE = "a name that the server would refuse or change; an id from 0.8 on, none in g0"
_NEW = f"{_MADE}; `if_exists` other than FAIL"

UPSTREAM = Upstream(
    commands=frozenset({*ASKING, q.Authenticate, q.Publish}),
    refused={
        q.Authenticate: "mechanisms other than plain and token, and a name beside a token; all of it in g0",
        q.Logout: "all of it in g0",
        q.FindLeader: "a subject; all of it before 0.8",
        q.CreateNamespace: _MADE,
        q.CreateTopic: f"{_NEW}; settings other than `retention_us`, in whole seconds up to 0.4, and the labels "
        "compression, max_topic_size and replication_factor, which g0 has not",
        q.CreateGroup: f"{_NEW}; a group that is to be exclusive; a name other than the id in g0",
        q.Publish: "`create`; a key that is to be hashed otherwise than servers of the generation do, or is empty; "
        "payloads that are all empty, or have more than 10 MiB; headers of more than 100 KiB",
        q.Fetch: "`create`; a floor of `Next`, or another reader beside it; `Last` beyond `max_records`; a commit that "
        "names no reader; a consumer that names no partition; in g0 a name, and a partition that a member names",
        q.FetchOffsets: _PLACED,
        q.CommitOffsets: f"{_PLACED}; an offset of 0; `member`, `generation` and `rising`",
        q.DeleteOffsets: f"{_PLACED}; all of it in g0",
        q.ListGroups: "the groups of a whole stream",
        q.DescribeGroup: "a group without its topic; a name in g0",
        q.DeleteGroup: "a name in g0",
        q.JoinGroup: "a group that need not exist; a member with a name, heartbeats or an assignor; a name in g0",
        q.LeaveGroup: "another member than the connection; a name in g0",
    },
    unsaid={
        q.DescribeNamespace: {"contents": "its topics always come along"},
        q.Publish: {"acks": "answered when the server has taken it, as its own settings have it"},
        q.Fetch: {
            "max_records": "100,000 if there is to be no limit; as many as `Last` is for",
            "max_bytes": "as much as the server puts into one answer",
            "wait": "answered at once",
            "reader": "the one of `Next`; consumer 1 if nobody is named, for whom nothing is committed",
        },
        q.CommitOffsets: {"bounded": "an offset behind the end is always refused"},
    },
    unheard={
        q.Authenticate: "whose the token is; the server's version",
        q.Describe: "the durability; the version of the server up to 0.4",
        q.DescribeSession: "dialect, listener, principal and time; the user in g0",
        q.ListSessions: "dialect, listener, principal, time and memberships; the user in g0",
        q.CreateNamespace: "id, if it was left to the server, and time up to 0.4",
        q.DescribeNamespace: "the partitions of its topics",
        q.CreateTopic: "id, if it was left to the server, and time up to 0.4",
        q.ListTopics: "the partitions",
        q.CreatePartitions: "all but what it was called",
        q.DeletePartitions: "all but what it was called",
        q.Publish: "the offsets, and the partition if the server chose it",
        q.Fetch: "where the partition begins; where it ends, if it has one record and that is not in the answer",
        q.FetchOffsets: "a stored offset of 0 up to 0.4; `ends` where nothing is stored, from 0.5 on",
        q.CreateGroup: "generation and time; id, if it was left to the server, and partitions up to 0.4",
        q.DescribeGroup: "generation and times",
        q.ListGroups: "generation, times and members",
        q.JoinGroup: "member, generation and assignment",
    },
    describes=True,
    login=True,
)
