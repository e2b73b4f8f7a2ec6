"""The reports of `--report DIR`: index.html, report.json with its schema, junit.xml."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree as xml

import msgspec

from gateway.conformance.documents import (
    CaseDocument,
    Document,
    PairDocument,
    RunDocument,
    WayDocument,
    document,
    schema,
)
from gateway.conformance.pairs import PairRun
from gateway.conformance.results import Run

JSON, SCHEMA, JUNIT, PAGE = "report.json", "report.schema.json", "junit.xml", "index.html"

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(directory: Path, runs: Iterable[Run] = (), pairs: Iterable[PairRun] = ()) -> Document:
    """All four, into a directory that is made if need be.  Raises OSError."""
    made = document(runs, pairs)
    publish(directory, made)
    return made


def publish(directory: Path, made: Document) -> None:
    """The same of a document that there is already."""
    from gateway.conformance.page import page

    directory.mkdir(parents=True, exist_ok=True)
    (directory / JSON).write_bytes(msgspec.json.encode(made) + b"\n")
    (directory / SCHEMA).write_text(json.dumps(schema(), indent=1) + "\n", encoding="utf-8")
    (directory / JUNIT).write_bytes(junit(made))
    (directory / PAGE).write_text(page(made), encoding="utf-8")


def read(path: Path) -> Document:
    """A report.json.  Raises ValueError for what is none, OSError."""
    return msgspec.json.decode(path.read_bytes(), type=Document)


def junit(made: Document) -> bytes:
    """A suite for each run; a case that was left out is skipped, one that was not met by a MUST is a failure."""
    suites = xml.Element("testsuites")
    for run in made.runs:
        suites.append(_suite(run))
    for pair in made.pairs:
        suites.append(_pair(pair))
    xml.indent(suites)
    written: bytes = xml.tostring(suites, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _suite(run: RunDocument) -> xml.Element:
    name = f"{run.dialect} {run.role} {run.agent}"
    count = {verdict: str(run.counts.get(verdict, 0)) for verdict in ("FAIL", "ERROR")}
    suite = xml.Element(
        "testsuite",
        name=_plain(name),
        tests=str(len(run.cases)),
        failures=count["FAIL"],
        errors=count["ERROR"],
        time=f"{run.seconds:.3f}",
        timestamp=run.began,
    )
    suite.extend(_testcase(run, case) for case in run.cases)
    return suite


def _pair(pair: PairDocument) -> xml.Element:
    name, tests = f"{pair.writer} to {pair.reader}", str(len(pair.fields))
    suite = xml.Element("testsuite", name=_plain(name), tests=tests, time=f"{pair.seconds:.3f}", timestamp=pair.began)
    for each in pair.fields:
        element = xml.SubElement(suite, "testcase", classname=_plain(name), name=each.field)
        if each.verdict in ("FAIL", "ERROR"):
            said = xml.SubElement(element, "failure", message=_plain(each.why))
            said.text = _plain(f"declared {each.declared}; sent {each.sent}, seen {each.seen}")
        elif each.verdict == "INFO":
            xml.SubElement(element, "skipped", message=_plain(each.why))
    return suite


def _testcase(run: RunDocument, case: CaseDocument) -> xml.Element:
    element = xml.Element("testcase", classname=f"{run.dialect}.{run.role}", name=_plain(f"{case.id} {case.name}"))
    if case.verdict in ("FAIL", "ERROR"):
        said = xml.SubElement(element, "failure" if case.verdict == "FAIL" else "error", message=_plain(case.why))
        said.text = _plain("\n".join(map(_line, (way for way in case.ways if way.verdict == case.verdict))))
    elif case.verdict in ("INFO", "UNIMPLEMENTED"):
        xml.SubElement(element, "skipped", message=_plain(case.why))
    return element


def _line(way: WayDocument) -> str:
    byte = f", byte {way.at}: {way.wanted} was wanted" if way.at >= 0 else ""
    return f"{way.way}, step {way.step + 1}: {way.why}{byte}; got {way.got or 'nothing'}"


def _plain(text: str) -> str:
    """Without what XML has no place for."""
    return _NOT_XML.sub("?", text)
