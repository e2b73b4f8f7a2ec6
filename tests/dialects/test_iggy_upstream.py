"""Our Iggy client against servers of every generation: what arrives there, and what is made of what they answer."""

from __future__ import annotations

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import assume, given, settings
from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock

import wire
from backends.test_contract import by_connection, commands
from dialects.test_upstream import REFUSED, field_of_batch, whole
from dialects.upstream_commands import anywhere, partitions, readers, usual
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Header, HeaderKind, Record, canonical, registry
from gateway.dialects import ClientSession, Refusal, Request, load
from gateway.dialects.iggy import codes
from gateway.dialects.iggy.generations import GENERATIONS, NEWEST
from gateway.dialects.iggy.requests import MEANINGS
from gateway.dialects.iggy.said import IggyTerms, Login
from gateway.dialects.iggy.upstream import UPSTREAM
from gateway.dialects.native.answers import ANSWERS
from gateway.net.server import Listening
from net.peers import Client, Node

IGGY = load("iggy")
ENCODINGS = registry(IGGY.encodings)
ALL = list(GENERATIONS)
TOPIC = q.Topic("shop", "orders")
LONG = Header(b"h", b"v" * 255, HeaderKind.TEXT)
OK = bytes(8)
NEWEST_LOGIN = "a client logs in and says that it is 0.10.0: apache-iggy 0.8.0"
LOGGED_IN = wire.told("iggy", NEWEST_LOGIN)


def terms(generation: str = "auto") -> IggyTerms:
    made = IGGY.open(IGGY.settings(generation=generation), ENCODINGS).terms("localhost:8090")  # type: ignore[call-arg]
    assert isinstance(made, IggyTerms)
    return made


def arrived(command: q.Command, generation: str) -> q.Command | CommandFailed:
    """What a server of that generation understands, or why it was not asked."""
    try:
        frame = IGGY.encode_request(Request(command, 1), terms(generation))
    except CommandFailed as failure:
        return failure
    assert IGGY.measure_request(frame, 0, 0) == len(frame)
    request = IGGY.decode_request(frame, terms(generation))
    assert not isinstance(request, Refusal), (command, frame, request)
    return request.command


# -- what arrives


def understood(command: q.Command) -> q.Command:
    """What a server makes of a command where the wire does not say all of it, as upstream.py declares."""
    match command:
        case q.DescribeNamespace(namespace=namespace):
            return q.DescribeNamespace(namespace, contents=True)
        case q.Publish():
            return msgspec.structs.replace(command, acks=q.Acks.LEADER)
        case q.CommitOffsets():
            return msgspec.structs.replace(command, bounded=True)
        case q.Fetch(start=start, max_records=limit):
            count = start.count if isinstance(start, q.Last) else limit or 100_000
            reader = command.read_by or q.Consumer(1)
            return msgspec.structs.replace(command, max_records=count, max_bytes=8 << 20, wait=0.0, reader=reader)
    return command


places = {"topic": anywhere, "partition": partitions | st.none()}
poll_readers = st.none() | readers
pauses = st.sampled_from([0.0, 2.0])
numbered_reader = st.builds(q.Group, st.integers(1, 9)) | st.builds(q.Consumer, st.integers(1, 9))
sayable: st.SearchStrategy[q.Command] = st.one_of(
    st.builds(q.CreateNamespace, st.just("sales"), st.none() | st.just(9)),
    st.builds(
        q.CreateTopic,
        st.builds(q.Topic, st.sampled_from(["sales", 9]), st.just("bills")),
        st.integers(0, 4),
        st.builds(
            q.TopicSettings,
            st.sampled_from([0, 60_000_000, 1_500_000, 7]),
            labels=st.dictionaries(
                st.sampled_from(["compression", "max_topic_size", "replication_factor", "retention.ms"]),
                st.sampled_from(
                    ["gzip", "zstd", "0", "1", "007", "255", "256", "1000000", "-1", "", "18446744073709551615"]
                ),
                max_size=2,
            ),
        ),
        id=st.sampled_from([None, 3, 0]),
    ),
    st.builds(
        q.Fetch, **places, start=st.builds(q.Last, st.integers(0, 9)), max_records=st.integers(0, 9), wait=pauses
    ),
    st.builds(q.Fetch, **places, start=st.builds(q.Next, readers), reader=poll_readers, commit=st.booleans()),
    st.builds(q.Fetch, **places, start=st.just(q.First()), reader=poll_readers | numbered_reader, wait=pauses),
    st.builds(q.Fetch, **places, start=st.sampled_from([0, q.MAX_OFFSET - 1, q.MAX_OFFSET]), reader=numbered_reader),
    st.builds(
        q.CommitOffsets,
        anywhere,
        readers | numbered_reader,
        st.dictionaries(partitions | st.none(), st.sampled_from([0, 1, 7, q.MAX_OFFSET]), min_size=1, max_size=1),
    ),
    st.builds(q.FetchOffsets, anywhere, readers | numbered_reader, st.tuples(partitions | st.none())),
    st.builds(q.DeleteOffsets, anywhere, readers | numbered_reader, st.tuples(partitions | st.none())),
    st.builds(q.CreateGroup, anywhere, st.sampled_from(["g", "5"]), st.sampled_from([None, 5, 0])),
    st.builds(
        q.JoinGroup,
        anywhere,
        st.sampled_from(["g", 5]),
        st.just(""),
        st.just(q.WhileConnected()),
        existing=st.just(True),
    ),
    st.builds(q.LeaveGroup, anywhere, st.sampled_from(["g", 5]), st.just("")),
    st.builds(q.DeleteGroup, anywhere, st.sampled_from(["g", 5])),
    st.builds(q.DescribeGroup, anywhere, st.sampled_from(["g", 5])),
    st.builds(q.ListGroups, st.sampled_from(["default", 1]), st.sampled_from(["orders", 2])),
    st.just(q.FindLeader()),
)


