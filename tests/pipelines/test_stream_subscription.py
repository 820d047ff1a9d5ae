"""A stream from Pub/Sub: what is refused before anything is asked of a queue."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

PLAN = """\
collection: canaries
version: 1
unit: row
input: landing/*.parquet
output: out/{{window}}
epsilon: 3.0
model: local
min_reports: 20
stream: {{window: 10s, state: state, time: at}}
metrics:
  - {{name: value, kind: histogram, column: value, domain: {domain}}}
"""
NAME = "projects/my-project/subscriptions/my-reports"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["my-reports"], "as in projects/"),
        (["projects/my-project/topics/my-reports"], "as in projects/"),
        (["projects/my-project/subscriptions/my-reports#"], "as in projects/"),
        ([NAME, "--once"], "has no end"),
        ([NAME, "--drain"], "has no end"),
    ],
)
def test_what_is_no_subscription_is_refused(run, domain, more, told) -> None:
    Path("plan.yaml").write_text(PLAN.format(domain=domain))
    outcome = run(["stream", "plan.yaml", "--subscription", *more])
    assert outcome.code == 2, outcome.said
    assert told in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_missing_package_is_named(run, domain, monkeypatch) -> None:
    real = importlib.import_module

    def without(name: str):
        if name.startswith("google.cloud.pubsub"):
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(importlib, "import_module", without)
    Path("plan.yaml").write_text(PLAN.format(domain=domain))
    outcome = run(["stream", "plan.yaml", "--subscription", NAME])
    assert outcome.code == 2, outcome.said
    assert "pip install '.[gcp]'" in outcome.err
