"""Vectors for clients in other languages: what the Python client makes of known keystreams.

`python -m tests.oracles.client_vectors` writes them anew, and the JSON Schema with them. A message
of permanent noise may never change, so a vector that does needs a reason as a golden does.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from mechanisms.catalog import build
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.memoised import MemoisedClient, law_of
from mechanisms.randomness import PermanentRandom
from mechanisms.sampling.grid import Grid
from mechanisms.sampling.integer_tables import IntegerTable
from mechanisms.specification import DummiesSpecification, decimals
from mechanisms.wire import binary
from mechanisms.wire.identity import ReportIds
from mechanisms.wire.oblivious import STRINGS, Evaluator
from mechanisms.wire.report import SEALED, Form, Reports
from mechanisms.wire.sealing import info, key_id, slot_info
from mechanisms.wire.strings import NULL, seals_of, string_inputs
from mechanisms.wire.tokens import Issuer
from pipelines.parties.device import ClientReports
from pipelines.plan.described import described
from pipelines.plan.loading import load
from pipelines.plan.split import split
from pipelines.releases.key_list import KeyList, WindowKey, signed
from tests.oracles import voprf
from tests.oracles.checked_plan import CheckedPlan, client_schema
from tests.oracles.wire import GOLDEN_KEY, PLAN, hpke_seal
from transforms.encoders.arms import HashedArms
from transforms.encoders.strings import width_of, words_of

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
    rows.append(_channel("k-ary, more codes than values", LinearHash(1.0, 5, 8)))
    for epsilon, cells in ((1.0, 64), (3.0, 5)):
        hiding = WithUnusable(build("optimal", epsilon=epsilon, cells=cells))
        rows.append(_channel(f"with unusable at epsilon {epsilon:g}", hiding))
    rows += [*_ties(), _open_table()]
    draws = {
        "integers": list(_integers()), "grids": list(_grids()), "offsets": _offsets(),
        "devices": list(_devices()), "arms": list(_arms()),
    }  # fmt: skip
    return draws | {"channels": rows}


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


def _ties() -> Iterator[dict[str, Any]]:
    """Windows whose coins tie in their first 16 bits, one way and the other: one in 2^16 does."""
    mechanism: Any = build("optimal", epsilon=1.0, cells=64)
    left, width = {0, 1}, mechanism.table.width
    for trial in range(100_000):
        name, cell = f"a coin that ties, {trial}", 1 + trial % 63
        chance, rng = mechanism._chance[cell], PermanentRandom(key_of(name))
        tied = np.flatnonzero(rng.words(50).view(np.uint16) == mechanism._first_bits[cell])
        if not tied.size:
            continue
        word = rng.words(1)[0]
        after = int(word < chance << np.uint64(16))
        messages = mechanism.perturb(np.full(200, cell), PermanentRandom(key_of(name))).tolist()
        inside = messages[tied[0]] - int(mechanism._lower[cell]) - after
        # Of those where a bit more or less of the chance would say otherwise, and show.
        if after in left and 0 <= inside < width and after != (word < chance << np.uint64(15)):
            left.remove(after)
            row = _channel(name, mechanism)
            yield row | {"cells": [cell] * 200, "messages": [str(each) for each in messages]}
        if not left:
            return
    raise ArithmeticError("no coin tied")


def _open_table() -> dict[str, Any]:
    """A number of dummies that a word leaves open: of a law that is made up, for ours hardly do."""
    name, codes = "dummies whose number a second word decides", 7
    word, low = (PermanentRandom(key_of(name)).words(2)).tolist()
    ends = [(word << 64) + low - 1, (word << 64) + low, (word << 64) + low + 1]
    table = IntegerTable(2, tuple(np.diff(np.array([0, *ends, 1 << 128], object)).tolist()))
    rng = PermanentRandom(key_of(name))
    drawn = rng.integers(codes, int(table.draw(1, rng)[0])).tolist()
    channel = DummiesSpecification(inputs=codes, first=2, ends=decimals(table.ends))
    messages = [str(message) for message in sorted([5, *drawn])]
    return {
        "name": name, "channel": asdict(channel), "key": key_of(name).hex(), "cells": [5],
        "messages": messages,
    }  # fmt: skip


def _arms() -> Iterator[dict[str, Any]]:
    """Arms that ids draw, text and whole numbers."""
    texts = ["ada", "", "Žofie \U0001f40e", *(f"user-{k}" for k in range(40))]
    for salt, typed, ids in (
        ("checkout-2026-11", (1, 1), texts), ("ü x", (9, 1), texts),
        ("x-1", (0.1, 0.2, 0.3, 7), [*range(-3, 60), 2**53 - 1]),
    ):  # fmt: skip
        shares = tuple(share / sum(typed) for share in typed)
        arms = HashedArms(salt, shares).encode(pa.array(ids)).tolist()
        yield {"salt": salt, "shares": typed, "ids": ids, "arms": arms}


def _offsets() -> list[dict[str, Any]]:
    """Numbers rounded by one permanent offset."""
    rounding = build("optimal", epsilon=1.0, cells=64)
    values = np.linspace(-1, 1, 41)
    found = []
    for place in range(3):
        client = MemoisedClient(SECRET, PLAN, place, rounding)
        keys = {"fingerprint": PLAN.hex(), "law": "", "rounding": law_of(rounding).hex()}
        found.append(
            {
                "secret": SECRET.hex(),
                "keys": keys,
                "place": place,
                "cells": 64,
                "values": values.tolist(),
                "drawn": client.encode(values).tolist(),
            }
        )
    return found


def _devices() -> Iterator[dict[str, Any]]:
    for place, window in ((0, "2026-11-20"), (65_535, "all"), (3, "2026-11-20T1300")):
        ids = ReportIds(SECRET, PLAN, place, window)
        yield {
            "secret": SECRET.hex(), "fingerprint": PLAN.hex(), "place": place, "window": window,
            "id": ids.of_device().tobytes().hex(), "draw": str(ids.draw()),
        }  # fmt: skip


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
  - {name: olh, kind: histogram, column: page, domain: pages.txt, mechanism: olh,
     out_of_domain: other}
  - {name: projective, kind: histogram, column: page, domain: pages.txt, mechanism: projective,
     unusable: "fill=page 2"}
  - {name: mean, kind: mean, column: fare, bounds: "-10,60", mechanism: optimal}
"""
_COUNTERS = """\
epsilon: 4
delta: 1e-6
metrics:
  - {name: events, kind: count, column: hour, domain: 1..9, rows_per_user: 2, per_value: 4}
  - {name: spent, kind: sum, column: fare, bounds: "0,60", expected: 20000}
  - {name: apart, kind: sum, column: fare, bounds: "0,60", group_by: hour, groups: 1..9,
     rows_per_user: 2, expected: 20000}
  - {name: balance, kind: sum, column: fare, bounds: "-10,60", expected: 20000}
  - {name: usual, kind: mean, drawn_by: shuffler, column: fare, bounds: "-10,60", group_by: hour,
     groups: 1..9, rows_per_user: 2, expected: 20000}
  - {name: hours, kind: histogram, drawn_by: shuffler, column: hour, domain: 1..9, rows_per_user: 2,
     expected: 20000}
  - {name: shape, kind: distribution, drawn_by: shuffler, column: fare, bounds: "-10,60", bins: 40,
     expected: 20000}
"""
PLANS = {
    "fresh": _HEAD + _RANDOMISED,
    "permanent": _HEAD + "noise: permanent\ndistinct_values: 2\n" + _RANDOMISED,
    "counters": _HEAD + "drawn_by: shuffler\n" + _COUNTERS,
}
ROWS: list[list[dict[str, Any]]] = [
    [{"hour": 3, "page": "page 7", "fare": 12.5}],
    [{"hour": None, "page": None, "fare": None}],
    [{"hour": 77, "page": "no page", "fare": 1e9}],
    [{"hour": hour, "page": "page 9", "fare": 1.0 + hour} for hour in (6, 3, 8)],
    [
        {"hour": 1, "page": "page 1", "fare": -3.25},
        {"hour": 9, "page": "page 299", "fare": 61.0},
        {"hour": 9, "page": "Ã¶", "fare": 0.1},
        {"hour": 4, "page": "page 3", "fare": None},
        *[{"hour": 2, "page": "page 3", "fare": 2.5}] * 5,
    ],
]
_TYPES = pa.schema({"hour": pa.int64(), "page": pa.string(), "fare": pa.float64()})


