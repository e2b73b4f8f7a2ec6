"""Names go through every dialect as they are or not at all: two of them are never one topic."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import msgspec
import pytest
from construct import GreedyBytes, Int32ub, Prefixed
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock

import wire
from dialects.grid_frames import changed
from gateway import dialects
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical
from gateway.core.replies import Outcome, Records, Reply, Topics
from gateway.dialects import Request
from gateway.dialects.iggy import spec as iggy
from gateway.dialects.pipe.text import words
from net.peers import Client, Node

NAMES = dialects.names()
SPEAKERS = {name: (name, {}) for name in NAMES if name != "iggy"} | {
    f"iggy-{generation}": ("iggy", {"generation": generation}) for generation in ("g0", "g1a", "g2c")
}
"""Who makes and looks for topics: a dialect, and the settings of its listener."""
PAIRS = [(a, b) for a in SPEAKERS for b in SPEAKERS]
FLAT = [name for name in NAMES if name not in ("iggy", "native")]
SOMEBODY = q.Session(0)
MARK = b"mark"

some = settings(max_examples=max(1, settings().max_examples // 2))

# -- names, and names that are nearly the same

ODD = [
    *(
        "a b",
        "a  b",
        "a.b",
        "a,b",
        "a\nb",
        "a\tb",
        " a",
        "a ",
        "a=b",
        "a|b",
        "a/b",
        "a:b",
        'a"b',
        "a\\b",
        "a\0b",
        "\ufeffa",
    ),
    *("A", "a", "\u212a", "k", "\u0130", "i\u0307", "\u00df", "ss", "\u00e9", "e\u0301", "\ufb01", "fi", "\u01c5"),
    *("a\u2028b", "a\x85b", "a\u00a0b", "a\u200bb", "\u3000", ".", "..", "1", "01", "0", "-", "_", "%61", "\\u0061"),
    *("message=", "topic=a", "xmessage=b", "OK", "null", "\U0001f600", "a" * 249, "a" * 250, "a" * 255, "a" * 256),
    *("\u00e9" * 127, "\u00e9" * 128, ""),
]
names = st.sampled_from(ODD) | st.text(st.characters(codec="utf-8"), max_size=8) | st.text("aAbB.-_= 1", max_size=4)

NEAR: list[Callable[[str], str]] = [
    *(str.lower, str.upper, str.casefold, str.strip, str.swapcase, str.title),
    *(lambda name: ".".join(name.split()), lambda name: name + " ", lambda name: name + "\0", lambda name: name[:-1]),
    *(lambda name: name.split()[0] if name.split() else "", lambda name: name.partition("=")[2]),
    *(lambda name: name.partition("\0")[0], lambda name: name.partition(",")[0], lambda name: name[:249]),
    *(lambda name: unicodedata.normalize("NFC", name), lambda name: unicodedata.normalize("NFKD", name)),
    *(lambda name: name.encode("ascii", "replace").decode(), lambda name: name.encode("ascii", "ignore").decode()),
    *(lambda name: name.encode("ascii", "backslashreplace").decode(), lambda name: "1"),
]
"""What a careless dialect might make of a name."""


# -- a topic of that name, as the wire says it


def sayable(speaker: str, name: str) -> bool:
    """Whether that wire has a form for the name at all: elsewhere, what is said is another name or none."""
    octets = name.encode()
    match SPEAKERS[speaker][0]:
        case "cursus":
            return octets.split() == [octets] and "message=" not in name
        case "pipe":
            return words(octets) == [octets]
        case "iggy" | "grid":
            return len(octets) < 256
    return True


def plainly(speaker: str, name: str, id: int = 9) -> q.Command:
    """What a client is told that is to make a topic."""
    dialect, said = SPEAKERS[speaker]
    if dialect == "pipe":
        return q.Publish(q.Topic("default", name), q.ByKey(b"k", "fnv1a_32"), canonical([Record(b"k", b"v")]))
    if dialect == "grid":
        return publish(name)
    exists = q.IfExists.GROW if dialect == "cursus" else q.IfExists.FAIL
    numbered = said.get("generation") in ("g0", "g1a")
    return q.CreateTopic(q.Topic("default", name), 1, if_exists=exists, id=id if numbered else None)


def making(speaker: str, name: str, id: int = 9) -> bytes:
    """As our client says it of the topic `q`, but of a name that it might refuse to say; lengths are those of that."""
    dialect, said = SPEAKERS[speaker]
    before, behind = wire.request(dialect, plainly(speaker, "q", id), 1, **said).split(b"q")
    octets = name.encode()
    match dialect:
        case "cursus":
            return bytes(Prefixed(Int32ub, GreedyBytes).build(before[4:] + octets + behind))
        case "mlog":
            document = before[6:] + msgspec.json.encode(name)[1:-1] + behind
            return before[:2] + bytes(Prefixed(Int32ub, GreedyBytes).build(document))
        case "iggy":
            return bytes(iggy.FRAME.build(before[4:-1] + iggy.S8.build(name) + behind))
        case "grid":
            return changed(before + octets + behind, name_length=len(octets), length=len(octets + behind))
        case "native":
            return wire.request(dialect, plainly(speaker, name), 1)
    return before + octets + behind


def publish(name: str) -> q.Publish:
    return q.Publish(q.Topic("default", name), 0, canonical([Record(None, MARK)]))


class Store:
    """One backend, and whoever speaks to it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.backend = MemoryBackend(self.clock)

    def client(self, speaker: str) -> Client:
        dialect, said = SPEAKERS[speaker]
        return Client(Node(self.backend, dialect, self.clock, **said))

    def run(self, command: q.Command) -> Reply:
        reply = self.backend.execute(command, SOMEBODY)
        assert not hasattr(reply, "addCallback")
        return reply  # type: ignore[return-value]

    @property
    def topics(self) -> list[str]:
        listed = self.run(q.ListTopics("default"))
        assert isinstance(listed, Topics)
        return [topic.name for topic in listed.topics]

    def make(self, speaker: str, name: str) -> CommandFailed | None:
        """Say on the wire that there is to be a topic of that name; why there is none."""
        dialect, _ = SPEAKERS[speaker]
        before = self.topics
        client = self.client(speaker)
        client.peer.send(making(speaker, name))
        answer = client.peer.read()
        if len(self.topics) > len(before):
            return None
        command = q.Ping() if dialect in ("pipe", "grid") else q.CreateTopic(q.Topic("default", "x"), 1)
        failure = decoded(client, command, answer)
        assert isinstance(failure, CommandFailed), f"{name!r} was taken, and is nowhere"
        return failure

    def mark(self, name: str) -> None:
        """Put a record into it that nobody else writes."""
        self.run(publish(name))

    def marked(self, speaker: str, name: str) -> bool | None:
        """Whether who asks for that name gets that record; None = the name is refused."""
        client = self.client(speaker)
        try:
            outcome = client.ask(q.Fetch(q.Topic("default", name), 0, 0, 10))
        except CommandFailed as failure:
            assert failure.fault in (Fault.UNREPRESENTABLE, Fault.UNSUPPORTED), failure
            return None
        if isinstance(outcome, CommandFailed):
            return None if alike(speaker, outcome, Fault.INVALID_NAME, Fault.MALFORMED) else False
        assert isinstance(outcome, Records)
        return any(record.value == MARK for batch in outcome.batches for record in batch.records())


