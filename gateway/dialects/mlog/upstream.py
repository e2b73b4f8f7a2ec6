"""What an mlog server can be asked for by our client, and what of it is not said; asking.py says the rest."""

from __future__ import annotations

from gateway.core import commands as q
from gateway.dialects.mlog.asking import SAYABLE
from gateway.dialects.upstream import Upstream

_TOPIC = "anything but the name"
_BOUNDS = "where the log begins and ends, and the times of records"

UPSTREAM = Upstream(
    commands=SAYABLE,
    refused={
        q.Publish: "to another partition than the first; making the topic",
        q.Fetch: "but from an offset or a group's commit; of another partition than the first; with a commit;"
        " making the topic",
        q.Follow: "unless `fetch_stream` says that the server has it; of another partition than the first",
        q.CommitOffsets: "of another partition than the first; under any condition",
        q.FetchOffsets: "of another partition than the first",
        q.CreateTopic: "if it may exist; with another count of partitions than 1, settings or an id",
    },
    unsaid={
        q.Publish: {
            "to": "the first partition, there is no other",
            "acks": "none is said as leader: the project's server stores such a record and answers that it did not",
        },
        q.Fetch: {
            "max_records": "at most 500: an answer over 4 MiB would end the connection",
            "max_bytes": "as many as the records have",
            "wait": "answered at once",
            "reader": "nobody, unless the commit of a group is where it starts",
        },
        q.Follow: {"max_records": "one", "max_bytes": "as many as the record has"},
        q.FetchOffsets: {"partitions": "the first, there is no other"},
    },
    unheard={
        q.Publish: "whether all of it was a duplicate",
        q.Fetch: _BOUNDS,
        q.Follow: _BOUNDS,
        q.CommitOffsets: "that there is no such topic",
        q.FetchOffsets: "a commit of 0, which looks like none; where the log ends",
        q.CreateTopic: _TOPIC,
        q.ListTopics: "anything but names and replicas",
    },
)
