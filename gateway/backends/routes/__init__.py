"""`routes:PATTERN=SPEC;PATTERN=SPEC;*=SPEC`: one backend for some topics, another for the others.

`gateway run --backend 'routes:orders.*=kafka:127.0.0.1:9092;*=sqlite:./gateway-data'`.  Between routes stands `;`,
or `,` where there is no `;` at all: a SPEC with a comma in it, such as two Kafka servers, needs `;`.  What stands
before the first `=` of a route is its pattern (see patterns.py), what stands behind it its SPEC.  The same SPEC twice
is one backend.  Backends are numbered as their SPECs come, that of `*` being 0: new ones go to the end, or topics
change their numbers.

A command about a topic goes to the backend that owns its name, and what that makes wait holds up nobody else.  A topic
that exists where its name is not owned is not there: not listed, not found by its number, not deleted.  A topic cannot
be renamed to what another backend owns.  Namespaces are those of `*`, and come into being elsewhere where they are
needed.  Durability is that of the weakest.

Groups belong to their topic's backend, and so do the promises about their names: a group that is exclusive (Cursus) is
alone among the topics of its backend, not of all, for nobody could look and join in one step across two, and a backend
that does not answer would hold up joins elsewhere.  A group asked for without a topic is looked for in all.
"""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.defer import maybeDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.plugin import IPlugin
from zope.interface import implementer

from gateway.backends import find_maker
from gateway.backends.interface import IBackend, IBackendMaker
from gateway.backends.routes.backend import Routes
from gateway.backends.routes.patterns import Patterns
from gateway.backends.routes.places import MAX_ROUTES
from gateway.core.records import Encoding

_log = Logger()


def parse(argument: str) -> dict[str, str]:
    """Pattern -> SPEC, in their order.  Raises ValueError, with a sentence for the user."""
    routes: dict[str, str] = {}
    for route in argument.removesuffix(";").split(";" if ";" in argument else ","):
        pattern, equals, spec = (part.strip() for part in route.partition("="))
        if not (pattern and equals and spec):
            raise ValueError(f"a route is PATTERN=SPEC, not {route!r}; put ; between routes if a SPEC has a comma")
        if pattern in routes:
            raise ValueError(f"two routes have the pattern {pattern}")
        if spec.partition(":")[0] == _Maker.name:
            raise ValueError("routes cannot be routed to: write them all in one")
        routes[pattern] = spec
    return routes


@implementer(IPlugin, IBackendMaker)
class _Maker:
    name = "routes"
    usage = "routes:PATTERN=SPEC;..."

    def make(self, argument: str, encodings: Mapping[str, Encoding], reactor: IReactorTime) -> IBackend:
        """See IBackendMaker."""
        routes = parse(argument)
        specs = dict.fromkeys([*([routes["*"]] if "*" in routes else []), *routes.values()])
        if len(specs) > MAX_ROUTES:
            raise ValueError(f"there can be {MAX_ROUTES} backends, not {len(specs)}")
        numbers = {spec: number for number, spec in enumerate(specs)}
        patterns = Patterns({pattern: numbers[spec] for pattern, spec in routes.items()})
        makers = [find_maker(spec) for spec in specs]
        made: list[IBackend] = []
        try:
            for maker, rest in makers:
                made.append(maker.make(rest, encodings, reactor))
        except ValueError:
            _close(made)
            raise
        return Routes(patterns, made)


def _close(backends: list[IBackend]) -> None:
    """Let go of what was made in vain."""
    for backend in backends:
        closed = maybeDeferred(backend.close)
        closed.addErrback(lambda failure: _log.failure("a backend was not closed", failure=failure))


maker = _Maker()
