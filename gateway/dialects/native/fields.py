"""Which fields the native wire has, in their order: the whole vocabulary on one page, for authors of clients.

Written by hand, not read off the Structs of core; a test holds the two against each other.

    name:type     a field; `?` after the type if it may be nil, then `=` if it may be left out
    [type]        an array of these                     {key,value}   a map
    text, bytes, bool                                   as in msgpack: str, bin, true and false
    nat           0..2^63-1                             i64           -2^63..2^63-1
    int           any integer that msgpack has          u32           0..2^32-1
    id            a text or a u32                       seconds       an integer or float, 0..2^32-1
    percent       any integer or float
    acks          0 none, 1 leader, -1 all              if_exists     "fail", "keep" or "grow"
    header_kind   1..15, core.records.HeaderKind        entry         an array of just two bytes: key, value
    fact          an int or a text
"""

from __future__ import annotations

SHAPES = {
    "topic": "namespace:id name:id",
    "settings": "retention_us:nat= retention_bytes:nat= cleanup:text= idempotent:bool= event_sourcing:bool="
    " partitioner:text= labels:{text,text}=",
    "batch": "encoding:text body:bytes count:nat base:nat= timestamp:nat= origin:text=",
    "record": "key:bytes?= value:bytes?= headers:[header]= timestamp:nat= origin_timestamp:int= id:bytes="
    " producer:bytes= epoch:nat= sequence:nat= event_type:bytes= schema_version:int= aggregate_version:int="
    " metadata:bytes= expiry:nat=",
    "header": "key:bytes value:bytes kind:header_kind= key_kind:header_kind=",
    "partition": "index:int start:int end:int bytes:int created:int",
    "bounds": "partition:int start:int end:int",
    "replica": "node:text in_sync:bool= end:int=",
    "membership": "session:int namespace:int topic:int group:int",
    "process": "id:int cpu:percent machine_cpu:percent memory:int machine_memory:int free_memory:int read:int"
    " written:int host:text system:text release:text kernel:text running:int=",
    "member": "member:text assignment:[int] heard:int session:int?=",
}
"""Arrays that are known by their place.  The body of a batch in `msgpack.v1` is one array of records."""

CHOICES: dict[str, dict[str, str]] = {
    "reader": {"group": "name:id", "consumer": "name:id"},
    "to": {"key": "key:bytes partitioner:text", "balanced": ""},
    "start": {"time": "timestamp:nat", "first": "", "last": "count:nat", "next": "reader:reader floor:nat="},
    "liveness": {"heartbeats": "timeout:seconds=", "connected": ""},
    "put_if": {"anyhow": "", "absent": "", "present": "", "equals": "value:bytes", "count": "value:i64"},
    "remove_if": {"anyhow": "", "equals": "value:bytes"},
}
"""Arrays that begin with a word which says what they are."""

NUMBERED = ("to", "start")
"""Choices that may be a nat instead of an array: a partition, an offset."""

