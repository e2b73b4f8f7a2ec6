r"""What a process says while it runs: one event a line on standard error, for people or for programs.

    text  2026-11-20T13:45:12+0000 [gateway.service.GatewayService#error] not read again: ...
    json  {"time": "2026-11-20T13:45:12.250000Z", "level": "error", "system": "gateway.service...", ...}

Whatever clients chose is in it as `\x1b`, never as a control character, so that nothing in it moves a cursor or begins
a line of its own.  Standard error belongs to who started the process: systemd's journal, a file, a terminal.  So there
is no file here to open, to rotate or to reopen.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TextIO

from twisted.logger import (
    FileLogObserver,
    FilteringLogObserver,
    ILogObserver,
    LogEvent,
    LogLevel,
    LogLevelFilterPredicate,
    formatEvent,
    formatTime,
    globalLogBeginner,
)

from gateway.admin.shown import harmless

VARIABLE = "GATEWAY_LOG"
"""Of the environment: the form, if the command line says none."""


def begin_log(form: str) -> None:
    """From now on, what is logged goes to standard error.  form: one of FORMS."""
    globalLogBeginner.beginLoggingTo([_observer(form)], redirectStandardIO=False)


def json_lines() -> ILogObserver:
    """For `twistd --logger gateway.logging.json_lines`."""
    return _observer("json")


def text_lines() -> ILogObserver:
    """For `twistd --logger gateway.logging.text_lines`."""
    return _observer("text")


def form_of(told: str | None, environment: Mapping[str, str]) -> str:
    """How to log: as told, or as the environment says, or text for people and JSON for programs.

    Raises ValueError, with a sentence, for what is no form.
    """
    wanted = told or environment.get(VARIABLE) or ("text" if sys.stderr.isatty() else "json")
    if wanted not in FORMS:
        origin = "--log-format" if told else VARIABLE
        raise ValueError(f"{origin} is {' or '.join(FORMS)}, not {wanted!r}")
    return wanted


def _observer(form: str, stream: TextIO | None = None) -> ILogObserver:
    """From info on; of what Twisted says by its old log only what is worse, since the start-up lines say the rest."""
    shown = LogLevelFilterPredicate(LogLevel.info)
    shown.setLogLevelForNamespace("log_legacy", LogLevel.warn)
    return FilteringLogObserver(FileLogObserver(stream or sys.stderr, FORMS[form]), [shown])


def _text_line(event: LogEvent) -> str:
    """As twistd writes it; a traceback follows, each line behind a tab."""
    first = f"{formatTime(event.get('log_time'))} [{_system(event)}#{_level(event)}] {harmless(formatEvent(event))}"
    return "\n\t".join([first, *map(harmless, _traceback(event).splitlines())]) + "\n"


def _json_line(event: LogEvent) -> str:
    """One line of ASCII; `traceback` is there where there is one."""
    said = {
        "time": datetime.fromtimestamp(event["log_time"], UTC).isoformat(timespec="microseconds")[:-6] + "Z",
        "level": _level(event),
        "system": _system(event),
        "message": harmless(formatEvent(event)),
    }
    traceback = _traceback(event)
    if traceback:
        said["traceback"] = traceback
    return json.dumps(said).replace("\x7f", "\\u007f") + "\n"


FORMS: dict[str, Callable[[LogEvent], str]] = {"text": _text_line, "json": _json_line}
"""Name -> an event as a line, or as a few."""


def _level(event: LogEvent) -> str:
    level = event.get("log_level")
    return "info" if level is None else str(level.name)


def _system(event: LogEvent) -> str:
    return harmless(str(event.get("log_system") or event.get("log_namespace") or "-"))


def _traceback(event: LogEvent) -> str:
    failure = event.get("log_failure")
    return "" if failure is None else str(failure.getTraceback())
