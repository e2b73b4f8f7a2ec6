"""JSON as Go has it: what its encoding/json (1.26, run) made of these payloads, and what hostile ones cost."""

from __future__ import annotations

import base64
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.mlog_messages import any_message
from gateway.dialects.mlog import fields as m
from gateway.dialects.mlog.coding import JSON, PROTOBUF, coding_of
from gateway.dialects.mlog.go_json import read, write
from gateway.dialects.mlog.go_values import MAX_VALUES, read_slowly
from gateway.dialects.mlog.layout import Message

PRODUCE, ENTRY, ENTRIES, CREATED = m.ProduceRequest, m.FetchResponse, m.FetchBatchResponse, m.CreateTopicResponse
LISTED, COMMIT = m.ListTopicsResponse, m.CommitOffsetRequest

READ: list[tuple[type[Message], str, Message]] = [
    (PRODUCE, "{}", PRODUCE()),
    (PRODUCE, '{"Value":null,"Acks":null,"Topic":null}', PRODUCE()),
    (PRODUCE, '{"Value":""}', PRODUCE("", b"")),
    (PRODUCE, '{"Value":[]}', PRODUCE("", b"")),
    (PRODUCE, '{"Value":[1,null,3]}', PRODUCE("", b"\1\0\3")),
    (PRODUCE, '{"Value":"YQ==","Value":null}', PRODUCE()),
    (PRODUCE, '{"Value":"YQ==","Value":""}', PRODUCE("", b"")),
    (PRODUCE, '{"Value":"\\n"}', PRODUCE("", b"")),
    (PRODUCE, '{"Value":"\\u0059Q=="}', PRODUCE("", b"a")),
    (PRODUCE, '{"Acks":-0}', PRODUCE()),
    (PRODUCE, '{"Acks":-2147483648}', PRODUCE(acks=-(1 << 31))),
    (PRODUCE, '{"Ac\u212a\u017f":3}', PRODUCE(acks=3)),
    (PRODUCE, '{"Top\u0131c":"x","T\u00f6pic":"x","":1}', PRODUCE()),
    (COMMIT, '{"Off\u017fet":18446744073709551615}', COMMIT(offset=(1 << 64) - 1)),
    (COMMIT, '{"ID":"a","iD":"b"}', COMMIT(id="b")),
    (m.CommitOffsetResponse, '{"Succe\u00df":true}', m.CommitOffsetResponse(False)),
    (m.CommitOffsetResponse, '{"success":true,"Success":null}', m.CommitOffsetResponse(True)),
    (m.ProduceBatchRequest, '{"Values":["YQ==",null,"",[1]]}', m.ProduceBatchRequest("", [b"a", None, b"", b"\1"])),
    (m.ProduceBatchRequest, '{"Values":["YQ=="],"Values":null}', m.ProduceBatchRequest()),
    (ENTRY, '{"Entry":{"offset":1,"x":{}}}', ENTRY(m.LogEntry(1))),
    (ENTRY, '{"Entry":{"Offset":1},"Entry":null}', ENTRY()),
    (ENTRIES, '{"Entries":[]}', ENTRIES([])),
    (ENTRIES, '{"Entries":[null,{}]}', ENTRIES([None, m.LogEntry()])),
    (CREATED, '{"ReplicaNodeIds":["a",null]}', CREATED("", ["a", ""])),
    (LISTED, '{"Topics":[null]}', LISTED([m.TopicInfo()])),
    (LISTED, '{"Topics":[{"replicas":[null]}]}', LISTED([m.TopicInfo(replicas=[m.ReplicaInfo()])])),
    (m.RPCErrorResponse, '{"Code":3,"MESSAGE":"x"}', m.RPCErrorResponse(3, "x")),
    (m.ReplicateResponse, '{"LeaderLEO":-9223372036854775808}', m.ReplicateResponse(leader_leo=-(1 << 63))),
]

REFUSED: list[tuple[type[Message], str]] = [
    *((PRODUCE, text) for text in ("", "{", "}", "[]", "null", '"x"', "{}{}", "{},", '{"Topic"}', '{"Topic":}', "{,}")),
    *(
        (PRODUCE, text)
        for text in ('{"Topic":"a",}', '{"Topic":"a" "x":1}', '{Topic:"a"}', "{'Topic':'a'}", "\ufeff{}")
    ),
    *(
        (PRODUCE, f'{{"x":{text}}}')
        for text in ("01", "1.", ".5", "+1", "-", "nul", "True", "NaN", "[1,]", '{"a":1,}', "")
    ),
    *((PRODUCE, f'{{"x":{text}}}') for text in ('"\\u00"', '"\\x"', '"\t"', '{"a"}', "[1 2]", "{1:2}", "[", '"')),
    *((PRODUCE, f'{{"Value":"{text}"}}') for text in ("A", "AA", "AAA", "AA=A", "====", "=", "AAA=AAA=", "YQ= =")),
    *((PRODUCE, f'{{"Value":{text}}}') for text in ("[256]", "[-1]", "[-0]", "[1.0]", '["1"]', "{}", "true")),
    *((PRODUCE, f'{{"Topic":{text}}}') for text in ("1", "true", "[]", "{}")),
    *(
        (COMMIT, f'{{"Offset":{text}}}')
        for text in ("-0", "-1", "0e0", "1" * 5000, '"1"', "true", "18446744073709551616")
    ),
    *((m.CommitOffsetResponse, f'{{"Success":{text}}}') for text in ("0", '"true"', "[]")),
    *((ENTRIES, f'{{"Entries":{text}}}') for text in ("{}", "[[]]", "[1]", '"x"')),
    (ENTRY, '{"Entry":[]}'),
    (CREATED, '{"ReplicaNodeIds":"x"}'),
    (CREATED, '{"ReplicaNodeIds":[1]}'),
    (LISTED, '{"Topics":[{"Replicas":[{"LEO":9223372036854775808}]}]}'),
]


