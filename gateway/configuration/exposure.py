"""What other machines could get at without having to prove anything."""

from __future__ import annotations

from gateway.configuration.endpoints import address_of
from gateway.configuration.plans import Configuration, ListenerPlan


def exposures(configuration: Configuration) -> list[str]:
    """What is not to be served unless somebody says `insecure`, each in a sentence that says what to do.

    An endpoint whose address only systemd or a plugin knows is not judged here.
    """
    found = [_sentence(plan) for plan in configuration.listeners if _open(plan)]
    console = configuration.console
    if console is not None and address_of(console.endpoint).exposed and not configuration.users:
        found.append(
            f"console: {console.endpoint} is open to other machines, and there are no users to log in; name some with "
            "`gateway users add NAME`, add interface=127.0.0.1, or say --insecure"
        )
    return found


def check_exposure(configuration: Configuration) -> None:
    """Raises ValueError with the first of `exposures`, unless the configuration says `insecure`."""
    found = [] if configuration.insecure else exposures(configuration)
    if found:
        raise ValueError(found[0])


def _open(plan: ListenerPlan) -> bool:
    address = address_of(plan.endpoint)
    tls = plan.tls is not None and not plan.tls.plaintext
    return address.exposed and not (tls or plan.auth == "required" or plan.allow)


def _sentence(plan: ListenerPlan) -> str:
    return (
        f"listener {plan.name}: {plan.endpoint} is open to other machines, without TLS or a login; give it tls, "
        'auth = "required" and [users], or allow = ["NETWORK"], add interface=127.0.0.1, or say --insecure'
    )
