"""Messages of mlog for hypothesis, and terms to read and write them under."""

from __future__ import annotations

from hypothesis import strategies as st

from gateway.core.records import registry
from gateway.dialects.mlog import DIALECT
from gateway.dialects.mlog.fields import MESSAGES
from gateway.dialects.mlog.layout import RANGES, Field, Kind, Message, layout
from gateway.dialects.mlog.terms import MlogSettings, MlogTerms


def terms(**said: object) -> MlogTerms:
    """Of a listener with those settings."""
    made = DIALECT.open(MlogSettings(**said), registry([])).terms("h:1")  # type: ignore[arg-type]
    assert isinstance(made, MlogTerms)
    return made


_ONE: dict[Kind, st.SearchStrategy[object]] = {
    Kind.TEXT: st.text(st.characters(codec="utf-8"), max_size=8),
    Kind.OCTETS: st.binary(max_size=8),
    Kind.BOOL: st.booleans(),
    **{kind: st.integers(*bounds) | st.sampled_from(bounds) for kind, bounds in RANGES.items()},
}


def messages(kind: type[Message], *, nil: bool = True) -> st.SearchStrategy[Message]:
    """Any message of that kind.  nil: slices and bytes may be nil, which protobuf cannot tell from empty."""
    return st.builds(kind, **{field.attribute: _field(field, nil) for field in layout(kind)})


def _field(field: Field, nil: bool) -> st.SearchStrategy[object]:
    one = _ONE[field.kind] if field.of is None else messages(field.of, nil=nil)
    if field.many:
        items = st.lists(one | st.none() if nil and field.zero is None else one, max_size=3)
        return items | st.none() if nil else items.map(lambda found: found or None)
    if field.kind is Kind.MESSAGE:
        return one | st.none()
    return one | st.none() if nil and field.kind is Kind.OCTETS else one


any_message = st.sampled_from(MESSAGES).flatmap(messages)
any_without_nil = st.sampled_from(MESSAGES).flatmap(lambda kind: messages(kind, nil=False))
