"""What a plan has come to, as JSON: equal for equal mechanisms, and for no others."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, fields, replace
from fractions import Fraction

import numpy as np
import pytest

from mechanisms import catalog
from mechanisms.catalog import build
from mechanisms.wire.fingerprint import (
    agreed,
    canonical,
    described,
    fingerprint,
    of_design,
    of_window,
)

ASKED = {"epsilon": 0.7, "delta": 1e-6, "n": 1000, "domain_size": 9, "dimension": 4}


def made(name: str):
    """A mechanism of that name, with as few parameters as it takes."""
    for names in (
        ("epsilon",), ("epsilon", "domain_size"), ("epsilon", "dimension"), ("epsilon", "delta"),
        ("epsilon", "delta", "n", "domain_size"),
    ):  # fmt: skip
        try:
            return build(name, **{each: ASKED[each] for each in names})
        except (TypeError, ValueError):
            continue
    return None


MADE = {name: found for name in catalog.names() if (found := made(name)) is not None}


def test_most_of_the_catalogue_is_tried() -> None:
    assert len(MADE) >= 0.9 * len(catalog.names())


@pytest.mark.parametrize("name", MADE)
def test_every_mechanism_has_a_description_that_is_its_own(name: str) -> None:
    mechanism = MADE[name]
    told = canonical(described(mechanism))
    assert told == canonical(described(pickle.loads(pickle.dumps(mechanism))))
    assert sum(told == canonical(described(other)) for other in MADE.values()) == sum(
        mechanism == other for other in MADE.values()
    )


def test_each_parameter_counts_to_its_last_bit_and_in_reports_as_far_as_machines_agree() -> None:
    mechanism = build("hm", epsilon=1.0)
    before = described(mechanism)
    nearly = described(replace(mechanism, epsilon=float(np.nextafter(1, 2))))
    assert nearly != before
    assert agreed(nearly) == agreed(before)
    assert agreed(described(replace(mechanism, epsilon=1 + 1e-11))) != agreed(before)
    for field in fields(mechanism):
        if isinstance(getattr(mechanism, field.name), int):
            other = replace(mechanism, **{field.name: getattr(mechanism, field.name) + 1})
            assert described(other) != before
    assert before["epsilon"] == (1.0).hex()
    assert before["codes"] == str(mechanism.codes)
    assert before["local"]["epsilon"] == mechanism.local.epsilon.hex()


@dataclass(frozen=True)
class Part:
    """Something of everything."""

    values: tuple[object, ...]
    named: dict[str, float]


def test_plain_parts() -> None:
    part = Part(
        (1, True, None, "a", Fraction(1, 3), np.int64(2**63 - 1), np.float64(0.5)), {"b": 2.0}
    )
    assert described(part) == {
        "is": "Part",
        "values": ["1", True, None, "a", "1/3", "9223372036854775807", "0x1.0000000000000p-1"],
        "named": {"b": "0x1.0000000000000p+1"},
    }
    for odd in ({1, 2}, object(), Part, np.zeros(2)):
        with pytest.raises(TypeError, match="has no description"):
            described(odd)


def test_what_reports_carry_never_changes() -> None:
    plan = fingerprint({"version": 1})
    design = [{"name": "city", "made": described(build("grr", epsilon=0.5, domain_size=9))}]
    assert canonical(design) == (
        b'[{"made":{"codes":"9","domain_size":"9","epsilon":"0x1.0000000000000p-1","hash_range":"9"'
        b',"is":"LinearHash","local":{"delta":"0x0.0p+0","epsilon":"0x1.0000000000000p-1",'
        b'"model":"local"}},"name":"city"}]'
    )
    assert of_window(of_design(plan, design), "all").hex() == "6f67277efd9d99fdc6db150b100971fa"
