"""gateway.logging: what one event looks like to people and to programs."""

from __future__ import annotations

import io
import json
import re
import sys
import time
from datetime import datetime

import pytest
from twisted.logger import Logger, LogLevel, LogPublisher
from twisted.python.failure import Failure

from gateway import logging

ODD = "a\nb\r\x1b[31m\x07\x7f\x9b2J\u202e\u2028\ud800\\ \u00e9"
"""What a client could call itself."""


def logged(form: str, sentence: str, level: LogLevel = LogLevel.warn, **told: object) -> str:
    out = io.StringIO()
    observer = logging._observer(form, out)
    Logger("gateway.somewhere", observer=LogPublisher(observer)).emit(level, sentence, **told)
    return out.getvalue()


def failed() -> Failure:
    return Failure(RuntimeError(ODD))


def test_a_line_of_json_has_time_level_system_and_message() -> None:
    said = json.loads(logged("json", "{who} left", who="ann"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", said["time"])
    assert abs(datetime.fromisoformat(said["time"]).timestamp() - time.time()) < 60
    assert said == {
        "time": said["time"],
        "level": "warn",
        "system": "gateway.somewhere",
        "message": "ann left",
    }


def test_a_line_of_text_says_the_same() -> None:
    line = logged("text", "{who} left", who="ann")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} \[gateway\.somewhere#warn\] ann left\n", line)


@pytest.mark.parametrize("form", logging.FORMS)
def test_an_event_is_one_line_of_printable_characters_whatever_clients_chose(form: str) -> None:
    line = logged(form, "{who} left", who=ODD)
    assert line.endswith("\n") and line[:-1].isprintable()
    assert "a\\x0ab\\x0d\\x1b[31m\\x07\\x7f" in line.replace("\\\\", "\\")
    assert form == "text" or line.isascii()


@pytest.mark.parametrize("form", logging.FORMS)
def test_a_traceback_is_there_and_cannot_pass_for_a_line_of_its_own(form: str) -> None:
    said = logged(form, "it failed", LogLevel.critical, log_failure=failed())
    assert "Traceback" in said and "RuntimeError" in said
    if form == "json":
        assert said.count("\n") == 1 and json.loads(said)["message"] == "it failed"
    else:
        first, *others = said.splitlines()
        assert first.endswith("#critical] it failed")
        assert others and all(line.startswith("\t") and line[1:].isprintable() for line in others)


@pytest.mark.parametrize("form", logging.FORMS)
def test_what_is_for_developers_is_not_said(form: str) -> None:
    assert logged(form, "nothing", LogLevel.debug) == ""
    out = io.StringIO()
    observer = logging._observer(form, out)
    Logger("log_legacy", observer=LogPublisher(observer)).info("Factory starting on 9000")
    assert out.getvalue() == ""


@pytest.mark.parametrize("form", logging.FORMS)
def test_an_event_that_cannot_be_formatted_is_still_a_line(form: str) -> None:
    line = logged(form, "{nothing.of.the.kind}")
    assert line.count("\n") == 1 and "gateway.somewhere" in line


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("told", "environment", "terminal", "form"),
    [
        (None, {}, True, "text"),
        (None, {}, False, "json"),
        (None, {"GATEWAY_LOG": "text"}, False, "text"),
        (None, {"GATEWAY_LOG": ""}, False, "json"),
        ("json", {"GATEWAY_LOG": "text"}, True, "json"),
    ],
)
def test_people_get_text_and_programs_json_unless_somebody_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, told: str | None, environment: dict[str, str], terminal: bool, form: str
) -> None:
    monkeypatch.setattr(sys, "stderr", Stream(terminal))
    assert logging.form_of(told, environment) == form


@pytest.mark.parametrize(
    ("told", "environment", "origin"), [("xml", {}, "--log-format"), (None, {"GATEWAY_LOG": "xml"}, "GATEWAY_LOG")]
)
def test_another_form_is_refused_in_a_sentence(told: str | None, environment: dict[str, str], origin: str) -> None:
    with pytest.raises(ValueError, match=f"^{origin} is text or json, not 'xml'$"):
        logging.form_of(told, environment)
