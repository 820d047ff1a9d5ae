"""What clients in other languages hold on to: the JSON, its schema, and published vectors."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from pydantic import ValidationError

from mechanisms.catalog import build
from mechanisms.specification import Channel
from tests.oracles.checked_plan import CheckedPlan, client_schema
from tests.oracles.client_vectors import FILES, FOLDER, PLANS, ROOT, SCHEMA, plan_told
from transforms.encoders.domain import DeclaredValues
from transforms.encoders.specification import MOST_VALUES, Encoder

WRITTEN = (ROOT / "docs" / "appendix" / "wire.md").read_text("utf-8")


def stored(name: str) -> object:
    return json.loads((FOLDER / name).read_text("utf-8"))


def _cost(name: str) -> object:
    # Plans: two are of the same counters, whose design is searched for once.
    planned = name.startswith(("reports", "oblivious"))
    return pytest.param(name, marks=[pytest.mark.verify] * planned)


@pytest.mark.parametrize("name", [_cost(name) for name in FILES])
def test_published_vectors_are_what_the_python_client_makes(name: str) -> None:
    assert json.loads(json.dumps(FILES[name]())) == stored(name)


def test_no_vector_is_left_over() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*FILES}


def test_the_published_schema_is_that_of_the_code() -> None:
    assert json.loads(SCHEMA.read_text("utf-8")) == client_schema()


@pytest.mark.parametrize("name", [name for name in FILES if "reports" in name])
def test_stored_plans_hold_to_the_schema_and_altered_ones_do_not(name: str) -> None:
    plan = stored(name)["plan"]  # type: ignore[index]
    assert CheckedPlan.model_validate(plan).model_dump(mode="json") == plan
    for change in ({"channel": "unheard of"}, {"more": 1}):
        client = plan["metrics"][0]["client"]
        other = client | {"channel": client["channel"] | change}
        metric = plan["metrics"][0] | {"client": other}
        with pytest.raises(ValidationError):
            CheckedPlan.model_validate(plan | {"metrics": [metric]})
    with pytest.raises(ValidationError):
        CheckedPlan.model_validate(plan | {"format": 2})


def test_vectors_cover_every_channel_and_encoder() -> None:
    text = "".join((FOLDER / name).read_text("utf-8") for name in FILES)
    for kinds, tag in ((Channel, "channel"), (Encoder, "encoder")):
        names = {getattr(kind, tag) for kind in get_args(kinds)}
        assert names == set(re.findall(rf'"{tag}":"([a-z -]+)"', text))
    assert set(re.findall(r'"raises":"([a-z]+)"', text)) == {"totals", "path"}


@pytest.mark.parametrize("kind", get_args(Channel), ids=lambda kind: kind.channel)
def test_every_channel_is_written_down(kind: type) -> None:
    [section] = re.findall(rf"(?ms)^### `{kind.channel}`$(.*?)^##", WRITTEN)
    for name in kind.__dataclass_fields__:
        assert f"`{name}`" in section, name


def test_a_mechanism_that_is_not_written_down_says_so() -> None:
    assert build("duchi", epsilon=1.0).specification is None


def test_of_many_values_the_hash_alone_is_told() -> None:
    few = DeclaredValues(tuple(map(str, range(MOST_VALUES))))
    many = replace(few, values=(*few.values, "x"))
    assert few.specification.values == list(few.values)
    assert many.specification.values is None
    assert few.specification.sha256 != many.specification.sha256
    assert many.specification.declared == MOST_VALUES + 1


def test_clients_depend_on_nothing() -> None:
    for package in (ROOT / "clients").glob("*/package.json"):
        assert "dependencies" not in json.loads(package.read_text())
        lock = (package.parent / "package-lock.json").read_text()
        assert "://" not in re.sub(r'"(url|funding)": "[^"]*"', "", lock)  # no registry's name
    lines = sum(len(p.read_text().splitlines()) for p in Path(ROOT, "clients").glob("*/src/*.ts"))
    assert lines <= 2500
    rust = ROOT / "clients" / "rust"
    assert sum(len(p.read_text().splitlines()) for p in (rust / "src").glob("*.rs")) <= 2500
    sources = re.findall(r'^source = "(.*)"$', (rust / "Cargo.lock").read_text(), re.M)
    assert {*sources} == {"registry+https://github.com/rust-lang/crates.io-index"}


def test_what_expressions_make_of_rows_is_not_left_to_a_client_that_has_none() -> None:
    events = PLANS["counters"].partition("  - {name: spent")[0]
    lines = {'where: "hour > 2"\n': False, 'derive: {half: "hour / 2"}\n': False, "": True}
    for more, served in lines.items():
        (metric,) = plan_told(events + more)["metrics"]
        assert (metric["client"] is not None) == served
