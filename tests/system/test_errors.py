"""Requests that are wrong, over real sockets: the words of the protocol pages, nothing stored, the connection kept.

Sources: pipe.md, sections 1 and 2; cursus.md, sections 1 to 5.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from system.peers import Frames, Lines, Row, Stream, acked, batch, framed
from system.processes import GatewayProcess

NO_ENVELOPE = b"V1|0|ERR|BAD_REQUEST|expected format V1|<correlation_id>|<command>|<args>"
PRODUCE_USAGE = b"V1|1|ERR|BAD_REQUEST|PRODUCE requires: <topic> <key>:<value> [acks=0|1|all]"
CONSUME_USAGE = b"V1|1|ERR|BAD_REQUEST|CONSUME requires: <topic> <partition> <offset>"
COMMIT_USAGE = b"V1|1|ERR|BAD_REQUEST|COMMIT requires: <group> <topic> <consumer_id> <generation> <partition> <offset>"
ACKS = b"V1|1|ERR|BAD_REQUEST|invalid ack mode; expected acks=0|1|all"
NO_PARTITION = b"V1|1|ERR|BAD_REQUEST|invalid partition"
NO_OFFSET = b"V1|1|ERR|BAD_REQUEST|invalid offset"

LINES = [
    # what is no envelope is answered under 0, even where a correlation value could be read
    (b"", NO_ENVELOPE),
    (b"V1|99|PING", NO_ENVELOPE),
    (b"PRODUCE orders user1:created", NO_ENVELOPE),
    (b"\xff\xfe\x00", NO_ENVELOPE),
    (b"V2|1|PRODUCE|t k:v", b"V1|0|ERR|BAD_REQUEST|unsupported version"),
    (b"v1|1|PRODUCE|t k:v", b"V1|0|ERR|BAD_REQUEST|unsupported version"),
    (b"V1||PRODUCE|t k:v", b"V1|0|ERR|BAD_REQUEST|correlation id required"),
    (b"V1|  |PRODUCE|t k:v", b"V1|0|ERR|BAD_REQUEST|correlation id required"),
    (b"V1|1||t k:v", b"V1|0|ERR|BAD_REQUEST|command required"),
    # unknown commands
    (b"V1|9|PING|", b"V1|9|ERR|UNKNOWN_COMMAND|unsupported command"),
    (b" V1 | 7 | ping | \r", b"V1|7|ERR|UNKNOWN_COMMAND|unsupported command"),
    (b"V1|\xff|PRODUC\xc9|t k:v", b"V1|\xff|ERR|UNKNOWN_COMMAND|unsupported command"),
    # missing and superfluous arguments
    (b"V1|1|PRODUCE|", PRODUCE_USAGE),
    (b"V1|1|PRODUCE|t", PRODUCE_USAGE),
    (b"V1|1|PRODUCE|t k:v acks=1 more", PRODUCE_USAGE),
    (b"V1|1|CONSUME|t 0", CONSUME_USAGE),
    (b"V1|1|CONSUME|t 0 0 0", CONSUME_USAGE),
    (b"V1|1|COMMIT|g t 0", COMMIT_USAGE),
    (b"V1|1|COMMIT|g t c 0 1", COMMIT_USAGE),
    # arguments that are wrong
    (b"V1|1|PRODUCE|t kv", b"V1|1|ERR|BAD_REQUEST|message must be key:value"),
    (b"V1|1|PRODUCE|t k:hello world", ACKS),
    (b"V1|1|PRODUCE|t k:v acks=2", ACKS),
    (b"V1|1|PRODUCE|t k:v acks=", ACKS),
    (b"V1|1|CONSUME|t zero 0", NO_PARTITION),
    (b"V1|1|CONSUME|t -1 0", NO_PARTITION),
    (b"V1|1|CONSUME|t 3 0", NO_PARTITION),
    (b"V1|1|CONSUME|t 9223372036854775808 0", NO_PARTITION),
    (b"V1|1|CONSUME|t 0 first", NO_OFFSET),
    (b"V1|1|CONSUME|t 0 -1", NO_OFFSET),
    (b"V1|1|CONSUME|t 0 1.0", NO_OFFSET),
    (b"V1|1|CONSUME|t 0 0x0", NO_OFFSET),
    (b"V1|1|CONSUME|t 0 1_0", NO_OFFSET),
    (b"V1|1|CONSUME|t 0 \xd9\xa3", NO_OFFSET),  # a digit three, but of another script
    (b"V1|1|CONSUME|t 0 99999999999999999999", NO_OFFSET),
    (b"V1|1|COMMIT|g t zero 1", NO_PARTITION),
    (b"V1|1|COMMIT|g t 0 one", NO_OFFSET),
    (b"V1|1|COMMIT|g t 0 -1", NO_OFFSET),
    (b"V1|1|COMMIT|g t consumer two 0 1", b"V1|1|ERR|BAD_REQUEST|invalid generation"),
    (b"V1|1|OFFSET|g t zero", NO_PARTITION),
]
"""A line, and the line that answers it."""

NO_NAME = b'ERROR: missing_topic expected="CREATE topic=<name> [partitions=<N>]"'
NO_COUNT = b'ERROR: invalid_partitions reason="must be a positive integer"'


def one(topic: str, partition: int, sequence: int = 1, *, acks: str = "1", epoch: int = 1) -> bytes:
    return batch(topic, partition, [Row(0, sequence, "p", "k", epoch, "v")], acks=acks)


FRAMES = [
    # what is no request
    (b"", b'ERROR: decode_failed reason="data too short"'),
    (b"L", b'ERROR: decode_failed reason="data too short"'),
    (b"FOO", b'ERROR: decode_failed reason="invalid topic length"'),
    (b"EXIT", b'ERROR: decode_failed reason="invalid topic length"'),
    (b"\xff\xff\xff\xff", b'ERROR: decode_failed reason="invalid topic length"'),
    (b"\0\0FOO", b"ERROR: malformed_input reason=missing_topic_or_payload"),
    (b"\0\5adminPUBLISHED topic=t", b"ERROR: malformed_input reason=missing_topic_or_payload"),
    (b"\0\0\xff\xff", b"ERROR: malformed_input reason=missing_topic_or_payload"),
    # topics
    (b"\0\0CREATE topic=", NO_NAME),
    (b"\0\0CREATE partitions=2", NO_NAME),
    (b"\0\5adminCREATE topic=new partitions=0", NO_COUNT),
    (b"\0\5adminCREATE topic=new partitions=-1", NO_COUNT),
    (b"\0\5adminCREATE topic=new partitions=two", NO_COUNT),
    (b"\0\5adminCREATE topic=new partitions=4294967297000000000000", NO_COUNT),
    (
        b"\0\5adminCREATE topic=t partitions=1",
        b"ERROR: create_topic_failed topic=t reason=\"cannot decrease partition count for topic 't': 3 -> 1\"",
    ),
    (b"\0\0DELETE topic=none", b"ERROR: topic_not_found topic=none"),
    (b"\0\0DELETE topic=", b'ERROR: missing_topic expected="DELETE topic=<name>"'),
    (b"\0\0METADATA topic=none", b"ERROR: topic_not_found topic=none"),
    (b"\0\0DESCRIBE topic=none", b"ERROR: topic_not_found topic=none"),
    (b"\0\0LIST_OFFSETS topic=t partition=9", b"ERROR: partition_not_found partition=9"),
    # reading
    (b"\0\0CONSUME topic=t partition=0 offset=0", b"ERROR: invalid_consume_syntax"),
    (b"\0\0CONSUME topic=t partition=0 member=m", b"ERROR: invalid_consume_syntax"),
    (
        b"\0\0CONSUME topic=t partition=0 offset=0 member=m isolation=dirty",
        b"ERROR: invalid_isolation isolation=dirty",
    ),
    (
        b"\0\0CONSUME topic=none partition=0 offset=0 member=m",
        b"ERROR: command_failed reason=\"topic 'none' does not exist\"",
    ),
    (
        b"\0\0CONSUME topic=t partition=9 offset=0 member=m",
        b"ERROR: command_failed reason=\"partition 9 out of range for topic 't' (0-2)\"",
    ),
    (
        b"\0\0CONSUME topic=t partition=0 offset=abc member=m",
        b'ERROR: command_failed reason="invalid offset value: abc"',
    ),
    # batches
    (one("none", 0), b"ERROR: topic_not_found topic=none"),
    (one("t", 9), b"ERROR: partition_not_found partition=9"),
    (one("t", 0, acks="2"), b"ERROR: invalid_acks value=2"),
    (batch("t", 0, []), b'ERROR: broker_error reason="empty batch messages"'),
    # PUBLISH
    (b"\0\0PUBLISH topic=t message=v", b"ERROR: missing_producer_id command=PUBLISH"),
    (b"\0\0PUBLISH topic=t producerId=p acks=2 message=v", b"ERROR: invalid_acks value=2"),
    (b"\0\0PUBLISH topic=none producerId=p message=v", b"ERROR: topic_not_found topic=none"),
    (
        b"\0\0PUBLISH topic=once producerId=p seqNum=5 epoch=1 partition=0 message=v",
        b'ERROR: broker_error reason="acks=1 publish failed: sync publish failed: '
        b'idempotency gap for producer p: expected 3, got 5"',
    ),
    # groups and the rest
    (
        b"\0\0COMMIT_OFFSET topic=t partition=0 group=g offset=1 generation=1",
        b"ERROR: missing_member command=COMMIT_OFFSET",
    ),
    (b"\0\0BATCH_COMMIT topic=t group=g member=m generation=1 P0:x", b'ERROR: invalid_offset entry="P0:x"'),
    (b"\0\0HEARTBEAT topic=t group=g member=m", b"ERROR: missing_generation command=HEARTBEAT"),
    (b"\0\0SYNC_GROUP topic=t group=g member=m", b"ERROR: missing_generation command=SYNC_GROUP"),
    (b"\0\0JOIN_GROUP topic=t group=g", b"ERROR: missing_member command=JOIN_GROUP"),
    (b"FIND_COORDINATOR nothing=g", b"ERROR: missing_coordinator_key command=FIND_COORDINATOR"),
    (
        b"\0\0NEGOTIATE version=2",
        b"ERROR: UNSUPPORTED_PROTOCOL_VERSION class=validation retryable=false requested=2 min=1 max=1",
    ),
    (b"\0\0CLUSTER_STATUS", b"ERROR: distribution_required command=CLUSTER_STATUS"),
    (b"\0\0LIST_CLUSTER", b"ERROR: distribution_not_enabled"),
]
"""A payload, and the payload that answers it."""

UNDECODABLE = [
    one("t", 0)[:-1],
    one("t", 0)[:12],
    one("t", 0).replace(b"t", b"\xff", 1),
    batch("t", 0, [Row(0, 1, "p", "k", 1, "v")]).replace(b"\0\0\0\1\0\0\0\0\0\0\0\0", b"\xff\xff\xff\xff" + b"\0" * 8),
    batch("t", 0, [Row(0, 1, "p", "k", 1, "v")]).replace(b"\0\0\0\1\0\0\0\0\0\0\0\0", b"\x7f\xff\xff\xff" + b"\0" * 8),
]
"""Batches that are cut short, whose topic is no text, or whose number of records cannot be."""

FATAL = [
    ("pipe", b"V1|1|PRODUCE|t k:".ljust(65_536, b"v"), b"V1|0|ERR|BAD_REQUEST|line too long\n"),
    ("cursus", b"\x04\0\0\1", b""),  # 64 MiB and 1
    ("cursus", b"CRS2\0\2\1\0\0\x2f\0\0", b""),  # how Wire v2 begins
]
"""What ends the connection, and the last answer."""


class Stored(NamedTuple):
    """Whatever a request could have changed."""

    topics: str
    ends: list[dict[int, int]]
    committed: str


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """With a topic of three partitions and one record, and an idempotent one in which producer p has reached 2."""
    directory = tmp_path_factory.mktemp("errors")
    with GatewayProcess(directory, "pipe", "cursus", backend="memory") as gateway:
        with Lines(gateway.ports["pipe"]) as lines, Frames(gateway.ports["cursus"]) as frames:
            assert lines.produce("t", "k", "first") == (0, 0)
            frames.create("once", 1, "idempotent=true")
            assert frames.publish(one("once", 0, 1)).status == "OK"
            assert frames.publish(one("once", 0, 2)).status == "OK"
        yield gateway


def look(gateway: GatewayProcess) -> Stored:
    with Frames(gateway.ports["cursus"]) as frames, Lines(gateway.ports["pipe"]) as lines:
        return Stored(
            " ".join(sorted(frames.call("LIST").split("topics=")[1].split(","))),
            [frames.ends("t"), frames.ends("once")],
            lines.call("OFFSET g t 0"),
        )


def shown(cases: list[tuple[bytes, bytes]]) -> list[str]:
    return [f"{at}-{asked[:40].decode('ascii', 'replace').strip()!r}" for at, (asked, _) in enumerate(cases)]


BEFORE = Stored("once t", [{0: 1, 1: 0, 2: 0}, {0: 2}], "offset=0")


@pytest.mark.parametrize(("line", "answer"), LINES, ids=shown(LINES))
def test_a_line_that_is_wrong_is_told_so_and_changes_nothing(
    gateway: GatewayProcess, line: bytes, answer: bytes
) -> None:
    with Lines(gateway.ports["pipe"]) as peer:
        assert peer.ask(line) == answer
        assert peer.consume("t", 0, 0) == ([(0, "first")], 0), "the connection is kept"
    assert look(gateway) == BEFORE


@pytest.mark.parametrize(("payload", "answer"), FRAMES, ids=shown(FRAMES))
def test_a_frame_that_is_wrong_is_told_so_and_changes_nothing(
    gateway: GatewayProcess, payload: bytes, answer: bytes
) -> None:
    with Frames(gateway.ports["cursus"]) as peer:
        assert peer.ask(payload) == answer
        assert [row.value for row in peer.consume("t", 0, 0)] == ["first"], "the connection is kept"
    assert look(gateway) == BEFORE


@pytest.mark.parametrize("payload", UNDECODABLE, ids=range(len(UNDECODABLE)))
def test_a_batch_that_cannot_be_read_is_told_so_and_changes_nothing(gateway: GatewayProcess, payload: bytes) -> None:
    with Frames(gateway.ports["cursus"]) as peer:
        assert peer.ask(payload).startswith(b'ERROR: batch_decode_failed reason="')
        assert [row.value for row in peer.consume("t", 0, 0)] == ["first"], "the connection is kept"
    assert look(gateway) == BEFORE


@pytest.mark.parametrize("name", ["a/b", ".", "..", "caf\u00e9", "n" * 250])
def test_a_topic_cannot_have_every_name(gateway: GatewayProcess, name: str) -> None:
    with Frames(gateway.ports["cursus"]) as peer:
        assert peer.call(f"CREATE topic={name} partitions=1").startswith(
            f'ERROR: invalid_topic_name topic="{name}" reason="'
        )
    assert look(gateway) == BEFORE


@pytest.mark.parametrize(
    ("sequence", "epoch", "error"),
    [
        (4, 1, "idempotency gap for producer p: expected 3, got 4"),
        (2, 2, "idempotency gap for producer p: expected 1, got 2"),
        (3, 0, "stale_producer_epoch producer=p current=1 got=0"),
    ],
)
def test_a_batch_out_of_sequence_is_refused_in_words_that_clients_stop_at(
    gateway: GatewayProcess, sequence: int, epoch: int, error: str
) -> None:
    with Frames(gateway.ports["cursus"]) as peer:
        ack = peer.publish(one("once", 0, sequence, epoch=epoch))
        assert (ack.status, ack.error) == ("ERROR", error)
    assert look(gateway) == BEFORE


def test_a_batch_that_was_stored_before_is_acknowledged_and_not_stored_again(gateway: GatewayProcess) -> None:
    with Frames(gateway.ports["cursus"]) as peer:
        ack = acked(peer.ask(one("once", 0, 1)))
        assert (ack.status, ack.last_offset, ack.seq_start, ack.seq_end) == ("OK", 1, 1, 1)
    assert look(gateway) == BEFORE


def test_errors_have_a_class_where_that_was_negotiated(gateway: GatewayProcess) -> None:
    with Frames(gateway.ports["cursus"]) as peer:
        agreed = peer.call("NEGOTIATE version=1 features=structured_errors_v1,foo")
        assert agreed == "OK protocol_version=1 enabled=structured_errors_v1 unsupported=foo"
        said = peer.call("METADATA topic=none")
        assert said == "ERROR: topic_not_found class=not_found retryable=false topic=none"
    with Frames(gateway.ports["cursus"]) as peer:
        assert peer.call("METADATA topic=none") == "ERROR: topic_not_found topic=none", "but there alone"


@pytest.mark.parametrize(("dialect", "octets", "answer"), FATAL, ids=range(len(FATAL)))
def test_what_cannot_be_cut_into_requests_ends_the_connection(
    gateway: GatewayProcess, dialect: str, octets: bytes, answer: bytes
) -> None:
    with Stream(gateway.ports[dialect]) as peer:
        peer.send(octets)
        assert peer.rest() == answer
    assert look(gateway) == BEFORE


def test_requests_before_a_fatal_one_are_answered_and_those_behind_it_are_not(gateway: GatewayProcess) -> None:
    with Stream(gateway.ports["cursus"]) as peer:
        wrong = framed(b"\0\0METADATA topic=none")
        peer.send(wrong * 3 + b"\xff\xff\xff\xff" + wrong + framed(one("t", 0)))
        assert peer.rest() == framed(b"ERROR: topic_not_found topic=none") * 3
    assert look(gateway) == BEFORE
