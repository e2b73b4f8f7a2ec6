"""gateway.pipeline.writing and what it is made of, as a task of Spark's uses it: Arrow batches into a real gateway."""

from __future__ import annotations

import itertools
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from gateway.core.commands import CreatePartitions, CreateTopic, DescribeTopic, Fetch, Topic, TopicSettings
from gateway.core.partitioners import PARTITIONERS
from gateway.core.records import WIDTHS, Header, HeaderKind, Record, canonical
from gateway.core.replies import Records, TopicDescription
from gateway.pipeline import sending
from gateway.pipeline.arrow import Frames
from gateway.pipeline.asking import Connection
from gateway.pipeline.attempts import GatewayFailed
from gateway.pipeline.places import Place
from gateway.pipeline.placing import DEFAULT_PARTITIONER, Placing
from gateway.pipeline.rows import Rows, check_columns
from gateway.pipeline.schema import SCHEMA
from gateway.pipeline.sequencing import Producer, producer_of
from gateway.pipeline.writing import BatchWriter, StreamWriter, Written, target_of, write
from system.processes import GatewayProcess

DIALECTS = ("native", "cursus", "pipe", "iggy", "mlog", "grid")
FIRST = producer_of("query", 0, 1)
SECOND = producer_of("query", 0, 2)
PLAIN = TopicSettings()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), *DIALECTS) as process:
        yield process


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of its own for each test."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[-60:]


def place(gateway: GatewayProcess, dialect: str = "native") -> Place:
    return Place(f"{dialect}=tcp:127.0.0.1:{gateway.ports[dialect]}", seconds=20)


def make(gateway: GatewayProcess, topic: str, partitions: int = 1, settings: TopicSettings = PLAIN) -> None:
    with Connection(place(gateway)) as connection:
        connection.ask(CreateTopic(Topic("default", topic), partitions, settings), TopicDescription)


def described(gateway: GatewayProcess, topic: str) -> TopicDescription:
    with Connection(place(gateway)) as connection:
        return connection.ask(DescribeTopic(Topic("default", topic)), TopicDescription)


def stored(gateway: GatewayProcess, topic: str) -> list[list[Record]]:
    """The records of each partition, as the store has them."""
    with Connection(place(gateway)) as connection:
        count = len(connection.ask(DescribeTopic(Topic("default", topic)), TopicDescription).partitions)
        return [_all_of(connection, Topic("default", topic), partition) for partition in range(count)]


def _all_of(connection: Connection, topic: Topic, partition: int) -> list[Record]:
    records: list[Record] = []
    while batches := connection.ask(Fetch(topic, partition, len(records)), Records).batches:
        records += [record for batch in batches for record in batch.records()]
    return records


def values(gateway: GatewayProcess, topic: str) -> list[list[bytes | None]]:
    return [[record.value for record in records] for records in stored(gateway, topic)]


