"""MAP_GETs that are answered at once, past Request, Call and queue: 0.9 us each instead of 2.3 for a hundred bytes.

Only the usual ones: of a name that was heard before, without a sender id, not compressed.  Everything else about them,
from a missing topic to a table that has to be read first, is left to the usual way, which begins where this one ends.
"""

from __future__ import annotations

import struct

from gateway.core.commands import MapGet
from gateway.core.faults import CommandFailed
from gateway.core.replies import MapValue
from gateway.dialects.grid.tagged import Codec
from gateway.dialects.grid.terms import HEAD, GridTerms
from gateway.dialects.session import Looking, Topics

MOST = 1 << 20
"""Bytes of values before reads are asked in the usual way, which sends answers before it asks for more."""

_head = struct.Struct(">BBI4xBHxBB").unpack_from  # without the length of the body, which was measured, and the status
_answer = struct.Struct(">BBIIBHBBB").pack


def glance(frames: list[bytes], terms: GridTerms, looking: Looking, topics: Topics) -> list[bytes]:
    """The answers to the MAP_GETs that the frames begin with, as many as could be had.

    frames: as `measure_strictly` cuts them: what is longer than a header has a version and a length that are right.
    topics: is added to; what of it is beyond the answers does not count.
    """
    out: list[bytes] = []
    if terms.agreed or type(terms.codec) is not Codec:
        return out
    last = None
    execute, who, room = looking.execute, looking.who, min(MOST, terms.limit)
    magic, ok, get, telling, heard = terms.magic, terms.ok, terms.get, terms.telling, terms.topics.get
    try:
        for frame in frames:
            first, opcode, tag, flags, key_length, name_length, version = _head(frame)
            key = HEAD + name_length
            end = key + key_length
            topic = heard(frame[HEAD:key])
            if opcode != get or first != magic or flags & telling or not key < end <= len(frame):
                break
            if topic is None:
                break
            if topic is not last:
                last = topic
                topics.append((len(out), topic))
            reply = execute(MapGet(topic, frame[key:end]), who)
            if type(reply) is not MapValue:
                looking.drop(reply)
                break
            value = reply.value
            if value is None:
                out.append(_answer(magic, ok, tag, 0, 0, 0, terms.missed, 0, version))
                continue
            size = len(value)
            room -= size
            if room < 0:
                break
            out.append(_answer(magic, ok, tag, size, 0, 0, terms.found, 0, version) + value)
    except (CommandFailed, struct.error):
        pass  # who asks in the usual way is told why; no header is what begins like no frame
    return out
