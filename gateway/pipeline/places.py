"""Where a server is and who asks it, as options of a data source say it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gateway.core.commands import DEFAULT_NAMESPACE, Authenticate
from gateway.dialects.spelling import Spoken, spoken_at

DEFAULT_ENDPOINT = "native=tcp:127.0.0.1:7400"

_ENDPOINT = re.compile(r"(?P<kind>tcp|tls):(?P<host>\[[0-9A-Fa-f:.]+\]|[^:\[\]]+):(?P<port>[0-9]{1,5})")


class Place(msgspec.Struct, frozen=True):
    """A server.  Goes to Spark's workers as it is; its repr holds no secret.

    endpoint:  `DIALECT=tcp:HOST:PORT`, or `tls:` in place of `tcp:`.
    namespace: the one whose topics are meant.
    ca_file:   PEM certificates that a server on TLS is checked against, "" = the machine's own.
    seconds:   how long an answer may take.
    """

    endpoint: str = DEFAULT_ENDPOINT
    namespace: str = DEFAULT_NAMESPACE
    user: str = ""
    password: str = ""
    ca_file: str = ""
    seconds: float = 30.0

    def __repr__(self) -> str:
        return f"Place({self.endpoint!r}, {self.namespace!r})"

    @property
    def spoken(self) -> Spoken:
        """What is spoken there."""
        return spoken_at(self.endpoint)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        found = self._endpoint()
        return found["host"].strip("[]"), int(found["port"])

    @property
    def tls(self) -> bool:
        """Whether TLS comes first."""
        return self._endpoint()["kind"] == "tls"

    @property
    def login(self) -> Authenticate | None:
        """Who was named, else whom a fresh server of that kind lets in, else nobody: nothing is said then."""
        if self.user:
            return Authenticate("plain", self.user, self.password)
        dialect = self.spoken.dialect
        if dialect.development is None or dialect.upstream is None or not dialect.upstream.login:
            return None
        return Authenticate("plain", *dialect.development)

    def _endpoint(self) -> re.Match[str]:
        text = self.spoken.endpoint
        found = _ENDPOINT.fullmatch(text)
        if found is None or int(found["port"]) > 0xFFFF:
            raise ValueError(f"{text!r} is no place to dial, such as tcp:127.0.0.1:7400 or tls:host.example:7400")
        return found


def place_of(options: Mapping[str, str]) -> Place:
    """The place that the options of a data source name.  Raises ValueError, with a sentence."""
    password = options.get("password", "")
    if path := options.get("passwordFile"):
        try:
            password = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise ValueError(f"passwordFile: {path} cannot be read: {error}") from error
    place = Place(
        options.get("endpoint", DEFAULT_ENDPOINT),
        options.get("namespace", DEFAULT_NAMESPACE),
        options.get("user", ""),
        password,
        options.get("caFile", ""),
        seconds_of(options.get("timeoutSeconds", "30")),
    )
    place.address  # noqa: B018  # which looks at it
    return place


def seconds_of(text: str) -> float:
    """A positive number of seconds.  Raises ValueError, with a sentence."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e9:
        raise ValueError(f"timeoutSeconds is a positive number, not {text!r}")
    return seconds
