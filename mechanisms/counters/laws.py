"""Laws of noise as records, for statements: what a reader draws by himself, in any language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any


def recorded(noise: Any) -> Any:
    """A law of noise, or several, as JSON: the name of each and its parameters.

    Args:
        noise: of counters: a frozen dataclass of numbers, of laws, or of tuples of either.

    >>> from mechanisms.counters.noise import Gaussian
    >>> recorded((Gaussian(mu=20, sigma=2.5),))
    [{'law': 'gaussian', 'mu': 20, 'sigma': 2.5}]
    """
    if isinstance(noise, tuple):
        return [recorded(part) for part in noise]
    if not is_dataclass(noise):
        return noise
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(noise).__name__).lower()
    return {"law": name} | {
        field.name: recorded(getattr(noise, field.name)) for field in fields(noise) if field.init
    }


def laws_in(record: Any) -> Iterator[tuple[str, dict[str, float]]]:
    """(name, parameters) of every law in a record that is made of no others.

    >>> [*laws_in({"law": "independent", "laws": [{"law": "laplace", "mu": 4, "slope": 2.0}]})]
    [('laplace', {'mu': 4, 'slope': 2.0})]
    """
    if isinstance(record, list):
        for part in record:
            yield from laws_in(part)
    elif isinstance(record, dict):
        inner = [part for part in record.values() if isinstance(part, (dict, list))]
        inner_laws = [law for part in inner for law in laws_in(part)]
        own = {name: part for name, part in record.items() if isinstance(part, (int, float))}
        yield from inner_laws or [(record["law"], own)]
