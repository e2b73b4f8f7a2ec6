"""The V1 pipe text protocol of Flux (earlier RTES): one line a request, one line an answer, in order.

Requests of its stages B, C and D are served on one port and answered in the form of D, which readers of B still
parse.  The dialect sees one namespace; topics are made on first use; its consumer groups count generations from 2.
To brokers and administrators the gateway is a cluster of one: broker 0, which leads everything (see cluster.py).
"""

from __future__ import annotations

from gateway.dialects.dialect import Dialect
from gateway.dialects.pipe.faults import CODES
from gateway.dialects.pipe.fidelity import FIDELITY
from gateway.dialects.pipe.session import PipeListener
from gateway.dialects.pipe.terms import MAX_FRAME, PipeSettings, PipeTerms
from gateway.dialects.pipe.upstream import UPSTREAM
from gateway.dialects.pipe.wire import decode_reply, decode_request, encode_reply, encode_request, measure

DIALECT = Dialect(
    name="pipe",
    port=9092,
    hint=r"printf 'V1|1|PRODUCE|hello user1:world\nV1|2|CONSUME|hello 2 0\n' | nc -w 1 {host} {port}",
    tagged=False,  # replies carry the correlation value, yet the Python SDK reads exactly the next line
    max_frame=MAX_FRAME,
    listener=PipeListener,
    settings=PipeSettings,
    terms=PipeTerms,
    measure_request=measure,
    measure_reply=measure,
    decode_request=decode_request,
    encode_reply=encode_reply,
    encode_request=encode_request,
    decode_reply=decode_reply,
    faults=CODES,
    fidelity=FIDELITY,
    upstream=UPSTREAM,
)
