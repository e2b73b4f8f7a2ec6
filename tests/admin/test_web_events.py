"""gateway.admin.events: what those who look on get, and what they cost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from admin.looking import Browser, Looking, Said
from gateway.admin.events import MAX_MISSED, MAX_READERS
from gateway.backends.memory import MemoryBackend
from gateway.core import commands as q
from gateway.core.records import Record, canonical
from net.peers import Client, Node, Scripted


def many() -> Looking:
    clock = Clock()
    return Looking(Node(MemoryBackend(clock), "native", clock))


def events(octets: bytes) -> list[Any]:
    """What came after the headers and the wish to be tried again, out of its chunks."""
    lines = [line for line in octets.split(b"\r\n") if line.startswith(b"data: ")]
    assert all(line.endswith(b"\n\n") and line.count(b"\n") == 2 for line in lines)
    return [json.loads(line[6:]) for line in lines]


def test_a_reader_gets_the_page_at_once_and_then_every_second() -> None:
    looking = many()
    browser = looking.begin("/events")
    octets = browser.read()
    assert Said(octets).headers["Content-Type"] == "text/event-stream"
    assert b"retry: 1000\n\n" in octets
    assert [event["stored"]["records"] for event in events(octets)] == [0]
    publish = q.Publish(q.Topic("default", "orders"), 0, canonical([Record(None, b"v")]), create=1)
    for expected in (1, 2, 3):
        Client(looking.node).ask(publish)
        looking.clock.advance(1)
        [event] = events(browser.read())
        assert (event["stored"]["records"], event["stored"]["rate"]) == (expected, 1.0)


def test_one_look_serves_all_readers() -> None:
    backend = Scripted()
    looking = Looking(Node(backend, "native"))
    browsers = [looking.begin("/events") for _ in range(10)]
    asked = len(backend.asked)
    assert asked == 1
    looking.clock.advance(10)
    assert len(backend.asked) - asked <= 3, "no second look while the first goes on"
    assert all(browser.read() for browser in browsers)


def test_who_comes_later_sees_what_the_others_saw_last() -> None:
    looking = many()
    first = looking.begin("/events")
    [seen] = events(first.read())
    looking.clock.advance(0.5)
    assert events(looking.begin("/events").read()) == [seen]
    assert events(first.read()) == []


def test_nobody_looks_when_nobody_looks_on() -> None:
    looking = many()
    timers = len(looking.clock.getDelayedCalls())
    browser = looking.begin("/events")
    assert len(looking.clock.getDelayedCalls()) == timers + 1
    browser.lose()
    assert len(looking.clock.getDelayedCalls()) == timers
    assert len(events(looking.begin("/events").read())) == 1, "the next one finds it going again"


def test_there_are_so_many_readers_and_no_more() -> None:
    looking = many()
    browsers = [looking.begin("/events") for _ in range(MAX_READERS)]
    said = looking.get("/events")
    assert (said.status, said.headers["Content-Type"]) == (503, "text/plain; charset=utf-8")
    browsers[3].lose()
    assert Said(looking.begin("/events").read()).status == 200


def test_a_slow_reader_misses_some_and_costs_nothing() -> None:
    looking = many()
    slow, quick = looking.begin("/events"), looking.begin("/events")
    pause(slow)
    slow.read()
    for _ in range(MAX_MISSED):
        looking.clock.advance(1)
    assert events(slow.read()) == [] and not slow.socket.aborted
    resume(slow)
    looking.clock.advance(1)
    assert len(events(slow.read())) == 1, "the newest, not all that it missed"
    assert len(events(quick.read())) == MAX_MISSED + 2


def test_a_reader_that_takes_nothing_is_hung_up_on() -> None:
    looking = many()
    slow, quick = looking.begin("/events"), looking.begin("/events")
    pause(slow)
    for _ in range(MAX_MISSED + 1):
        assert not slow.socket.aborted
        looking.clock.advance(1)
    assert slow.socket.aborted and not quick.socket.aborted
    quick.read()
    looking.clock.advance(1)
    assert len(events(quick.read())) == 1


@pytest.mark.parametrize("readers", [1, 5])
def test_closing_ends_them(readers: int) -> None:
    looking = many()
    browsers = [looking.begin("/events") for _ in range(readers)]
    with capturedLogs() as logged:
        looking.close()
    assert not any(browser.socket.connected or browser.socket.aborted for browser in browsers)
    assert all(browser.read().endswith(b"0\r\n\r\n") for browser in browsers), "they know that this was the end"
    assert not [event for event in logged if "log_failure" in event]
    assert looking.clock.getDelayedCalls() == []


def test_closing_while_a_look_goes_on_ends_them_too() -> None:
    looking = Looking(Node(Scripted(), "native"))
    browser = looking.begin("/events")
    with capturedLogs() as logged:
        looking.close()
    assert not browser.socket.connected
    assert not [event for event in logged if "log_failure" in event]
    assert looking.clock.getDelayedCalls() == []


def pause(browser: Browser) -> None:
    """Its socket is full."""
    browser.socket.producer.pauseProducing()


def resume(browser: Browser) -> None:
    """It has read all there was."""
    browser.socket.producer.resumeProducing()
