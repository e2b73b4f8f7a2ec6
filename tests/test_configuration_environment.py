"""gateway.configuration: defaults < file < environment < command line, and each says of itself what is wrong."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gateway import dialects
from gateway.backends.remote import PASSWORD, PASSWORD_FILE, USER
from gateway.configuration import (
    DEFAULT_BACKEND,
    Backend,
    Configuration,
    ConsolePlan,
    Limits,
    Said,
    WebPlan,
    configure,
    default_listeners,
    exposures,
    parse_listen,
)
from gateway.configuration.environment import VARIABLES
from gateway.service import Options


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gateway.toml"


def told(file: Path | None, text: str = "", *arguments: str, **environment: str) -> Configuration:
    """What a process is told by a file, variables without their GATEWAY_, and arguments."""
    options = Options({f"GATEWAY_{name}": value for name, value in environment.items()})
    if file is not None:
        file.write_text(text)
        arguments = ("--config", str(file), *arguments)
    options.parseOptions(list(arguments))
    return options.configuration


def complaint(**environment: str) -> str:
    with pytest.raises(ValueError) as caught:
        configure(None, {f"GATEWAY_{name}": value for name, value in environment.items()})
    return str(caught.value)


def test_without_a_word_everything_is_open_on_loopback_alone() -> None:
    found = told(None)
    assert found.listeners == default_listeners()
    assert (found.backend, found.console, found.web) == (DEFAULT_BACKEND, ConsolePlan(), WebPlan())
    assert (found.capture, found.insecure, found.limits) == (None, False, Limits())
    assert exposures(found) == []


@pytest.mark.parametrize("how", ["file", "environment", "option"])
def test_naming_one_listener_means_only_what_is_named(file: Path, how: str) -> None:
    listen = "pipe=tcp:0:interface=127.0.0.1"
    if how == "file":
        found = told(file, "[listener.pipe]\ndialect = 'pipe'\nendpoint = 'tcp:0:interface=127.0.0.1'")
    else:
        found = told(None, "", "--listen", listen) if how == "option" else told(None, LISTEN=listen)
    assert (found.listeners, found.console, found.web) == (parse_listen([listen]), None, None)


def test_each_goes_over_the_one_before(file: Path) -> None:
    text = "backend.spec = 'sqlite:file'\nweb.endpoint = 'tcp:1:interface=127.0.0.1'\n[listener.a]\ndialect = 'mlog'\n"
    variables = {
        "BACKEND": "sqlite:variable",
        "WEB": "tcp:2:interface=127.0.0.1",
        "LISTEN": "grid=tcp:2:interface=127.0.0.1",
    }
    options = (
        "--backend",
        "memory",
        "--web",
        "tcp:3:interface=127.0.0.1",
        "--listen",
        "pipe=tcp:3:interface=127.0.0.1",
    )
    for found, backend, port, dialect in (
        (told(file, text), "sqlite:file", 1, "mlog"),
        (told(file, text, **variables), "sqlite:variable", 2, "grid"),
        (told(file, text, *options, **variables), "memory", 3, "pipe"),
        (told(None, "", *options, **variables), "memory", 3, "pipe"),
    ):
        assert (found.backend, found.web) == (backend, WebPlan(f"tcp:{port}:interface=127.0.0.1"))
        assert [plan.dialect.name for plan in found.listeners] == [dialect]


def test_the_file_itself_may_be_named_by_the_environment(file: Path) -> None:
    file.write_text("backend.spec = 'memory'")
    assert told(None, CONFIG=str(file)).backend == "memory"
    other = file.with_name("other.toml")
    assert told(other, "backend.spec = 'sqlite:other'", CONFIG=str(file)).backend == "sqlite:other"


def test_a_blank_variable_says_nothing(file: Path) -> None:
    assert told(None, **dict.fromkeys(("CONFIG", "BACKEND", "LISTEN", "WEB", "LIMITS_CONNECTIONS"), "")) == told(None)


def test_a_blank_option_turns_off_what_a_file_turns_on(file: Path) -> None:
    found = told(file, "[web]\n[console]\n", "--web", "", "--console", "")
    assert (found.web, found.console) == (None, None)


SAID = {bool: "true", str: "tcp:77:interface=127.0.0.1"}
SAID_OTHERWISE = {"GATEWAY_NODE_ADVERTISE": "broker", "GATEWAY_BACKEND": "memory", "GATEWAY_CAPTURE_KEEP": "faults"}
TRIED_BELOW = {"GATEWAY_CONSOLE_SSH", "GATEWAY_REMOTE_PASSWORD", "GATEWAY_REMOTE_PASSWORD_FILE"}
"""They need others beside them."""


@pytest.mark.parametrize("name", sorted(set(VARIABLES) - TRIED_BELOW))
def test_every_variable_says_what_the_file_would(name: str) -> None:
    place, kind = VARIABLES[name]
    plain = str if isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.StrType) else kind
    text = SAID_OTHERWISE.get(name, SAID.get(plain, "70000"))
    said = configure(None, {"GATEWAY_CAPTURE": "captured", name: text})
    if place[0] == "backend":
        found: object = said.backend if place[1] == "spec" else getattr(said.backend_settings, str(place[1]))
    else:
        found = said
        for step in place:
            found = getattr(found, str(step))
    assert found == {"true": True, "70000": 70000}.get(text, text)


def test_a_console_by_ssh_is_told_by_the_environment() -> None:
    found = configure(
        None,
        {
            "GATEWAY_CONSOLE_SSH": "tcp:1:interface=127.0.0.1",
            "GATEWAY_CONSOLE_HOST_KEY": "k",
            "GATEWAY_CONSOLE_AUTHORIZED_KEYS": "a",
            "GATEWAY_CONSOLE": "tcp:2:interface=127.0.0.1",
        },
    )
    assert found.console == ConsolePlan("tcp:2:interface=127.0.0.1", "tcp:1:interface=127.0.0.1", "k", "a")


def test_what_adorns_a_part_does_not_open_it() -> None:
    listen = {"GATEWAY_LISTEN": "pipe=tcp:1:interface=127.0.0.1"}
    found = configure(None, {**listen, "GATEWAY_CONSOLE_IDLE_SECONDS": "7", "GATEWAY_CAPTURE_FILE_BYTES": "70000"})
    assert (found.console, found.capture) == (None, None)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("LIMITS_CONNECTIONS", "many", "wants a whole number, 1 or more, not text"),
        ("LIMITS_CONNECTIONS", "0", "wants a whole number, 1 or more, not 0"),
        ("LIMITS_CONECTIONS", "9", "there is no such key; did you mean CONNECTIONS?"),
        ("INSECURE", "perhaps", "wants true or false, not text"),
        (
            "WEB",
            "http",
            "'http' is no endpoint; write one such as tcp:9000, tcp:9000:interface=127.0.0.1, unix:/run/gateway.sock",
        ),
        (
            "LISTEN",
            "pipe=tcp:1,grid=tcp:x",
            "grid: 'tcp:x' is no endpoint; write one such as tcp:9000, "
            "tcp:9000:interface=127.0.0.1, unix:/run/gateway.sock",
        ),
        ("LISTEN", "pipe", "wants DIALECT=ENDPOINT, such as cursus=tcp:9000, not 'pipe'"),
        ("NODE_ADVERTISE", "a:1", 'wants a host without a port, such as "broker.example.org"'),
    ],
)
def test_what_a_variable_gets_wrong_is_said_with_its_name(name: str, value: str, sentence: str) -> None:
    said = complaint(**{name: value})
    assert said in (f"GATEWAY_{name}: {sentence}", f"GATEWAY_{name} {sentence}")


def test_variables_of_others_are_no_matter_of_ours() -> None:
    """Kubernetes says these in every pod beside a service called gateway."""
    assert told(None, PORT="tcp://10.0.0.1:9000", SERVICE_HOST="10.0.0.1", WEB_SERVICE_PORT="80") == told(None)


def test_what_an_option_gets_wrong_is_said_with_its_name() -> None:
    with pytest.raises(ValueError) as caught:
        configure(None, {}, [Said("--web", ("web", "endpoint"), "http")])
    assert str(caught.value).startswith("--web: 'http' is no endpoint; write one such as tcp:9000")


def test_limits_and_the_name_of_the_node_hold_for_listeners_of_the_command_line() -> None:
    listen = ["pipe=tcp:1:interface=127.0.0.1", "grid=unix:/run/grid"]
    variables = {"GATEWAY_LIMITS_FRAME_SECONDS": "2.5", "GATEWAY_NODE_ADVERTISE": "fd00::1"}
    one, two = configure(None, variables, listen=listen).listeners
    assert (one.settings.frame_seconds, two.settings.frame_seconds) == (2.5, 2.5)
    assert (one.settings.advertise, two.settings.advertise) == ("[fd00::1]:1", "")
    for plan in configure(None, variables).listeners:
        assert plan.settings.advertise == f"[fd00::1]:{dialects.load(plan.name).port}"


# -- as whom remote: logs in


@pytest.mark.parametrize(
    ("text", "variables", "settings"),
    [
        ("user = 'u'\npassword = 'p'", {}, Backend("u", "p")),
        ("user = 'u'\npassword_file = 'f'", {}, Backend("u", None, "f")),
        ("user = 'u'\npassword_file = 'f'", {"REMOTE_PASSWORD": "v"}, Backend("u", "v")),
        ("user = 'u'\npassword = 'p'", {"REMOTE_PASSWORD_FILE": "g"}, Backend("u", None, "g")),
        ("user = 'u'\npassword = 'p'", {"REMOTE_USER": "w"}, Backend("w", "p")),
        ("", {"REMOTE_USER": "w", "REMOTE_PASSWORD": "v", "REMOTE_PASSWORD_FILE": "g"}, Backend("w", None, "g")),
    ],
)
def test_a_secret_of_the_environment_is_instead_of_the_files(
    file: Path, text: str, variables: dict[str, str], settings: Backend
) -> None:
    found = told(file, f"[backend]\n{text}", **variables).backend_settings
    assert (found.user, found.password, found.password_file) == (
        settings.user,
        settings.password,
        settings.password_file,
    )


def test_what_a_backend_is_told_is_where_remote_looks_for_it() -> None:
    environment = {PASSWORD_FILE: "of before", "OTHER": "stays"}
    Backend("u", "p").export(environment)
    assert environment == {USER: "u", PASSWORD: "p", "OTHER": "stays"}
    Backend("u", None, "f").export(environment)
    assert environment == {USER: "u", PASSWORD_FILE: "f", "OTHER": "stays"}
    Backend().export(environment)
    assert environment == {USER: "u", PASSWORD_FILE: "f", "OTHER": "stays"}
    Backend("alone").export(environment)
    assert environment == {USER: "alone", "OTHER": "stays"}
