"""docs/operations.md: commands that are run, names that are there, and a backup that can be lived on."""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path

import msgspec

from gateway.net.limits import Limits
from system.configured import secured, trusting
from system.holding import PROGRAM, UNIT, Service, value_of
from system.ledger import stored
from system.ledger_spoken import DIALECTS, CountingLedger, of_many_dialects
from system.needed import require
from system.peers import Lines
from system.processes import ROOT, GatewayProcess, environment
from system.tour import Script, blocks

TEXT = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def section(heading: str) -> str:
    """Its text, up to the next."""
    [found] = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    return str(found)


def examples(heading: str) -> list[str]:
    """The TOML of a section."""
    return re.findall(r"^```toml\n(.*?)^```$", section(heading), re.MULTILINE | re.DOTALL)


def scripts(heading: str) -> list[str]:
    """The commands of a section."""
    return [step.text for block in blocks(TEXT, f"## {heading}") for step in block.steps if isinstance(step, Script)]


def checked(directory: Path, configuration: str) -> str:
    """What `gateway check` says of it; fails if it is refused."""
    (directory / "gateway.toml").write_text(configuration)
    command = [PROGRAM, "check", "--config", "gateway.toml"]
    done = subprocess.run(command, cwd=directory, env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_its_certificates_users_and_names_of_metrics_are_those_of_a_gateway(tmp_path: Path) -> None:
    require("openssl")
    for script in scripts("TLS"):
        subprocess.run(["bash", "-euc", script], cwd=tmp_path, capture_output=True, timeout=60, check=True)
    [text] = examples("TLS")
    local = text.replace("tcp:9092", "tcp:0:interface=127.0.0.1")
    assert local != text
    page = '[web]\nendpoint = "tcp:0:interface=127.0.0.1"\n[[access]]\nallow = true\nwho = "ann"\n'
    (tmp_path / "gateway.toml").write_text(f"backend.spec = 'memory'\n{local}{page}")
    with Service(tmp_path, {}) as service:
        service.start()
        ports = dict(re.findall(r"^listening (\w+) 127\.0\.0\.1:(\d+)$", service.said(), re.MULTILINE))
        secure = trusting(tmp_path / "ca.pem", (tmp_path / "ann.pem", tmp_path / "ann.key"))
        with secured(Lines(int(ports["pipe"])), secure, "broker.example.org") as peer:
            assert peer.produce("orders", "k", "v") == (0, 0), "it is ann, who alone may"
        with urllib.request.urlopen(f"http://127.0.0.1:{ports['web']}/metrics", timeout=10) as shown:
            there = set(re.findall(r"^# TYPE (\w+) ", shown.read().decode(), re.MULTILINE))
        assert service.stop() == 0
    told = {name.removesuffix("_bucket") for name in re.findall(r"\bgateway_\w+", TEXT)}
    assert told - {"gateway_faults_total"} and told <= there, told - there


def test_its_examples_are_served(tmp_path: Path) -> None:
    assert "deny" in checked(tmp_path, "\n".join(examples("Users and what they may do")))
    held = checked(tmp_path, "\n".join(examples("Restarting")))
    assert held.count("systemd:domain=INET:name=") == 2
    assert all(tomllib.loads(text) for text in re.findall(r"^```toml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))


def test_its_line_of_a_log_has_what_a_line_has() -> None:
    [line] = re.findall(r"^```json\n(.*)\n```$", section("Logs"), re.MULTILINE)
    assert list(json.loads(line)) == ["time", "level", "system", "message"]


def test_its_table_has_every_limit_and_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section("Limits"), re.MULTILINE))
    shown = {0.0: "none", 16 << 20: "16 MiB"}
    for field in msgspec.structs.fields(Limits):
        assert rows[field.name] == shown.get(field.default, f"{field.default:,g}"), field.name


def test_it_installs_what_the_unit_starts() -> None:
    [install] = scripts("Installing")
    program, _, _, configuration = shlex.split(value_of(UNIT, "ExecStart"))
    assert f"python3 -m venv {Path(program).parents[1]}\n" in install
    assert configuration in install
    assert all((ROOT / name).exists() for name in re.findall(r"\bdeploy/\S+", install))


def test_a_backup_taken_under_load_has_all_that_was_acknowledged_before_it(tmp_path: Path) -> None:
    """And whatever came meanwhile is in it whole or not at all: a gateway serves it."""
    copied = tmp_path / "copied" / "records"
    copied.mkdir(parents=True)
    [script] = scripts("Backup")
    words = shlex.split(script.replace("\\\n", " "))
    assert words[0] == "/opt/gateway/bin/python" and words[3].endswith("/gateway-data/gateway.sqlite3")
    source, target = tmp_path / "records" / "gateway.sqlite3", copied / "gateway.sqlite3"
    ledger = CountingLedger()
    with GatewayProcess(tmp_path, *DIALECTS) as gateway:
        running = of_many_dialects(ledger, gateway)
        for producer in running:
            producer.start()
        ledger.wait_each([producer.name for producer in running], 100)
        before = ledger.copy()
        subprocess.run([sys.executable, *words[1:3], source, target], timeout=60, check=True)
        ledger.wait(1000)
        for producer in running:
            producer.finish()
    with sqlite3.connect(target) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    copy.close()
    with GatewayProcess(tmp_path / "copied", "cursus", "pipe") as restored:
        found = stored(restored)
    assert before.complaints(found, once=set("abcd")) == [], "nothing that was acknowledged is missing"
    assert ledger.count > before.count + 1000
