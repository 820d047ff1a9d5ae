"""A plan in Cloud Storage: the log, the lists, the plan, the ledger and the release are objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.portability.api import beam_runner_api_pb2

from pipelines.errors import FailedError, RequestError
from pipelines.ledger.ledger import CollectionLedger
from pipelines.plan.loading import load
from pipelines.storage.claims import Claim, TakenError
from pipelines.storage.google_object import GoogleObject
from pipelines.storage.objects import Changed, Unavailable
from tests.fakes import canaries
from tests.fakes.cloud_storage import BUCKET, emulated
from tests.fakes.ledgers import begun_by

pytestmark = pytest.mark.verify

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
    begun_by(PLAN)
    outcome = run(["run", PLAN])
    assert outcome.code == 0, outcome.said
    assert f"report: gs://{BUCKET}/out/report.html\n" in outcome.out
    statement = json.loads(content(f"gs://{BUCKET}/out/statement.json"))
    assert statement["metrics"] == ["value", "real"]
    published = names("out")
    assert {"report.html", "value/histogram.parquet", "real/mean.parquet"} <= {*published}
    (entry,) = CollectionLedger.open(LEDGER).entries()
    assert (entry.state, entry.release_id) == ("committed", statement["release_id"])
    assert (statement["ledger"]["entry"], statement["ledger"]["attempt"]) == (entry.id, 1)

    again = run(["run", PLAN])
    assert again.code == 0, again.said
    assert f"released before, and not made again: gs://{BUCKET}/out\n" in again.out
    assert names("out") == published

    dear = SMALL.replace("\nepsilon: 2.0", "\nepsilon: 6.0").replace("/out", "/more")
    put(PLAN, dear.replace("version: 1", "version: 2").encode())
    more = run(["run", PLAN])
    assert more.code == 1, more.said  # it would spend far more than there is
    assert names("more") == []
    assert [each.id for each in CollectionLedger.open(LEDGER).entries()] == [entry.id]


def test_a_template_of_the_job_is_written_and_not_run(run: Run) -> None:
    # Dataflow's own road as far as it goes without Dataflow: options, graph, staging, template.
    text = (ROOT / "examples" / "flights.yaml").read_text()
    for file in ("flights.parquet", "airports.txt"):
        text = text.replace(f": {file}", f": {ROOT}/examples/{file}")
    text = text.replace("metrics:\n", "drawn_by: each-report\nmin_reports: 300000\nmetrics:\n")
    text = text.replace("output: ../flights-release", f"output: gs://{BUCKET}/out")
    text = text.replace("ledger: ../flights-ledger.sqlite", f"ledger: {LEDGER}")
    put(PLAN, text.encode())
    begun_by(PLAN)
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
    (entry,) = CollectionLedger.open(LEDGER).entries()
    assert (entry.state, entry.handed_over) == ("reserved", True)
    assert names("out") == []


STREAM = f"""\
collection: canaries
version: 1
input: gs://{BUCKET}/landing/*.parquet
output: gs://{BUCKET}/releases/{{window}}
ledger: {LEDGER}
budget: {{epsilon: 2.0, delta: 1.0e-5}}
epsilon: 2.0
model: local
min_reports: 400
stream: {{window: 1h, state: state, time: at}}
metrics:
  - {{name: value, kind: histogram, column: value, domain: "gs://{BUCKET}/values.txt"}}
"""
HOURS = ("2024-11-20T1300", "2024-11-20T1400")


def test_a_stream_releases_each_window_of_objects_once(run: Run) -> None:
    put(f"gs://{BUCKET}/values.txt", "\n".join(canaries.DECLARED).encode())
    put(PLAN, STREAM.encode())
    with pytest.raises(RequestError, match="it is a folder on this machine"):
        load(PLAN)
    put(PLAN, STREAM.replace("state: state", f"state: {Path('state').absolute()}").encode())
    begun_by(PLAN)
    begins = datetime(2024, 11, 20, 13, tzinfo=timezone.utc)
    for k in range(3):  # the second of three objects has rows of both windows
        at = [begins + timedelta(minutes=35 * k + (i % 50)) for i in range(400)]
        values = pa.array([canaries.DECLARED[i % 4] for i in range(400)])
        table = pa.table({"at": pa.array(at, pa.timestamp("us", "UTC")), "value": values})
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        put(f"gs://{BUCKET}/landing/{k}.parquet", sink.getvalue().to_pybytes())
    outcome = run(["stream", PLAN, "--drain"])
    assert outcome.code == 0, outcome.said
    assert not canaries.found(outcome.said)
    said = [json.loads(content(f"gs://{BUCKET}/releases/{h}/value/statement.json")) for h in HOURS]
    assert sum(each["n"] for each in said) == 1200
    entries = CollectionLedger.open(LEDGER).entries()
    assert [(entry.window, entry.state) for entry in entries] == [(h, "committed") for h in HOURS]
    assert [str(entry.span and entry.span.until)[11:16] for entry in entries] == ["14:00", "15:00"]
    published = names("releases")
    assert not any("claim" in name for name in published)

    assert run(["stream", PLAN, "--drain"]).code == 0
    assert names("releases") == published
    # Who loses the state releases nothing twice: the folders and the ledger know the windows.
    Path("state").rename("lost")
    assert run(["stream", PLAN, "--drain"]).code == 0
    assert names("releases") == published
    assert CollectionLedger.open(LEDGER).entries() == entries


# ---- without a ledger --------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Unavailable, Changed])
def test_a_claim_that_arrived_although_it_seemed_to_fail_is_ours(
    monkeypatch: pytest.MonkeyPatch, fault: type[Exception]
) -> None:
    swap = GoogleObject.swap

    def lost(self: GoogleObject, content: bytes, generation: int) -> None:
        swap(self, content, generation)
        raise fault

    monkeypatch.setattr(GoogleObject, "swap", lost)
    assert Claim(f"gs://{BUCKET}/out", "mine").take({"table": b"mine"}) == {"table": b"mine"}
    with pytest.raises(TakenError):
        Claim(f"gs://{BUCKET}/out", "theirs").take({"table": b"theirs"})
    monkeypatch.setattr(GoogleObject, "fetch", _silent)
    with pytest.raises(FailedError, match=r"claim\.json could not be written within 0.1 s"):
        Claim(f"gs://{BUCKET}/out", "mine", timeout=0.1).take({"table": b"mine"})


def _silent(_: GoogleObject) -> None:
    raise Unavailable
