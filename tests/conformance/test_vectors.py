"""gateway.conformance.vectors: cases say what they mean, and what does not hold is said plainly."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import msgspec
import pytest

import wire
from gateway.conformance import vectors
from gateway.conformance.expressions import evaluate
from gateway.conformance.vectors import BadCase, Case, check, parse
from gateway.core.commands import Acks, Balanced, ByKey, Fetch, Group, Next, Ping, Publish, Topic
from gateway.core.faults import CommandFailed, Fault
from gateway.core.records import CANONICAL, Header, HeaderKind, Record, RecordBatch, canonical, registry
from gateway.core.replies import Done, Joined
from gateway.dialects import Dialect, Request, names
from gateway.dialects.native import DIALECT

ENCODINGS = registry([])

PING = wire.request("native", Ping(), 1).hex()
DONE = wire.reply("native", Request(Ping(), 1), Done()).hex()
BAD = wire.said("native", "a byte that msgpack never uses is malformed").hex()
OTHERWISE = wire.said(
    "native", "a number in a longer spelling is the same number, and is answered in the shortest"
).hex()


def renamed(frame: str, word: str) -> str:
    """A frame with another word for its only one, as long as that."""
    return frame[: -2 * len(word)] + word.encode().hex()


def case(**changes: object) -> Case:
    """A ping that holds, with some keys changed; None leaves one out."""
    keys: dict[str, object] = {
        "name": "a ping is answered",
        "source": "computed",
        "when": PING,
        "then": DONE,
        "command": "Ping()",
        "outcome": "Done()",
    }
    text = "[[case]]\n"
    for key, value in (keys | changes).items():
        if value is not None:
            text += f"{key} = {value if isinstance(value, Toml) else msgspec.json.encode(value).decode()}\n"
    [made] = parse("x.toml", text)
    return made


class Toml(str):
    """A value as TOML spells it."""


def found(made: Case, dialect: Dialect = DIALECT) -> list[str]:
    return check(dialect, made, ENCODINGS)


# -- bytes


@pytest.mark.parametrize(
    ("form", "octets"),
    [
        ('"00ff 0A\\t0b"', b"\x00\xff\x0a\x0b"),
        ('""', b""),
        ('"""\n00 01   # a length\n02"""', b"\x00\x01\x02"),
        ('{ text = "a|b\\n" }', b"a|b\n"),
        ('{ text = "é" }', b"\xc3\xa9"),
        ('{ frame = "abcd" }', b"\x00\x00\x00\x04abcd"),
        ('{ frame = "é" }', b"\x00\x00\x00\x02\xc3\xa9"),
        ('["00", { text = "a" }, { frame = "" }]', b"\x00a\x00\x00\x00\x00"),
        ("[]", b""),
    ],
)
def test_bytes_have_several_spellings(form: str, octets: bytes) -> None:
    assert case(when=Toml(form)).when == octets


@pytest.mark.parametrize(
    "form",
    ['"0"', '"zz"', '{ text = "a", frame = "b" }', '{ hex = "00" }', "{}", "3", "[3]", '[["00"]]', "{ text = 1 }"],
)
def test_other_spellings_are_refused(form: str) -> None:
    with pytest.raises(BadCase, match=r"^x\.toml: a ping is answered: "):
        case(when=Toml(form))


# -- cases


def test_what_is_not_said_has_a_default() -> None:
    made = case(then=None, outcome=None)
    assert (made.then, made.outcome, made.refusal, made.closing, made.tag) == (None, None, None, False, None)
    assert (made.roles, made.settings, made.advertise) == (("server", "client"), {}, "localhost:9000")
    assert made.outcomes(ENCODINGS) == []


