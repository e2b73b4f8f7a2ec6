"""gateway.configuration: what an operator may ask for, and the sentence for everything else."""

from __future__ import annotations

import hashlib
import os
import pty
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from gateway import configuration, dialects
from gateway.configuration import (
    TLS,
    Configuration,
    default_listeners,
    parse_listen,
    read_configuration,
    user_section,
)
from gateway.dialects.pipe.terms import PipeSettings
from gateway.net.users import NO_PASSWORD, NO_TOKEN, new_password, new_token

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
        assert plan.auth == "optional"
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
        ("[listen.x]", ": there is no key 'listen'; there are backend, listener, users"),
        ("backend = 7", ": Expected `object`, got `int` - at `$.backend`"),
        ("[backend]\nsepc = 'memory'", ": Object contains unknown field `sepc` - at `$.backend`"),
        ("[listener.x]", " [listener.x]: Object missing required field `dialect`"),
        ("[listener.x]\ndialect = 'smtp'", f" [listener.x]: there is no dialect 'smtp'; there are {CHOICES}"),
        (
            "[listener.x]\ndialect = 'pipe'\npartitons = 3",
            " [listener.x]: pipe: there is no key 'partitons'; there are advertise, auth, "
            "consume_max_bytes, consume_max_records, dialect, endpoint, frame_seconds, max_frame, namespace, "
            "partitions, policy, tls",
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


# -- users

PASSWORD = new_password("correct horse", log_n=4)
TEXT = PASSWORD.text()
TOKEN, DIGEST = new_token()
BOTH = f"[users.ann]\npassword = '{TEXT}'\n[users.\"b e\"]\ntokens = ['{DIGEST.hex()}', '{DIGEST.hex().upper()}']\n"


def test_users_are_numbered_from_1_in_the_order_of_the_file(file: Path) -> None:
    ann, ben, zoe = read(file, f"{BOTH}[users.aaa]\npassword = '{TEXT}'").users
    assert [(user.principal, user.id) for user in (ann, ben, zoe)] == [("ann", 1), ("b e", 2), ("aaa", 3)]
    assert (ann.password, ann.tokens) == (PASSWORD, ())
    assert (ben.password, ben.tokens) == (None, (DIGEST, DIGEST))


@pytest.mark.parametrize("auth", ["none", "optional", "required"])
def test_a_listener_says_whether_its_clients_must_log_in(file: Path, auth: str) -> None:
    front, back = read(
        file, f"{BOTH}[listener.f]\ndialect='pipe'\nauth='{auth}'\n[listener.b]\ndialect='pipe'"
    ).listeners
    assert (front.auth, back.auth) == (auth, "optional")


MUST = "[listener.x]\ndialect = 'pipe'\nauth = 'required'"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("users = 7", ": Expected `object`, got `int` - at `$.users`"),
        ("[users.ann]", " [users.ann]: there is neither a password nor a token; `gateway users add NAME` makes one"),
        ("[users.ann]\npassword = 'correct horse'", f" [users.ann]: {NO_PASSWORD}"),
        ("[users.ann]\npassword = 7", " [users.ann]: Expected `str | null`, got `int` - at `$.password`"),
        ("[users.ann]\npasswort = 'correct horse'", " [users.ann]: Object contains unknown field `passwort`"),
        ("[users.ann]\ntokens = ['correct horse']", f" [users.ann]: {NO_TOKEN}"),
        ("[users.ann]\ntokens = 'correct horse'", " [users.ann]: Expected `array`, got `str` - at `$.tokens`"),
        (
            f"[users.ann]\npassword = 'scrypt:30{TEXT[8:]}'",
            " [users.ann]: checking that password would take more than 256 MiB or 16 rounds",
        ),
        (f"{BOTH}[users.eve]\ntokens = ['{DIGEST.hex()}']", " [users.eve]: one of its tokens is b e's, too"),
        (f"[users.\"\"]\npassword = '{TEXT}'", ' [users.""]: a user\'s name is 1 to 255 bytes long and can be printed'),
        (
            f'[users."a\\nb"]\npassword = "{TEXT}"',
            ' [users."a\\nb"]: a user\'s name is 1 to 255 bytes long and can be printed',
        ),
        ("[listener.x]\ndialect = 'pipe'\nauth = 'maybe'", " [listener.x]: Invalid enum value 'maybe' - at `$.auth`"),
        (
            MUST,
            ' [listener.x]: auth = "required" protects nothing: without users everybody who logs in is believed; '
            "`gateway users add NAME` makes one",
        ),
    ],
)
def test_what_a_file_gets_wrong_about_users_is_said_without_a_secret(file: Path, text: str, sentence: str) -> None:
    said = complaint(file, text)
    assert said == sentence
    for secret in ("horse", TEXT[8:], DIGEST.hex()):
        assert secret not in said


