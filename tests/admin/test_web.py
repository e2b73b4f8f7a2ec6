"""gateway.admin.web: what whoever looks can rely on, and what they cannot do."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from admin.looking import STARTED, Looking, Said
from gateway import __version__
from gateway.admin.web import LAST_SECONDS, MAX_CONNECTIONS
from gateway.admin.web_rows import FAULTS_SHOWN, SHOWN
from gateway.admin.web_watch import READY_SECONDS
from gateway.backends.commits import Commits
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core import replies as r
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import Record, canonical
from gateway.net.meters import REMEMBERED
from net.peers import Client, Node, Scripted

PATHS = ("/", "/page.css", "/page.js", "/icon.svg", "/metrics", "/livez", "/readyz", "/version", "/state.json")
ORDERS = q.Topic("default", "orders")
NODE = r.NodeDescription("test", "0", "memory", 0, 0, 0, 0, 0, 0, 0)
HOSTILE = "<img src=x onerror=alert(1)>\"';--\u202e\x1b[31m"


@pytest.fixture
def node() -> Node:
    clock = Clock()
    return Node(MemoryBackend(clock, lambda: STARTED + int(clock.seconds() * 1e6)), "native", clock)


@pytest.fixture
def looking(node: Node) -> Iterator[Looking]:
    looking = Looking(node)
    yield looking
    looking.close()
    assert not looking.clock.getDelayedCalls(), "closing leaves nothing behind"


def scripted(backend: Scripted) -> Looking:
    return Looking(Node(backend, "native"))


def publish(topic: str, count: int, value: bytes = b"v") -> q.Publish:
    return q.Publish(q.Topic("default", topic), 0, canonical([Record(b"k", value)] * count), create=1)


# -- paths


@pytest.mark.parametrize("path", PATHS)
def test_every_path_is_answered_and_can_neither_be_framed_nor_guessed_about(looking: Looking, path: str) -> None:
    said = looking.get(path)
    assert said.status == 200 and len(said.body) == int(said.headers["Content-Length"]) > 0
    assert said.headers["Server"] == "gateway"
    assert said.headers["X-Content-Type-Options"] == "nosniff"
    policy = said.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert "Access-Control-Allow-Origin" not in said.headers


@pytest.mark.parametrize("path", PATHS)
def test_a_head_is_the_answer_without_its_body(looking: Looking, path: str) -> None:
    said = looking.get(path, "HEAD")
    assert (said.status, said.body) == (200, b"")


@pytest.mark.parametrize("path", [*PATHS, "/events", "/nowhere"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_nothing_can_be_changed(looking: Looking, path: str, method: str) -> None:
    said = looking.get(path, method)
    assert (said.status, said.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("path", ["/nowhere", "/metrics/", "/page/index.html", "/..", "/../web.py", "/%2e%2e/web.py"])
def test_there_is_nothing_else(looking: Looking, path: str) -> None:
    assert looking.get(path).status == 404


def test_the_page_fetches_only_what_is_here(looking: Looking) -> None:
    page = looking.get("/").text
    linked = re.findall(r'(?:href|src)="([^"]*)"', page)
    assert {"page.css", "page.js", "icon.svg"} <= set(linked)
    assert [looking.get(f"/{path}").status for path in linked] == [200] * len(linked)
    assert "style=" not in page and "<script>" not in page, "the policy would not let it"
    shipped = page + looking.get("/page.js").text + looking.get("/page.css").text
    assert set(re.findall(r"https?://[^\s\"')]+", shipped)) <= {"http://www.w3.org/2000/svg"}
    assert "innerHTML" not in shipped and "insertAdjacentHTML" not in shipped and "document.write" not in shipped


def test_without_javascript_the_page_says_where_to_look(looking: Looking) -> None:
    found = re.search(r"<noscript>(.*?)</noscript>", looking.get("/").text, re.DOTALL)
    assert found is not None and 'href="state.json"' in found[1]


def test_a_body_is_not_kept(looking: Looking) -> None:
    browser = looking.connect()
    assert browser is not None
    browser.send(b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n")
    browser.send(b"Content-Length: 10000000\r\n\r\n")
    for _ in range(100):
        browser.send(b"x" * 100_000)
    assert Said(browser.read()).status == 405


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:8080", "app.localhost", "192.0.2.1"]
)
def test_on_loopback_this_machine_is_answered(looking: Looking, host: str) -> None:
    assert looking.get("/state.json", host=host).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example"]
)
def test_on_loopback_a_name_that_somebody_pointed_here_is_not(looking: Looking, host: str) -> None:
    said = looking.get("/state.json", host=host)
    assert said.status == 421 and b"version" not in said.body
    assert looking.get("/state.json", host=host, at="192.0.2.7").status == 200


def test_connections_are_bounded(looking: Looking) -> None:
    browsers = [looking.connect() for _ in range(MAX_CONNECTIONS)]
    assert all(browsers) and looking.connect() is None
    assert browsers[0] is not None
    browsers[0].lose()
    assert looking.connect() is not None


def test_who_does_not_finish_asking_is_hung_up_on(looking: Looking) -> None:
    browser = looking.connect()
    assert browser is not None
    browser.send(b"GET / HTTP/1.1\r\nHost: loc")
    looking.clock.pump([1.0] * 31)
    assert browser.socket.disconnecting


def test_closing_waits_a_moment_for_who_does_not_take_the_last_words(node: Node) -> None:
    looking = Looking(node)
    slow, quick = looking.begin("/livez"), looking.begin("/livez")
    slow.socket.reads = False
    closed: list[None] = []
    Deferred.fromCoroutine(looking.page.close()).addCallback(closed.append)
    assert not quick.socket.connected and slow.socket.connected and not closed
    looking.clock.advance(LAST_SECONDS)
    assert slow.socket.aborted and closed
    assert looking.clock.getDelayedCalls() == []


# -- health


def test_it_is_ready_until_it_drains(looking: Looking, node: Node) -> None:
    assert looking.get("/readyz").status == 200
    node.port.draining = True
    said = looking.get("/readyz")
    assert (said.status, said.body) == (503, b"draining\n")
    assert looking.get("/livez").status == 200, "it lives as long as the process does"


def test_a_store_that_does_not_answer_is_waited_for_a_second() -> None:
    backend = Scripted()
    looking = scripted(backend)
    browsers = [looking.begin("/readyz") for _ in range(5)]
    assert backend.asked == [q.Describe()], "all of them wait for one answer"
    looking.clock.advance(READY_SECONDS)
    assert [Said(browser.read()).status for browser in browsers] == [503] * 5
    assert looking.get("/livez").status == 200


def test_the_store_is_asked_at_most_once_a_second() -> None:
    backend = Scripted({q.Describe: NODE})
    looking = scripted(backend)
    for _ in range(20):
        assert looking.get("/readyz").status == 200
        looking.clock.advance(0.1)
    assert len(backend.asked) == 3


def test_a_store_that_fails_makes_it_unready_and_one_that_is_back_ready() -> None:
    backend = Scripted({q.Describe: CommandFailed(Fault.UNAVAILABLE, "no broker")})
    looking = scripted(backend)
    said = looking.get("/readyz")
    assert said.status == 503 and "no broker" in said.text
    backend.now[q.Describe] = NODE
    looking.clock.advance(1)
    assert looking.get("/readyz").status == 200


def test_a_store_that_cannot_describe_itself_has_answered() -> None:
    assert scripted(Scripted({q.Describe: CommandFailed(Fault.UNSUPPORTED)})).get("/readyz").status == 200


def test_a_defect_is_logged_and_not_shown() -> None:
    looking = scripted(Scripted({q.Describe: ZeroDivisionError("secret")}))
    with capturedLogs() as events:
        said = looking.get("/readyz")
    assert said.status == 503 and "secret" not in said.text
    assert any("log_failure" in event for event in events)


def test_a_disk_that_takes_nothing_makes_it_unready(looking: Looking, node: Node) -> None:
    commits = Commits(lambda: 0.0)
    node.port.backend.commits = (commits,)  # type: ignore[attr-defined]
    assert looking.get("/readyz").status == 200
    commits.refused("database or disk is full")
    said = looking.get("/readyz")
    assert said.status == 503 and "disk is full" in said.text
    assert looking.get("/state.json").json["ready"] in said.text
    commits.took(0.0, 1)
    assert looking.get("/readyz").status == 200


def test_who_stops_waiting_leaves_the_others_their_answer() -> None:
    backend = Scripted()
    looking = scripted(backend)
    gone, stays = looking.begin("/readyz"), looking.begin("/readyz")
    gone.lose()
    backend.answer(NODE)
    assert Said(stays.read()).status == 200


def test_version_says_what_runs(looking: Looking) -> None:
    said = looking.get("/version").json
    assert (said["version"], said["started"], said["durability"]) == (__version__, STARTED, "memory")


# -- the state


def test_the_state_is_the_whole_page(looking: Looking, node: Node) -> None:
    client = Client(node)
    client.ask(publish("orders", 5))
    client.ask(q.CommitOffsets(ORDERS, q.Group("billing"), {0: 2}))
    client.ask(q.Fetch(q.Topic("default", "nowhere"), 0, 0))
    node.listening.listener.losses["native", "pipe", "key"] += 3
    said = looking.get("/state.json").json
    assert (said["version"], said["ready"], said["durability"]) == (__version__, "", "memory")
    [topic] = said["stored"]["topics"]["rows"]
    assert (topic["name"], topic["partitions"], topic["records"], topic["lag"]) == ("orders", 1, 5, 3)
    [group] = said["stored"]["groups"]["rows"]
    assert (group["name"], group["topic"], group["lag"]) == ("billing", "orders", 3)
    [listener] = said["listeners"]
    assert (listener["address"], listener["connections"], listener["commands"], listener["faults"]) == (
        "127.0.0.1:9000",
        1,
        3,
        1,
    )
    assert [row["id"] for row in said["sessions"]["rows"]] == [client.peer.connection.who.id]
    assert said["losses"]["rows"] == [{"from": "native", "to": "pipe", "field": "key", "times": 3}]
    [fault] = said["faults"]
    assert (fault["kind"], fault["fault"]) == ("Fetch", "NO_SUCH_TOPIC")


def test_rates_are_what_happened_between_two_looks(looking: Looking, node: Node) -> None:
    client = Client(node)
    client.ask(publish("orders", 5))
    first = looking.get("/state.json").json
    assert first["stored"]["topics"]["rows"][0]["rate"] is None and first["stored"]["rate"] is None
    assert first["listeners"][0]["commands_rate"] is None
    client.ask(publish("orders", 20))
    client.ask(publish("clicks", 10))
    looking.clock.advance(2)
    said = looking.get("/state.json").json
    assert {row["name"]: row["rate"] for row in said["stored"]["topics"]["rows"]} == {"orders": 10.0, "clicks": 5.0}
    assert (said["stored"]["rate"], said["listeners"][0]["commands_rate"]) == (15.0, 1.0)


def test_a_topic_that_is_made_anew_starts_anew(looking: Looking, node: Node) -> None:
    client = Client(node)
    client.ask(publish("orders", 100))
    looking.get("/state.json")
    looking.clock.advance(1)
    client.ask(q.DeleteTopic(ORDERS))
    client.ask(publish("orders", 4))
    assert looking.get("/state.json").json["stored"]["rate"] == 4.0


def test_within_a_second_everybody_sees_the_same(looking: Looking, node: Node) -> None:
    before = looking.get("/state.json").json
    Client(node).ask(publish("orders", 1))
    looking.clock.advance(0.5)
    assert looking.get("/state.json").json == before
    looking.clock.advance(0.5)
    assert looking.get("/state.json").json["stored"]["records"] == 1


def test_of_many_topics_the_busiest_are_shown_and_the_rest_counted(looking: Looking, node: Node) -> None:
    client = Client(node)
    for at in range(1_200):
        client.ask(publish(f"topic{at}", 1))
    looking.get("/state.json")
    for at in range(50):
        client.ask(publish(f"topic{at * 20}", at + 1))
    looking.clock.advance(1)
    shown = looking.get("/state.json").json["stored"]["topics"]
    assert (shown["total"], len(shown["rows"])) == (1_200, SHOWN)
    assert [row["rate"] for row in shown["rows"][:50]] == [float(at) for at in range(50, 0, -1)]


def test_of_many_sessions_the_newest_are_shown(looking: Looking, node: Node) -> None:
    clients = [Client(node) for _ in range(SHOWN + 50)]
    shown = looking.get("/state.json").json["sessions"]
    assert shown["total"] == len(clients)
    assert [row["id"] for row in shown["rows"]] == [each.peer.connection.who.id for each in clients[:49:-1]]


def test_the_newest_faults_come_first(looking: Looking, node: Node) -> None:
    client = Client(node)
    for at in range(REMEMBERED + 5):
        client.ask(q.Fetch(q.Topic("default", f"nowhere{at}"), 0, 0))
    faults = looking.get("/state.json").json["faults"]
    assert len(faults) == FAULTS_SHOWN
    assert [f"nowhere{REMEMBERED + 4}" in faults[0]["detail"], f"nowhere{REMEMBERED + 3}" in faults[1]["detail"]] == [
        True
    ] * 2


def test_what_clients_named_comes_as_they_said_it(looking: Looking, node: Node) -> None:
    Client(node).ask(publish(HOSTILE, 1))
    node.port.faults.add(0, "test", 1, "Fetch", CommandFailed(Fault.INVALID_NAME, "half \udc80 a letter"))
    said = looking.get("/state.json")
    assert said.json["stored"]["topics"]["rows"][0]["name"] == HOSTILE
    assert said.json["faults"][0]["detail"] == "half ? a letter"
    assert said.headers["Content-Type"] == "application/json"


def test_a_store_that_fails_leaves_what_was_known_and_says_so() -> None:
    settings = q.TopicSettings()
    topic = r.TopicDescription("default", "orders", 1, 0, settings, (r.PartitionDescription(0, 0, 7, 70, 0),))
    known = {
        q.Describe: NODE,
        q.ListNamespaces: r.Namespaces((r.NamespaceDescription(1, "default", 0, 1, 7, 70),)),
        q.ListTopics: r.Topics((topic,)),
        q.ListGroups: CommandFailed(Fault.UNSUPPORTED),
    }
    backend = Scripted(known)
    looking = scripted(backend)
    assert looking.get("/state.json").json["stored"]["records"] == 7
    backend.now[q.ListTopics] = CommandFailed(Fault.UNAVAILABLE, "gone")
    looking.clock.advance(1)
    stored = looking.get("/state.json").json["stored"]
    assert stored["records"] == 7 and "gone" in stored["problem"]
    del backend.now[q.ListTopics]
    looking.clock.advance(1)
    browser = looking.begin("/state.json")
    looking.clock.advance(5)
    assert "within 5 s" in Said(browser.read()).json["stored"]["problem"]


def test_a_list_that_took_long_is_good_for_longer() -> None:
    backend = Scripted({q.Describe: NODE, q.ListNamespaces: r.Namespaces(())})
    looking = scripted(backend)
    assert looking.get("/state.json").status == 200
    del backend.now[q.ListNamespaces]
    looking.clock.advance(1)
    browser = looking.begin("/state.json")
    looking.clock.advance(0.5)
    backend.answer(r.Namespaces(()))
    assert Said(browser.read()).status == 200
    asked = len([each for each in backend.asked if isinstance(each, q.ListNamespaces)])
    for _ in range(4):
        looking.clock.advance(1)
        assert looking.get("/state.json").status == 200, "it was not asked again, which would wait"
    assert len([each for each in backend.asked if isinstance(each, q.ListNamespaces)]) == asked
    looking.clock.advance(1)
    looking.begin("/state.json")
    assert len([each for each in backend.asked if isinstance(each, q.ListNamespaces)]) == asked + 1


def test_closing_ends_what_is_under_way_quietly() -> None:
    backend = Scripted()
    looking = scripted(backend)
    waiting = [looking.begin(path) for path in ("/state.json", "/metrics", "/readyz")]
    with capturedLogs() as events:
        looking.close()
    assert not any(browser.socket.connected for browser in waiting)
    assert not [event for event in events if "log_failure" in event]
    assert not any(isinstance(each, Deferred) and not each.called for each in backend.open)
