"""Cursus v1: length-prefixed frames of key=value text and BA7C batches, answered in order.

What the published Java, Go and Python clients speak, and the positional commands and the batch header of the seed
document besides.  The dialect sees one namespace.  Served are topics, batches and text publishing, polling, consumer
groups and offsets; streams, event sourcing, transactions and compressed batches are not.
"""

from __future__ import annotations

from gateway.dialects.cursus.faults import CODES
from gateway.dialects.cursus.layout import CURSUS_V1
from gateway.dialects.cursus.session import CursusListener
from gateway.dialects.cursus.terms import CursusTerms
from gateway.dialects.cursus.wire import MAX_FRAME, decode_reply, decode_request, encode_reply, encode_request, measure
from gateway.dialects.dialect import Dialect

DIALECT = Dialect(
    name="cursus",
    port=9000,
    hint=r"printf '\0\0\0\4LIST' | nc -q1 {host} {port}",
    tagged=False,
    max_frame=MAX_FRAME,
    listener=CursusListener,
    terms=CursusTerms,
    measure_request=measure,
    measure_reply=measure,
    decode_request=decode_request,
    encode_reply=encode_reply,
    encode_request=encode_request,
    decode_reply=decode_reply,
    faults=CODES,
    encodings=(CURSUS_V1,),
)
