"""What everybody who takes part in a search knows."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar


class Public:
    """A frozen dataclass that travels as its fields: what follows from them is computed again."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}
