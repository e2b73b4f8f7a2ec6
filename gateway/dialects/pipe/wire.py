"""Lines: where one ends, and what stands around the arguments and the payload, in both roles.

request = "V1|" corr "|" command "|" args LF
ok      = "V1|" corr "|OK" [ "|" payload ] LF
err     = "V1|" corr "|ERR|" code "|" message LF

Bytes pass through untouched, whether they are UTF-8 or not.  Source: pipe.md, section 1.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gateway.core.commands import Command
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Outcome
from gateway.dialects.dialect import Refusal, Request, Tag, Terms
from gateway.dialects.pipe import cluster_replies, cluster_requests
from gateway.dialects.pipe.arguments import unsupported
from gateway.dialects.pipe.asides import Aside
from gateway.dialects.pipe.asking import WRITE
from gateway.dialects.pipe.cluster_asking import ask, beside
from gateway.dialects.pipe.faults import CODES, WORDS, failure_of
from gateway.dialects.pipe.replies import read_payload, write_payload
from gateway.dialects.pipe.requests import READ
from gateway.dialects.pipe.terms import PipeTerms
from gateway.dialects.pipe.text import trim, words

FORMAT = "expected format V1|<correlation_id>|<command>|<args>"

_FAILED = {fault: f"ERR|{CODES[fault]}|{WORDS[fault]}".encode() for fault in Fault}


def measure(held: bytes | bytearray, start: int, scanned: int) -> int:
    """Bytes up to and with the next LF, 0 = not there yet; what was looked through before is not looked at again."""
    return max(0, held.find(b"\n", start + scanned) + 1 - start)


def decode_request(frame: bytes, terms: Terms) -> Request | Refusal:
    """One line with its LF -> what it asks.

    A line whose four parts cannot be told apart is refused under the correlation value `0`, as the project does even
    where it could be read.  The command is read without regard to (ASCII) case.
    """
    assert isinstance(terms, PipeTerms), "a pipe listener has PipeTerms"
    parts = frame.split(b"|", 3)
    if len(parts) != 4 or frame.find(b"\n") != len(frame) - 1:
        return _refused(FORMAT)
    version, corr, verb, args = parts
    if version != b"V1" and trim(version) != b"V1":
        return _refused("unsupported version")
    corr, verb = trim(corr), trim(verb).upper()
    if not corr:
        return _refused("correlation id required")
    if not verb:
        return _refused("command required")
    tag, context = _tag(corr)
    read = READ.get(verb)
    try:
        if read is not None:
            return Request(read(words(args), terms), tag, context)
        command, aside = _beside(verb)(words(args), terms)
    except CommandFailed as failure:
        return Refusal(failure, tag, context=context)
    return Request(command, tag, aside if context is None else msgspec.structs.replace(aside, corr=context))


def _beside(verb: bytes) -> Callable[[list[bytes], PipeTerms], cluster_requests.Asked]:
    read = cluster_requests.READ.get(verb)
    if read is None:
        raise CommandFailed(Fault.UNSUPPORTED, WORDS[Fault.UNSUPPORTED])
    return read


def encode_reply(request: Request | Refusal, outcome: Outcome, terms: Terms) -> bytes:
    """The one line that answers a request.

    Raises CommandFailed(UNREPRESENTABLE) for a value that policy `reject` refuses.
    """
    assert isinstance(terms, PipeTerms), "a pipe listener has PipeTerms"
    corr = _correlation(request)
    if isinstance(request, Refusal):
        return b"V1|%b|%b\n" % (corr, _refusal(request.failure))
    if request.context is not None and isinstance(request.context, Aside):
        return b"V1|%b|%b\n" % (corr, _about_cluster(request.command, request.context, outcome, terms))
    if isinstance(outcome, CommandFailed):
        return b"V1|%b|%b\n" % (corr, _FAILED[outcome.fault])
    return b"V1|%b|OK|%b\n" % (corr, write_payload(request.command, outcome, terms))


def _about_cluster(command: Command, aside: Aside, outcome: Outcome, terms: PipeTerms) -> bytes:
    if isinstance(outcome, CommandFailed):
        return b"ERR|" + cluster_replies.write_failure(command, aside, outcome)
    return b"OK|" + cluster_replies.write_payload(command, aside, outcome, terms)


def encode_request(request: Request, terms: Terms) -> bytes:
    """The line that asks.  request.tag: the correlation value, None = `0`.

    Raises CommandFailed: UNSUPPORTED, UNREPRESENTABLE (see asking.py), TOO_LARGE for a line at which the server would
    hang up.
    """
    assert isinstance(terms, PipeTerms), "a pipe listener has PipeTerms"
    corr = _correlation(request)
    if not corr or trim(corr) != corr or b"|" in corr or b"\n" in corr:
        raise CommandFailed(Fault.UNREPRESENTABLE, "a correlation value that a line cannot hold")
    verb, args = _asked(request, terms)
    line = b"V1|%b|%b|%b\n" % (corr, verb, b" ".join(args))
    if len(line) > terms.max_frame:
        raise CommandFailed(Fault.TOO_LARGE, f"a line of {len(line)} bytes, {terms.max_frame} is the limit")
    return line


def _asked(request: Request, terms: PipeTerms) -> tuple[bytes, list[bytes]]:
    command, aside = request.command, beside(request.command, request.context)
    if aside is not None:
        return ask(command, aside, terms)
    if type(command) not in WRITE:
        raise unsupported(type(command).__name__)
    verb, write = WRITE[type(command)]
    return verb, write(command, terms)


def decode_reply(request: Request, frame: bytes, terms: Terms) -> Outcome:
    """One line with its LF -> what it says to that request.

    An ERR line may have the correlation value `0`: the server could not, or did not care to, read ours.  Any other
    value than ours is MALFORMED, since answers come in order.  Raises CommandFailed(MALFORMED).
    """
    assert isinstance(terms, PipeTerms), "a pipe listener has PipeTerms"
    parts = frame.rstrip(b"\r\n").split(b"|", 3)
    if len(parts) < 3 or parts[0] != b"V1" or frame.find(b"\n") != len(frame) - 1:
        raise CommandFailed(Fault.MALFORMED, "the answer is no V1 line")
    corr, status, rest = parts[1], parts[2], b"".join(parts[3:])
    if corr != _correlation(request) and (corr, status) != (b"0", b"ERR"):
        raise CommandFailed(Fault.MALFORMED, "the answer is to another correlation value")
    if status == b"OK":
        aside = beside(request.command, request.context)
        if aside is not None:
            return cluster_replies.read_payload(request.command, aside, rest, terms)
        return read_payload(request.command, rest, terms)
    if status != b"ERR":
        raise CommandFailed(Fault.MALFORMED, "the answer is neither OK nor ERR")
    code, _, message = rest.decode("utf-8", "replace").partition("|")
    return failure_of(code or "UNKNOWN_ERROR", message)


def _refused(text: str) -> Refusal:
    return Refusal(CommandFailed(Fault.MALFORMED, text))


def _refusal(failure: CommandFailed) -> bytes:
    """Our own words for what is no command; what the frame buffer says of a long line is for the log."""
    said = failure.detail if failure.fault is not Fault.TOO_LARGE else ""
    return f"ERR|{CODES[failure.fault]}|{said or WORDS[failure.fault]}".encode()


def _tag(corr: bytes) -> tuple[str, bytes | None]:
    """The correlation value to show; if it is not UTF-8, the bytes to send back are kept beside it."""
    try:
        return corr.decode(), None
    except UnicodeDecodeError:
        return corr.decode("utf-8", "backslashreplace"), corr


def _correlation(request: Request | Refusal) -> bytes:
    context = request.context
    if context is not None:
        corr = context.corr if isinstance(context, Aside) else context
        if isinstance(corr, bytes):
            return corr
    tag: Tag = request.tag
    return b"0" if tag is None else str(tag).encode("utf-8", "surrogatepass")
