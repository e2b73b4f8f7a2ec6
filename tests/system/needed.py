"""Programs and libraries of the machine that some tests cannot do without, and where they come from."""

from __future__ import annotations

import ctypes.util
import os
import shutil

import pytest

PACKAGES = {
    "curl": "curl",
    "libseccomp": "libseccomp2",
    "openssl": "openssl",
    "systemd-analyze": "systemd",
    "systemd-socket-activate": "systemd",
}
"""Debian's, by what is in them.  `.ci/run` installs all of them."""


def require(*names: str) -> None:
    """Skip where one of them is missing, as on a machine with Python and make alone; with CI in the environment that
    is a failure."""
    missing = [name for name in names if not _is_there(name)]
    if not missing:
        return
    packages = sorted({PACKAGES[name] for name in missing})
    sentence = f"there is no {', '.join(missing)}: apt-get install {' '.join(packages)}"
    if os.environ.get("CI"):
        pytest.fail(sentence)
    pytest.skip(sentence)


def _is_there(name: str) -> bool:
    if name.startswith("lib"):
        return ctypes.util.find_library(name.removeprefix("lib")) is not None
    return shutil.which(name) is not None