def test_a_tag_is_text_whatever_it_was_written_as() -> None:
    assert case(tag=1).tag == case(tag="1").tag == "1"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"oucome": "Done()"}, "unknown field `oucome`"),
        ({"source": None}, "missing required field `source`"),
        ({"source": ""}, "name and source cannot be empty"),
        ({"roles": []}, "roles names nobody"),
        ({"roles": ["broker"]}, "'broker'"),
        ({"command": None}, "one of command and refusal is needed"),
        ({"refusal": "MALFORMED"}, "one of command and refusal is needed"),
        ({"command": None, "refusal": "MALFORMED"}, "a refusal has no outcome"),
        ({"command": None, "outcome": None, "refusal": "NONSENSE"}, "there is no Fault.NONSENSE"),
        ({"closing": True}, "closing says something of a refusal"),
        ({"outcome": None}, "then needs an outcome"),
        ({"tag": 1.5}, "tag"),
    ],
)
def test_a_case_that_cannot_be_meant_is_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(BadCase) as caught:
        case(**changes)
    assert str(caught.value).startswith("x.toml: a ping is answered: ")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[case]\n", "x.toml: "),
        ("case = 3\n", "x.toml: case is a list of tables"),
        ("[[cases]]\n", "x.toml: nothing but [[case]] belongs here, there is ['cases']"),
        ("[[case]]\nsource = 'x'\n", "x.toml: case 1: "),
    ],
)
def test_a_file_that_cannot_be_read_is_named(text: str, said: str) -> None:
    with pytest.raises(BadCase) as caught:
        parse("x.toml", text)
    assert str(caught.value).startswith(said)


def folder(monkeypatch: pytest.MonkeyPatch, path: Path, **files: str) -> None:
    """Make path the package of whatever dialect is asked for."""
    (path / "vectors").mkdir()
    for name, text in files.items():
        (path / "vectors" / f"{name}.toml").write_text(text, "utf-8")
    monkeypatch.setattr(resources, "files", lambda package: path)


ONE = f"[[case]]\nname = 'a ping'\nsource = 'computed'\ncommand = 'Ping()'\nwhen = '{PING}'\n"


def test_cases_come_by_file_and_in_their_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder(monkeypatch, tmp_path, b=ONE.replace("a ping", "three"), a=ONE + ONE.replace("a ping", "two"))
    (tmp_path / "vectors" / "notes.txt").write_text("not a case")
    loaded = vectors.load("native")
    assert [(made.file, made.name) for made in loaded] == [
        ("native/vectors/a.toml", "a ping"),
        ("native/vectors/a.toml", "two"),
        ("native/vectors/b.toml", "three"),
    ]


def test_a_name_is_taken_once_in_a_dialect(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder(monkeypatch, tmp_path, a=ONE, b=ONE)
    with pytest.raises(BadCase) as caught:
        vectors.load("native")
    assert str(caught.value) == "native/vectors/b.toml: a ping: native/vectors/a.toml has a case of that name"


def test_a_dialect_without_vectors_has_no_cases(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(resources, "files", lambda package: tmp_path)
    assert vectors.load("native") == []


@pytest.mark.parametrize("name", names())
def test_the_cases_of_every_dialect_can_be_read(name: str) -> None:
    assert [made.name for made in vectors.load(name) if not made.file.startswith(f"{name}/vectors/")] == []


# -- expressions


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Ping()", Ping()),
        ("-5", -5),
        ("(1, 2.5, 'a', b'b', None, True)", (1, 2.5, "a", b"b", None, True)),
        ("[Ping()]", [Ping()]),
        ("{0: 5, 1: -6}", {0: 5, 1: -6}),
        ("Acks.ALL", Acks.ALL),
        ('hex("00 ff")', b"\x00\xff"),
        ('encoding("msgpack.v1")', CANONICAL),
        (
            'Fetch(Topic("default", "orders"), None, Next(Group("g")), max_records=8192)',
            Fetch(Topic("default", "orders"), None, Next(Group("g")), max_records=8192),
        ),
        (
            'Publish(Topic("a", 1), ByKey(b"k", "xxh32"), RecordBatch(encoding("msgpack.v1"), hex("90"), 0))',
            Publish(Topic("a", 1), ByKey(b"k", "xxh32"), RecordBatch(CANONICAL, b"\x90", 0)),
        ),
        (
            'canonical([Record(b"k", headers=(Header(b"h", b"1", HeaderKind.BOOL),))], "pipe")',
            canonical([Record(b"k", headers=(Header(b"h", b"1", HeaderKind.BOOL),))], "pipe"),
        ),
        ("\n Balanced(\n )\n", Balanced()),
        ('Joined("m", 1, (0, 1))', Joined("m", 1, (0, 1))),
    ],
)
def test_an_expression_stands_for_its_value(text: str, value: object) -> None:
    got = evaluate(text, ENCODINGS)
    assert got == value
    assert type(got) is type(value)


