"""Names and numbers as tokens of a command, for our client.

What cannot be one raises CommandFailed: UNSUPPORTED if the protocol has no words for it, UNREPRESENTABLE for a value.
"""

from __future__ import annotations

from gateway.core.commands import MAX_OFFSET, Consumer, Reader, Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.dialects.cursus.terms import CursusTerms, Spoken
from gateway.dialects.cursus.text import KEYS
from gateway.dialects.dialect import Request


def unsupported(what: str) -> CommandFailed:
    """What the protocol cannot say."""
    return CommandFailed(Fault.UNSUPPORTED, f"Cursus has no words for {what}")


def on_topic(topic: Topic, terms: CursusTerms) -> str:
    """The argument that names a topic."""
    return f"topic={topic_token(topic, terms)}"


def topic_token(topic: Topic, terms: CursusTerms) -> str:
    """The name of a topic of the one namespace there is."""
    check_namespace(topic.namespace, terms)
    return name_token(topic.name, "topic")


def check_namespace(namespace: int | str, terms: CursusTerms) -> None:
    """Refuse another namespace than the listener's."""
    if namespace != terms.namespace:
        raise unsupported("a second namespace")


def who_words(topic: Topic, group: int | str, member: str, terms: CursusTerms) -> list[str]:
    """The arguments that name a member."""
    return [on_topic(topic, terms), f"group={name_token(group, 'group')}", f"member={token(member, 'member')}"]


def claim_words(request: Request) -> list[str]:
    """The arguments that say who asks, as they were read from somebody."""
    proof = request.context.proof if isinstance(request.context, Spoken) else None
    if proof is None:
        return []
    return [f"principal={token(proof.principal, 'principal')}", f"auth_token={token(proof.secret, 'token')}"]


def group_token(reader: Reader) -> str:
    """The name of the group that reads."""
    if isinstance(reader, Consumer):
        raise unsupported("a consumer outside a group")
    return name_token(reader.name, "group")


def name_token(name: int | str, what: str) -> str:
    """A name; this wire has no ids."""
    if isinstance(name, int):
        raise unsupported(f"a {what} by id")
    return token(name, what)


def token(text: str, what: str) -> str:
    """One token: not empty, no blanks that end it, nothing that begins a message."""
    octets = text.encode("utf-8", "replace")
    if octets.split() != [octets] or octets.decode() != text or "message=" in text:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"a {what} that one word cannot be")
    return text


def digits(value: int | None) -> str:
    """A number that is not negative; None = the partition that a member was last given, which has no number here."""
    if value is None:
        raise unsupported("a partition without its number")
    if not 0 <= value <= MAX_OFFSET:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"{value} is not from 0 to 2^63-1")
    return str(value)


def in_order(*values: str) -> list[str]:
    """Arguments in the seed's order, where none may look as if it had a key."""
    if any(value.partition("=")[0].encode() in KEYS and "=" in value for value in values):
        raise CommandFailed(Fault.UNREPRESENTABLE, "a name that looks like an argument")
    return list(values)