@pytest.mark.parametrize(("kind", "text", "message"), READ)
def test_go_reads_it_so(kind: type[Message], text: str, message: Message) -> None:
    assert read(text.encode(), kind) == message


@pytest.mark.parametrize(("kind", "text"), REFUSED)
def test_go_refuses_it(kind: type[Message], text: str) -> None:
    with pytest.raises(ValueError):
        read(text.encode(), kind)


def test_go_writes_it_so() -> None:
    odd = '<>&\u2028\u2029\x7f\b\f\n\r\t\x01"\\/é😀'
    written = r"\u003c\u003e\u0026\u2028\u2029" + "\x7f" + r"\b\f\n\r\t\u0001\"\\/é😀"
    assert write(m.FindTopicLeaderRequest(odd)) == f'{{"Topic":"{written}"}}'.encode()
    assert write(m.ListTopicsResponse([m.TopicInfo("a")])) == (
        b'{"Topics":[{"Name":"a","LeaderNodeID":"","LeaderEpoch":0,"Replicas":null}]}'
    )
    with pytest.raises(ValueError, match="Unicode"):
        write(m.FindTopicLeaderRequest("\ud800"))


@given(any_message)
def test_every_message_comes_back_by_either_way_of_reading(message: Message) -> None:
    payload = write(message)
    assert read(payload, type(message)) == read_slowly(payload, type(message)) == message
    assert coding_of(payload) is JSON


@given(st.binary(max_size=80))
def test_noise_is_refused_or_read_as_the_slow_way_reads_it(noise: bytes) -> None:
    for payload in (
        noise,
        b'{"Topic":"a","Values":["' + base64.b64encode(noise) + b'"]}',
        b'{"Topic":"' + noise + b'"}',
    ):
        read_as = []
        for way in (read, read_slowly):
            try:
                read_as.append(way(payload, m.ProduceBatchRequest))
            except ValueError:
                read_as.append(None)
        assert read_as[0] == read_as[1]


HOSTILE = {
    "deep arrays": b'{"x":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "deep objects": b'{"x":' * 10_000 + b"1" + b"}" * 10_000,
    "nothing but opening": b"{" + b"[" * 4_000_000,
    "keys that nobody knows": b"{" + b",".join(b'"%d":0' % n for n in range(350_000)) + b"}",
    "one key again and again": b"{" + b",".join([b'"topic":""'] * 370_000) + b"}",
    "empty values": b'{"x":0,"Values":[' + b",".join([b'""'] * 1_300_000) + b"]}",
    "a long number": b'{"Acks":' + b"1" * 4_000_000 + b"}",
    "a text of backslashes": b'{"Topic":"' + b"\\" * 3_999_999 + b'"}',
    "a text that does not end": b'{"Topic":"' + b"a" * 4_000_000,
    "a text of escapes that do not end": b'{"Topic":"' + b"\\n" * 2_000_000,
    "many blanks": b" " * 4_000_000 + b"{",
    "half of pairs": b'{"Topic":"' + b"\\ud800" * 600_000 + b'"}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_meant_to_hurt_is_refused_in_bounded_time(name: str) -> None:
    before = time.thread_time()
    coding_of(HOSTILE[name])
    with pytest.raises(ValueError):
        read(HOSTILE[name], m.ProduceBatchRequest)
    assert time.thread_time() - before < 2.0


def test_what_is_large_and_honest_is_read() -> None:
    values: list[bytes | None] = [b"%d" % n for n in range(100_000)]
    payload = write(m.ProduceBatchRequest("orders", values, 1))
    assert len(payload) < 4 << 20
    assert read(payload, m.ProduceBatchRequest).values == values
    assert read(payload.replace(b"Topic", b"topic"), m.ProduceBatchRequest).values == values
    assert len(values) < MAX_VALUES


@pytest.mark.parametrize(
    ("payload", "coding"),
    [
        (b"", PROTOBUF),
        (b"{", JSON),
        (b"{}", JSON),
        (b" \r\n\t{} ", JSON),
        (b"\n{", PROTOBUF),
        (b"\n{" + b"t" * 123, PROTOBUF),
        (b"\n\n{xxxxxxxxx", PROTOBUF),
        (b"  ", PROTOBUF),
        (b"[]", PROTOBUF),
        (b"\x0a\x06orders", PROTOBUF),
        (b'\n{"x":"\xff"}', PROTOBUF),
        (b"\n" + HOSTILE["keys that nobody knows"], PROTOBUF),
        (b"\n" + HOSTILE["deep arrays"], PROTOBUF),
    ],
)
def test_a_payload_tells_its_coding(payload: bytes, coding: object) -> None:
    assert coding_of(payload) is coding
