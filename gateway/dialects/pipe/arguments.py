"""Single arguments of a request line: a word as a name or a number, and back.

What reads raises CommandFailed with the text for the peer; what writes raises UNSUPPORTED for what the protocol has no
words for and UNREPRESENTABLE for what a line cannot hold.
"""

from __future__ import annotations

from gateway.core.commands import Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.dialects.pipe.faults import WORDS
from gateway.dialects.pipe.terms import PipeTerms
from gateway.dialects.pipe.text import MAX_INT, integer, words

# -- as a server


def wrong_count(verb: str, usage: str) -> CommandFailed:
    """There are more arguments, or fewer, than the command takes."""
    return CommandFailed(Fault.MALFORMED, f"{verb} requires: {usage}")


def malformed(text: str) -> CommandFailed:
    """An argument is not what it has to be, in the words for the peer."""
    return CommandFailed(Fault.MALFORMED, text)


def read_topic(word: bytes, terms: PipeTerms) -> Topic:
    """A topic of the listener's namespace."""
    return Topic(terms.namespace, read_name(word, "topic"))


def read_name(word: bytes, what: str) -> str:
    """Any UTF-8."""
    try:
        return word.decode()
    except UnicodeDecodeError:
        raise CommandFailed(Fault.INVALID_NAME, f"{what} must be UTF-8") from None


def read_integer(word: bytes, what: str) -> int:
    """A 64-bit number, of either sign."""
    value = integer(word)
    if value is None:
        raise malformed(f"invalid {what}")
    return value


def partition_of(value: int) -> int:
    """That number as a partition: not below 0."""
    if value < 0:
        raise CommandFailed(Fault.NO_SUCH_PARTITION, WORDS[Fault.NO_SUCH_PARTITION])
    return value


def offset_of(value: int) -> int:
    """That number as an offset: not below 0."""
    if value < 0:  # the real server crashes
        raise CommandFailed(Fault.INVALID_OFFSET, WORDS[Fault.INVALID_OFFSET])
    return value


# -- as a client


def unsupported(what: str) -> CommandFailed:
    """The protocol has no words for it."""
    return CommandFailed(Fault.UNSUPPORTED, f"V1 has no words for {what}")


def write_topic(topic: Topic, terms: PipeTerms) -> bytes:
    """The name of a topic of the one namespace that there is."""
    if topic.namespace != terms.namespace:
        raise unsupported("a second namespace")
    return write_name(topic.name, "topic")


def write_name(name: int | str, what: str) -> bytes:
    """A name, not an id, that is one word."""
    if isinstance(name, int):
        raise unsupported(f"a {what} by id")
    try:
        return write_word(name.encode(), what)
    except UnicodeEncodeError:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"a {what} that is no text") from None


def write_word(word: bytes, what: str) -> bytes:
    """One argument: not empty, no white space."""
    if words(word) != [word]:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"a {what} that is empty or has white space")
    return word


def write_number(value: int | None) -> bytes:
    """A number from 0 on; None = the partition that a member was last given, which has no number here."""
    if value is None:
        raise unsupported("a partition without its number")
    if not 0 <= value <= MAX_INT:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"{value} is not from 0 to 2^63-1")
    return b"%d" % value


def write_integer(value: int) -> bytes:
    """A 64-bit number, of either sign."""
    if not -MAX_INT - 1 <= value <= MAX_INT:
        raise CommandFailed(Fault.UNREPRESENTABLE, f"{value} is no 64-bit number")
    return b"%d" % value
