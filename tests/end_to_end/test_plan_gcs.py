"""A plan in Cloud Storage: the log, the lists, the plan, the ledger and the release are objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.portability.api import beam_runner_api_pb2

from pipelines.ledger.ledger import Ledger
from tests import canaries
from tests.cloud_storage import BUCKET, emulated

ROOT = Path(__file__).parents[2]
LEDGER = f"gs://{BUCKET}/ledgers/ledger.json"
IMAGE = "registry.example/hushbeam:1"
PLAN = f"gs://{BUCKET}/plans/plan.yaml"

# With a budget that covers one release.
SMALL = f"""\
collection: canaries
version: 1
input: gs://{BUCKET}/in/*.parquet
output: gs://{BUCKET}/out
ledger: {LEDGER}
budget: {{epsilon: 2.0, delta: 1.0e-5}}
epsilon: 2.0
delta: 1.0e-6
min_reports: 1000
metrics:
  - {{name: value, kind: histogram, column: value, domain: "gs://{BUCKET}/values.txt"}}
  - {{name: real, kind: mean, column: real, bounds: "0,300", cells: 16}}
"""

Run = Callable[..., canaries.Outcome]


@pytest.fixture(autouse=True)
def cloud() -> Iterator[None]:
    """An empty bucket."""
    with emulated():
        yield


def put(name: str, content: bytes) -> None:
    with FileSystems.create(name) as stream:
        stream.write(content)


def content(name: str) -> bytes:
    with FileSystems.open(name) as stream:
        return bytes(stream.read())


def names(under: str) -> list[str]:
    """Of the objects in a folder of the bucket."""
    found = FileSystems.match([f"gs://{BUCKET}/{under}/**"])[0].metadata_list
    return sorted(each.path.removeprefix(f"gs://{BUCKET}/{under}/") for each in found)


def test_input_output_and_ledger_are_objects(run: Run, log: str) -> None:
    for file in sorted(Path(log).parent.glob("*.parquet")):
        put(f"gs://{BUCKET}/in/{file.name}", file.read_bytes())
    put(f"gs://{BUCKET}/values.txt", "\n".join(canaries.DECLARED).encode())
    put(PLAN, SMALL.encode())
    outcome = run(["run", PLAN])
    assert outcome.code == 0, outcome.said
    assert f"report: gs://{BUCKET}/out/report.html\n" in outcome.out
    statement = json.loads(content(f"gs://{BUCKET}/out/statement.json"))
    assert statement["metrics"] == ["value", "real"]
    published = names("out")
    assert {"report.html", "value/histogram.parquet", "real/mean.parquet"} <= {*published}
    (entry,) = Ledger.open(LEDGER, begin=False).entries()
    assert (entry.state, entry.release_id) == ("committed", statement["release_id"])
    assert statement["ledger_entry"] == entry.id

    again = run(["run", PLAN])
    assert again.code == 0, again.said
    assert f"released before, and not made again: gs://{BUCKET}/out\n" in again.out
    assert names("out") == published

    put(PLAN, SMALL.replace("version: 1", "version: 2").replace("/out", "/more").encode())
    more = run(["run", PLAN])
    assert more.code == 1, more.said  # it would spend twice what there is
    assert names("more") == []
    assert [each.id for each in Ledger.open(LEDGER, begin=False).entries()] == [entry.id]


def test_a_template_of_the_job_is_written_and_not_run(run: Run) -> None:
    # Dataflow's own road as far as it goes without Dataflow: options, graph, staging, template.
    text = (ROOT / "examples" / "flights.yaml").read_text()
    text = text.replace("examples/", f"{ROOT}/examples/")
    text = text.replace("output: flights-release", f"output: gs://{BUCKET}/out")
    budget = f"ledger: {LEDGER}\nbudget: {{epsilon: 1.0, delta: 1.0e-6}}\n"
    put(PLAN, text.replace("metrics:\n", f"{budget}metrics:\n").encode())
    outcome = run([
        "run", PLAN, "--runner=DataflowRunner", "--project=project", "--region=europe-west1",
        f"--temp_location=gs://{BUCKET}/tmp", f"--staging_location=gs://{BUCKET}/staging",
        f"--template_location=gs://{BUCKET}/templates/flights", "--no_auth",
        f"--sdk_container_image={IMAGE}", "--job_name=flights",
    ])  # fmt: skip
    assert outcome.code == 0, outcome.said
    assert "handed over" in outcome.out
    job = json.loads(content(f"gs://{BUCKET}/templates/flights"))
    (pool,) = job["environment"]["workerPools"]
    assert (job["type"], pool["workerHarnessContainerImage"]) == ("JOB_TYPE_BATCH", IMAGE)
    (staged,) = (name for name in names("staging") if name.endswith("/pipeline.pb"))
    graph = beam_runner_api_pb2.Pipeline.FromString(
        content(f"gs://{BUCKET}/staging/{staged}")
    ).components
    steps = {step.unique_name for step in graph.transforms.values()}
    # The log is read once; each metric passes a shuffler of its own; one step publishes.
    assert sum(step.split("/")[-1] == "Read" and step.count("/") == 1 for step in steps) == 1
    for metric in ("origin", "delay", "distance"):
        assert any(step.split("/")[1:3] == [metric, "Shuffle"] for step in steps), metric
    assert sum(step.split("/")[-1] == "Release" for step in steps) == 1
    # It may run at any time: what it will reveal is set aside until somebody settles it.
    (entry,) = Ledger.open(LEDGER, begin=False).entries()
    assert (entry.state, entry.handed_over) == ("reserved", True)
    assert names("out") == []