def test_a_failure_is_an_expression_too() -> None:
    failure = evaluate('CommandFailed(Fault.OFFSET_GONE, "gone", requested=3)', ENCODINGS)
    assert isinstance(failure, CommandFailed)
    assert (failure.fault, failure.detail, failure.facts) == (Fault.OFFSET_GONE, "gone", {"requested": 3})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "column "),
        ("Ping(", "column 5: "),
        ("Ping() Ping()", "column "),
        ("Pong()", "column 1: Pong() is not known here"),
        ("[Ping(), Pong()]", "column 10: Pong() is not known here"),
        ("__import__('os')", "column 1: __import__() is not known here"),
        ("Ping", "column 1: Ping is not allowed here"),
        ("Ping().__class__", "column 1: Ping().__class__ is not allowed here"),
        ("vectors.load", "column 1: vectors.load is not allowed here"),
        ("(lambda: 1)()", "column 1: "),
        ("1 + 1", "column 1: 1 + 1 is not allowed here"),
        ("-Ping()", "column 1: "),
        ("...", "column 1: "),
        ("f'{1}'", "column 1: "),
        ("{**{}}", "column 1: "),
        ("Topic(*('a', 'b'))", "column 7: "),
        ("Topic(**{'namespace': 'a'})", "column 1: "),
        ("{[]: 1}", "column 1: "),
        ("Topic('a')", "column 1: Missing required argument 'name'"),
        ("Fetch(Topic('a', 'b'), 0, 0, records=1)", "column 1: Unexpected keyword argument 'records'"),
        ("Fault.NONSENSE", "column 1: there is no Fault.NONSENSE"),
        ("CommandFailed(Fault.__class__)", "column 15: there is no Fault.__class__"),
        ("hex('0')", "column 1: non-hexadecimal"),
        ("hex(5)", "column 1: hex() is not known here"),
        ("encoding('x.v1')", "column 1: there is no record encoding 'x.v1', only msgpack.v1"),
        ("Encoding('x')", "column 1: Encoding() is not known here"),
    ],
)
def test_anything_else_is_refused_with_its_column(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"^column \d+: ") as caught:
        evaluate(text, ENCODINGS)
    assert str(caught.value).startswith(said)


def test_an_expression_that_is_wrong_names_file_case_key_and_column() -> None:
    made = case(command="[Ping(), Pong()]")
    with pytest.raises(BadCase) as caught:
        made.commands(ENCODINGS)
    assert str(caught.value) == "x.toml: a ping is answered: command: column 10: Pong() is not known here"
    assert found(made) == [str(caught.value)]


# -- judging


def test_a_case_that_holds_has_no_complaints() -> None:
    assert found(case()) == found(case(tag=1)) == found(case(roles=["server"])) == found(case(roles=["client"])) == []
    assert found(case(then=None, outcome=None)) == []
    assert found(case(then=None)) == []


def test_several_frames_have_several_commands_and_outcomes() -> None:
    twice = {"when": [PING, PING], "then": [DONE, DONE]}
    assert found(case(**twice, command="[Ping(), Ping()]", outcome="[Done(), Done()]")) == []
    assert "command is Ping(), Ping(), not Ping()" in found(case(**twice, outcome="[Done(), Done()]"))[0]
    assert len(found(case(**twice, command="[Ping(), Ping()]"))) == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"command": "EndSession()"}, ["command is Ping(), not EndSession()"]),
        ({"tag": 2}, ["tag is 1"]),
        ({"outcome": "Count(1)"}, ["then differs from byte 3 on: ", "outcome is Done(), not Count(value=1)"]),
        ({"outcome": "Count(1)", "roles": ["server"]}, ["then differs from byte 3 on: "]),
        ({"outcome": "Count(1)", "roles": ["client"]}, ["outcome is Done(), not Count(value=1)"]),
        ({"outcome": "CommandFailed(Fault.BUSY)", "roles": ["client"]}, ["outcome is Done(), not CommandFailed("]),
        ({"outcome": "[Done(), Done()]"}, ["1 requests, 2 outcomes", "1 requests, 1 reply frames, 2 outcomes"]),
        ({"when": PING[:-2]}, ["when: the frame at byte 0 is not whole: 0000"]),
        ({"then": DONE + "00", "roles": ["client"]}, ["then: the frame at byte 12 is not whole: 00"]),
        ({"when": renamed(PING, "Pong")}, ["refused: UNSUPPORTED: no command is called 'Pong'"]),
        ({"when": OTHERWISE}, ["when, as our client sends it, differs from byte 3 on: "]),
        ({"settings": Toml("{ colour = 1 }")}, ["raised ValidationError("]),
        ({"then": renamed(DONE, "Dine"), "roles": ["client"]}, ["outcome is CommandFailed(", "not Done()"]),
    ],
)
def test_what_does_not_hold_is_said(changes: dict[str, object], said: list[str]) -> None:
    complaints = found(case(**changes))
    assert all(line.startswith("x.toml: a ping is answered: ") for line in complaints)
    for text in said:
        assert any(text in line for line in complaints), complaints


