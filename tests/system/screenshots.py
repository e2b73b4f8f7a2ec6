"""Takes the pictures of the page that the documentation shows: `make screenshots`."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from system.browser import Browser
from system.busy import Busy
from system.processes import COMMAND, ROOT, GatewayProcess

DIALECTS = ("cursus", "pipe", "iggy", "grid", "mlog", "native")
LARGEST = 300_000
"""Bytes of a picture."""

HISTORY = 65.0
"""Seconds of traffic in it."""


def main() -> None:
    """Into the directory that the first argument names, or into docs."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs"
    web = (*COMMAND, "--web=tcp:0:interface=127.0.0.1")
    with tempfile.TemporaryDirectory(prefix="page-") as place:
        directory = Path(place)
        with (
            GatewayProcess(directory, *DIALECTS, command=web) as gateway,
            Busy(gateway.ports),
            Browser(directory / "profile") as browser,
        ):
            browser.open(f"http://127.0.0.1:{gateway.ports['web']}/")
            time.sleep(HISTORY)
            shoot(browser, target)


def shoot(browser: Browser, target: Path) -> None:
    """All of them."""
    for name, width, height, scheme, density in (
        ("light", 1440, 900, "light", 1),
        ("dark", 1920, 1080, "dark", 1),
        ("phone", 390, 1500, "light", 1),
    ):
        browser.look_like(width, height, scheme, density, phone=name == "phone")
        time.sleep(1.5)
        picture = browser.picture()
        assert len(picture) < LARGEST, f"page-{name}.png has {len(picture)} bytes"
        (target / f"page-{name}.png").write_bytes(picture)


if __name__ == "__main__":
    main()
