"""gateway.configuration: what an operator may ask for, and the sentence for everything else."""

from __future__ import annotations

import hashlib
import os
import pty
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from gateway import dialects
from gateway.configuration import (
    TLS,
    AccessRule,
    Backend,
    CapturePlan,
    Configuration,
    ConsolePlan,
    Limits,
    Node,
    WebPlan,
    configure,
    default_listeners,
    listening,
    parse_listen,
    read_configuration,
    user_section,
)
from gateway.configuration.people import NO_PROOF
from gateway.dialects.pipe.terms import PipeSettings
from gateway.net.users import NO_PASSWORD, NO_TOKEN, User, new_password, new_token

CHOICES = ", ".join(dialects.names())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gateway.toml"


def read(file: Path, text: str) -> Configuration:
    file.write_text(text)
    return read_configuration(str(file))


def complaint(file: Path, text: str) -> str:
    with pytest.raises(ValueError) as caught:
        read(file, text)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.startswith(str(file))
    return sentence.removeprefix(str(file))


# -- the command line


def test_without_a_word_every_dialect_listens_on_loopback_at_its_own_port() -> None:
    plans = default_listeners()
    assert [plan.name for plan in plans] == dialects.names()
    for plan in plans:
        assert plan.endpoint == f"tcp:{plan.dialect.port}:interface=127.0.0.1"
        assert plan.settings == plan.dialect.settings()
        assert plan.tls is None
        assert plan.auth == "optional"
    assert len({plan.endpoint for plan in plans}) == len(plans)


