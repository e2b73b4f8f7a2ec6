"""What is said of one request of a client."""

from __future__ import annotations

import pytest

import wire
from gateway import dialects
from gateway.conformance.judging import Judgment, case_id, exercised, judge, shape
from gateway.conformance.vectors import load
from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical, registry
from gateway.dialects import Refusal, Request
from net.peers import produce

ENCODINGS = registry(encoding for name in dialects.names() for encoding in dialects.load(name).encodings)


SAID = wire.request("pipe", produce(b"k", b"v"), 7)


def judged(name: str, frame: bytes) -> Judgment:
    dialect = dialects.load(name)
    terms = dialect.open(dialect.settings(), ENCODINGS).terms("")
    return judge(dialect, frame, dialect.decode_request(frame, terms), terms)


def test_what_our_own_client_says_passes() -> None:
    assert judged("pipe", SAID) == Judgment("PASS", "Publish(to=ByKey, msgpack.v1, one record, acks=LEADER)")


def test_the_same_in_other_bytes_is_lenient_and_the_first_of_them_is_named() -> None:
    said = judged("pipe", SAID.replace(b" ", b"  "))
    assert (said.verdict, said.shape) == ("LENIENT", "Publish(to=ByKey, msgpack.v1, one record, acks=LEADER)")
    assert said.why == "from byte 20 on our own client says 6b 3a 76 0a, not 20 6b 3a 76 0a"


def test_what_is_no_request_fails() -> None:
    said = judged("pipe", wire.said("pipe", "a partition that is no number is refused"))
    assert said.verdict == "FAIL" and said.shape.startswith("refused MALFORMED") and said.why.startswith("MALFORMED: ")


def test_what_nobody_serves_is_for_information() -> None:
    said = judged("iggy", wire.said("iggy", "users are known and not served: error 5"))
    assert (said.verdict, said.shape) == ("INFO", "refused UNSUPPORTED: GET_USER")


def test_a_secret_is_not_judged() -> None:
    dialect = dialects.load("native")
    terms = dialect.open(dialect.settings(), ENCODINGS).terms("")
    said = judge(dialect, b"?", Request(q.Authenticate("plain", "ann", "hunter2"), 1), terms)
    assert said.verdict == "INFO" and "hunter2" not in repr(said)


def test_what_our_own_client_has_no_words_for_is_for_information() -> None:
    dialect = dialects.load("pipe")
    terms = dialect.open(dialect.settings(), ENCODINGS).terms("")
    said = judge(dialect, b"?", Request(q.MapClear(q.Topic("default", "users")), 1), terms)
    assert said.verdict == "INFO" and said.why.startswith("our own client does not say this: UNSUPPORTED")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (q.Ping(), "Ping"),
        (q.DescribeTopic(q.Topic("default", "a")), "DescribeTopic"),
        (q.Fetch(q.Topic("default", "a"), 0, 5), "Fetch"),
        (q.Fetch(q.Topic("x", 3), 1, q.Next(q.Group("g")), 9, commit=True), "Fetch(start=Next(reader=Group), commit)"),
        (q.CreateTopic(q.Topic("default", "a"), 3), "CreateTopic(if_exists=FAIL)"),
        (
            q.CreateTopic(q.Topic("default", "b"), 9, q.TopicSettings(idempotent=True)),
            "CreateTopic(settings=TopicSettings(idempotent), if_exists=FAIL)",
        ),
        (
            q.Publish(q.Topic("default", "a"), q.Balanced(), canonical([Record(), Record()])),
            "Publish(to=Balanced, msgpack.v1, several records, acks=LEADER)",
        ),
    ],
)
def test_a_shape_has_the_choices_and_no_values(command: q.Command, said: str) -> None:
    assert shape(Request(command)) == said


def test_a_shape_of_a_refusal_has_no_words_of_the_client() -> None:
    sentence = "'héllo' is no offset, 12 bytes of \"x\""
    assert shape(Refusal(CommandFailed(Fault.MALFORMED, sentence))) == "refused MALFORMED: ~ is no offset, ~ bytes of ~"
    assert shape(Refusal(CommandFailed(Fault.MALFORMED))) == "refused MALFORMED"
    assert len(shape(Refusal(CommandFailed(Fault.MALFORMED, "x" * 10_000)))) < 150


@pytest.mark.parametrize("name", dialects.names())
def test_every_case_is_exercised_by_some_shape(name: str) -> None:
    cases = load(name)
    ids = {case_id(case) for case in cases}
    assert len(ids) == len(cases) and ids == {each for found in exercised(name).values() for each in found}
    assert all(each.startswith(f"{name}/") for each in ids)


def test_of_a_dialect_that_is_not_here_there_are_no_cases() -> None:
    assert exercised("strange") == {}
