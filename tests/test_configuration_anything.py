"""gateway.configuration: whatever a file says, it is a configuration, or a sentence that says where it is not."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import dialects
from gateway.configuration.listening import SHARED
from gateway.configuration.plans import TLS, Backend, CapturePlan, ConsolePlan, Limits, Node, WebPlan
from gateway.configuration.reading import read_configuration
from gateway.configuration.told import Told
from test_configuration_lines import VALUES, written

KEYS = {
    "node": Node.__struct_fields__,
    "backend": ("spec", *Backend.__struct_fields__),
    "limits": Limits.__struct_fields__,
    "console": ConsolePlan.__struct_fields__,
    "web": WebPlan.__struct_fields__,
    "capture": CapturePlan.__struct_fields__,
}
ACCESS = ("allow", "deny", "who", "command", "topic")
USER = ("password", "password_file", "tokens", "principals")
LIKELY = st.sampled_from(
    [
        True,
        0,
        1,
        7,
        -1,
        1e9,
        "",
        "*",
        "ann",
        "Publish",
        "tcp:1",
        "tcp:1:2:3:4",
        "unix:",
        "a\\",
        "none",
        "required",
        "::1",
    ]
)
ANYTHING = LIKELY | VALUES | st.lists(LIKELY, max_size=3)


def of(keys: tuple[str, ...]) -> st.SearchStrategy[dict[str, object]]:
    return st.dictionaries(st.sampled_from(keys), ANYTHING, max_size=3)


def listener(name: str) -> st.SearchStrategy[dict[str, object]]:
    own = of((*SHARED, *dialects.load(name).settings.__struct_fields__))
    tls = st.fixed_dictionaries({"tls": of(TLS.__struct_fields__)})
    return st.builds(lambda one, other: {**one, **other, "dialect": name}, own, st.just({}) | tls)


FILES = st.fixed_dictionaries(
    {},
    optional={
        **{section: of(keys) | ANYTHING for section, keys in KEYS.items()},
        "users": st.dictionaries(st.sampled_from(["ann", "b e", "*"]), of(USER) | ANYTHING, max_size=2),
        "access": st.lists(of(ACCESS), max_size=3) | ANYTHING,
        "listener": st.dictionaries(
            st.text(max_size=3), st.sampled_from(dialects.names()).flatmap(listener), max_size=2
        ),
        "insecure": ANYTHING,
    },
)


@settings(max_examples=400)
@given(FILES)
def test_whatever_is_said_is_understood_or_refused_in_one_line(table: dict[str, object]) -> None:
    text = "".join(f"{key} = {written(value, '')}\n" for key, value in table.items())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Told, "read", lambda path: Told(path, text))
        said = refused(lambda: read_configuration("gateway.toml"))
    assert said is None or re.fullmatch(r"gateway\.toml:[0-9]+ [^\n]+", said), said


def refused(read: Callable[[], object]) -> str | None:
    """The sentence of a ValueError; any other error is a defect."""
    try:
        read()
    except ValueError as error:
        return str(error)
    return None
