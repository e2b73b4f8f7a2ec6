r"""The grid of LoomCache over TCP: maps, queues, topics, sets, counters and locks in frames of a 16-byte header.

The project publishes its Javadoc and guides, not its source.  So the frame is known exactly, the numbers of operations,
statuses and flags are not: they are tables (numbers.py) that a listener's settings replace, under the names that the
project uses.  What follows is with the numbers as they come.  DOC marks what is published, OURS what had to be chosen.

**Frames** (DOC).  Both ways, big-endian: a header, `u8 magic dc · u8 opcode · u32 correlation id · u32 length of body ·
u8 flags · u16 length of key · u8 status · u8 length of name · u8 version`, and a body, `name · sender id · key ·
value`.  The sender id is there if flag 01 is set, with its length before it (OURS: u16; `sender_len_width`).  The value
is what is left.  The status is 0 in requests and not looked at.  Flags without a meaning are ignored.

    dc 02 00000002 0000000a 00 0005 00 05 02 "users" "alice"     MAP_GET of alice in users
    dc 80 00000002 00000005 00 0000 00 00 02 "Alice"             RESPONSE_OK: "Alice"

**Answers** (DOC) have opcodes of their own and the correlation id of their request; byte 15 is that of the request, and
2 where nothing was asked.  RESPONSE_OK with a status of OK, NOT_FOUND or CONDITION_FAILED; or RESPONSE_ERROR with
another and a text; or RESPONSE_SERVER_BUSY, with a text: try again; RESPONSE_SEQUENCE_LOST, with `i64` the oldest
sequence there is, if it is known; RESPONSE_REDIRECT, with `host:port`, which is this gateway's own, since it is one
node.

**Order.**  Answers leave as they are ready, not in the order of requests: a QUEUE_POLL that waits holds up nothing
behind it.  The protocol allows that, and its clients match by correlation id.  Requests are begun in the order they
came in, and one connection reads what it has written.  A correlation id that is open twice is answered twice.

**What goes wrong** costs the connection only where it cannot go on: another magic or a version that is not among
`versions` is hung up on without a word, a body longer than `max_body` with TOO_LARGE.  Lengths that contradict each
other, names that are not UTF-8, and what a value must look like and does not, are BAD_REQUEST; an unknown opcode is
UNSUPPORTED, and the log says it once for each connection and opcode, with the lengths of its name and key.

**Operations.**  A name stands for the topic of that name in the listener's namespace; map, queue and topic of one name
are one topic.  Where there is none, writing makes one of one partition, but for MAP_REPLACE and its CAS; they find
nothing, as reading does, and as a QUEUE_POLL does at once.  On a topic of several partitions topics are partition 0,
and queues are UNSUPPORTED.  Fields that an operation has no use for are ignored.  `flag` is 01 with status OK, or 00
with CONDITION_FAILED; `list` is `i32 n` and n times `i32 length · bytes`; numbers too large for an i32 are the largest.
Layouts of maps, CAS and topics are DOC or from the protocol page, the others OURS.

    operation            request                            answer
    MAP_PUT              key, value                         nothing, or the value before (`put_returns = previous`)
    MAP_PUT_WITH_TTL     key, value = i64 ms · value        the same.  0 or less = for good, 136 years are the
                                                            most.  `ttl_mode`: where the ms are
    MAP_PUT_IF_ABSENT    key, value                         flag
    MAP_REPLACE          key, value                         flag
    MAP_REPLACE_CAS      key, value = i32 length · old ·    flag
                         i32 length · new
    MAP_GET              key                                value, or NOT_FOUND
    MAP_GET_AND_REMOVE   key                                value, or NOT_FOUND
    MAP_DELETE           key                                nothing, OK or NOT_FOUND
    MAP_CONTAINS         key                                flag
    MAP_SIZE             -                                  i32
    MAP_CLEAR            -                                  i32: how many there were
    MAP_KEYS             -                                  list of keys
    MAP_VALUES           -                                  list of values, in the order of their keys
    MAP_SCAN             key = after which, or nothing;     list of pairs: i32 n, n times key and value
                         value = i32 how many, or nothing
    MAP_GET_ALL          value = list of keys, or nothing   list of pairs, of those that there are
    QUEUE_OFFER          value; a key is the record's       01
    QUEUE_POLL           key = i64 ms to wait, or nothing   value, or NOT_FOUND
    QUEUE_PEEK           -                                  value, or NOT_FOUND
    QUEUE_SIZE           -                                  i32
    QUEUE_CLEAR          -                                  i32: how many there were
    TOPIC_PUBLISH        value; a key is the record's       i64 sequence
    TOPIC_POLL           value = i64 from · i32 most        i64 where to go on · list.  most 0 = as many as fit
    TOPIC_SUBSCRIBE      -                                  i64 the next sequence
    TOPIC_UNSUBSCRIBE    -                                  nothing
    SET_ADD, _REMOVE,    key = the element, or, without     flag
      _CONTAINS          a key, value
    SET_SIZE, _CLEAR     -                                  as of maps
    COUNTER_GET          key, or nothing                    i64; 0 for a counter that is not there
    COUNTER_SET, _ADD    key, or nothing; value = i64       i64: the counter now
    COUNTER_INCREMENT,   key, or nothing                    i64: the counter now
      _DECREMENT
    COUNTER_CAS          key, or nothing;                   flag
                         value = i64 expected · i64 new
    LOCK_TRY             key, or nothing; value = i64 ms    flag
                         to hold it, or nothing
    LOCK_UNLOCK          key, or nothing                    flag
    LOCK_IS_LOCKED       key, or nothing                    flag
    AUTH                 key = user, value = secret         nothing
    PING                 value                              the value.  CLUSTER_PING is another name for it
    PROTOCOL_HELLO       value: hello.py                    PROTOCOL_HELLO_ACK, or UNSUPPORTED

A set is a table whose values are empty, a counter one whose values are decimal ASCII, a lock one whose values are
owners.  A counter or lock without a key has its name for one.  An answer beyond `max_body` is TOO_LARGE; a TOPIC_POLL
gives fewer instead.  A message that QUEUE_POLL took and cannot show for its length is gone, so `max_body` should not be
less than what others publish.

Who owns a lock (OURS) is the client in the sender id, what stands before its last `request_separator`; without a sender
id it is the connection.  Who does not own it cannot unlock it, and who owns it cannot take it twice.

**Topics** are polled (DOC).  With `topic_push` (OURS) TOPIC_SUBSCRIBE, whose value may then be `i64` where to begin, is
followed by TOPIC_MESSAGE frames: its correlation id, the name, `i64 sequence · message`, version 2.  It makes the topic
if need be; of two on one connection to one topic the later goes on; an error with its correlation id ends it.
Messages have a value only: keys, headers and all else that other dialects write are counted as lost.

**Repetition** (DOC: 60 s, 100,000 answers).  A request that changes something, has a sender id and is equal to an
earlier one but for its correlation id gets that one's answer, on whatever connection of the listener the same user is
logged in; while the first is under way, it waits.  So a sender id has to be another for another request, `c1:7` and
`c1:8`.  Failures are not kept.  It does not matter whether the first attempt's connection is still there: what it would
have been answered is kept.  `repeat_seconds`, `repeat_entries`, `repeat_bytes`.

**Hello and compression.**  Who says hello is told our version, the protocol's and what features we have: none, unless
`compression` names algorithms.  The bits that stand for them are OURS (`feature_bits`).  Once both ends have said so,
bodies may be compressed: packing.py.  A compressed body without that is UNSUPPORTED.

**Keys and values** are bytes, or type-tagged text with `value_codec = loom_tagged`: tagged.py says what is kept.
"""