def test_listeners_are_told_by_dialect_and_endpoint() -> None:
    plans = parse_listen(["pipe=tcp:1:interface=127.0.0.1", "native=unix:/run/a=b", "pipe=tcp:2"])
    assert [(plan.name, plan.dialect.name, plan.endpoint) for plan in plans] == [
        ("pipe", "pipe", "tcp:1:interface=127.0.0.1"),
        ("native", "native", "unix:/run/a=b"),
        ("pipe-3", "pipe", "tcp:2"),
    ]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("pipe", "--listen wants DIALECT=ENDPOINT, such as cursus=tcp:9000, not 'pipe'"),
        ("smtp=tcp:25", f"there is no dialect 'smtp'; there are {CHOICES}"),
        ("=tcp:25", f"there is no dialect ''; there are {CHOICES}"),
    ],
)
def test_a_listener_that_cannot_be_is_refused_in_a_sentence(value: str, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_listen([value])
    assert str(caught.value) == sentence


# -- the file


def test_a_file_says_everything_the_command_line_can_and_more(file: Path) -> None:
    told = read(
        file,
        """
        [backend]
        spec = "memory"

        [listener.front]
        dialect = "pipe"
        endpoint = "tcp:9092"
        namespace = "sales"
        advertise = "broker.example:9092"
        partitions = 12
        policy = "reject"

        [listener.front.tls]
        certificate = "server.pem"
        key = "server.key"

        [listener.back]
        dialect = "native"
        """,
    )
    front, back = told.listeners
    assert told.backend == "memory"
    assert (front.name, front.dialect.name, front.endpoint) == ("front", "pipe", "tcp:9092")
    assert front.tls == TLS("server.pem", "server.key")
    assert front.settings == PipeSettings(
        namespace="sales", advertise="broker.example:9092", partitions=12, policy="reject"
    )
    assert (back.name, back.endpoint) == ("back", f"tcp:{back.dialect.port}:interface=127.0.0.1")
    assert back.settings == back.dialect.settings()


def test_an_empty_file_says_nothing(file: Path) -> None:
    assert read(file, "") == Configuration()


def test_a_file_that_is_not_there_is_refused(file: Path) -> None:
    with pytest.raises(ValueError, match=r"^/.+/gateway.toml: No such file or directory$"):
        read_configuration(str(file))


def test_a_file_that_is_no_text_is_refused(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"^/.+/gateway.toml: .+codec can't decode"):
        read_configuration(str(file))


PIPE = "[listener.x]\ndialect = 'pipe'\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a = 1\n[listener", ":2: Expected ']' at the end of a table declaration (at end of document)"),
        ("a = 1\nb = [1,\n2 3]", ":3: Unclosed array, at column 3"),
        (
            "[listen.x]",
            ":1 listen: there is no such key; did you mean listener?",
        ),
        (
            "\n[zoo]",
            ":2 zoo: there is no such key; there are access, backend, capture, console, insecure, limits, listener, "
            "node, users, web",
        ),
        ("backend = 7", ":1 backend: wants a table, not 7"),
        ("[backend]\nsepc = 'memory'", ":2 backend.sepc: there is no such key; did you mean spec?"),
        ("[backend]\nspec = 7", ":2 backend.spec: wants text in quotes, not 7"),
        ("[backend]\npassword = 'p'", ':2 backend.password: whose password is that? say user = "NAME", too'),
        (
            "[backend]\nuser = 'u'\npassword = 'p'\npassword_file = 'f'",
            ":4 backend.password_file: say password or password_file, not both",
        ),
        (
            "[listener.x]",
            f':1 listener.x.dialect: dialect = "NAME" is missing; NAME is one of {CHOICES}',
        ),
        ("[listener.x]\ndialect = 1", f":2 listener.x.dialect: wants one of {CHOICES}"),
        (
            "[listener.x]\ndialect = 'smtp'",
            f":2 listener.x.dialect: there is no dialect 'smtp'; there are {CHOICES}",
        ),
        (
            "[listener.x]\ndialect = 'curses'",
            ":2 listener.x.dialect: there is no dialect 'curses'; did you mean cursus?",
        ),
        (f"{PIPE}partitons = 3", ":3 listener.x.partitons: there is no such key; did you mean partitions?"),
        (
            f"{PIPE}qqq = 3",
            ":3 listener.x.qqq: there is no such key; there are advertise, allow, auth, consume_max_bytes, "
            "consume_max_records, dialect, endpoint, frame_seconds, max_frame, namespace, partitions, policy, tls",
        ),
        (f"{PIPE}partitions = 0", ":3 listener.x.partitions: wants a whole number from 1 to 100000, not 0"),
        (f"{PIPE}partitions = '3'", ":3 listener.x.partitions: wants a whole number from 1 to 100000, not text"),
        (f"{PIPE}partitions = true", ":3 listener.x.partitions: wants a whole number from 1 to 100000, not true"),
        (f"{PIPE}partitions = 3.0", ":3 listener.x.partitions: wants a whole number from 1 to 100000, not 3.0"),
        (
            f"{PIPE}partitions = 1979-05-27",
            ":3 listener.x.partitions: wants a whole number from 1 to 100000, not a date or time",
        ),
        (f"{PIPE}frame_seconds = 0", ":3 listener.x.frame_seconds: wants a number above 0, not 0"),
        (f"{PIPE}max_frame = -1", ":3 listener.x.max_frame: wants a whole number, 0 or more, not -1"),
        (
            f"{PIPE}advertise = 'broker'",
            ':3 listener.x.advertise: wants "HOST:PORT", such as "broker.example.org:9000"',
        ),
        (
            f"{PIPE}policy = 'rejects'",
            ":3 listener.x.policy: wants one of escape, reject, replace, not 'rejects'; did you mean reject?",
        ),
        (
            f"{PIPE}endpoint = 'tcp:http'",
            ":3 listener.x.endpoint: 'tcp:http' is no endpoint; write one such as tcp:9000, "
            "tcp:9000:interface=127.0.0.1, unix:/run/gateway.sock",
        ),
        (f"{PIPE}endpoint = 'tcp:65536'", ":3 listener.x.endpoint: a port is a number up to 65535, not 65536"),
        (f"{PIPE}tls = {{ certificate = 'a' }}", ":3 listener.x.tls: key is missing; it wants text in quotes"),
        (f"{PIPE}tls = 7", ":3 listener.x.tls: wants a table, not 7"),
        (
            f"{PIPE}tls = {{ certificate = 'a',\tkey = 'b', palintext = true }}",
            ":3 listener.x.tls.palintext: there is no such key; did you mean plaintext?",
        ),
        (
            f"{PIPE}[listener.x.tls]\ncertificate = 'a'\nkey = 'b'\nclient = 'required'",
            ':3 listener.x.tls: say both client_ca = "FILE" and client = "optional" or "required", or neither',
        ),
        (
            f"{PIPE}[listener.x.tls]\ncertificate = 'a'\nkey = 'b'\nclient_ca = 'c'",
            ':3 listener.x.tls: say both client_ca = "FILE" and client = "optional" or "required", or neither',
        ),
        (
            f"{PIPE}[listener.x.tls]\ncertificate='a'\nkey='b'\nclient_ca='c'\nclient='required'\nplaintext=true",
            ':3 listener.x.tls: with plaintext = true nobody has to show a certificate; say client = "optional"',
        ),
        (
            f"{PIPE}allow = ['10.0.0.0/8',\n '10.0.0.1/8']",
            ":4 listener.x.allow: '10.0.0.1/8' is no address or network; write one such as \"10.1.2.3\", "
            '"10.1.0.0/16" or "fd00::/8"',
        ),
        (f"{PIPE}allow = '10.0.0.1'", ":3 listener.x.allow: wants a list in [ ], each of it text in quotes, not text"),
        (f"{PIPE}auth = 'maybe'", ":3 listener.x.auth: wants one of none, optional, required, not 'maybe'"),
        (
            "[listener.\"a\\u001bb\"]\ndialect = 'pipe'",
            ':1 listener."a\\u001bb": a listener\'s name is 1 to 255 bytes long and can be printed',
        ),
        (
            "[listener.x]\ndialect = 'grid'\nopcodes = { MAP_GET = 1,\tMAP_PUT = 'two' }",
            ":3 listener.x.opcodes.MAP_PUT: wants a whole number, not text",
        ),
        (
            "[listener.x]\ndialect = 'grid'\nversions = []",
            ":3 listener.x.versions: wants a list of one or more "
            "in [ ], each of it a whole number from 0 to 255, not an empty list",
        ),
        (
            "[listener.x]\ndialect = 'grid'\nversions = [1,\n2,\n256]",
            ":5 listener.x.versions: wants a whole number from 0 to 255, not 256",
        ),
        (
            "[listener.x]\ndialect = 'cursus'\ncompression = 'rar'",
            ":1 listener.x: there is no compression 'rar'; there are gzip, lz4, snappy, zstd",
        ),
        (
            "[node]\nadvertise = 'broker:9000'",
            ':2 node.advertise: wants a host without a port, such as "broker.example.org"',
        ),
        (
            "[listener.x]\ndialect = 'pipe'\nendpoint = 'ssl:9000'\ntls = { certificate = 'c', key = 'k' }",
            ":3 listener.x.endpoint: the ssl: endpoint and tls would both encrypt; write tcp: instead of ssl:",
        ),
        (
            "[listener.x]\ndialect = 'pipe'\nendpoint = 'ssl:9000:sslmethod=x'",
            ":3 listener.x.endpoint: TLS is 1.2 or newer; leave sslmethod out",
        ),
        (
            "[web]\nendpoint = 'ssl:1:dhParameters=x'",
            ":2 web.endpoint: there are none with the ciphers of today; leave dhParameters out",
        ),
        ("[node]\nname = ''", ":2 node.name: wants text in quotes (1 to 255 characters), not empty text"),
        ("[limits]\nidle_second = 3", ":2 limits.idle_second: there is no such key; did you mean idle_seconds?"),
        ("[limits]\nframe_seconds = 0", ":2 limits.frame_seconds: wants a number above 0, not 0"),
        ("[limits]\nidle_seconds = -1", ":2 limits.idle_seconds: wants a number, 0 or more, not -1"),
        ("[limits]\nidle_seconds = nan", ":2 limits.idle_seconds: wants a number, 0 or more, not nan"),
        ("limits.idle_seconds = 'x'", ":1 limits.idle_seconds: wants a number, 0 or more, not text"),
        (
            "[console]\nssh = 'tcp:2222'",
            ':1 console: ssh needs host_key = "FILE" and authorized_keys = "FILE"; '
            "`ssh-keygen -t ed25519 -N '' -f FILE` makes the first",
        ),
        (
            "[web]\nendpoint = 'http'",
            ":2 web.endpoint: 'http' is no endpoint; write one such as tcp:9000, "
            "tcp:9000:interface=127.0.0.1, unix:/run/gateway.sock",
        ),
        ("[capture]\nkeep = 'all'", ":1 capture: directory is missing; it wants text in quotes (not empty)"),
        ("insecure = 1", ":1 insecure: wants true or false, not 1"),
        (
            "access = [{ allow = true,\twho = 'x' },\n{ alow = true }]",
            ":2 access.alow: there is no such key; did you mean allow?",
        ),
        (
            "[[access]]\nwho = 'x'\n[[access]]\nallow=true",
            ":1 access: a rule says allow = true or deny = true, one of them",
        ),
        (
            "[[access]]\nallow=true\n[[access]]\nallow=true\ndeny=true",
            ":3 access: a rule says allow = true or deny = true, one of them",
        ),
        (
            "[[access]]\nallow=true\n[[access]]\nallow=true\ncommand='publish'",
            ":5 access.command: there is no command 'publish'; did you mean Publish?",
        ),
        (
            "[[access]]\nallow=true\ncommand=[]",
            ":3 access.command: wants text in quotes (not empty) or a list of one or more "
            "in [ ], each of it text in quotes (not empty), not an empty list",
        ),
        ("[[access]]\nallow=true\ntopic='a*b'", ":3 access.topic: a pattern is NAME, PREFIX* or *, not 'a*b'"),
        ("access = 7", ":1 access: wants a list in [ ], each of it a table, not 7"),
    ],
)
def test_what_a_file_gets_wrong_is_said_with_its_line_and_what_to_do(file: Path, text: str, sentence: str) -> None:
    assert complaint(file, text) == sentence