def frame(**columns: list[object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def numbered(first: int, last: int, **columns: object) -> pa.RecordBatch:
    return frame(
        value=[b"%d" % number for number in range(first, last)],
        **{name: [said] * (last - first) for name, said in columns.items()},
    )


def put(
    at: GatewayProcess | str,
    topic: str,
    *batches: pa.RecordBatch,
    producer: Producer = FIRST,
    stream: bool = True,
    **options: str,
) -> Written:
    """As a task does."""
    endpoint = at if isinstance(at, str) else place(at).endpoint
    target = target_of({"endpoint": endpoint, "topic": topic, "timeoutSeconds": "20"} | options, stream)
    return write(target, producer, iter(batches), stream=stream)


# -- rows

octets = st.binary(max_size=12)
words = st.integers(0, (1 << 63) - 1)
quads = st.integers(0, (1 << 64) - 1)


@st.composite
def headers(draw: st.DrawFn) -> Header:
    kind = draw(st.sampled_from(HeaderKind))
    width = WIDTHS.get(kind)
    value = draw(st.binary(max_size=20) if width is None else st.binary(min_size=width, max_size=width))
    return Header(draw(octets), value, kind, draw(st.sampled_from(HeaderKind)))


records = st.builds(
    Record,
    key=st.none() | st.binary(min_size=1, max_size=12),
    value=st.none() | octets,
    headers=st.lists(headers(), max_size=3).map(tuple),
    timestamp=st.integers(1, (1 << 62)),
    origin_timestamp=quads,
    id=st.sampled_from([b"", bytes(range(16))]),
    producer=octets,
    epoch=words,
    sequence=words,
    event_type=octets,
    schema_version=quads,
    aggregate_version=quads,
    metadata=octets,
    expiry=words,
)


@given(st.lists(records, min_size=1, max_size=6))
def test_what_was_read_from_a_topic_is_written_as_it_was(written: list[Record]) -> None:
    batch = canonical(written).appended(0, 1)
    read = Frames(SCHEMA, "default", "orders").of(0, [batch])
    assert [record for part in read for record in Rows(part).records()] == written


def test_text_stands_for_its_utf8_and_null_for_what_is_not_said() -> None:
    rows = Rows(frame(key=["é", None, ""], value=["ü", None, ""], event_type=["t", None, ""]))
    assert rows.records() == [
        Record("é".encode(), "ü".encode(), event_type=b"t"),
        Record(None, None),
        Record(None, b""),
    ]


def test_of_headers_key_and_value_are_enough() -> None:
    two = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    rows = Rows(frame(value=[b"v", b"w", b"x"], headers=[two, None, []]))
    assert [record.headers for record in rows.records()] == [(Header(b"a", b"1"), Header(b"a", b"")), (), ()]


def test_a_kind_of_header_that_there_is_not_is_named() -> None:
    with pytest.raises(ValueError, match=r"a header is of the kind raw, text, .*, not 'int7'"):
        Rows(frame(value=[b"v"], headers=[[{"key": "a", "value": b"1", "kind": "int7"}]]))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"value": "binary", "colour": "string"}, "a topic has no column 'colour'; it has namespace, topic"),
        ({"value": "long"}, "the column value is binary, not bigint; cast it before it is written"),
        ({"value": "binary", "timestamp": "long"}, "the column timestamp is timestamp, not bigint"),
        ({"value": "binary", "partition": "string"}, "the column partition is int, not string"),
        ({"value": "binary", "id": "string"}, "the column id is binary, not string"),
        ({"value": "binary", "headers": "string"}, "the column headers is array<"),
        ({"key": "binary"}, "there is no column value"),
    ],
)
def test_rows_that_cannot_be_written_are_refused_before_any_is(fields: dict[str, str], sentence: str) -> None:
    schema = StructType()
    for name, kind in fields.items():
        schema.add(name, kind)
    for writer in (BatchWriter, StreamWriter):
        with pytest.raises(ValueError) as caught:
            writer(schema, {"topic": "orders"}, False)
        assert sentence in str(caught.value)