@cache
def _parted(text: str) -> Any:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "plan.yaml"
        domain = Path(folder) / "pages.txt"
        domain.write_text("".join(f"page {k}\n" for k in range(1, 300)) + "Ã¶\n", "utf-8")
        path.write_text(text)
        return split(load(str(path)), WINDOW)


def plan_told(text: str) -> dict[str, Any]:
    """A plan as `check --json` tells it to clients."""
    return _told(_parted(text).job)


def _told(job: Any) -> dict[str, Any]:
    told = CheckedPlan.model_validate(described(job, WINDOW, None, job))
    return told.model_dump(mode="json")


def reports(name: str) -> dict[str, Any]:
    """A plan as clients are told of it, and what is sent of some rows."""
    parted = _parted(PLANS[name])
    cases = [
        _case(parted, place, number)
        for place in range(len(parted.metrics))
        for number in range(len(ROWS))
    ]
    return {"plan": _told(parted.job), "secret": SECRET.hex(), "cases": cases}


def _case(parted: Any, place: int, number: int) -> dict[str, Any]:
    """What is sent of some rows: a file, or the words that are to be sealed."""
    metric, rows = parted.metrics[place], ROWS[number]
    key = key_of(f"{metric.name} {number}")
    open_rng: Callable[[], Any] = lambda: PermanentRandom(key)  # noqa: E731
    table = pa.Table.from_pylist(rows, _TYPES)
    columns = metric.encoder().columns  # a client refuses a row that has others
    own = [{name: value for name, value in row.items() if name in columns} for row in rows]
    case = {"metric": metric.name, "rows": own, "key": key.hex()}
    permanent = None if parted.job.plan.permanent is None else SECRET
    device = ClientReports(parted, place, permanent, True, open_rng, SECRET)
    if metric.counters is None:
        sent, _ = device.report([table])
        return case | {"report": binary.encode(sent).hex()}
    blocks, _ = device._encoded([table])
    [words] = metric.shape.own_reports(metric, blocks, True, open_rng())
    return case | {"words": [str(word) for word in words[0].tolist()]}