def test_an_ssl_endpoint_is_a_listener_with_tls_like_any_other(file: Path) -> None:
    """So its certificates are read again, its handshakes have to end, and `gateway check` looks at its files."""
    endpoint = "ssl:9000:privateKey=a.key:certKey=a.pem:interface=127.0.0.1"
    table = "endpoint = 'tcp:9000:interface=127.0.0.1'\ntls = { certificate = 'a.pem', key = 'a.key' }"
    wanted = read(file, f"[listener.pipe]\ndialect = 'pipe'\n{table}").listeners
    assert read(file, f"[listener.pipe]\ndialect = 'pipe'\nendpoint = '{endpoint}'").listeners == wanted
    assert configure(None, {}, listen=[f"pipe={endpoint}"]).listeners == wanted
    assert configure(None, {"GATEWAY_LISTEN": f"pipe={endpoint}"}).listeners == wanted


@pytest.mark.parametrize("origin", ["--listen", "GATEWAY_LISTEN"])
def test_what_an_ssl_endpoint_cannot_have_is_refused_wherever_it_is_said(origin: str) -> None:
    value = "pipe=ssl:9000:sslmethod=TLSv1_METHOD"
    told = {"listen": [value], "environment": {}} if origin == "--listen" else {"environment": {origin: value}}
    with pytest.raises(ValueError, match=f"^{origin} pipe: TLS is 1.2 or newer; leave sslmethod out$"):
        configure(None, **told)  # type: ignore[arg-type]