@pytest.mark.parametrize("generation", ALL)
@given(command=commands | by_connection | usual | sayable | sayable)
@settings(max_examples=600)
def test_a_command_arrives_as_it_was_asked_but_for_what_is_declared(generation: str, command: q.Command) -> None:
    assume(whole(command))
    heard = arrived(command, generation)
    if isinstance(heard, CommandFailed):
        assert heard.fault in REFUSED
        return
    assert type(command) in UPSTREAM.commands
    asked = understood(command)
    if isinstance(asked, q.Publish) and isinstance(heard, q.Publish):
        assert field_of_batch(heard.batch) == field_of_batch(asked.batch)
        heard = msgspec.structs.replace(heard, batch=asked.batch)
    assert heard == asked


@given(command=usual | sayable)
def test_only_fields_that_are_declared_arrive_as_something_else(command: q.Command) -> None:
    """What this page expects of a server is no more than what upstream.py says of it."""
    asked = understood(command)
    differing = {field for field in command.__struct_fields__ if getattr(command, field) != getattr(asked, field)}
    assert differing <= set(UPSTREAM.unsaid.get(type(command), {}))


LATE = {q.Authenticate: "g1a", q.Logout: "g1a", q.DeleteOffsets: "g1a", q.FindLeader: "g2b"}
"""Commands that came after g0, and since when our client asks for them."""

PLAINEST: dict[type[q.Command], q.Command] = {
    q.Authenticate: q.Authenticate("plain", "iggy", "iggy"),
    q.CreateNamespace: q.CreateNamespace("s", 1),
    q.CreateTopic: q.CreateTopic(q.Topic(1, "t"), 1, id=1),
    q.DescribeNamespace: q.DescribeNamespace(1),
    q.DeleteNamespace: q.DeleteNamespace(1),
    q.ListTopics: q.ListTopics(1),
    q.CreatePartitions: q.CreatePartitions(TOPIC, 1),
    q.DeletePartitions: q.DeletePartitions(TOPIC, 1),
    q.Publish: q.Publish(TOPIC, 0, canonical([Record(value=b"v")])),
    q.Fetch: q.Fetch(TOPIC, 0, 0),
    q.CommitOffsets: q.CommitOffsets(TOPIC, q.Consumer(1), {0: 1}),
    q.FetchOffsets: q.FetchOffsets(TOPIC, q.Consumer(1), (0,)),
    q.DeleteOffsets: q.DeleteOffsets(TOPIC, q.Consumer(1), (0,)),
    q.CreateGroup: q.CreateGroup(TOPIC, "5", 5),
    q.DeleteGroup: q.DeleteGroup(TOPIC, 5),
    q.DescribeGroup: q.DescribeGroup(TOPIC, 5),
    q.ListGroups: q.ListGroups(1, 1),
    q.JoinGroup: q.JoinGroup(TOPIC, 5, "", q.WhileConnected(), existing=True),
    q.LeaveGroup: q.LeaveGroup(TOPIC, 5, ""),
    q.DescribeTopic: q.DescribeTopic(TOPIC),
    q.DeleteTopic: q.DeleteTopic(TOPIC),
}


def plainest(kind: type[q.Command], generation: str) -> q.Command:
    """As servers of that generation want it: ids go with the client up to 0.7."""
    command = PLAINEST.get(kind) or kind()
    return msgspec.structs.replace(command, id=None) if hasattr(command, "id") and not first_of(generation) else command


def first_of(generation: str) -> int:
    return GENERATIONS[generation].first


