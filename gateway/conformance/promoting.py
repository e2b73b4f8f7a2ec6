"""A failure of the fuzz stage as a case file, which `gateway conformance server --file` plays.

What the case wants is what the fuzz stage wants, as far as a case can say it: the code of a refusal is that of the
dialect's table.  A person reads it, gives it an id that was never used, and moves it to the cases of the dialect.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from gateway.conformance.fuzzing import Found
from gateway.conformance.grammars import Grammar
from gateway.conformance.patterns import Form
from gateway.conformance.trials import Asked, Trial
from gateway.core.faults import CommandFailed, Fault
from gateway.dialects import Refusal, Terms

LETTERS = {"cursus": "CUR", "iggy": "IGY", "pipe": "PIP", "grid": "GRD", "mlog": "MLG"}

PROMISES = {
    "not refused": "what is no request is refused",
    "silence": "what is damaged is answered, or hung up on",
    "hung up": "what is damaged does not end a connection on which the next frame is known",
    "unreadable": "what is damaged is answered with what can be read",
    "not asked": "what is damaged is answered once",
    "probe": "what is damaged leaves the answer behind it alone",
    "no login": "a login is answered",
    "gone": "what is damaged does not end the server",
}

TOO_LONG = Refusal(CommandFailed(Fault.TOO_LARGE, "a frame beyond the limit"))

Step = dict[str, object]


def promote(found: Found, grammar: Grammar, directory: Path) -> Path:
    """Write it.  Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    name = grammar.dialect.name
    digest = hashlib.sha256(found.octets).hexdigest()[:8]
    path = directory / f"{name}-{digest}.toml"
    path.write_text(_text(found, grammar, f"{LETTERS[name]}-FUZZ-{digest}"), "utf-8")
    return path


def _text(found: Found, grammar: Grammar, id: str) -> str:
    failure = found.failure
    needs = {name: value for name, value in grammar.told().items() if name == "generation"}
    rows = {
        "id": id,
        "level": "MUST",
        "name": PROMISES[failure.kind],
        "source": f"fuzz, seed {found.seed}",
        "role": "server",
        **({"needs": needs} if needs else {}),
    }
    said = [f"# {failure.why}" + (f": {failure.got[:200].hex(' ')}" if failure.got else "")]
    lines = [f"{key} = {_toml(value)}" for key, value in rows.items()]
    steps = ["steps = [", *(f"  {_toml(step)}," for step in steps_of(found.octets, grammar)), "]"]
    return "\n".join(["# The id is to be replaced by one that was never used.", *said, "[[case]]", *lines, *steps, ""])


def steps_of(octets: bytes, grammar: Grammar) -> list[Step]:
    """What is sent and what is to come, as a case file has it."""
    trial = Trial(grammar, octets, {"topic": b"t-000000", "group": b"g-000000"})
    terms = grammar.greeted()
    steps: list[Step] = []
    greeting = grammar.greeting(grammar.terms())
    if greeting is not None:
        steps += [{"send": greeting[1].hex()}, {"expect": grammar.any_answer(greeting[1], 99)}]
        trial.skip_greeting()
    steps.append({"send": octets.hex()})
    for number, asked in enumerate(trial.frames):
        wanted = _wanted(asked, grammar, terms, number)
        if asked is trial.frames[-1] and not trial.whole:
            too_long = grammar.refusal(TOO_LONG, terms, number)
            return [*steps, {"finish": True}, {"closed": 2.0, "lenient": [wanted, too_long]}]
        if asked.ends:
            return [*steps, {"closed": 2.0, "lenient": [wanted]}]
        steps.append({"expect": wanted})
        if asked.follows:
            return steps
    return [*steps, {"send": grammar.probe.ask}, {"expect": grammar.probe.answer}]


def _wanted(asked: Asked, grammar: Grammar, terms: Terms, number: int) -> Form:
    if asked.refused and not asked.ends:
        return grammar.refusal(asked.said, terms, number)
    return grammar.any_answer(asked.octets, number)


def _toml(value: object) -> str:
    """On one line."""
    match value:
        case dict():
            return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case bool():
            return str(value).lower()
        case _:
            return json.dumps(value)