COMMANDS = {
    "Ping": "",
    "Authenticate": "mechanism:text principal:text secret:text",
    "Logout": "",
    "Describe": "",
    "ListSessions": "",
    "DescribeSession": "session:nat?=",
    "ListMemberships": "session:nat?=",
    "EndSession": "",
    "CreateNamespace": "name:text id:u32?=",
    "DeleteNamespace": "namespace:id",
    "ListNamespaces": "",
    "DescribeNamespace": "namespace:id contents:bool=",
    "CreateTopic": "topic:topic partitions:nat settings:settings= if_exists:if_exists= id:u32?=",
    "AlterTopic": "topic:topic settings:settings name:text?=",
    "DeleteTopic": "topic:topic",
    "ListTopics": "namespace:id",
    "DescribeTopic": "topic:topic",
    "CreatePartitions": "topic:topic count:nat",
    "DeletePartitions": "topic:topic count:nat",
    "Publish": "topic:topic to:to batch:batch acks:acks= create:nat=",
    "Fetch": "topic:topic partition:nat? start:start max_records:nat= max_bytes:nat= wait:seconds="
    " commit:bool= create:nat= reader:reader?=",
    "Follow": "topic:topic partition:nat start:start max_records:nat= max_bytes:nat=",
    "LatestOffsets": "topic:topic partition:nat?=",
    "CommitOffsets": "topic:topic reader:reader offsets:{nat?,nat} member:text?= generation:nat?= rising:bool="
    " bounded:bool=",
    "FetchOffsets": "topic:topic reader:reader partitions:[nat?]?=",
    "DeleteOffsets": "topic:topic reader:reader partitions:[nat?]",
    "CreateGroup": "topic:topic group:text id:u32?= if_exists:if_exists= exclusive:bool=",
    "DeleteGroup": "topic:topic group:id",
    "ListGroups": "namespace:id topic:id?=",
    "DescribeGroup": "topic:topic group:id",
    "JoinGroup": "topic:topic group:id member:text liveness:liveness assignor:text= distinct:bool="
    " resume:nat?= create:nat= exclusive:bool= existing:bool=",
    "SyncGroup": "topic:topic group:id member:text generation:nat",
    "Heartbeat": "topic:topic group:id member:text generation:nat",
    "LeaveGroup": "topic:topic group:id member:text generation:nat?=",
    "MapPut": "topic:topic key:bytes value:bytes ttl:seconds= only:put_if= create:nat= previous:bool=",
    "MapGet": "topic:topic key:bytes",
    "MapRemove": "topic:topic key:bytes only:remove_if=",
    "MapSize": "topic:topic",
    "MapScan": "topic:topic after:bytes?= limit:nat= keys:[bytes]?= values:bool=",
    "MapClear": "topic:topic",
    "MapAdd": "topic:topic key:bytes delta:i64 create:nat=",
    "Take": "topic:topic wait:seconds=",
    "Peek": "topic:topic",
    "QueueSize": "topic:topic",
    "QueueClear": "topic:topic",
    "FindLeader": "subject:topic?=",
}
"""Arrays that begin with the name of the command."""

REPLIES = {
    "Done": "",
    "Authenticated": "principal:text id:int=",
    "NodeDescription": "node:text version:text durability:text started:int namespaces:int topics:int partitions:int"
    " records:int bytes:int groups:int sessions:int= process:process?=",
    "SessionDescription": "id:int dialect:text listener:text peer:text principal:text? opened:int"
    " memberships:[membership]= user:int=",
    "Memberships": "memberships:[membership]",
    "Sessions": "sessions:[SessionDescription]",
    "NamespaceDescription": "id:int name:text created:int topics:int records:int bytes:int"
    " contents:[TopicDescription]=",
    "Namespaces": "namespaces:[NamespaceDescription]",
    "TopicDescription": "namespace:text name:text id:int created:int settings:settings partitions:[partition]"
    " replicas:[replica]=",
    "Topics": "topics:[TopicDescription]",
    "Published": "partition:int base:int last:int duplicate:bool=",
    "Records": "partition:int start:int end:int batches:[batch]=",
    "Offsets": "partitions:int offsets:[bounds]",
    "CommittedOffsets": "offsets:{int,int} ends:{int,int}=",
    "GroupDescription": "namespace:text topic:text name:text id:int generation:int partitions:int members:[member]="
    " rebalanced:int=",
    "Groups": "groups:[GroupDescription]",
    "Joined": "member:text generation:int assignment:[int] resumed:bool=",
    "MapValue": "value:bytes?",
    "MapChanged": "done:bool previous:bytes?=",
    "MapEntries": "entries:[entry]",
    "Count": "value:int",
    "Leader": "address:text=",
}
"""Arrays that begin with the name of the reply, also where one stands inside another."""

HELLO = "version:int encodings:[text]"
FAILURE = "fault:text detail:text facts:{text,fact}"
PUSH = "batch:batch"

LONG = ("Publish", "MapPut", "MapRemove", "MapScan")
"""The only commands that may be longer than `SHORT`."""

SHORT = 0x100004
"""Bytes of a frame, its length included."""