# ---- tokens, and strings that are evaluated unseen -----------------------------------------------


class _Stream:
    """A keystream, read as bytes."""

    def __init__(self, key: bytes) -> None:
        self._rest = PermanentRandom(key).words(1 << 12).tobytes()

    def bytes(self, size: int) -> bytes:
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def below(self, bound: int) -> int:
        """Lemire, Alg. 5, of 32 bits."""
        while True:
            product = int.from_bytes(self.bytes(4), "little") * bound
            if product % (1 << 32) >= (1 << 32) % bound:
                return product >> 32

    def blind(self) -> int:
        return int.from_bytes(self.bytes(64), "little") % voprf.ORDER


def _asked(seed: bytes, purpose: bytes, inputs: list[bytes], stream: _Stream) -> dict[str, Any]:
    """What is sent of inputs, and what comes back."""
    key = voprf.derived(seed, purpose)
    elements = [voprf.times(stream.blind(), voprf.to_group(plain)) for plain in inputs]
    sent = [voprf.encode(element) for element in elements]
    evaluated = [voprf.encode(voprf.times(key, element)) for element in elements]
    proof = voprf.prove(key, sent, evaluated, 7)
    return {
        "public": voprf.encode(voprf.times(key, voprf.BASE)).hex(),
        "elements": b"".join(sent).hex(),
        "answer": b"".join([*evaluated, proof]).hex(),
    }


def oblivious() -> dict[str, Any]:
    """Requests under known blinds, what parties answer, and what devices make of it."""
    parted = _parted(PLANS["counters"])
    return {
        "plan": _told(parted.job),
        "secret": SECRET.hex(),
        "functions": [_function()],
        "tokens": [_tokens(count) for count in (1, 3)],
        "strings": [_strings(parted, *case) for case in _STRINGS],
        "keys": _published(),
    }


# RFC 9497, appendix A.1.2: seed, info, and two inputs.
_RFC = (bytes([0xA3]) * 32, b"test key", [b"\0", b"\x5a" * 17])
_STRINGS: list[tuple[list[str], int, int]] = [
    (["soup", "soup"], 3, 10),
    ([], 2, 1),
    (["ü" * 6, "page 7", "ten bytes!", "eleven byte", "\uffff", "\U0001f40e"], 3, 10),
    (["\ufeffa", ""], 2, 4),
]


def _function() -> dict[str, Any]:
    seed, purpose, inputs = _RFC
    key = key_of("the RFC's inputs")
    outputs = [Evaluator(seed, purpose).output(plain).hex() for plain in inputs]
    return {
        "key": key.hex(), "inputs": [plain.hex() for plain in inputs], "outputs": outputs,
        **_asked(seed, purpose, inputs, _Stream(key)),
    }  # fmt: skip


