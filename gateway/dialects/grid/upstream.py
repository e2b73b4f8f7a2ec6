"""What a server of the grid can be asked for, with the settings as they come.  service.py says by which operation.

A record is published with TOPIC_PUBLISH, also where it is taken with QUEUE_POLL: a queue and a topic of one name are
one here, and may be two in a grid of another make.
"""

from __future__ import annotations

from gateway.core.commands import (
    Authenticate,
    Fetch,
    Follow,
    LatestOffsets,
    MapAdd,
    MapPut,
    MapRemove,
    MapScan,
    Peek,
    Publish,
    Take,
)
from gateway.dialects.grid.service import KINDS
from gateway.dialects.upstream import Upstream

_ONE = "a topic has one partition, which is 0"
_MADE = "what is written to is made, with one partition"

UPSTREAM = Upstream(
    commands=KINDS,
    refused={
        Authenticate: "other mechanisms than `plain`",
        Publish: "several records at once, and other partitions than 0",
        Fetch: "anything but an offset of partition 0, and committing it too",
        Follow: "all of it, but where both ends have `topic_push`: partition 0 from an offset or the end on",
        LatestOffsets: "other partitions than 0; all of it where the ends have `topic_push`",
        MapPut: "a condition together with a time to live; what was there before, but where both ends have "
        "`put_returns`; what is no number, on the condition of a count",
        MapRemove: "on the condition of a value",
        MapScan: "a part of the keys without their values, or a part of some keys",
    },
    unsaid={
        Publish: {
            "to": _ONE,
            "acks": "answered when it is stored as well as that server does",
            "create": _MADE,
        },
        Fetch: {
            "max_bytes": "the server has a bound of its own; the answer is cut when it is read",
            "wait": "answered at once",
            "create": "a topic that is not there reads as empty, and is made when it is written to",
            "reader": "nobody is told who reads, which only matters to who commits",
        },
        LatestOffsets: {"partition": _ONE},
        MapPut: {
            "ttl": "whole milliseconds, and at least one",
            "create": "what is written to is made, but for what has to be there",
        },
        MapAdd: {"create": _MADE},
        MapScan: {"after": "an empty key is none, so what comes after it is everything"},
    },
    unheard={
        Publish: "whether it was stored before",
        Fetch: "where the topic begins and ends: the end is what follows the last record of the answer; of records all "
        "but their values and offsets",
        LatestOffsets: "where the topic begins",
        MapPut: "what was there before",
        Take: "the offset of the record; all of it but the value",
        Peek: "the offset of the record; all of it but the value",
    },
    waits=frozenset({Take}),
)
