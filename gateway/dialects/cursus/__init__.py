"""Cursus v1: length-prefixed frames of key=value text and BA7C batches, answered in order.

What the published Java, Go and Python clients speak, and the positional commands and the batch header of the seed
document besides.  The dialect sees one namespace.  Served are topics, batches (compressed ones too), text publishing,
polling, streams, consumer groups and offsets; event sourcing and transactions are not.

Of one topic, partition and group there is one STREAM at a time: a new one ends the old, as long as both came in over
the same listener.  Two listeners of this dialect know nothing of each other's streams.
"""

from __future__ import annotations

from gateway.dialects.cursus.faults import CODES
from gateway.dialects.cursus.fidelity import FIDELITY
from gateway.dialects.cursus.layout import CURSUS_V1
from gateway.dialects.cursus.pushing import decode_push, encode_push
from gateway.dialects.cursus.session import CursusListener
from gateway.dialects.cursus.terms import MAX_FRAME, CursusSettings, CursusTerms
from gateway.dialects.cursus.upstream import UPSTREAM
from gateway.dialects.cursus.wire import decode_reply, decode_request, encode_reply, encode_request, measure
from gateway.dialects.dialect import Dialect

DIALECT = Dialect(
    name="cursus",
    port=9000,
    hint=r"printf '\0\0\0\4LIST' | nc -w 1 {host} {port}",
    tagged=False,
    max_frame=MAX_FRAME,
    listener=CursusListener,
    settings=CursusSettings,
    terms=CursusTerms,
    measure_request=measure,
    measure_reply=measure,
    decode_request=decode_request,
    encode_reply=encode_reply,
    encode_request=encode_request,
    decode_reply=decode_reply,
    encode_push=encode_push,
    decode_push=decode_push,
    faults=CODES,
    encodings=(CURSUS_V1,),
    fidelity=FIDELITY,
    upstream=UPSTREAM,
)
