"""The page in a real browser: that it is live, that it survives a restart, and what clients cannot do to it."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.core import commands as q
from gateway.core.records import Record, canonical
from system.browser import Browser, require
from system.processes import COMMAND, GatewayProcess, until
from system.speaking import Speaking

PATIENCE = 20.0
HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
PHONE, WALL = (390, 844), (1920, 1080)


class Watched:
    """A gateway, and a browser that looks at it."""

    def __init__(self, gateway: GatewayProcess, browser: Browser, web: int) -> None:
        self.gateway = gateway
        self.browser = browser
        self.url = f"http://127.0.0.1:{web}/"
        browser.look_like(1440, 900)
        browser.complaints()  # of what was before

    def open(self) -> None:
        """Go to the page, and wait until it is live."""
        self.browser.open(self.url)
        self.shows("#status", "ready")

    def shows(self, selector: str, text: str) -> None:
        """Wait until that can be read there."""
        until(lambda: text in self.browser.text(selector), PATIENCE, f"{selector} does not show {text!r}")

    def publish(self, topic: str, count: int = 1) -> None:
        with Speaking("native", self.gateway.ports["native"]) as client:
            client.ask(q.Publish(q.Topic("default", topic), 0, canonical([Record(b"k", b"v")] * count), create=1))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    require()
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def watched(tmp_path: Path, browser: Browser) -> Iterator[Watched]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        web = probe.getsockname()[1]
    command = (*COMMAND, f"--web=tcp:{web}:interface=127.0.0.1")
    with GatewayProcess(tmp_path, "native", "pipe", command=command) as gateway:
        yield Watched(gateway, browser, web)
        browser.open("about:blank")


def test_an_empty_gateway_says_what_to_do_next(watched: Watched) -> None:
    watched.open()
    watched.shows("#topics", f"nc -w 1 127.0.0.1 {watched.gateway.ports['pipe']}")
    watched.shows("#sessions", f"native 127.0.0.1:{watched.gateway.ports['native']}")
    watched.shows("#faults", "No command has failed")
    assert watched.browser.complaints() == []


def test_what_happens_is_shown_without_a_reload(watched: Watched) -> None:
    watched.open()
    watched.browser.run("window.mark = 'the same page'")
    with Speaking("native", watched.gateway.ports["native"]) as client:
        topic = q.Topic("default", "orders")
        client.ask(q.Publish(topic, 0, canonical([Record(b"k", b"v")] * 1234), create=1))
        watched.shows("#topics", "orders")
        watched.shows("#topics", "1,234")
        client.ask(q.CommitOffsets(topic, q.Group("billing"), {0: 1000}))
        watched.shows("#groups", "billing")
        watched.shows("#groups", "234")
        watched.shows("#sessions", client.socket.getsockname()[0] + f":{client.socket.getsockname()[1]}")
        client.ask(q.Fetch(q.Topic("default", "nowhere"), 0, 0))
        watched.shows("#faults", "NO_SUCH_TOPIC")
    with Speaking("pipe", watched.gateway.ports["pipe"]) as reader:
        reader.ask(q.Fetch(topic, 0, 0))
    watched.shows("#losses", "native → pipe")
    watched.shows("#sessions", "Nobody is connected")
    assert watched.browser.run("return window.mark") == "the same page"
    assert watched.browser.complaints() == []


def test_rates_move_and_come_to_rest(watched: Watched) -> None:
    watched.open()
    watched.publish("orders")
    watched.shows("#topics", "orders")
    rate = "tbody tr:first-child .rate span"
    until(lambda: watched.browser.text(f"#topics {rate}") == "0", PATIENCE, "the rate is not 0")
    watched.publish("orders", 5_000)
    until(lambda: watched.browser.text(f"#topics {rate}") not in ("0", ""), PATIENCE, "the rate stays 0")
    points = "return document.querySelector('#topics polyline').getAttribute('points').split(' ').length"
    before = watched.browser.run(points)
    until(lambda: watched.browser.run(points) > before, PATIENCE, "the line does not grow")
    until(lambda: watched.browser.text(f"#topics {rate}") == "0", PATIENCE, "the rate does not come to rest")


def test_a_restart_is_seen_and_the_page_goes_on_by_itself(watched: Watched) -> None:
    watched.publish("orders", 7)
    watched.open()
    watched.browser.run("window.mark = 'the same page'")
    assert watched.gateway.terminate() == 0
    watched.shows("#status", "reconnecting")
    assert watched.browser.run("return document.getElementById('main').className") == "stale"
    watched.gateway.start()
    watched.shows("#status", "ready")
    watched.shows("#topics", "orders")
    assert watched.browser.run("return document.getElementById('main').className + window.mark") == "the same page"


def test_names_from_clients_are_text_and_nothing_else(watched: Watched) -> None:
    watched.publish(HOSTILE)
    with Speaking("native", watched.gateway.ports["native"]) as client:
        client.ask(q.CommitOffsets(q.Topic("default", HOSTILE), q.Group(HOSTILE), {0: 0}))
        client.ask(q.Fetch(q.Topic("default", HOSTILE + "!"), 0, 0))
        watched.open()
        for section in ("#topics", "#groups", "#faults"):
            watched.shows(section, HOSTILE)
    assert watched.browser.run("return document.title") == "gateway"
    assert watched.browser.run("return document.querySelectorAll('main img, main script').length") == 0
    assert watched.browser.complaints() == []


def test_the_browser_asks_nobody_else_and_the_policy_lets_it_not(watched: Watched) -> None:
    watched.open()
    asked = "return performance.getEntriesByType('resource').map((entry) => entry.name)"
    found = set(watched.browser.run(asked))
    assert found and all(name.startswith(watched.url) for name in found), found
    inline = (
        "const it = document.createElement('script'); it.textContent = 'window.ran = true'; document.body.append(it)"
    )
    watched.browser.run(inline)
    assert watched.browser.run("return window.ran") is None
    assert any("Content Security Policy" in said for said in watched.browser.complaints())


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, WALL], ids=["phone", "wall"])
def test_it_fits_a_phone_and_a_wall_and_can_be_read(watched: Watched, size: tuple[int, int], scheme: str) -> None:
    watched.publish("a-topic-with-a-name-that-goes-on-and-on-" * 5, 3)
    watched.browser.look_like(*size, scheme, phone=size is PHONE)
    watched.open()
    watched.shows("#topics", "a-topic")
    assert watched.browser.run("return document.documentElement.scrollWidth") <= size[0]
    columns = watched.browser.run(
        "return new Set([...document.querySelectorAll('section')].map((at) => at.getBoundingClientRect().left)).size"
    )
    assert columns == (1 if size is PHONE else 3)
    assert contrast(watched.browser, "#topics td:first-child span") > 7
    assert contrast(watched.browser, "#topics .sub") > 4.5


def test_a_long_table_is_short_until_more_is_asked_for(watched: Watched) -> None:
    for at in range(25):
        watched.publish(f"topic{at}")
    watched.open()
    watched.shows("#topics button", "show all 25")
    rows = "return document.querySelectorAll('#topics tbody tr').length"
    assert watched.browser.run(rows) == 10
    watched.browser.run("document.querySelector('#topics button').click()")
    assert watched.browser.run(rows) == 25


def test_the_addresses_beside_the_page_answer_over_a_socket(watched: Watched) -> None:
    watched.publish("orders", 3)

    def get(path: str) -> bytes:
        with urllib.request.urlopen(watched.url + path, timeout=PATIENCE) as answer:
            body: bytes = answer.read()
            return body

    assert get("readyz") == b"ready\n"
    assert json.loads(get("state.json"))["stored"]["records"] == 3
    metrics = get("metrics").decode()
    assert "gateway_stored_records 3.0" in metrics
    assert "gateway_commit_seconds_count 1.0" in metrics
    assert "gateway_process_resident_memory_bytes" in metrics


def contrast(browser: Browser, selector: str) -> float:
    """Of the text there to what is behind it, as WCAG 2.2 has it (1.4.3)."""
    script = """
        const text = document.querySelector(arguments[0]);
        let behind = text;
        while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
        return [getComputedStyle(text).color, getComputedStyle(behind).backgroundColor];
    """
    light, dark = sorted((luminance(color) for color in browser.run(script, selector)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(color: str) -> float:
    """Of `rgb(r, g, b)`."""
    parts = [int(part) / 255 for part in color.removeprefix("rgb(").removesuffix(")").split(",")]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
