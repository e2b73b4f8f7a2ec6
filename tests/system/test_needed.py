"""What tests cannot do without: CI installs it, and where it is missing a test says so."""

from __future__ import annotations

import re

import pytest

from system import needed
from system.processes import ROOT

INSTALLING = (ROOT / ".ci" / "run").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "package"), sorted(needed.PACKAGES.items()))
def test_ci_looks_for_all_of_it_and_installs_what_is_missing(name: str, package: str) -> None:
    if name.startswith("lib"):
        assert re.search(rf"{name}\.so.*missing\+=\({package}\)", INSTALLING)
    else:
        assert re.search(rf"^needs {name} {package}\b", INSTALLING, re.MULTILINE)


def test_in_ci_what_is_missing_is_a_failure_and_elsewhere_a_reason_to_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(needed.PACKAGES, "no-such-program", "none")
    monkeypatch.setitem(needed.PACKAGES, "libnone-such", "none")
    monkeypatch.setenv("CI", "true")
    sentence = "there is no no-such-program, libnone-such: apt-get install none"
    with pytest.raises(pytest.fail.Exception, match=sentence):
        needed.require("no-such-program", "libnone-such")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match=sentence):
        needed.require("no-such-program", "libnone-such")