REFUSED = {"command": None, "outcome": None, "when": BAD, "then": None, "refusal": "MALFORMED", "tag": 0}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"tag": None}, None),
        ({"refusal": "BUSY"}, "frame 1 is refused with MALFORMED"),
        ({"closing": True}, "closing is False"),
        ({"tag": 1}, "tag is 0"),
        ({"when": PING}, "not refused: [Request("),
        ({"when": [BAD, PING]}, "not refused: [Refusal("),
        ({"then": "00"}, "then differs from byte 1 on: "),
    ],
)
def test_a_refusal_is_judged_by_its_fault_its_answer_and_what_becomes_of_the_connection(
    changes: dict[str, object], said: str | None
) -> None:
    complaints = found(case(**REFUSED | changes))
    assert len(complaints) == (said is not None)
    assert not said or said in complaints[0]


def test_failures_are_alike_if_their_codes_are() -> None:
    few = {**DIALECT.faults, Fault.TIMEOUT: Fault.BUSY.name}
    dialect: Dialect = msgspec.structs.replace(DIALECT, faults=few)
    busy = wire.reply("native", Request(Ping(), 1), CommandFailed(Fault.BUSY)).hex()
    assert found(case(then=busy, outcome="CommandFailed(Fault.TIMEOUT)", roles=["client"]), dialect) == []
    assert "then says BUSY" in found(case(then=busy, outcome="CommandFailed(Fault.FORBIDDEN)", roles=["client"]))[0]


def test_where_it_is_exact_failures_are_alike_if_their_facts_are_and_the_detail_that_is_named() -> None:
    told = wire.reply("native", Request(Ping(), 1), CommandFailed(Fault.OFFSET_GONE, "gone", requested=3)).hex()
    same = ['CommandFailed(Fault.OFFSET_GONE, "gone", requested=3)', "CommandFailed(Fault.OFFSET_GONE, requested=3)"]
    other = ['CommandFailed(Fault.OFFSET_GONE, "lost", requested=3)', "CommandFailed(Fault.OFFSET_GONE, requested=4)"]
    for outcome in same + other:
        assert found(case(then=told, outcome=outcome, roles=["client"])) == []
    for outcome in same:
        assert found(case(then=told, outcome=outcome, roles=["client"], exact=True)) == []
    for outcome in other:
        [complaint] = found(case(then=told, outcome=outcome, roles=["client"], exact=True))
        assert "failure is " in complaint


def test_what_the_wire_cannot_carry_is_judged_as_the_answer_to_it() -> None:
    def encode_reply(request: object, outcome: object, terms: object) -> bytes:
        if isinstance(outcome, CommandFailed):
            return wire.reply("native", Request(Ping(), 1), Done())
        raise CommandFailed(Fault.UNREPRESENTABLE)

    assert found(case(roles=["server"]), msgspec.structs.replace(DIALECT, encode_reply=encode_reply)) == []


def test_a_codec_that_crashes_is_a_complaint() -> None:
    def decode_request(frame: bytes, terms: object) -> Ping:
        raise ZeroDivisionError("oops")

    dialect: Dialect = msgspec.structs.replace(DIALECT, decode_request=decode_request)
    assert found(case(), dialect) == ["x.toml: a ping is answered: raised ZeroDivisionError('oops')"]


def test_settings_and_address_of_a_case_are_those_it_is_judged_by() -> None:
    seen = []

    def decode_request(frame: bytes, terms: object) -> object:
        seen.append((terms.policy, terms.advertise))  # type: ignore[attr-defined]
        return DIALECT.decode_request(frame, terms)  # type: ignore[arg-type]

    dialect: Dialect = msgspec.structs.replace(DIALECT, decode_request=decode_request)
    assert found(case(settings=Toml('{ policy = "reject" }'), advertise="h:1"), dialect) == []
    assert seen == [("reject", "h:1")]


def test_bytes_are_shown_as_text_where_they_are_text() -> None:
    assert vectors._shown(b"a|b\n") == "'a|b\\n'"
    assert vectors._shown(b"\xff" + b"abcd") == "ff616263 64"
