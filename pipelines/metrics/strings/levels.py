"""What both searches by levels ask of strings: their code, and a public hash of beginnings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from mechanisms.heavy_hitters.prefix_code import PrefixCode, alphabet
from pipelines.errors import RequestError
from pipelines.logs.inputs import Source, Telemetry
from pipelines.metrics.strings.options import StringsOptions

if TYPE_CHECKING:
    from transforms.elements.blocks import Generator

_TEXT_LENGTH, _INTEGER_LENGTH = 32, 10  # symbols, where nobody says


def code_of(options: StringsOptions, telemetry: Telemetry) -> PrefixCode:
    """The code of the strings, by default as wide as the column's type calls for.

    Args:
        options: of the request.
        telemetry: the files.

    Raises:
        RequestError: the alphabet is none, or the length is beyond all codes.
    """
    kind = telemetry.column_type(options.column, "--column")
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    whole = bool(pa.types.is_integer(kind))
    names = options.alphabet or (("digits",) if whole else ("bytes",))
    length = options.max_length or (_INTEGER_LENGTH if whole else _TEXT_LENGTH)
    try:
        return PrefixCode(alphabet(names), length)
    except ValueError as error:
        raise RequestError(f"--alphabet: {error}") from None


def public_seed(source: Source, open_rng: Generator) -> int:
    """What the public hash is drawn from: anew for each job, before it looks at a value.

    Args:
        source: what public randomness comes from, if a plan says it.
        open_rng: opens generators.
    """
    return int(open_rng().words(1)[0]) if source.seed is None else source.seed


def alphabet_statement(code: PrefixCode) -> dict[str, object]:
    """What was settled of the code where nobody asked."""
    characters = code.characters or "all text, as UTF-8 bytes"
    return {"alphabet": characters, "max_length": code.max_length}
