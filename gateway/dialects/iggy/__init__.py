"""Iggy over TCP: little-endian frames of a code and its fields, in six generations from August 2023 to 0.10.

The clients of 0.4 to 0.10 log in first, and what version they say chooses the generation; who never logs in is taken
for a client of the seed document.  Streams are namespaces, and all of them are seen; partitions count from 1 up to 0.7
and from 0 after.  Members of a group live as long as their connection.

Not served: managing users, tokens and permissions, renaming and purging, snapshots; and the framing of 0.11, whose
clients are hung up on with a line in the log.
"""

from __future__ import annotations

from gateway.dialects.dialect import Dialect
from gateway.dialects.iggy.faults import CODES
from gateway.dialects.iggy.fidelity import FIDELITY
from gateway.dialects.iggy.layout_g0 import IGGY_G0
from gateway.dialects.iggy.layout_g2 import IGGY_G2B, IGGY_G2C
from gateway.dialects.iggy.said import IggySettings, IggyTerms
from gateway.dialects.iggy.session import IggyListener
from gateway.dialects.iggy.upstream import UPSTREAM
from gateway.dialects.iggy.wire import (
    MAX_FRAME,
    decode_reply,
    decode_request,
    encode_reply,
    encode_request,
    measure_reply,
    measure_request,
)

DIALECT = Dialect(
    name="iggy",
    port=8090,
    hint=r"printf '\4\0\0\0\311\0\0\0' | nc -w 1 {host} {port} | od -A n -c",  # GET_STREAMS
    tagged=False,
    max_frame=MAX_FRAME,
    listener=IggyListener,
    settings=IggySettings,
    terms=IggyTerms,
    measure_request=measure_request,
    measure_reply=measure_reply,
    decode_request=decode_request,
    encode_reply=encode_reply,
    encode_request=encode_request,
    decode_reply=decode_reply,
    faults=CODES,
    development=("iggy", "iggy"),
    encodings=(IGGY_G0, IGGY_G2B, IGGY_G2C),
    fidelity=FIDELITY,
    upstream=UPSTREAM,
)