def test_a_login_may_be_required_without_users_where_the_dialect_has_one_of_its_own(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = msgspec.structs.replace(dialects.load("pipe"), development=("pipe", "pipe"))
    monkeypatch.setattr(configuration, "find_dialect", lambda name: own)
    assert read(file, MUST).listeners[0].auth == "required"


def test_what_was_read_is_shown_without_what_is_kept_of_passwords(file: Path) -> None:
    shown = repr(read(file, BOTH))
    assert "ann" in shown
    assert repr(PASSWORD.hash) not in shown and repr(PASSWORD.salt) not in shown


@pytest.mark.parametrize(
    "name", ["ann", "a.b", "a b", 'say "hi"', "back\\slash", "\u00fcn\u00ef", "\U0001f40e", "-_9", "n" * 255]
)
@pytest.mark.parametrize(("password", "tokens"), [(PASSWORD, [DIGEST]), (PASSWORD, []), (None, [DIGEST, DIGEST[::-1]])])
def test_a_section_is_read_as_it_is_written(file: Path, name: str, password: object, tokens: list[bytes]) -> None:
    (user,) = read(file, user_section(name, password, tokens)).users  # type: ignore[arg-type]
    assert (user.principal, user.id, user.password, user.tokens) == (name, 1, password, tuple(tokens))


@pytest.mark.parametrize("name", ["", "n" * 256, "\u00fc" * 128, "a\nb", "\x1b[2J", "\udc80"])
def test_a_name_that_no_user_can_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"^a user's name is 1 to 255 bytes long and can be printed$"):
        user_section(name, PASSWORD, [])


# -- gateway users add

ADD = (sys.executable, "-m", "gateway.cli", "users", "add")


def add(*arguments: str, told: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*ADD, *arguments], input=told, capture_output=True, text=True, timeout=60, check=False)


def test_a_user_is_made_from_a_line_of_standard_input(file: Path) -> None:
    done = add("ann", told="correct  horse \u00fc\nnot this\n")
    assert (done.returncode, done.stderr) == (0, "")
    (user,) = read(file, done.stdout).users
    assert (user.principal, user.tokens) == ("ann", ())
    assert user.password is not None and user.password.matches("correct  horse \u00fc")
    assert "horse" not in done.stdout


@pytest.mark.parametrize("told", ["correct horse\n", "", "\n"])
def test_a_token_is_shown_once_and_kept_as_a_digest(file: Path, told: str) -> None:
    done = add("ann", "--token", told=told)
    assert done.returncode == 0
    (token,) = done.stderr.split()
    assert token not in done.stdout
    (user,) = read(file, done.stdout).users
    assert (user.password is None) is (told != "correct horse\n")
    assert user.tokens == (hashlib.sha256(token.encode()).digest(),)


@pytest.mark.parametrize(
    ("arguments", "told", "sentence"),
    [
        (["ann"], "\n", "a password is needed"),
        (["ann"], "", "a password is needed"),
        ([""], "x\n", "a user's name is 1 to 255 bytes long and can be printed"),
        (["a\nb", "--token"], "x\n", "a user's name is 1 to 255 bytes long and can be printed"),
    ],
)
def test_a_user_that_cannot_be_is_not_made(arguments: list[str], told: str, sentence: str) -> None:
    done = add(*arguments, told=told)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"gateway users add: {sentence}\n")


def test_on_a_terminal_the_password_is_asked_for_twice_and_not_shown(file: Path) -> None:
    """Asked again until both are the same."""
    control, terminal = pty.openpty()
    with subprocess.Popen(
        [*ADD, "ann"], stdin=terminal, stdout=subprocess.PIPE, stderr=terminal, text=True, start_new_session=True
    ) as asking:
        os.close(terminal)
        screen = b""
        for answer in (b"correct horse", b"wrong horse", b"correct horse", b"correct horse"):
            at = len(screen)
            while not screen[at:].endswith(b": "):
                screen += os.read(control, 1000)
            os.write(control, answer + b"\n")
        out, _ = asking.communicate(timeout=60)
    os.close(control)
    assert asking.returncode == 0
    assert b"horse" not in screen
    (user,) = read(file, out).users
    assert user.password is not None and user.password.matches("correct horse")