from __future__ import annotations

from gateway.dialects.dialect import Dialect
from gateway.dialects.grid.faults import CODES
from gateway.dialects.grid.fidelity import FIDELITY
from gateway.dialects.grid.layout import measure
from gateway.dialects.grid.session import GridListener
from gateway.dialects.grid.terms import GridSettings, GridTerms
from gateway.dialects.grid.upstream import UPSTREAM
from gateway.dialects.grid.wire import (
    MAX_FRAME,
    decode_push,
    decode_reply,
    decode_request,
    encode_push,
    encode_reply,
    encode_request,
    reply_tag,
)

_PUT = r"\334\1\0\0\0\1\0\0\0\14\0\0\5\0\5\2greetuser1OK"
_GET = r"\334\2\0\0\0\2\0\0\0\12\0\0\5\0\5\2greetuser1"

DIALECT = Dialect(
    name="grid",
    port=5701,
    hint=f"printf '{_PUT}{_GET}' | nc -w 1 {{host}} {{port}} | tail -c 2",
    tagged=True,
    max_frame=MAX_FRAME,
    listener=GridListener,
    settings=GridSettings,
    terms=GridTerms,
    measure_request=measure,
    measure_reply=measure,
    decode_request=decode_request,
    encode_reply=encode_reply,
    encode_request=encode_request,
    decode_reply=decode_reply,
    reply_tag=reply_tag,
    encode_push=encode_push,
    decode_push=decode_push,
    faults=CODES,
    fidelity=FIDELITY,
    upstream=UPSTREAM,
)
