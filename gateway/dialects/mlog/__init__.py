"""The framed JSON dialect of mlog, the distributed log in Go, and the protobuf that a later tree of it put in the same
frames; each request is answered in the coding it came in.

A topic has one partition, and records have a value and nothing else; of a topic with more partitions, which another
dialect made, the first is read and written.  An Id is a consumer group.  The gateway is a cluster of one node, which
leads everything.
"""

from __future__ import annotations

from gateway.dialects.dialect import Dialect
from gateway.dialects.mlog.faults import CODES
from gateway.dialects.mlog.fidelity import FIDELITY
from gateway.dialects.mlog.session import MlogListener
from gateway.dialects.mlog.terms import MAX_FRAME, MlogSettings, MlogTerms
from gateway.dialects.mlog.upstream import UPSTREAM
from gateway.dialects.mlog.wire import (
    decode_push,
    decode_reply,
    decode_request,
    encode_push,
    encode_reply,
    encode_request,
    measure,
)

DIALECT = Dialect(
    name="mlog",
    port=9094,
    hint=r"printf '\0\31\0\0\0\2{{}}' | nc -w 1 {host} {port} | tail -c +7",  # ListTopics
    tagged=False,
    max_frame=MAX_FRAME,
    listener=MlogListener,
    settings=MlogSettings,
    terms=MlogTerms,
    measure_request=measure,
    measure_reply=measure,
    decode_request=decode_request,
    encode_reply=encode_reply,
    encode_request=encode_request,
    decode_reply=decode_reply,
    encode_push=encode_push,
    decode_push=decode_push,
    faults=CODES,
    fidelity=FIDELITY,
    upstream=UPSTREAM,
)
