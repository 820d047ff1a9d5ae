"""Vectors for clients in other languages: what the Python client makes of known keystreams.

`python -m tests.oracles.client_vectors` writes them anew, and the JSON Schema with them. A message
of permanent noise may never change, so a vector that does needs a reason as a golden does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from mechanisms.catalog import build
from mechanisms.mean.grid import Grid
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.randomness import PermanentRandom
from mechanisms.wire import binary
from mechanisms.wire.report import SEALED
from mechanisms.wire.sealing import info, key_id, slot_info
from pipelines.parties.device import ClientReports
from pipelines.parties.split import split
from pipelines.plan.client_schema import CheckedPlan, client_schema
from pipelines.plan.described import described
from pipelines.plan.loading import load
from tests.oracles.wire import GOLDEN_KEY, PLAN, hpke_seal

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "clients" / "typescript" / "vectors"
SCHEMA = ROOT / "docs" / "client.schema.json"

SECRET = hashlib.sha256(b"secret of a client's vectors").digest()
WINDOW = "2026-11-20"

_MECHANISMS: dict[str, tuple[str, dict[str, Any]]] = {
    "k-ary, 9 values": ("grr", {"epsilon": 1.0, "domain_size": 9}),
    "k-ary, 42,178 values": ("grr", {"epsilon": 9.0, "domain_size": 42_178}),
    "one bit": ("hadamard", {"epsilon": 1.0, "domain_size": 100}),
    "hash over 5": ("olh", {"epsilon": 1.5, "domain_size": 1000, "hash_range": 5}),
    "hash over 8": ("olh", {"epsilon": 2.0, "domain_size": 5000, "hash_range": 8}),
    "hash over 256": ("olh", {"epsilon": 5.0, "domain_size": 60_000, "hash_range": 256}),
    "hash over 701": ("srr", {"epsilon": 5.0, "domain_size": 42_178, "hash_range": 701}),
    "hash over 16,381": (
        "srr",
        {"epsilon": 9.0, "domain_size": 200_000_000, "hash_range": 16_381},
    ),
    "projective over 2": ("projective", {"epsilon": 1.0, "domain_size": 30, "hash_range": 2}),
    "projective over 4": ("projective", {"epsilon": 1.0, "domain_size": 21, "hash_range": 4}),
    "projective over 7": ("projective", {"epsilon": 2.0, "domain_size": 400, "hash_range": 7}),
    "projective over 16": ("projective", {"epsilon": 3.0, "domain_size": 4369, "hash_range": 16}),
    "optimal mean": ("optimal", {"epsilon": 1.0, "cells": 64}),
    "optimal mean, large epsilon": ("optimal", {"epsilon": 6.0, "cells": 16}),
    "Poisson dummies": (
        "poisson",
        {"epsilon": 1.0, "delta": 1e-6, "n": 10_000, "domain_size": 500, "honest_share": 0.9},
    ),
}


def key_of(name: str) -> bytes:
    """Of a keystream."""
    return hashlib.sha256(f"keystream of {name}".encode()).digest()


# ---- draws and mechanisms ------------------------------------------------------------------------


def channels() -> dict[str, Any]:
    """What mechanisms make of inputs, and what they draw."""
    rows = []
    for name, (registered, parameters) in _MECHANISMS.items():
        rows.append(_channel(name, build(registered, **parameters)))
    for epsilon, cells in ((1.0, 64), (3.0, 5)):
        hiding = WithUnusable(build("optimal", epsilon=epsilon, cells=cells))
        rows.append(_channel(f"with unusable at epsilon {epsilon:g}", hiding))
    return {"integers": list(_integers()), "grids": list(_grids()), "channels": rows}


def _channel(name: str, mechanism: Any) -> dict[str, Any]:
    key, most = key_of(name), mechanism.inputs
    ends = [0, 1, most // 2, most - 2, most - 1]
    drawn = PermanentRandom(key_of(f"inputs of {name}")).integers(most, 120).tolist()
    cells = [*ends, *drawn, *ends]
    messages = mechanism.perturb(np.array(cells), PermanentRandom(key))
    return {
        "name": name,
        "channel": asdict(mechanism.specification),
        "key": key.hex(),
        "cells": cells,
        "messages": [str(message) for message in messages.tolist()],
    }


def _integers() -> Iterator[dict[str, Any]]:
    # A third of these are drawn again, so that the order of rejection shows.
    for bound in (1, 6, 3 << 30, (1 << 32) - 5, 1 << 32, 3 << 62, 1 << 64):
        key = key_of(f"integers below {bound}")
        drawn = PermanentRandom(key).integers(bound, 50).tolist()
        yield {"bound": str(bound), "key": key.hex(), "drawn": [str(each) for each in drawn]}


def _grids() -> Iterator[dict[str, Any]]:
    for cells in (1, 4, 1023, 1 << 20):
        key = key_of(f"grid of {cells}")
        values = [-1.0, 1.0, 0.0, -0.0, 0.1, 1 / 3, -1 + 2.0**-31, 1 - 2.0**-52, 2.0**-33]
        drawn = Grid(cells).encode(values, PermanentRandom(key)).tolist()
        yield {"cells": cells, "key": key.hex(), "values": values, "drawn": drawn}


# ---- seals ---------------------------------------------------------------------------------------


def seals() -> dict[str, Any]:
    """Boxes made with ephemeral keys that are known."""
    public = GOLDEN_KEY.public_key()
    name = key_id(public)
    contexts = [info(PLAN, 3, name), slot_info(PLAN, 3, 9, name), b""]
    boxes = []
    for i, context in enumerate(contexts):
        ephemeral = X25519PrivateKey.from_private_bytes(key_of(f"ephemeral {i}"))
        text = (7 + 1000 * i).to_bytes(8, "little")
        box = hpke_seal(text, public.public_bytes_raw(), context, b"aad" * (i == 2), ephemeral)
        assert i == 2 or len(box) == SEALED
        boxes.append(
            {
                "ephemeral": _der(ephemeral),
                "public": ephemeral.public_key().public_bytes_raw().hex(),
                "info": context.hex(),
                "aad": (b"aad" * (i == 2)).hex(),
                "message": text.hex(),
                "sealed": box.hex(),
            }
        )
    pem = public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return {"key": pem.decode(), "key_id": name.hex(), "boxes": boxes}


def _der(key: X25519PrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.DER,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).hex()


# ---- whole reports -------------------------------------------------------------------------------

_HEAD = """\
collection: vectors
version: 1
input: log-{window}.parquet
output: released/{window}
unit: user
user_column: user
"""
_RANDOMISED = """\
epsilon: 6
model: local
min_reports: 100
metrics:
  - {name: grr, kind: histogram, column: hour, domain: 1..9, mechanism: grr}
  - {name: olh, kind: histogram, column: page, domain: DOMAIN, mechanism: olh, out_of_domain: other}
  - {name: projective, kind: histogram, column: page, domain: DOMAIN, mechanism: projective,
     unusable: "fill=page 2"}
  - {name: mean, kind: mean, column: fare, bounds: "-10,60", mechanism: optimal}