def test_a_file_says_all_of_a_process(file: Path) -> None:
    told = read(
        file,
        """
        insecure = true
        node = { name = "east-1", advertise = "broker.example.org" }
        backend = { spec = "remote:iggy=tcp:10.0.0.5:8090", user = "gateway", password = "canary" }
        access = [
            { deny = true, command = ["DeleteTopic", "DeletePartitions"], topic = "orders*" },
            { allow = true, who = "anonymous", topic = ["a", "sales/*"] },
            { deny = false },
        ]
        [limits]
        connections = 7
        frame_seconds = 3
        [console]
        ssh = "tcp:2222:interface=127.0.0.1"
        host_key = "key"
        authorized_keys = "keys"
        [web]
        [capture]
        directory = "captured"
        file_bytes = 65536
        [listener.one]
        dialect = "mlog"
        endpoint = "tcp6:9094:interface=\\\\:\\\\:1"
        allow = ["10.0.0.0/8", "::1"]
        frame_seconds = 4
        [listener.two]
        dialect = "pipe"
        advertise = "other:1"
        [listener.three]
        dialect = "pipe"
        endpoint = "unix:/run/pipe"
        [listener.one.tls]
        certificate = "c"
        key = "k"
        client_ca = "ca"
        client = "optional"
        """,
    )
    one, two, three = told.listeners
    assert told.insecure and told.node == Node("east-1", "broker.example.org")
    assert told.backend_settings == Backend("gateway", "canary") and "canary" not in repr(told)
    assert told.access == (
        AccessRule(False, command=("DeleteTopic", "DeletePartitions"), topic=("orders*",)),
        AccessRule(True, who=("anonymous",), topic=("a", "sales/*")),
        AccessRule(True),
    )
    assert told.limits == Limits(connections=7, frame_seconds=3.0)
    ssh = "tcp:2222:interface=127.0.0.1"
    assert told.console == ConsolePlan(ssh=ssh, host_key="key", authorized_keys="keys")
    assert told.web == WebPlan("tcp:8080:interface=127.0.0.1")
    assert told.capture == CapturePlan("captured", file_bytes=65536)
    assert list(map(str, one.allow)) == ["10.0.0.0/8", "::1/128"]
    assert one.tls == TLS("c", "k", client_ca="ca", client="optional")
    said = [(plan.settings.frame_seconds, plan.settings.advertise) for plan in (one, two, three)]
    assert said == [(4.0, "broker.example.org:9094"), (3.0, "other:1"), (3.0, "")]