@pytest.mark.parametrize("generation", ALL)
def test_every_kind_that_is_declared_can_be_asked_for(generation: str) -> None:
    said = {
        kind
        for kind in UPSTREAM.commands
        if not isinstance(arrived(plainest(kind, generation), generation), CommandFailed)
    }
    late = {kind for kind, since in LATE.items() if ALL.index(generation) < ALL.index(since)}
    assert said == UPSTREAM.commands - late


def test_every_code_that_is_served_is_declared() -> None:
    assert len(UPSTREAM.commands) == len({*MEANINGS, codes.SEND, codes.POLL}) - 2  # GET_ME, LOGIN_WITH_TOKEN


@pytest.mark.parametrize("generation", ALL)
@pytest.mark.parametrize(
    ("command", "fault"),
    [
        (q.Publish(TOPIC, 0, canonical([Record(value=b"v")]), create=3), Fault.UNSUPPORTED),
        (q.Fetch(TOPIC, 0, 0, create=1), Fault.UNSUPPORTED),
        (q.Fetch(TOPIC, 0, q.Last(5), 4), Fault.UNSUPPORTED),
        (q.Fetch(TOPIC, 0, q.MAX_OFFSET), Fault.UNREPRESENTABLE),
        (q.CreateNamespace("s", 0), Fault.UNSUPPORTED),
        (q.CreateTopic(q.Topic(1, "t"), 1, q.TopicSettings(labels={"max_topic_size": "007"}), id=1), Fault.UNSUPPORTED),
        (q.FindLeader(TOPIC), Fault.UNSUPPORTED),
        (q.Fetch(TOPIC, -1, 0), Fault.UNREPRESENTABLE),
        (q.Publish(TOPIC, -1, canonical([Record(value=b"v")])), Fault.UNREPRESENTABLE),
        (q.Publish(TOPIC, 0, canonical([Record(value=b""), Record(value=None)])), Fault.UNREPRESENTABLE),
        (q.Publish(TOPIC, 0, canonical([Record(value=bytes(6 << 20))] * 2)), Fault.TOO_LARGE),
        (q.Publish(TOPIC, 0, canonical([Record(value=b"v", headers=(LONG,))] * 450)), Fault.TOO_LARGE),
    ],
    ids=lambda said: repr(said)[:60],
)
def test_nothing_of_it_is_dropped_silently(command: q.Command, fault: Fault, generation: str) -> None:
    failure = arrived(command, generation)
    assert isinstance(failure, CommandFailed)
    assert failure.fault is fault


@pytest.mark.parametrize("generation", ["g0", "g1a"])
def test_an_age_is_not_rounded(generation: str) -> None:
    ask = q.CreateTopic(q.Topic(1, "t"), 1, q.TopicSettings(retention_us=1_500_000), id=1)
    failure = arrived(ask, generation)
    assert isinstance(failure, CommandFailed)
    assert failure.fault is Fault.UNREPRESENTABLE


# -- what is heard


@pytest.mark.parametrize("generation", ALL)
@pytest.mark.parametrize("kind", sorted(UPSTREAM.commands, key=lambda kind: kind.__name__))
def test_an_answer_without_payload_is_of_the_kind_that_the_command_names(
    kind: type[q.Command], generation: str
) -> None:
    """Or a failure, or no answer to what has one."""
    command = plainest(kind, generation)
    try:
        outcome = IGGY.decode_reply(Request(command), OK, terms(generation))
    except CommandFailed as failure:
        assert failure.fault is Fault.MALFORMED
        assert kind not in (q.Publish, q.JoinGroup, q.CreateNamespace, q.CreateTopic, q.CreateGroup)
        return
    assert isinstance(outcome, CommandFailed | ANSWERS[kind])


@pytest.mark.parametrize(
    ("answer", "generation", "status", "taken"),
    [
        ("an id that another stream has is error 1011", "g0", 1011, "id"),
        ("a name that another stream has is error 1012", "g2c", 1012, "name"),
        ("an id that another topic has is error 2012", "g1b", 2012, "id"),
        ("a name that another topic has is error 2013", "g2c", 2013, "name"),
        ("a group that is there already is error 5004 by name, since groups have names", "g2c", 5004, "name"),
    ],
)
def test_what_is_taken_is_said(answer: str, generation: str, status: int, taken: str) -> None:
    outcome = IGGY.decode_reply(Request(q.ListNamespaces()), wire.told("iggy", answer), terms(generation))
    assert isinstance(outcome, CommandFailed)
    assert outcome.facts == {"status": status, "taken": taken}


# -- which generation is spoken


def asked(client: ClientSession, command: q.Command, context: object = None) -> bytes:
    client.ask(Request(command, None, context))
    return client.take()