"""
_COUNTERS = """\
epsilon: 4
delta: 1e-6
metrics:
  - {name: events, kind: count, column: hour, domain: 1..9, rows_per_user: 2, per_value: 4}
  - {name: spent, kind: sum, column: fare, bounds: "-10,60", expected: 20000}
  - {name: average, kind: mean, dummies: shuffler, column: fare, bounds: "-10,60", expected: 20000}
  - {name: shape, kind: distribution, dummies: shuffler, column: fare, bounds: "-10,60", bins: 40,
     expected: 20000}
"""
PLANS = {
    "fresh": _HEAD + _RANDOMISED,
    "permanent": _HEAD + "noise: permanent\ndistinct_values: 2\n" + _RANDOMISED,
    "counters": _HEAD + _COUNTERS,
}
ROWS: list[list[dict[str, Any]]] = [
    [{"hour": 3, "page": "page 7", "fare": 12.5}],
    [{"hour": None, "page": None, "fare": None}],
    [{"hour": 77, "page": "no page", "fare": 1e9}],
    [
        {"hour": 1, "page": "page 1", "fare": -3.25},
        {"hour": 9, "page": "page 299", "fare": 61.0},
        {"hour": 9, "page": "Ã¶", "fare": 0.1},
        {"hour": 4, "page": "page 3", "fare": None},
        *[{"hour": 2, "page": "page 3", "fare": 2.5}] * 5,
    ],
]
_TYPES = pa.schema({"hour": pa.int64(), "page": pa.string(), "fare": pa.float64()})


def reports(name: str) -> dict[str, Any]:
    """A plan as `check --json` tells it to clients, and what is sent of some rows."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "plan.yaml"
        domain = Path(folder) / "pages.txt"
        domain.write_text("".join(f"page {k}\n" for k in range(1, 300)) + "Ã¶\n", "utf-8")
        path.write_text(PLANS[name].replace("DOMAIN", str(domain)))
        parted = split(load(str(path)), WINDOW)
    told = CheckedPlan.model_validate(described(parted.job, WINDOW, None))
    cases = [
        _case(parted, place, number)
        for place in range(len(parted.metrics))
        for number in range(len(ROWS))
    ]
    return {"plan": told.model_dump(mode="json"), "secret": SECRET.hex(), "cases": cases}


def _case(parted: Any, place: int, number: int) -> dict[str, Any]:
    """What is sent of some rows: a file, or the words that are to be sealed."""
    metric, rows = parted.metrics[place], ROWS[number]
    key = key_of(f"{metric.name} {number}")
    open_rng: Callable[[], Any] = lambda: PermanentRandom(key)  # noqa: E731
    table = pa.Table.from_pylist(rows, _TYPES)
    case = {"metric": metric.name, "rows": rows, "key": key.hex()}
    permanent = None if parted.job.plan.permanent is None else SECRET
    device = ClientReports(parted, place, permanent, True, open_rng, SECRET)
    if metric.counters is None:
        sent, _ = device.report([table])
        return case | {"report": binary.encode(sent).hex()}
    blocks, _ = device._encoded([table])
    [words] = metric.own_reports(blocks, True, open_rng())
    return case | {"words": [str(word) for word in words[0].tolist()]}


FILES: dict[str, Callable[[], Any]] = {
    "channels.json": channels,
    "seals.json": seals,
    **{f"reports-{name}.json": lambda name=name: reports(name) for name in PLANS},
}


def written(content: Any) -> str:
    """JSON whose lists of numbers stand on one line each."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace('},{"', '},\n{"')


def main() -> None:
    """Write all."""
    FOLDER.mkdir(exist_ok=True)
    for name, made in FILES.items():
        (FOLDER / name).write_text(written(made()) + "\n", "utf-8")
    SCHEMA.write_text(json.dumps(client_schema(), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
