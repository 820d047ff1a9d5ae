"""What a service was told of a window when it was opened: all that its processes need of a plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Messages
from mechanisms.wire.report import Form
from mechanisms.wire.screening import Expected

Role = Literal["reports", "tokens", "strings"]


@dataclass(frozen=True)
class WindowTerms:
    """A window, and what is taken in it.

    Attributes:
        role: what is taken: reports, requests for tokens, or requests of the OPRF party.
        window: its name.
        fingerprint: of its reports, 32 hexadecimal digits.
        metrics: how many the plan has.
        slots: (metrics,) of reports to noisy counters; none of others.
        published: whether the release says how many have reported, so that this may be shown.
        most: reports, or requests, of all the window.
        elements: of a request that is evaluated.
        issuer: the file of the issuer's seed; empty where no tokens are asked for.
        strings: the file of the OPRF party's seed.
        devices: the file of devices that may fetch tokens.
    """

    role: Role
    window: str
    fingerprint: str
    metrics: int
    slots: tuple[int, ...]
    published: bool
    most: int
    elements: int = 0
    issuer: str = ""
    strings: str = ""
    devices: str = ""

    @cached_property
    def expected(self) -> Expected:
        """What a report of the window can be; seals are judged when they have been opened."""
        alphabets = (_Unread(),) * self.metrics * (not self.slots)
        form = Form(sealed=True, slots=max(self.slots, default=0))
        return Expected(bytes.fromhex(self.fingerprint), alphabets, form, self.slots)

    @property
    def claim(self) -> Path | None:
        """Where the one folder is noted that takes the window's tokens; None if it takes none.

        It is destroyed with the window's seeds.
        """
        return Path(self.issuer).with_suffix(f".{self.role}") if self.issuer else None

    def written(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> WindowTerms:
        """What `written` has made."""
        fields: Mapping[str, Any] = json.loads(text)
        return cls(**{**fields, "slots": tuple(fields["slots"])})


class _Unread:
    """An alphabet in which there is no message outside a seal."""

    def valid(self, messages: Messages) -> NDArray[np.bool_]:
        return np.zeros(len(messages), np.bool_)