def test_every_column_of_a_topic_can_be_written() -> None:
    check_columns(SCHEMA)
    plain = StructType().add("value", "string").add("partition", "long").add("epoch", "short")
    check_columns(plain)
    with pytest.raises(ValueError, match="say which topic"):
        check_columns(plain, needs_topic=True)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"topic": "orders*"}, "rows are written to one topic, not to 'orders\\*'"),
        ({"createPartitions": "0"}, "createPartitions is 1 to 100000, not '0'"),
        ({"createPartitions": "two"}, "createPartitions is 1 to 100000, not 'two'"),
        ({"partitioner": "crc"}, "partitioner is one of fnv1a_32, .*, not 'crc'"),
        ({"idempotent": "yes"}, "idempotent is true or false, not 'yes'"),
        ({"idempotent": "true", "endpoint": "iggy=tcp:127.0.0.1:1"}, "idempotent topics are written over native alone"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        BatchWriter(StructType().add("value", "binary"), {"topic": "orders"} | options, False)


@pytest.mark.parametrize("dialect", sorted(set(DIALECTS) - {"native"}))
def test_a_stream_is_refused_by_wires_that_cannot_say_how_far_it_came(dialect: str) -> None:
    with pytest.raises(ValueError, match=f"a stream is written over native alone, not over {dialect}"):
        StreamWriter(StructType().add("value", "binary"), {"endpoint": f"{dialect}=tcp:127.0.0.1:1"}, False)


@pytest.mark.parametrize("writer", [BatchWriter, StreamWriter])
def test_nothing_is_overwritten(writer: type[BatchWriter | StreamWriter]) -> None:
    with pytest.raises(ValueError, match="a topic is a log"):
        writer(StructType().add("value", "binary"), {"topic": "orders"}, True)


# -- places


def test_a_row_goes_where_it_says_else_by_its_key_else_in_turn() -> None:
    placing = Placing("orders", 4)
    by_key = PARTITIONERS[DEFAULT_PARTITIONER](b"k", 4)
    assert placing.places([3, None, None, 0], [b"k", b"k", None, None], 7, 4) == [3, by_key, (7 + 2) % 4, 0]
    assert placing.places(None, None, 3, 3) == [3, 0, 1]


@pytest.mark.parametrize("wrong", [-1, 4])
def test_a_partition_that_there_is_not_is_named(wrong: int) -> None:
    with pytest.raises(ValueError, match=f"a row is for partition {wrong} of orders, which has 4; the option create"):
        Placing("orders", 4).places([wrong], None, 0, 1)


@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_the_partitioner_of_the_topic_comes_before_that_of_the_option(
    gateway: GatewayProcess, topic: str, partitioner: str
) -> None:
    make(gateway, topic, 5, TopicSettings(partitioner=partitioner))
    keys = [b"%d" % number for number in range(20)]
    put(gateway, topic, frame(key=keys, value=keys), stream=False, partitioner="fnv1a_64")
    expected = [[key for key in keys if PARTITIONERS[partitioner](key, 5) == at] for at in range(5)]
    assert values(gateway, topic) == expected


# -- a batch write


def test_a_topic_is_made_with_the_partitions_asked_for(gateway: GatewayProcess, topic: str) -> None:
    assert put(gateway, topic, numbered(0, 4), stream=False, createPartitions="3") == Written(4, 0)
    assert values(gateway, topic) == [[b"0", b"3"], [b"1"], [b"2"]]
    assert not described(gateway, topic).settings.idempotent
    put(gateway, topic + "i", numbered(0, 4), stream=False, idempotent="true")
    assert described(gateway, topic + "i").settings.idempotent


def test_a_batch_keeps_all_of_a_record_in_a_topic_that_checks_nothing(gateway: GatewayProcess, topic: str) -> None:
    header = Header(b"\xff", b"\1", HeaderKind.INT8, HeaderKind.RAW)
    record = Record(b"k", b"v", (header,), 7, 8, bytes(range(16)), b"p", 3, 9, b"e", 1, 2, b"m", 5)
    [batch] = Frames(SCHEMA, "elsewhere", "another").of(1, [canonical([record]).appended(77, 1)])
    put(gateway, topic, batch, stream=False, createPartitions="2")
    assert stored(gateway, topic) == [[], [record]]


def test_without_the_option_each_row_says_its_topic(gateway: GatewayProcess, topic: str) -> None:
    names = [topic + "-a", topic + "-b", topic + "-a"]
    put(gateway, "", frame(topic=names, value=[b"1", b"2", b"3"]), frame(topic=names[:1], value=[b"4"]), stream=False)
    assert values(gateway, names[0]) == [[b"1", b"3", b"4"]]
    assert values(gateway, names[1]) == [[b"2"]]
    with pytest.raises(ValueError, match="a row says no topic"):
        put(gateway, "", frame(topic=[None], value=[b"1"]), stream=False)


def test_many_records_go_in_many_batches_and_keep_their_order(
    gateway: GatewayProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "BATCH", 10)
    monkeypatch.setattr(sending, "BATCH_BYTES", 100)
    monkeypatch.setattr(sending, "HELD", 500)
    put(gateway, topic, numbered(0, 333), numbered(333, 1000), stream=False, createPartitions="3")
    expected = [b"%d" % number for number in range(1000)]
    assert values(gateway, topic) == [expected[0::3], expected[1::3], expected[2::3]]


def test_a_record_longer_than_a_batch_goes_alone(gateway: GatewayProcess, topic: str) -> None:
    long = bytes(sending.BATCH_BYTES + 1)
    put(gateway, topic, frame(value=[b"a", long, b"b"]), stream=False)
    assert values(gateway, topic) == [[b"a", long, b"b"]]


def test_rows_can_be_sorted_on_their_way(gateway: GatewayProcess, topic: str) -> None:
    one = frame(partition=[1, 0, 1], offset=[9, 3, 4], value=[b"9", b"3", b"4"])
    other = frame(partition=[0, 1, 1], offset=[1, 5, 5], value=[b"1", b"5", b"5 again"])
    put(gateway, topic, one, other, orderBy="offset", createPartitions="2")
    assert values(gateway, topic) == [[b"1", b"3"], [b"4", b"5", b"5 again", b"9"]]
    put(gateway, topic + "-none", orderBy="offset")
    with pytest.raises(ValueError, match="orderBy: there is no column 'offset' to sort by"):
        BatchWriter(StructType().add("value", "binary"), {"topic": topic, "orderBy": "value, offset"}, False)


def test_no_rows_are_no_records(gateway: GatewayProcess, topic: str) -> None:
    assert put(gateway, topic, numbered(0, 0)) == Written(0, 0)
    assert values(gateway, topic) == [[]]


@pytest.mark.parametrize("dialect", sorted(set(DIALECTS) - {"native"}))
def test_other_dialects_write_what_their_wire_can_say(gateway: GatewayProcess, topic: str, dialect: str) -> None:
    keys = [b"a", b"b", b"a", b"b"]
    at = place(gateway, dialect).endpoint
    put(at, topic, frame(key=keys, value=[b"1", b"2", b"3", b"4"]), stream=False)
    found = [record for records in stored(gateway, topic) for record in records]
    assert [at.value for at in found if at.value in (b"1", b"3")] == [b"1", b"3"]
    assert [at.value for at in found if at.value in (b"2", b"4")] == [b"2", b"4"]
    assert len(found) == 4
    kept = {b"1": b"a", b"2": b"b", b"3": b"a", b"4": b"b"} if dialect in ("cursus", "grid", "pipe") else {}
    assert {at.value: at.key for at in found if at.key} == kept


def test_what_a_wire_has_no_words_for_is_a_sentence(gateway: GatewayProcess, topic: str) -> None:
    with pytest.raises(GatewayFailed, match="V1 has no words for"):
        put(place(gateway, "pipe").endpoint, topic, frame(partition=[0], value=[b"1"]), stream=False)
    with pytest.raises(GatewayFailed, match="white space"):
        put(place(gateway, "pipe").endpoint, topic, frame(value=[b"two words"]), stream=False)


# -- a stream


def test_the_topic_of_a_stream_is_made_idempotent(gateway: GatewayProcess, topic: str) -> None:
    assert put(gateway, topic, numbered(0, 3)) == Written(3, 0)
    assert described(gateway, topic).settings.idempotent
    assert [(at.producer, at.epoch, at.sequence) for at in stored(gateway, topic)[0]] == [
        (b"query/0", 1, 1),
        (b"query/0", 1, 2),
        (b"query/0", 1, 3),
    ]


def test_a_stream_into_a_topic_that_checks_nothing_is_refused(gateway: GatewayProcess, topic: str) -> None:
    make(gateway, topic)
    with pytest.raises(ValueError, match=f"the topic {topic} is not idempotent"):
        put(gateway, topic, numbered(0, 3))
    assert values(gateway, topic) == [[]]


@pytest.mark.parametrize("before", [0, 1, 2, 5, 9])
@pytest.mark.parametrize("cuts", [(), (1,), (2, 3, 7)])
def test_a_batch_that_is_written_again_is_there_once_however_it_is_cut(
    gateway: GatewayProcess, topic: str, before: int, cuts: tuple[int, ...]
) -> None:
    put(gateway, topic, numbered(0, before), createPartitions="2")
    edges = [0, *cuts, 10]
    again = [numbered(first, last) for first, last in itertools.pairwise(edges)]
    assert put(gateway, topic, *again) == Written(10 - before, before)
    assert values(gateway, topic) == [[b"%d" % at for at in range(0, 10, 2)], [b"%d" % at for at in range(1, 10, 2)]]
    assert put(gateway, topic, *again) == Written(0, 10)
    assert put(gateway, topic, *again, producer=SECOND) == Written(10, 0), "another batch is new"


@given(st.permutations(range(8)), st.integers(0, 8), st.booleans())
def test_behind_a_shuffle_rows_may_come_in_another_order(
    gateway: GatewayProcess, order: list[int], before: int, keyed: bool
) -> None:
    topic = f"shuffled-{next(_counter)}"
    first = [b"%d" % (number % 5) for number in range(8)]  # some rows are alike
    again = [first[at] for at in order]
    more = {"createPartitions": "3"}

    def rows(of: list[bytes]) -> pa.RecordBatch:
        return frame(value=of, key=of) if keyed else frame(value=of)

    put(gateway, topic, rows(first[:before]), **more)
    assert put(gateway, topic, rows(again), **more) == Written(8 - before, before)
    assert sorted(itertools.chain(*values(gateway, topic))) == sorted(first)


_counter = itertools.count()


def test_a_batch_is_written_once_though_the_topic_grew(gateway: GatewayProcess, topic: str) -> None:
    keys = [b"%d" % number for number in range(30)]
    put(gateway, topic, frame(key=keys[:20], value=keys[:20]))
    with Connection(place(gateway)) as connection:
        connection.ask(CreatePartitions(Topic("default", topic), 3), TopicDescription)
    assert put(gateway, topic, frame(key=keys, value=keys)) == Written(10, 20)
    assert sorted(itertools.chain(*values(gateway, topic))) == sorted(keys)


def test_what_was_stored_is_found_behind_what_others_wrote_since(
    gateway: GatewayProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.pipeline.sequencing.WINDOW", 4)
    put(gateway, topic, numbered(0, 6))
    put(gateway, topic, numbered(100, 150), producer=producer_of("query", 1, 1))
    assert put(gateway, topic, numbered(0, 9)) == Written(3, 6)
    assert values(gateway, topic) == [[b"%d" % at for at in (*range(6), *range(100, 150), 6, 7, 8)]]


def test_rows_that_do_not_come_again_are_an_error_that_says_how_many(gateway: GatewayProcess, topic: str) -> None:
    put(gateway, topic, numbered(0, 6))
    with pytest.raises(ValueError, match=r"2 records that an earlier attempt at this batch stored in .* are not among"):
        put(gateway, topic, numbered(2, 8))


def test_a_task_of_an_earlier_batch_is_refused(gateway: GatewayProcess, topic: str) -> None:
    put(gateway, topic, numbered(0, 3), producer=producer_of("query", 0, 8))
    with pytest.raises(ValueError, match="this is batch 6 of a stream of which batch 7 was written already"):
        put(gateway, topic, numbered(0, 3), producer=producer_of("query", 0, 7))
    assert values(gateway, topic) == [[b"0", b"1", b"2"]]


def test_a_task_of_an_earlier_batch_that_is_still_at_work_is_refused(
    gateway: GatewayProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "BATCH", 2)

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield numbered(0, 5)
        put(gateway, topic, numbered(10, 13), producer=SECOND)
        yield numbered(5, 9)

    with pytest.raises(ValueError, match="this is batch 0 of a stream of which batch 1 was written already"):
        write(target_of({"endpoint": place(gateway).endpoint, "topic": topic}, True), FIRST, overtaken(), stream=True)
    [found] = values(gateway, topic)
    assert found[-3:] == [b"10", b"11", b"12"], "nothing of it came behind"


@pytest.mark.parametrize("after", [0, 1, 25, 50])
def test_two_attempts_beside_each_other_store_each_record_once(
    gateway: GatewayProcess, topic: str, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "BATCH", 7)

    def slow() -> Iterator[pa.RecordBatch]:
        yield numbered(0, after)
        put(gateway, topic, numbered(0, 50))
        yield numbered(after, 50)

    write(target_of({"endpoint": place(gateway).endpoint, "topic": topic}, True), FIRST, slow(), stream=True)
    assert values(gateway, topic) == [[b"%d" % at for at in range(50)]]


def test_a_batch_write_into_an_idempotent_topic_stores_a_task_once_that_is_tried_again(
    gateway: GatewayProcess, topic: str
) -> None:
    put(gateway, topic, numbered(0, 3), stream=False, idempotent="true")
    assert put(gateway, topic, numbered(0, 5), stream=False) == Written(2, 3)
    assert values(gateway, topic) == [[b"0", b"1", b"2", b"3", b"4"]]


# -- what goes wrong on the way


class Cutting:
    """Stands between a task and the gateway, and breaks each connection after so many bytes of it, both ways."""

    def __init__(self, port: int, after: Iterator[int]) -> None:
        self._port = port
        self._after = after
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.cut = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(20)

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            with near, socket.create_connection(("127.0.0.1", self._port)) as far:
                left = [next(self._after)]
                back = threading.Thread(target=self._carry, args=(far, near, left))
                back.start()
                self._carry(near, far, left)
                back.join(20)
            self.cut += left[0] <= 0

    @staticmethod
    def _carry(one: socket.socket, other: socket.socket, left: list[int]) -> None:
        with_some = b"-"
        while with_some and left[0] > 0:
            try:
                with_some = one.recv(4096)
                left[0] -= len(with_some)
                other.sendall(with_some)
            except OSError:
                break
        for end in (one, other):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


@contextmanager
def cutting(gateway: GatewayProcess, after: Iterator[int]) -> Iterator[Cutting]:
    between = Cutting(gateway.ports["native"], after)
    try:
        yield between
    finally:
        between.close()


@pytest.mark.parametrize("seed", range(4))
def test_a_stream_stores_each_record_once_however_often_its_connection_is_cut(
    gateway: GatewayProcess, topic: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "BATCH", 7)
    dice = random.Random(seed)
    after = itertools.chain((dice.randrange(300, 9000) for _ in range(20)), itertools.repeat(1 << 40))
    with cutting(gateway, after) as between:
        put(f"native=tcp:127.0.0.1:{between.port}", topic, numbered(0, 500), numbered(500, 1000), createPartitions="2")
        assert between.cut >= 5
    expected = [b"%d" % number for number in range(1000)]
    assert values(gateway, topic) == [expected[0::2], expected[1::2]]


def test_a_gateway_that_is_not_there_is_an_error_in_time(topic: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    begun = time.monotonic()
    with pytest.raises(GatewayFailed, match=r"within 0\.5 s"):
        put(f"native=tcp:127.0.0.1:{port}", topic, numbered(0, 3), timeoutSeconds="0.5")
    assert 0.5 <= time.monotonic() - begun < 5


def test_a_gateway_that_says_nothing_is_an_error_in_time(topic: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        begun = time.monotonic()
        with pytest.raises(GatewayFailed, match=r"within 0\.5 s"):
            put(f"native=tcp:127.0.0.1:{server.getsockname()[1]}", topic, numbered(0, 3), timeoutSeconds="0.5")
        assert 0.5 <= time.monotonic() - begun < 5


def test_a_topic_without_partitions_takes_nothing(gateway: GatewayProcess, topic: str) -> None:
    make(gateway, topic, 0)
    with pytest.raises(ValueError, match=f"the topic {topic} has no partitions"):
        put(gateway, topic, numbered(0, 3), stream=False)


def test_a_namespace_that_there_is_not_is_named(gateway: GatewayProcess, topic: str) -> None:
    with pytest.raises(GatewayFailed, match="there is no namespace 'elsewhere'"):
        put(gateway, topic, numbered(0, 3), namespace="elsewhere")
