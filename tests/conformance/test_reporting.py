"""One document, and the forms that are made from it."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest

from conformance.runs import cases, played, run
from gateway.conformance.documents import Document, document, schema
from gateway.conformance.page import page
from gateway.conformance.reporting import junit, read, write
from gateway.conformance.results import Run, result
from gateway.conformance.trees import tree
from gateway.core.commands import Authenticate

DIALECTS = ("cursus", "pipe", "iggy", "grid", "mlog")


def test_a_report_is_four_files_and_comes_back_as_it_was(tmp_path: Path) -> None:
    made = write(tmp_path / "new" / "report", [run("cursus", "server", "somebody 1.0", {2}, {4})])
    assert {path.name for path in (tmp_path / "new/report").iterdir()} == {
        *("index.html", "report.json", "report.schema.json", "junit.xml")
    }
    assert read(tmp_path / "new/report/report.json") == made
    [said] = made.runs
    assert (said.counts, said.began) == ({"PASS": 38, "INFO": 1, "FAIL": 1}, "2026-09-21T14:13:20Z")


def test_a_document_says_which_byte_was_another_one() -> None:
    [said] = document([run("pipe", "server", "somebody", {0})]).runs
    case = said.cases[0]
    assert (case.verdict, [way.verdict for way in case.ways]) == ("FAIL", ["FAIL"] * 4)
    assert case.ways[0].at == len(case.ways[0].got.split()) - 1 and case.ways[0].step == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_frame_is_shown_with_what_it_means(dialect: str) -> None:
    [said] = document([run(dialect, "server", "somebody")]).runs
    for case in said.cases:
        assert [frame.what for frame in case.frames][:1] == ["sent"], case.id
        assert all(frame.octets and frame.means is not None for frame in case.frames), case.id
        assert all(not frame.means.name.startswith("no ") for frame in case.frames if frame.means), case


def test_secrets_are_not_shown() -> None:
    assert "hunter2" not in repr(tree("", Authenticate("plain", "ann", "hunter2")))


def test_the_schema_says_what_a_document_has() -> None:
    made = json.loads(json.dumps(schema()))
    assert made["$ref"] == "#/$defs/Document"
    assert set(made["$defs"]["CaseDocument"]["properties"]) >= {"id", "verdict", "ways", "frames"}


def test_junit_counts_what_failed_and_what_was_left_out() -> None:
    suites = xml.fromstring(junit(document([run("grid", "server", "somebody \0\x1b", {1, 2}, {3})])))
    [suite] = suites
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("40", "2", "0")
    assert len(suite.findall("testcase/skipped")) == 1
    [first, _] = suite.findall("testcase/failure")
    assert first.text is not None and "byte" in first.text


def test_what_a_peer_sent_cannot_leave_the_page() -> None:
    case = cases("cursus", count=1)[0]
    evil = result(case, [played(case)])
    made = Run(dialect="cursus", role="server", agent="</script><script>", began=0, seconds=0.0, results=(evil,))
    text = page(document([made]))
    assert "</script><script>" not in text and text.count("</script>") == 2


def test_a_page_asks_for_nothing_else() -> None:
    text = page(Document(()))
    assert "http:" not in text and "https:" not in text and "src=" not in text and "@import" not in text