def decoded(client: Client, command: q.Command, answer: bytes) -> Outcome:
    dialect = client.session.dialect
    if dialect.name == "pipe":
        command = q.Heartbeat(q.Topic("default", "x"), "g", "m", 1)
    return dialect.decode_reply(Request(command, 1), answer, client.session.terms)


def alike(speaker: str, failure: CommandFailed, *faults: Fault) -> bool:
    """Whether a failure has the code of one of these."""
    codes = dialects.load(SPEAKERS[speaker][0]).faults
    return codes[failure.fault] in [codes[fault] for fault in faults]


# -- one name


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])
def test_a_name_is_the_same_for_everybody_or_refused(a: str, b: str) -> None:
    @some
    @given(names, st.sampled_from(NEAR))
    def holds(name: str, near: Callable[[str], str]) -> None:
        assume(sayable(a, name))
        store = Store()
        failure = store.make(a, name)
        if failure is not None:
            assert alike(a, failure, Fault.INVALID_NAME), failure
            assert store.topics == []
            return
        [made] = store.topics
        assert made == name or (a in ("iggy-g0", "iggy-g1a") and made == ".".join(name.lower().split()))
        store.mark(made)
        assert store.marked(b, made) is not False
        assert store.topics == [made]
        other = near(made)
        if other != made:
            assert not store.marked(b, other)

    holds()


@pytest.mark.parametrize("speaker", SPEAKERS)
def test_a_plain_name_is_refused_by_nobody(speaker: str) -> None:
    for name in ("orders", "a-b_c.d", "1"):
        store = Store()
        assert store.make(speaker, name) is None
        store.mark(name)
        assert all(store.marked(other, name) for other in SPEAKERS)


# -- two names


