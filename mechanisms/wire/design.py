"""What a plan has come to: its mechanisms with all their parameters, in a form that can be hashed.

A plan may leave the choice of a mechanism to the planner, and a planner may choose otherwise in
its next version. Codes mean something only together with the mechanism that drew them, so reports
carry a fingerprint of it too: who decodes with another one drops them, in place of decoding
nonsense.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import singledispatch
from numbers import Integral, Real
from typing import Any

from mechanisms.channel import Guarantee, Mechanism
from mechanisms.wire.fingerprint import Json

_DOUBLE = re.compile(r"-?0x[01]\.[0-9a-f]+p[+-]\d+", re.ASCII)


@singledispatch
def described(part: Any) -> Json:
    """A mechanism, or anything that is made of some, as JSON that says all of it.

    Integers are decimal strings, for not every reader keeps long ones; doubles are hexadecimal,
    to the last bit; what is a dataclass says its name and its fields. A mechanism adds what
    follows from them: how many codes it has, and what one report loses.

    Args:
        part: of dataclasses, mappings, sequences, numbers, strings, booleans and None.

    Raises:
        TypeError: a part of it is something else.

    >>> from mechanisms.catalog import build
    >>> described(build("grr", epsilon=1.0, domain_size=9))["codes"]
    '9'
    """
    if not is_dataclass(part) or isinstance(part, type):
        raise TypeError(f"{type(part).__name__} has no description")
    description: dict[str, Json] = {"is": type(part).__name__}
    description |= {field.name: described(getattr(part, field.name)) for field in fields(part)}
    return description


@described.register
def _(part: Mechanism) -> Json:
    description: dict[str, Json] = {"is": type(part).__name__}
    description |= {field.name: described(getattr(part, field.name)) for field in fields(part)}
    return description | {"codes": described(part.codes), "local": described_loss(part.local)}


@described.register(str)
@described.register(bool)
@described.register(type(None))
def _(part: str | bool | None) -> Json:
    return part


@described.register(Integral)
def _(part: Integral) -> Json:
    return str(int(part))


@described.register
def _(part: Fraction) -> Json:
    return f"{part.numerator}/{part.denominator}"


@described.register(Real)
def _(part: Real) -> Json:
    # Decimal digits depend on who writes them; hexadecimal ones are the double itself.
    return float(part).hex()


@described.register(Sequence)
def _(part: Sequence[Any]) -> Json:
    return [described(item) for item in part]


@described.register(Mapping)
def _(part: Mapping[str, Any]) -> Json:
    return {str(name): described(item) for name, item in part.items()}


def described_loss(guarantee: Guarantee) -> Json:
    """What is promised, without the words, which may be put better one day.

    >>> described_loss(Guarantee("local", 1.0, 0.0, "report", "closed form"))
    {'model': 'local', 'epsilon': '0x1.0000000000000p+0', 'delta': '0x0.0p+0'}
    """
    return {
        "model": guarantee.model,
        "epsilon": float(guarantee.epsilon).hex(),
        "delta": float(guarantee.delta).hex(),
    }


def agreed(description: Json) -> Json:
    """A description with the first twelve digits of its doubles: the same on every machine.

    Processors that sum in another order end in other digits, and what mechanisms differ by there is
    far less than anybody could see in what they decode.

    >>> agreed({"epsilon": described(1.0000000000000002), "codes": described(9)})
    {'epsilon': '0x1.0000000000000p+0', 'codes': '9'}
    """
    match description:
        case str() if _DOUBLE.fullmatch(description):
            return float(f"{float.fromhex(description):.12g}").hex()
        case Mapping():
            return {name: agreed(part) for name, part in description.items()}
        case Sequence() if not isinstance(description, str):
            return [agreed(part) for part in description]
    return description
