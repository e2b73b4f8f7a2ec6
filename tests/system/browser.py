"""A real browser without a window: Debian's Chromium, driven by its own chromedriver.

It looks at loopback and asks for nothing else: every other name leads nowhere.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Self

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)


class Browser:
    """One, with a profile of its own in that directory, for as long as the block runs."""

    def __init__(self, directory: Path) -> None:
        options = ChromeOptions()
        options.binary_location = found("chromium")
        for flag in (*FLAGS, f"--user-data-dir={directory}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = Chrome(options, Service(found("chromedriver")))
        self.driver.set_page_load_timeout(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.driver.quit()

    def open(self, url: str) -> None:
        """Go there."""
        self.driver.get(url)

    def look_like(
        self, width: int, height: int, scheme: str = "light", density: float = 1, *, phone: bool = False
    ) -> None:
        """Have a screen of that size, in CSS pixels, and that many of its own to each; and like light or dark."""
        self._tell(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=density, mobile=phone
        )
        self._tell("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def run(self, script: str, *arguments: object) -> Any:
        """What a script returns."""
        return self.driver.execute_script(script, *arguments)

    def text(self, selector: str) -> str:
        """What can be read there; "" if there is no such thing."""
        return str(self.run("const at = document.querySelector(arguments[0]); return at ? at.innerText : ''", selector))

    def complaints(self) -> list[str]:
        """What the console has said since it was last asked."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def picture(self) -> bytes:
        """The screen, as PNG."""
        return bytes(self.driver.get_screenshot_as_png())

    def _tell(self, verb: str, **arguments: object) -> None:
        self.driver.execute_cdp_cmd(verb, arguments)


def found(name: str) -> str:
    """Where it is.  Raises FileNotFoundError."""
    path = shutil.which(name)
    if path is None:
        raise FileNotFoundError(f"there is no {name}: apt-get install chromium chromium-driver")
    return path


def require() -> None:
    """Skip where there is no browser; with CI in the environment that is a failure."""
    try:
        found("chromium"), found("chromedriver")
    except FileNotFoundError as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))