def _tokens(count: int) -> dict[str, Any]:
    seed, secret, role = key_of("an issuer"), key_of(f"{count} tokens"), b"issuer"
    # As a client makes it whose key is not of one window and role alone.
    parts = b"hushbeam tokens 1" + PLAN + count.to_bytes(8, "little") + role
    key = hmac.digest(secret, parts, "sha256")
    stream, issuer = _Stream(key), Issuer(seed)
    nonces = [stream.bytes(32) for _ in range(count)]
    inputs = [b"hushbeam token" + nonce for nonce in nonces]
    tokens = [
        nonce + issuer.output(plain)[:32] for nonce, plain in zip(nonces, inputs, strict=True)
    ]
    return {
        "secret": secret.hex(), "fingerprint": PLAN.hex(), "role": role.decode(),
        "key": key.hex(), "count": count, "tokens": [token.hex() for token in tokens],
        **_asked(seed, b"hushbeam issuer", inputs, stream),
    }  # fmt: skip


def _strings(parted: Any, texts: list[str], slots: int, most: int) -> dict[str, Any]:
    seed, place = key_of("who evaluates strings"), 0
    key = key_of(f"strings {texts}")
    stream, public = _Stream(key), GOLDEN_KEY.public_key()
    chosen: list[str | None] = [*sorted({*texts}, key=str.encode)]
    chosen += [None] * (slots - len(chosen))
    for step in range(slots):
        other = step + stream.below(len(chosen) - step)
        chosen[step], chosen[other] = chosen[other], chosen[step]
    empty = [None if text is not None else stream.bytes(32) for text in chosen[:slots]]
    words = words_of(pa.array([text or "" for text in chosen[:slots]], pa.large_string()), most)
    words[[text is None for text in chosen[:slots]], 0] = NULL
    inputs = string_inputs(parted.fingerprint, place, words[None], public)
    party = Evaluator(seed, STRINGS)
    context, room = info(parted.fingerprint, place, key_id(public), b"hushbeam string"), []
    for plain, drawn in zip(inputs, empty, strict=True):
        ephemeral = X25519PrivateKey.from_private_bytes(drawn or party.output(plain)[:32])
        padded = plain[len(context) :]
        room.append(hpke_seal(padded, public.public_bytes_raw(), context, b"", ephemeral))
    form = Form(sealed=True, slots=slots * seals_of(width_of(most)))
    records = form.empty(1)
    ids = ReportIds(SECRET, parted.fingerprint, place, WINDOW)
    records["metric"], records["report_id"] = place, ids.of_device()
    records["key_id"] = int.from_bytes(key_id(public), "little")
    records["sealed"] = np.frombuffer(b"".join(room), np.uint8).reshape(1, form.slots, SEALED)
    return {
        "key": key.hex(), "metric": parted.metrics[place].name, "texts": texts, "slots": slots,
        "most": most, "report": binary.encode(Reports(parted.fingerprint, form, records)).hex(),
        **_asked(seed, STRINGS, inputs, stream),
    }  # fmt: skip


def _published() -> dict[str, Any]:
    """A signed list of two windows' keys, and lists that a device has to refuse after it."""
    signer, other = (Ed25519PrivateKey.from_private_bytes(key_of(name)) for name in ("a", "b"))
    first, second = (
        WindowKey(window=window, fingerprint=mark.hex(), role="issuer", public=public.hex())
        for window, mark, public in (("ü 1", PLAN, bytes(32)), ("2", bytes(16), bytes([1]) * 32))
    )
    changed = second.model_copy(update={"public": "02" * 32})
    again = first.model_copy(update={"role": "queries"})  # under the same key
    later = second.model_copy(update={"window": "3", "fingerprint": "03" * 16})
    listed = signed(KeyList(keys=(first, second)), signer).decode()
    pem = signer.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return {
        "signer": pem.decode(),
        "list": listed,
        "refused": [
            signed(KeyList(keys=(first, second)), other).decode(),
            listed.replace("ü 1", "ü 2"),
            signed(KeyList(keys=(changed,)), signer).decode(),
            signed(KeyList(keys=(second, changed)), signer).decode(),
            signed(KeyList(keys=(first, again)), signer).decode(),
            signed(KeyList(keys=(later,)), signer).decode(),  # of a window that was seen
        ],
    }


FILES: dict[str, Callable[[], Any]] = {
    "channels.json": channels,
    "seals.json": seals,
    "oblivious.json": oblivious,
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