@pytest.mark.parametrize("speaker", SPEAKERS)
def test_two_names_are_never_one_topic(speaker: str) -> None:
    @given(names, names | st.sampled_from(NEAR))
    def holds(first: str, second: str | Callable[[str], str]) -> None:
        store = Store()
        other = second if isinstance(second, str) else second(first)
        assume(other != first and sayable(speaker, first) and sayable(speaker, other))
        if store.make(speaker, first) is not None:
            return
        [made] = store.topics
        failure = store.make(speaker, other)
        if failure is None:
            assert len(set(store.topics)) == 2
        else:
            lowered = speaker in ("iggy-g0", "iggy-g1a") and alike(speaker, failure, Fault.TOPIC_EXISTS)
            assert lowered or alike(speaker, failure, Fault.INVALID_NAME), failure
            assert store.topics == [made]

    holds()


@pytest.mark.parametrize(("first", "second"), [("Orders", "orders"), ("my  orders", "my orders"), ("a.b", "A b")])
def test_where_names_are_lowered_the_second_is_refused_as_existing(first: str, second: str) -> None:
    for speaker in ("iggy-g0", "iggy-g1a"):
        dialect = dialects.load("iggy")
        store = Store()
        client = store.client(speaker)
        answers = []
        for name, id in ((first, 9), (second, 10)):
            client.peer.send(making(speaker, name, id))
            answers.append(decoded(client, q.CreateTopic(q.Topic("default", "x"), 1), client.peer.read()))
        assert not isinstance(answers[0], CommandFailed)
        assert isinstance(answers[1], CommandFailed)
        assert dialect.faults[answers[1].fault] == dialect.faults[Fault.TOPIC_EXISTS]
        assert store.topics == [".".join(first.lower().split())]
    store = Store()
    assert store.make("native", first) is store.make("native", second) is None
    assert store.topics == [first, second], "others tell them apart"


@pytest.mark.parametrize("speaker", [name for name in SPEAKERS if name not in ("iggy-g0", "pipe", "grid")])
def test_our_client_makes_just_the_topic_it_is_told_to(speaker: str) -> None:
    @some
    @given(names)
    def holds(name: str) -> None:
        store = Store()
        exists = q.IfExists.GROW if speaker == "cursus" else q.IfExists.FAIL
        id = 9 if speaker == "iggy-g1a" else None
        try:
            outcome = store.client(speaker).ask(q.CreateTopic(q.Topic("default", name), 1, if_exists=exists, id=id))
        except CommandFailed as failure:
            assert failure.fault in (Fault.UNREPRESENTABLE, Fault.UNSUPPORTED)
            return
        if isinstance(outcome, CommandFailed):
            assert alike(speaker, outcome, Fault.INVALID_NAME)
        assert store.topics == ([] if isinstance(outcome, CommandFailed) else [name])

    holds()


# -- namespaces


@pytest.mark.parametrize("reader", FLAT)
def test_a_dialect_without_namespaces_sees_its_own_only(reader: str) -> None:
    store = Store()
    store.run(q.CreateNamespace("other"))
    for namespace in ("default", "other"):
        store.run(q.CreateTopic(q.Topic(namespace, "orders"), 1))
        store.run(q.Publish(q.Topic(namespace, "orders"), 0, canonical([Record(None, namespace.encode())])))
    store.run(q.CreateTopic(q.Topic("other", "hidden"), 1))
    for namespace in ("default", "other"):
        client = Client(Node(store.backend, reader, store.clock, namespace=namespace))
        outcome = client.ask(q.Fetch(q.Topic(namespace, "orders"), 0, 0, 10))
        assert isinstance(outcome, Records)
        assert [at.value for batch in outcome.batches for at in batch.records()] == [namespace.encode()]
        beyond = "other" if namespace == "default" else "default"
        with pytest.raises(CommandFailed, match="UNSUPPORTED"):
            client.ask(q.Fetch(q.Topic(beyond, "orders"), 0, 0, 10))
    client = Client(Node(store.backend, reader, store.clock))
    hidden = client.ask(q.Fetch(q.Topic("default", "hidden"), 0, 0, 10))
    assert isinstance(hidden, CommandFailed) or not hidden.batches  # type: ignore[union-attr]


@pytest.mark.parametrize("reader", FLAT)
def test_lists_of_topics_end_at_the_namespace(reader: str) -> None:
    store = Store()
    store.run(q.CreateNamespace("other"))
    store.run(q.CreateTopic(q.Topic("default", "orders"), 1))
    store.run(q.CreateTopic(q.Topic("other", "hidden"), 1))
    client = Client(Node(store.backend, reader, store.clock))
    try:
        listed = client.ask(q.ListTopics("default"))
    except CommandFailed as failure:
        assert failure.fault is Fault.UNSUPPORTED, "it has no lists"
        return
    assert isinstance(listed, Topics)
    assert [topic.name for topic in listed.topics] == ["orders"]
