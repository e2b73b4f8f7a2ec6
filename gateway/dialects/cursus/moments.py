"""Times as Go writes them in JSON."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

_EPOCH = datetime(1970, 1, 1)
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))")


def moment(us: int) -> str:
    """As Go writes a time in JSON: no zeros at the end of the fraction; 0 is the time that never was."""
    if not us:
        return "0001-01-01T00:00:00Z"
    text = (_EPOCH + timedelta(microseconds=us)).isoformat()
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}Z"


def microseconds(text: str) -> int:
    """A time as Go writes it in JSON -> us since the epoch; the time that never was is 0."""
    found = _MOMENT.fullmatch(text)
    if found is None or text.startswith("0001-"):
        return 0
    seconds, fraction, sign, hours, minutes = found.groups()
    away = int(f"{sign}1") * timedelta(hours=int(hours), minutes=int(minutes)) if sign else timedelta()
    since = datetime.fromisoformat(seconds) - away - _EPOCH
    return since // timedelta(microseconds=1) + int((fraction or "").ljust(6, "0")[:6])
