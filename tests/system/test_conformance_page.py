"""The conformance report in a real browser, from a file, with nobody to ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver.support.wait import WebDriverWait

from conformance.runs import agents
from gateway.conformance.reporting import write
from system.browser import Browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    directory = tmp_path_factory.mktemp("report")
    write(directory, agents())
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        browser.look_like(1400, 900)
        browser.open(f"file://{directory}/index.html")
        WebDriverWait(browser.driver, 20).until(lambda _: browser.run("return document.querySelector('.run') !== null"))
        yield browser
        assert browser.complaints() == []


def test_five_dialects_and_all_agents_fit_one_screen(browser: Browser) -> None:
    browser.look_like(1400, 900)
    assert browser.run("return document.querySelectorAll('#matrix th').length") == 6
    assert browser.run("return document.querySelectorAll('#matrix tbody tr').length") == 11
    assert browser.run("return document.querySelector('#matrix').getBoundingClientRect().bottom") <= 900


def test_a_case_opens_to_hex_and_tree_with_the_byte_marked(browser: Browser) -> None:
    browser.run("document.querySelector('details.case[data-verdict=FAIL] summary').click()")
    assert "byte" in browser.text("details[open] .why")
    assert len(browser.text("details[open] .hex mark")) == 2
    assert browser.text("details[open] .tree b") != ""
    assert browser.text("details[open] .frame:last-child .sub").startswith("got")


def test_a_square_opens_its_case_and_verdicts_can_be_chosen(browser: Browser) -> None:
    browser.run("document.querySelectorAll('.squares button')[7].click()")
    assert browser.run("return document.querySelectorAll('.run details.case')[7].open") is True
    browser.run(
        "[...document.querySelectorAll('.run:last-child .choices button')].find(b => /FAIL/.test(b.innerText)).click()"
    )
    left = "return [...document.querySelectorAll('.run:last-child details.case')].filter(row => !row.hidden).length"
    assert browser.run(left) == 2


@pytest.mark.parametrize("width", [320, 390, 900, 2560])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_screen(browser: Browser, width: int, scheme: str) -> None:
    browser.look_like(width, 844, scheme)
    assert browser.run("return document.documentElement.scrollWidth") <= width