def answered(client: ClientSession, data: bytes) -> object:
    ((_, outcome),) = client.receive(data)
    return outcome


LOGIN = q.Authenticate("plain", "iggy", "iggy")
CREATE = q.CreateNamespace("strm")


def test_who_is_told_nothing_logs_in_as_the_newest_and_speaks_that_from_then_on() -> None:
    client = ClientSession(IGGY, terms())
    assert asked(client, LOGIN) == wire.said("iggy", NEWEST_LOGIN)
    assert answered(client, LOGGED_IN) == r.Authenticated("iggy", 1)
    assert asked(client, CREATE) == wire.said("iggy", "a client creates a stream: apache-iggy 0.8.0")
    assert isinstance(client.terms, IggyTerms)
    assert client.terms.candidates == (NEWEST,)


def test_who_has_not_logged_in_yet_speaks_as_the_seed() -> None:
    client = ClientSession(IGGY, terms())
    asked(client, LOGIN)
    wrong = wire.told("iggy", "a wrong password is error 42")
    assert answered(client, wrong) != r.Authenticated("iggy", 1)
    assert asked(client, q.CreateNamespace("s1", 1)) == wire.said("iggy", "an id that another stream has is error 1011")


def test_a_token_is_of_the_newest_too() -> None:
    client = ClientSession(IGGY, terms())
    token = q.Authenticate("token", "", "0123456789abcdef")
    assert asked(client, token) == wire.said("iggy", "a token will do for a login")
    assert answered(client, LOGGED_IN) == r.Authenticated("", 1)
    assert asked(client, CREATE) == wire.said("iggy", "a client creates a stream: apache-iggy 0.8.0")


def test_a_version_that_is_said_chooses_the_generation() -> None:
    client = ClientSession(IGGY, terms())
    asked(client, LOGIN, Login("0.6.202"))
    assert answered(client, LOGGED_IN) == r.Authenticated("iggy", 1)
    assert asked(client, CREATE) == wire.request("iggy", CREATE, generation="g1b")


@pytest.mark.parametrize(
    ("generation", "version"),
    [("g1b_texts", "0.6.31"), ("g1b", "0.6.202"), ("g2a", "0.7.0"), ("g2b", "0.8.0"), ("g2c", "0.10.0")],
)
def test_a_setting_chooses_the_generation_and_the_login_says_it(generation: str, version: str) -> None:
    client = ClientSession(IGGY, terms(generation))
    assert version.encode() in asked(client, LOGIN)
    assert answered(client, LOGGED_IN) == r.Authenticated("iggy", 1)
    assert isinstance(client.terms, IggyTerms)
    assert client.terms.candidates == (GENERATIONS[generation],)


def test_0_4_is_not_told_a_version() -> None:
    told_nothing = wire.said("iggy", "a client logs in: iggy-py 0.2.0, 0.2.1 and 0.2.2")
    assert asked(ClientSession(IGGY, terms("g1a")), LOGIN) == told_nothing


def test_the_seed_has_no_login() -> None:
    with pytest.raises(CommandFailed) as failure:
        asked(ClientSession(IGGY, terms("g0")), LOGIN)
    assert failure.value.fault is Fault.UNSUPPORTED


@pytest.mark.parametrize("generation", ["auto", *ALL])
def test_a_client_and_a_server_that_only_a_login_introduces_understand_each_other(generation: str) -> None:
    """The server is not told the generation otherwise."""
    clock = Clock()
    node = Node(MemoryBackend(clock, lambda: 1_700_000_000_000_000), "iggy", clock)
    node.listening = Listening("test", IGGY.open(IGGY.settings(), ENCODINGS))
    node.listening.port = node.port
    client = Client(node, address=IPv4Address("TCP", "127.0.0.1", 54321))
    client.session = ClientSession(IGGY, terms(generation))
    if generation != "g0":
        assert client.ask(LOGIN) == r.Authenticated("iggy", 1)
    id = 1 if generation == "g0" else None
    assert isinstance(client.ask(q.CreateNamespace("shop", id)), r.NamespaceDescription)
    assert isinstance(client.ask(q.CreateTopic(TOPIC, 2, id=id)), r.TopicDescription)
    batch = canonical([Record(value=b"one"), Record(value=b"two")])
    assert client.ask(q.Publish(TOPIC, 1, batch)) == r.Published(1, 0, 0)
    read = client.ask(q.Fetch(TOPIC, 1, 0))
    assert isinstance(read, r.Records)
    assert [record.value for each in read.batches for record in each.records()] == [b"one", b"two"]
    newest = client.ask(q.Fetch(TOPIC, 1, q.Last(1)))
    assert isinstance(newest, r.Records)
    assert [record.value for each in newest.batches for record in each.records()] == [b"two"]
