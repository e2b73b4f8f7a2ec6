"""What people see of a capture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import wire
from capture.recording import Recorded
from gateway.capture.commands import main
from gateway.capture.rows import captures
from gateway.capture.words import plain, words
from gateway.core import commands as q
from gateway.core.records import Record, canonical
from net.peers import ORDERS, produce


def show(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    assert main(["show", *map(str, arguments)]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def captured(tmp_path: Path) -> Path:
    node = Recorded(tmp_path, "pipe")
    one, two = node.connect(), node.connect()
    one.send(wire.request("pipe", produce(b"k", b"v"), 1))
    one.read()
    two.send(wire.request("pipe", q.Fetch(ORDERS, 0, 0, create=3), 1) + "nonsense \x1b[31m\x9b\n".encode())
    two.read()
    node.capture.close()
    return node.directory


def test_rows_are_shown_decoded(capsys: pytest.CaptureFixture[str], captured: Path) -> None:
    said = "\n".join(show(capsys, captured))
    assert "-> Publish orders  24 bytes" in said
    assert "<- Publish orders  Published" in said
    assert "Published(partition=" in said and "batch=1 records from 0" in said
    assert "refused: MALFORMED" in said


def test_what_a_client_sent_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str], captured: Path) -> None:
    for line in show(capsys, captured) + show(capsys, captured, "--hex") + show(capsys, captured, "--json"):
        assert line.isprintable(), line


def test_rows_are_chosen(capsys: pytest.CaptureFixture[str], captured: Path) -> None:
    rows = [json.loads(line) for line in show(capsys, captured, "--json")]
    assert {row["connection"] for row in rows} == {1, 2}
    only = [json.loads(line) for line in show(capsys, captured, "--json", "--connection", 1, "--dialect", "pipe")]
    assert only == [row for row in rows if row["connection"] == 1]
    assert show(capsys, captured, "--dialect", "iggy") == []
    assert len(show(capsys, captured, "--json", "--limit", 3)) == 3


def test_json_has_all_of_a_row(capsys: pytest.CaptureFixture[str], captured: Path) -> None:
    rows = [json.loads(line) for line in show(capsys, captured, "--json")]
    (file,) = captures([captured])
    for said, row in zip(rows, file, strict=True):
        assert said.pop("says") is not None
        assert {**said, "frame": ""} == {**{name: getattr(row, name) for name in said}, "frame": ""}


def test_a_file_whose_end_is_missing_is_shown_and_that_is_said(
    capsys: pytest.CaptureFixture[str], captured: Path
) -> None:
    (path,) = captured.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])
    assert main(["show", str(captured)]) == 0
    said = capsys.readouterr()
    assert "Publish orders" in said.out and said.err == f"{path}: the end is missing\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["show", "."], "has no files"),
        (["show", "nowhere"], "does not exist"),
        (["show"], "Missing argument"),
        (["replay", ".", "--to", "nonsense"], "--to wants DIALECT=ENDPOINT"),
        (["replay", ".", "--to", "klingon=tcp:1"], "--to wants DIALECT=ENDPOINT"),
        (["nonsense"], "No such command"),
    ],
)
def test_nonsense_is_refused_with_a_sentence_and_status_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, captured: Path, arguments: list[str], sentence: str
) -> None:
    place = str(captured) if arguments[0] == "replay" else str(tmp_path)
    assert main([place if argument == "." else argument for argument in arguments]) == 2
    said = capsys.readouterr()
    assert sentence in said.err and "Traceback" not in said.err


def test_words_are_short_and_hold_no_secret() -> None:
    assert words(q.Authenticate("plain", "ann", "secret")) == "Authenticate(plain, 'ann', ...)"
    assert words(q.Publish(q.Topic("n", "t"), 0, canonical([Record(b"k", b"v")] * 3))) == (
        "Publish(topic=Topic(namespace='n', name='t'), to=0, batch=3 records from 0)"
    )
    assert len(words(q.MapPut(q.Topic("n", "t"), b"k" * 1000, b"v" * 1000))) < 300
    assert len(words(tuple(range(1000)))) < 100
    assert plain("a\x1b\n\x7f\u202e\ud800é") == "a\\x1b\\n\\x7f\\u202e\\ud800é"
