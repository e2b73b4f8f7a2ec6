"""The command model itself on a wire: nothing is lost in it.

For whoever needs all of a record and of a command: Spark's source and sink, a gateway in front of a gateway, tools.

**Frames.**  Both ways: `u32be length`, then `length` bytes that are exactly one msgpack array.  A frame has at most
64 MiB and the 4 bytes of its length, a request that is not Publish, MapPut, MapRemove or MapScan 1 MiB and 4.  A value
may be in any of its msgpack spellings.  Elements after the last one known are ignored, but in the outermost array there
are none.

**Requests** are `[tag, command]`.  tag is a u32 of the client's choice that no open request has; 0 is kept for the
hello.  Every frame that answers has the tag of its request; replies come in any order.

    command     [kind, field, ...]      kind is the command's name, the fields are in the order of `fields.COMMANDS`;
                                        one with a default may be left out together with all after it

    92 01 91 a4 50 69 6e 67             [1, ["Ping"]], in a frame after 00 00 00 08

**Answers** are one of

    [tag, [kind, field, ...]]           the reply that the command names, fields as in `fields.REPLIES`
    [tag, "!", fault, detail, facts]    it failed: a name of core.faults.Fault, a text, and a map of what the fault is
                                        about, name -> int or text; INTERNAL comes without text and facts
    [tag, ">", batch]                   records for a Follow that goes on

A Follow has no reply but pushes, until a failure or the end of the connection.  To stop it, hang up.

**Values.**  text is msgpack str, bytes are bin.  Integers are 0..2^63-1, but for MapAdd's delta and the value of a
counter (-2^63..2^63-1) and those of a record that are kept and never computed with.  Namespaces, topics, groups and
consumers go by name (str) or by id (u32).  Times are us since the epoch; seconds are ints or floats, 0..2^32-1.  A
number out of range is INVALID_ARGUMENT.

    topic       [namespace, name]
    reader      ["group", group] or ["consumer", consumer]
    start       an offset, ["time", us], ["first"], ["last", count] or ["next", reader, floor]
    offsets     a map, partition -> next offset to read; in it, and wherever partitions are listed, nil stands for the
                partition that a Fetch without one last gave to this connection's member of the group
    to          a partition, ["key", bytes, partitioner] or ["balanced"]
    batch       [encoding, body, count, base, timestamp, origin]: the name of a record encoding, and a body in it
    settings    [retention_us, retention_bytes, cleanup, idempotent, event_sourcing, partitioner, labels]

**Records.**  The encoding `msgpack.v1`, which everyone reads, is one array of records, each an array in the order of
core.records.Record; the i-th has offset base+i and, unless it says otherwise, time timestamp+i.  Who reads other
encodings too says so in a hello; records in an encoding that the other end has not named travel as `msgpack.v1`.  A
Publish is MALFORMED if its encoding is unknown here, its body is not whole or its count is wrong, and EMPTY_BATCH
without records.

**Hello**, optional, before the first command: `[0, "hello", version, [encoding, ...]]`, version = 1.  The server
answers in the same form with its version and the encodings it knows.  Another version is answered with UNSUPPORTED, and
the connection ends.  Without a hello version 1 is meant and both ends send `msgpack.v1` only.

**What goes wrong** costs an answer, not the connection: a frame that is no request is MALFORMED, with its tag or with 0
where it has none; a kind unknown here is UNSUPPORTED; a command longer than its 1 MiB is TOO_LARGE.  Only a frame that
is longer than the listener accepts, TOO_LARGE with tag 0, ends the connection.
"""

from __future__ import annotations

from gateway.dialects.dialect import Dialect
from gateway.dialects.native import wire
from gateway.dialects.native.faults import CODES
from gateway.dialects.native.fidelity import FIDELITY
from gateway.dialects.native.session import Hello, NativeListener, NativeTerms, hello
from gateway.dialects.native.upstream import UPSTREAM

__all__ = ["DIALECT", "Hello", "NativeTerms", "hello"]

DIALECT = Dialect(
    name="native",
    port=7400,
    tagged=True,
    max_frame=wire.MAX_FRAME,
    listener=NativeListener,
    terms=NativeTerms,
    measure_request=wire.measure,
    measure_reply=wire.measure,
    decode_request=wire.decode_request,
    encode_reply=wire.encode_reply,
    encode_request=wire.encode_request,
    decode_reply=wire.decode_reply,
    reply_tag=wire.reply_tag,
    encode_push=wire.encode_push,
    decode_push=wire.decode_push,
    faults=CODES,
    fidelity=FIDELITY,
    upstream=UPSTREAM,
)
