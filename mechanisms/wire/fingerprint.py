"""A plan's fingerprint: what a report carries to say which questions it answers.

Two plans that mean the same have the same fingerprint, whoever wrote them down and however: in
another order, with other spaces, in another language.

What a plan has come to: its mechanisms with all their parameters, in a form that can be hashed.

A plan may leave the choice of a mechanism to the planner, and a planner may choose otherwise in
its next version. Codes mean something only together with the mechanism that drew them, so reports
carry a fingerprint of it too: who decodes with another one drops them, in place of decoding
nonsense.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from functools import singledispatch
from numbers import Integral, Real
from typing import Any

from mechanisms.channel import Guarantee, Mechanism

SIZE = 16  # bytes

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]

_SAFE = (1 << 53) - 1  # beyond it, not every reader of JSON keeps an integer
_DOUBLE = re.compile(r"-?0x[01]\.[0-9a-f]+p[+-]\d+", re.ASCII)


def fingerprint(plan: Json) -> bytes:
    """The first 16 bytes of the SHA-256 of a plan's canonical JSON.

    Args:
        plan: numbers, strings, booleans, None, and lists and mappings of them.

    Returns:
        16 bytes.

    Raises:
        ValueError: see `canonical`.

    >>> fingerprint({"epsilon": 1, "metric": "city"}).hex()
    '995e54b23155755f7b45b535952cd144'
    >>> fingerprint({"metric": "city", "epsilon": 1.0}).hex()
    '995e54b23155755f7b45b535952cd144'
    """
    return hashlib.sha256(canonical(plan)).digest()[:SIZE]


def of_design(plan: bytes, design: Json) -> bytes:
    """A plan together with what a planner has made of it.

    Args:
        plan: its fingerprint.
        design: of each metric, in the order of the plan; from `mechanisms.wire.fingerprint`.

    Returns:
        16 bytes.

    Raises:
        ValueError: see `canonical`.

    >>> of_design(fingerprint({"epsilon": 1}), [{"is": "Grr", "codes": "9"}]).hex()
    '63c0751ecd2ed9b5daaf43524e297347'
    """
    return hashlib.sha256(plan + canonical(design)).digest()[:SIZE]


def of_window(plan: bytes, window: str) -> bytes:
    """What the reports of one window of a plan carry.

    Args:
        plan: its fingerprint, with its design.
        window: its name; "all" where the plan has no windows, "stream" for a stream.

    Returns:
        16 bytes.

    >>> of_window(fingerprint({"epsilon": 1}), "2026-11-20").hex()
    '000b2bba3e753fb95982d8ed7245fff3'
    """
    return hashlib.sha256(plan + window.encode()).digest()[:SIZE]


def canonical(plan: Json) -> bytes:
    """One spelling of a JSON value, the same in every language.

    Source: Rundgren, Jordan, Erdtman, "JSON Canonicalization Scheme (JCS)", RFC 8785, 2020. Numbers
    are IEEE doubles there, so 1 and 1.0 are one number; an integer no double holds is refused
    rather than rounded.

    Args:
        plan: as `fingerprint`.

    Returns:
        UTF-8 JSON: keys sorted by their UTF-16 units, no spaces, numbers as ECMAScript has them.

    Raises:
        ValueError: a number is not finite or is too large an integer, a key is not a string, a
            string is not Unicode, or a value is of a type that JSON lacks.
    """
    return _written(plan).encode()


def _written(value: Json) -> str:
    """A JSON value as text."""
    match value:
        case None | bool() | str():
            return json.dumps(value, ensure_ascii=False)
        case int() | float():
            return _number(value)
        case Mapping():
            # RFC 8785 sorts by UTF-16 units, as JavaScript does; code points would differ beyond
            # the BMP.
            pairs = sorted(value.items(), key=lambda pair: _utf16(pair[0]))
            return "{" + ",".join(f"{_written(k)}:{_written(v)}" for k, v in pairs) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_written, value)) + "]"
    raise ValueError(f"a plan holds what JSON holds, not a {type(value).__name__}")


def _utf16(key: object) -> bytes:
    """What keys are sorted by."""
    if not isinstance(key, str):
        raise ValueError(f"the keys of a plan must be strings, not {type(key).__name__}")
    return key.encode("utf-16-be")


def _number(value: int | float) -> str:
    """A number as ECMAScript writes it (ECMA-262, Number::toString)."""
    if isinstance(value, int) and not -_SAFE <= value <= _SAFE:
        raise ValueError("an integer of a plan must lie within 2^53: write it as a string")
    if not math.isfinite(value):
        raise ValueError("the numbers of a plan must be finite")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    # `repr` gives the shortest digits that read back as the same double, which ECMAScript wants.
    _, digits, exponent = Decimal(repr(float(abs(value)))).normalize().as_tuple()
    return sign + _placed("".join(map(str, digits)), len(digits) + int(exponent))


def _placed(digits: str, point: int) -> str:
    """Digits with the decimal point after the first `point` of them."""
    if len(digits) <= point <= 21:
        return digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"


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

    >>> described_loss(Guarantee.of_report(1.0, 0.0, "closed form"))
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