def test_a_blank_endpoint_means_that_there_is_none(file: Path) -> None:
    told = read(file, "web.endpoint = ''\nconsole.endpoint = ''")
    assert (told.web, told.console) == (None, None)


# -- users

PASSWORD = new_password("correct horse", log_n=4)
TEXT = PASSWORD.text()
TOKEN, DIGEST = new_token()
BOTH = f"[users.ann]\npassword = '{TEXT}'\n[users.\"b e\"]\ntokens = ['{DIGEST.hex()}', '{DIGEST.hex().upper()}']\n"


def test_users_are_numbered_from_1_in_the_order_of_the_file(file: Path) -> None:
    ann, ben, zoe = read(file, f"{BOTH}[users.aaa]\npassword = '{TEXT}'").users
    assert [(user.principal, user.id) for user in (ann, ben, zoe)] == [("ann", 1), ("b e", 2), ("aaa", 3)]
    assert (ann.password, ann.tokens) == (PASSWORD, ())
    assert (ben.password, ben.tokens) == (None, (DIGEST, DIGEST))


def test_a_password_may_be_in_a_file_of_its_own(file: Path, tmp_path: Path) -> None:
    secret = tmp_path / "ann.secret"
    secret.write_text(f"{TEXT}\nmore\n")
    (ann,) = read(file, f"[users.ann]\npassword_file = '{secret}'").users
    assert ann.password == PASSWORD


