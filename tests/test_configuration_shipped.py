"""gateway.toml, the file that ships: as it stands it changes nothing, and every example in it is right."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from gateway import dialects
from gateway.configuration import check_exposure, configure, read_configuration
from gateway.configuration.environment import BESIDE_FILE, SHORT, VARIABLES
from gateway.configuration.listening import SHARED
from gateway.configuration.plans import TLS, Backend, CapturePlan, ConsolePlan, Limits, Node, WebPlan

FILE = Path(__file__).parent.parent / "gateway.toml"
TEXT = FILE.read_text(encoding="utf-8")
EXAMPLE = re.compile(r'^#(?=[\[a-z"])', re.MULTILINE)
EVERYTHING = EXAMPLE.sub("", TEXT)

IN_WORDS = {"backend.password", "users.password_file", "access.who", "access.command"}
"""What its prose shows, for it does not go with what stands beside it."""

NOT_DEFAULTS = {
    *("node.advertise", "backend.user", "backend.password_file", "console.ssh", "console.host_key"),
    *("console.authorized_keys", "capture.directory"),
}


def test_as_it_stands_it_changes_nothing() -> None:
    assert configure(str(FILE), {}) == configure(None, {})


def test_with_every_example_it_is_a_configuration_that_would_be_served(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(EVERYTHING)
    told = read_configuration(str(file))
    check_exposure(told)
    assert sorted(plan.dialect.name for plan in told.listeners) == dialects.names()
    assert len({plan.endpoint for plan in told.listeners}) == len(told.listeners)
    assert told.console is not None and told.web is not None and told.capture is not None
    assert [rule.allow for rule in told.access] == [False, True]


def test_every_example_is_right_alone_too(tmp_path: Path) -> None:
    """With one taken out at a time, unless another needs it."""
    file = tmp_path / "gateway.toml"
    needed = re.compile(
        r"(\[|dialect|endpoint|certificate|key|client|password|host_key|auth|user|directory|allow|deny)"
    )
    for line in {line for line in TEXT.splitlines() if EXAMPLE.match(line) and not needed.match(line[1:])}:
        file.write_text(EVERYTHING.replace(f"\n{line[1:]}\n", "\n"))
        read_configuration(str(file))


@pytest.mark.parametrize(
    ("section", "keys"),
    [
        ("node", Node.__struct_fields__),
        ("backend", ("spec", *Backend.__struct_fields__)),
        ("users", ("password", "password_file", "tokens", "principals")),
        ("access", ("allow", "deny", "who", "command", "topic")),
        ("limits", Limits.__struct_fields__),
        ("tls", TLS.__struct_fields__),
        ("console", ConsolePlan.__struct_fields__),
        ("web", WebPlan.__struct_fields__),
        ("capture", CapturePlan.__struct_fields__),
    ],
)
def test_it_shows_every_key(section: str, keys: tuple[str, ...]) -> None:
    told = tomllib.loads(EVERYTHING)
    found = told["listener"]["public"]["tls"] if section == "tls" else told[section]
    if section == "users":
        found = found["ann"]
    if section == "access":
        found = {key for rule in found for key in rule}
    for key in keys:
        assert key in found or (f"{section}.{key}" in IN_WORDS and key in TEXT), key
    assert set(found) <= set(keys)


def test_it_shows_every_setting_of_every_dialect() -> None:
    listeners = tomllib.loads(EVERYTHING)["listener"].values()
    shared = {key for listener in listeners for key in listener}
    assert set(SHARED) <= shared
    for listener in listeners:
        for key in dialects.load(listener["dialect"]).settings.__struct_fields__:
            assert key in listener or (key in shared and key in dialects.load("native").settings.__struct_fields__), key


def test_an_example_of_a_default_is_the_default() -> None:
    told = tomllib.loads(EVERYTHING)
    for section, kind in (
        *(("node", Node), ("backend", Backend), ("limits", Limits), ("console", ConsolePlan), ("web", WebPlan)),
        ("capture", CapturePlan),
    ):
        for field in msgspec.structs.fields(kind):
            if f"{section}.{field.name}" not in NOT_DEFAULTS | IN_WORDS:
                assert told[section][field.name] == field.default, f"{section}.{field.name}"
    for name, listener in told["listener"].items():
        kind = dialects.load(listener["dialect"]).settings
        own = {key: value for key, value in listener.items() if key not in (*SHARED, "advertise", "opcodes")}
        if listener["dialect"] == "grid":
            assert own.pop("compression") == ["zstd", "lz4"]
        assert msgspec.convert(own, kind) == kind(), name
        assert "opcodes" not in listener or msgspec.convert({"opcodes": listener["opcodes"]}, kind)


def test_its_prose_names_all_variables_that_there_are_and_no_others() -> None:
    """But for those that are made of a section and its key, of which one is an example."""
    named = set(re.findall(r"\bGATEWAY_[A-Z_]+", TEXT))
    assert named <= {*VARIABLES, *BESIDE_FILE}
    assert named >= {*SHORT.values(), *BESIDE_FILE}
    told = re.search(r"every key of (.*?), and for those of\n# *(.*?) where these are open", TEXT, re.DOTALL)
    assert told is not None
    sections = {place[0] for name, (place, _) in VARIABLES.items() if name not in SHORT.values()}
    assert set(re.findall(r"\[(\w+)\]", f"{told[1]} {told[2]}")) == sections


def test_no_code_of_the_server_reads_a_variable_that_is_not_known_to_be_one() -> None:
    known = {*VARIABLES, *BESIDE_FILE}
    package = FILE.parent / "gateway"
    for path in package.rglob("*.py"):
        if path.relative_to(package).parts[0] in ("bench", "conformance", "pipeline"):
            continue  # programs of their own
        for name in re.findall(r"[\"'](GATEWAY_[A-Z_]*[A-Z])[\"']", path.read_text(encoding="utf-8")):
            assert name in known, f"{path.name}: {name}"
