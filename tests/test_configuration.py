"""gateway.configuration: what an operator may ask for, and the sentence for everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway import dialects
from gateway.configuration import TLS, Configuration, default_listeners, parse_listen, read_configuration
from gateway.dialects.pipe.terms import PipeSettings

CHOICES = ", ".join(dialects.names())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gateway.toml"


def read(file: Path, text: str) -> Configuration:
    file.write_text(text)
    return read_configuration(str(file))


def complaint(file: Path, text: str) -> str:
    with pytest.raises(ValueError) as caught:
        read(file, text)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.startswith(str(file))
    return sentence.removeprefix(str(file))


# -- the command line


def test_without_a_word_every_dialect_listens_on_loopback_at_its_own_port() -> None:
    plans = default_listeners()
    assert [plan.name for plan in plans] == dialects.names()
    for plan in plans:
        assert plan.endpoint == f"tcp:{plan.dialect.port}:interface=127.0.0.1"
        assert plan.settings == plan.dialect.settings()
        assert plan.tls is None
    assert len({plan.endpoint for plan in plans}) == len(plans)


def test_listeners_are_told_by_dialect_and_endpoint() -> None:
    plans = parse_listen(["pipe=tcp:1:interface=127.0.0.1", "native=unix:/run/a=b", "pipe=tcp:2"])
    assert [(plan.name, plan.dialect.name, plan.endpoint) for plan in plans] == [
        ("pipe", "pipe", "tcp:1:interface=127.0.0.1"),
        ("native", "native", "unix:/run/a=b"),
        ("pipe-3", "pipe", "tcp:2"),
    ]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("pipe", "--listen wants DIALECT=ENDPOINT, such as cursus=tcp:9000, not 'pipe'"),
        ("smtp=tcp:25", f"there is no dialect 'smtp'; there are {CHOICES}"),
        ("=tcp:25", f"there is no dialect ''; there are {CHOICES}"),
    ],
)
def test_a_listener_that_cannot_be_is_refused_in_a_sentence(value: str, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_listen([value])
    assert str(caught.value) == sentence


# -- the file


def test_a_file_says_everything_the_command_line_can_and_more(file: Path) -> None:
    told = read(
        file,
        """
        [backend]
        spec = "memory"

        [listener.front]
        dialect = "pipe"
        endpoint = "tcp:9092"
        namespace = "sales"
        advertise = "broker.example:9092"
        partitions = 12
        policy = "reject"

        [listener.front.tls]
        certificate = "server.pem"
        key = "server.key"

        [listener.back]
        dialect = "native"
        """,
    )
    front, back = told.listeners
    assert told.backend == "memory"
    assert (front.name, front.dialect.name, front.endpoint) == ("front", "pipe", "tcp:9092")
    assert front.tls == TLS("server.pem", "server.key")
    assert front.settings == PipeSettings(
        namespace="sales", advertise="broker.example:9092", partitions=12, policy="reject"
    )
    assert (back.name, back.endpoint) == ("back", f"tcp:{back.dialect.port}:interface=127.0.0.1")
    assert back.settings == back.dialect.settings()


def test_an_empty_file_says_nothing(file: Path) -> None:
    assert read(file, "") == Configuration()


def test_a_file_that_is_not_there_is_refused(file: Path) -> None:
    with pytest.raises(ValueError, match=r"^/.+/gateway.toml: No such file or directory$"):
        read_configuration(str(file))


def test_a_file_that_is_no_text_is_refused(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"^/.+/gateway.toml: .+codec can't decode"):
        read_configuration(str(file))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[listener", ": Expected ']' at the end of a table declaration (at end of document)"),
        ("[listen.x]", ": there is no key 'listen'; there are backend, listener"),
        ("backend = 7", ": Expected `object`, got `int` - at `$.backend`"),
        ("[backend]\nsepc = 'memory'", ": Object contains unknown field `sepc` - at `$.backend`"),
        ("[listener.x]", " [listener.x]: Object missing required field `dialect`"),
        ("[listener.x]\ndialect = 'smtp'", f" [listener.x]: there is no dialect 'smtp'; there are {CHOICES}"),
        (
            "[listener.x]\ndialect = 'pipe'\npartitons = 3",
            " [listener.x]: pipe: there is no key 'partitons'; there are advertise, consume_max_bytes, "
            "consume_max_records, dialect, endpoint, frame_seconds, max_frame, namespace, partitions, policy, tls",
        ),
        (
            "[listener.x]\ndialect = 'pipe'\npartitions = 0",
            " [listener.x]: Expected `int` >= 1 - at `$.partitions`",
        ),
        (
            "[listener.x]\ndialect = 'pipe'\npolicy = 'panic'",
            " [listener.x]: Invalid enum value 'panic' - at `$.policy`",
        ),
        (
            "[listener.x]\ndialect = 'pipe'\ntls = { certificate = 'a' }",
            " [listener.x]: Object missing required field `key` - at `$.tls`",
        ),
    ],
)
def test_what_a_file_gets_wrong_is_said_in_a_sentence(file: Path, text: str, sentence: str) -> None:
    assert complaint(file, text) == sentence