def test_a_user_may_be_known_by_certificates_alone(file: Path) -> None:
    told = read(file, f"{BOTH}[users.svc]\nprincipals = ['svc.example.org', 'svc']")
    assert told.principals == {"svc.example.org": "svc", "svc": "svc"}
    assert told.users[2] == User("svc", 3)


@pytest.mark.parametrize("auth", ["none", "optional", "required"])
def test_a_listener_says_whether_its_clients_must_log_in(file: Path, auth: str) -> None:
    front, back = read(
        file, f"{BOTH}[listener.f]\ndialect='pipe'\nauth='{auth}'\n[listener.b]\ndialect='pipe'"
    ).listeners
    assert (front.auth, back.auth) == (auth, "optional")


MUST = "[listener.x]\ndialect = 'pipe'\nauth = 'required'"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("users = 7", ":1 users: wants a table, not 7"),
        ("[users.ann]", f":1 users.ann: {NO_PROOF}"),
        ("[users.ann]\npassword = 'correct horse'", f":2 users.ann.password: {NO_PASSWORD}"),
        ("[users.ann]\npassword = 7", ":2 users.ann.password: wants text in quotes, not 7"),
        (
            "[users.ann]\npasswort = 'correct horse'",
            ":2 users.ann.passwort: there is no such key; did you mean password?",
        ),
        ("[users.ann]\ntokens = ['correct horse']", f":2 users.ann.tokens: {NO_TOKEN}"),
        (
            "[users.ann]\ntokens = 'correct horse'",
            ":2 users.ann.tokens: wants a list in [ ], each of it text in quotes, not text",
        ),
        (
            f"[users.ann]\npassword = 'scrypt:30{TEXT[8:]}'",
            ":2 users.ann.password: checking that password would take more than 256 MiB or 16 rounds",
        ),
        (
            f"{BOTH}[users.eve]\ntokens = ['{DIGEST.hex()}']",
            ":6 users.eve.tokens: one of them is b e's, too; give each to one user",
        ),
        (
            "[users.ann]\nprincipals = ['cn']\n[users.eve]\nprincipals = ['cn']",
            ":4 users.eve.principals: one of them is ann's, too; give each to one user",
        ),
        (
            f"[users.ann]\npassword = '{TEXT}'\npassword_file = 'f'",
            ":3 users.ann.password_file: say password or password_file, not both",
        ),
        (
            "[users.ann]\npassword_file = '/nowhere/correct'",
            ":2 users.ann.password_file: /nowhere/correct cannot be read: No such file or directory",
        ),
        (f"[users.\"\"]\npassword = '{TEXT}'", ':1 users."": a user\'s name is 1 to 255 bytes long and can be printed'),
        (
            f'[users."a\\nb"]\npassword = "{TEXT}"',
            ':1 users."a\\nb": a user\'s name is 1 to 255 bytes long and can be printed',
        ),
        (
            f"[users.anonymous]\npassword = '{TEXT}'",
            ":1 users.anonymous: anonymous stands for other people in [[access]]; call this user something else",
        ),
        (
            f"{BOTH}[[access]]\nallow = true\nwho = ['ann', 'xyz', '*']",
            ":7 access.who: there is no user 'xyz'; there are *, ann, anonymous, b e",
        ),
        (
            MUST,
            ':3 listener.x.auth: auth = "required" protects nothing: without users everybody who logs in is believed; '
            "`gateway users add NAME` makes one",
        ),
    ],
)
def test_what_a_file_gets_wrong_about_users_is_said_without_a_secret(file: Path, text: str, sentence: str) -> None:
    said = complaint(file, text)
    assert said == sentence
    for secret in ("horse", TEXT[8:], DIGEST.hex()):
        assert secret not in said


