"""A store that cannot be reached is named at once: which package or credentials are missing."""

from __future__ import annotations

import errno
import os
from importlib import util
from pathlib import Path

import google.auth
import pytest
from google.auth.exceptions import DefaultCredentialsError

from pipelines.storage import stores

PLAN = """\
collection: far
version: 1
input: {input}
output: {output}
epsilon: 1
min_reports: 100
metrics:
  - {{name: value, kind: histogram, column: value, domain: "{domain}"}}
"""
HISTOGRAM = ["histogram", "--epsilon", "1", "--column", "value", "--min-reports", "10"]


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without credentials, whose packages are looked for anew."""

    def default(*_: object, **__: object) -> None:
        raise DefaultCredentialsError("CANARY")

    stores._problem.cache_clear()
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GCE_METADATA_DETECT_RETRIES", "1")
    monkeypatch.setattr(google.auth, "default", default)
    yield
    stores._problem.cache_clear()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (
            [*HISTOGRAM, "--input", "gs://b/log", "--domain", "0..9", "--output", "out"],
            "gs://b/log",
        ),
        ([*HISTOGRAM, "--input=gs://b/log", "--domain=0..9", "--output=out"], "--input=gs://b/log"),
        (["run", "gs://b/plan.yaml"], "gs://b/plan.yaml"),
        (["site", "gs://b/out", "--output", "site"], "gs://b/out"),
        (["export", "gs://b/out", "--output", "all.csv"], "gs://b/out"),
    ],
)
def test_without_credentials_a_bucket_is_refused_before_it_is_asked(words, named, refused) -> None:
    refused(words, f"{named}: no credentials for gs:// (DefaultCredentialsError); run `gcloud auth")


@pytest.mark.parametrize(
    ("part", "command"),
    [("input", "run"), ("output", "run"), ("domain", "run"), ("domain", "check")],
)
def test_so_are_the_paths_of_a_plan(part: str, command: str, refused, log) -> None:
    written = {"input": log, "output": "out", "domain": "0..9"} | {part: "gs://b/far"}
    Path("plan.yaml").write_text(PLAN.format(**written))
    refused([command, "plan.yaml"], "gs://b/far: no credentials for gs://")


def test_who_only_reviews_a_plan_needs_no_credentials(run) -> None:
    Path("plan.yaml").write_text(PLAN.format(input="gs://b/l", output="gs://b/o", domain="0..9"))
    assert run(["check", "plan.yaml"]).code == 0


@pytest.mark.parametrize(
    ("store", "module", "remedy"),
    [
        ("gs", "google.cloud.storage", "pip install '.[gcp]' in a clone of hushbeam"),
        ("s3", "boto3", "pip install boto3"),
        ("hdfs", "hdfs", "pip install hdfs"),
    ],
)
def test_a_missing_package_is_named(store, module, remedy, refused, monkeypatch) -> None:
    find = util.find_spec
    monkeypatch.setattr(stores, "find_spec", lambda name: None if name == module else find(name))
    words = [*HISTOGRAM, "--input", f"{store}://b/log", "--domain", "0..9", "--output", "out"]
    refused(words, f"{store}://b/log: {store}:// needs the package {module} ({remedy})")


def test_an_emulator_needs_no_credentials_and_other_words_name_no_store(monkeypatch) -> None:
    stores.require_reachable(["--where", "page != 'x gs://b'", "http://host", "nowhere://x", "a=1"])
    with pytest.raises(stores.RequestError, match=r"^region=gs://b/d: no credentials"):
        stores.require_reachable(["region=gs://b/d"])
    stores._problem.cache_clear()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
    stores.require_reachable(["gs://b/log"])


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOSPC, errno.EMFILE])
def test_what_the_system_refuses_is_said_in_its_words(number: int, run, monkeypatch) -> None:
    """Whatever command it is: the last of the catch-alls."""

    def refuse(*_: object) -> None:
        raise OSError(number, "CANARY", "place/of.file")

    monkeypatch.setattr("pipelines.plan.draft.init", refuse)
    outcome = run(["init", "log.parquet"])
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"hushbeam: cannot use place/of.file: {os.strerror(number)}; ")
    assert outcome.err.count("\n") == 1
    assert "CANARY" not in outcome.said


def test_a_plan_that_may_not_be_read_says_why(refused, monkeypatch) -> None:
    from pipelines.plan import loading

    def refuse(path: str, **_: object) -> None:
        raise PermissionError(errno.EACCES, "CANARY", path)

    Path("plan.yaml").write_text(PLAN.format(input="log", output="out", domain="0..9"))
    monkeypatch.setattr(loading.FileSystems, "open", refuse)
    refused(["check", "plan.yaml"], "not a file of UTF-8 text that can be read (Permission denied)")