def test_a_login_may_be_required_without_users_where_the_dialect_has_one_of_its_own(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = msgspec.structs.replace(dialects.load("pipe"), development=("pipe", "pipe"))
    monkeypatch.setattr(listening, "find_dialect", lambda name: own)
    assert read(file, MUST).listeners[0].auth == "required"


def test_what_was_read_is_shown_without_what_is_kept_of_passwords(file: Path) -> None:
    shown = repr(read(file, BOTH))
    assert "ann" in shown
    assert repr(PASSWORD.hash) not in shown and repr(PASSWORD.salt) not in shown


@pytest.mark.parametrize(
    "name", ["ann", "a.b", "a b", 'say "hi"', "back\\slash", "\u00fcn\u00ef", "\U0001f40e", "-_9", "n" * 255]
)
@pytest.mark.parametrize(("password", "tokens"), [(PASSWORD, [DIGEST]), (PASSWORD, []), (None, [DIGEST, DIGEST[::-1]])])
def test_a_section_is_read_as_it_is_written(file: Path, name: str, password: object, tokens: list[bytes]) -> None:
    (user,) = read(file, user_section(name, password, tokens)).users  # type: ignore[arg-type]
    assert (user.principal, user.id, user.password, user.tokens) == (name, 1, password, tuple(tokens))


@pytest.mark.parametrize("name", ["", "n" * 256, "\u00fc" * 128, "a\nb", "\x1b[2J", "\udc80"])
def test_a_name_that_no_user_can_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"^a user's name is 1 to 255 bytes long and can be printed$"):
        user_section(name, PASSWORD, [])


# -- gateway users add

ADD = (sys.executable, "-m", "gateway.cli", "users", "add")


def add(*arguments: str, told: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*ADD, *arguments], input=told, capture_output=True, text=True, timeout=60, check=False)


def test_a_user_is_made_from_a_line_of_standard_input(file: Path) -> None:
    done = add("ann", told="correct  horse \u00fc\nnot this\n")
    assert (done.returncode, done.stderr) == (0, "")
    (user,) = read(file, done.stdout).users
    assert (user.principal, user.tokens) == ("ann", ())
    assert user.password is not None and user.password.matches("correct  horse \u00fc")
    assert "horse" not in done.stdout


@pytest.mark.parametrize("told", ["correct horse\n", "", "\n"])
def test_a_token_is_shown_once_and_kept_as_a_digest(file: Path, told: str) -> None:
    done = add("ann", "--token", told=told)
    assert done.returncode == 0
    (token,) = done.stderr.split()
    assert token not in done.stdout
    (user,) = read(file, done.stdout).users
    assert (user.password is None) is (told != "correct horse\n")
    assert user.tokens == (hashlib.sha256(token.encode()).digest(),)


@pytest.mark.parametrize(
    ("arguments", "told", "sentence"),
    [
        (["ann"], "\n", "a password is needed"),
        (["ann"], "", "a password is needed"),
        ([""], "x\n", "a user's name is 1 to 255 bytes long and can be printed"),
        (["a\nb", "--token"], "x\n", "a user's name is 1 to 255 bytes long and can be printed"),
    ],
)
def test_a_user_that_cannot_be_is_not_made(arguments: list[str], told: str, sentence: str) -> None:
    done = add(*arguments, told=told)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"gateway users add: {sentence}\n")


def test_on_a_terminal_the_password_is_asked_for_twice_and_not_shown(file: Path) -> None:
    """Asked again until both are the same."""
    control, terminal = pty.openpty()
    with subprocess.Popen(
        [*ADD, "ann"], stdin=terminal, stdout=subprocess.PIPE, stderr=terminal, text=True, start_new_session=True
    ) as asking:
        os.close(terminal)
        screen = b""
        for answer in (b"correct horse", b"wrong horse", b"correct horse", b"correct horse"):
            at = len(screen)
            while not screen[at:].endswith(b": "):
                screen += os.read(control, 1000)
            os.write(control, answer + b"\n")
        out, _ = asking.communicate(timeout=60)
    os.close(control)
    assert asking.returncode == 0
    assert b"horse" not in screen
    (user,) = read(file, out).users
    assert user.password is not None and user.password.matches("correct horse")
