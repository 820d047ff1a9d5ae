"""Client, shuffler and collector as three jobs over files, against the one job of all three."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq
import pytest

from mechanisms.planner.search import search
from mechanisms.randomness import SeededRandom
from mechanisms.wire import binary
from mechanisms.wire.report import Form, Reports
from mechanisms.wire.sealing import KeyRing
from pipelines.cli import cli
from pipelines.metrics.randomised import Randomised
from pipelines.plan.loading import load
from pipelines.plan.split import Split, split
from pipelines.releases.schema import own
from tests.end_to_end.examples import RANDOMISED
from tests.fakes import canaries
from tests.fakes.ledgers import begun_by
from transforms.reports import reports as files_of_reports

pytestmark = pytest.mark.verify

ROOT = Path(__file__).parents[2]
TABLES = {
    "which": "histogram.parquet", "real": "mean.parquet", "shape": "distribution.parquet",
    "often": "strings.parquet", "row": "vector-mean.parquet",
}  # fmt: skip
PLAN = """\
collection: parties
version: 1
input: {log}
output: {output}
epsilon: {epsilon}
min_reports: 1500
honest_share: 0.9
metrics:
  - name: which
    kind: histogram
    column: value
    domain: {domain}
    mechanism: grr
    epsilon_local: 3
"""
OFTEN = """\
  - {name: often, kind: strings, search: levels, model: local, column: value, max_length: 4,
     share: 0.5}
"""
MORE = f"""\
  - {{name: real, kind: mean, column: real, bounds: "0,300", mechanism: duchi, share: 0.15}}
  - {{name: shape, kind: distribution, model: local, column: real, bounds: "0,300", share: 0.15}}
{OFTEN}\
  - {{name: row, kind: vector-mean, model: local, number: ["real=0,300"], share: 0.1}}
"""
PLAIN = Form()


def plan(folder: Path, log: str, domain: str, output: str, more: str = "") -> Path:
    """A plan of one metric, and whatever is said more."""
    path = folder / "plan.yaml"
    epsilon = 14 if MORE in more else 3
    path.write_text(PLAN.format(log=log, domain=domain, output=output, epsilon=epsilon) + more)
    return path


@functools.cache
def parted(path: Path) -> Split:
    """A plan whose file no longer changes."""
    return split(load(str(path)), "all")


def messages(file: Path, path: Path, form: Form = PLAIN) -> list[np.ndarray]:
    """What was reported of each metric."""
    of_plan = parted(path)
    with file.open("rb") as stream:
        parts = [screened.reports for screened in
                 files_of_reports.read(stream, of_plan.expected(form))]  # fmt: skip
    records = np.concatenate([part.records for part in parts])
    return [records["message"][records["metric"] == k] for k in range(len(of_plan.metrics))]


@pytest.fixture(scope="module")
def road(log: str, domain: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which three processes have made a release, each knowing only files."""
    folder = tmp_path_factory.mktemp("parties")
    path = plan(folder, log, domain, str(folder / "released"), MORE)
    for words in (
        ["parties", "client", str(path), "--input", log, "--output", str(folder / "sent.parquet")],
        ["parties", "shuffle", str(path), "--input", str(folder / "sent.parquet"),
         "--output", str(folder / "mixed")],
        ["parties", "collect", str(path), "--input", str(folder / "mixed")],
    ):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "pipelines.cli.cli", *words],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        if words[1] != "collect":  # it publishes the frequent strings, which was the plan
            assert not canaries.found(done.stdout)
    return folder


@pytest.fixture(scope="module")
def small(log: str, domain: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan of one metric, what its clients have sent, and the same shuffled."""
    folder = tmp_path_factory.mktemp("small")
    path = plan(folder, log, domain, str(folder / "released"))
    of_plan = parted(path)
    words = of_plan.mechanisms[0].perturb(np.arange(1920) % 4, SeededRandom(1))
    sent = Reports.submitted(of_plan.fingerprint, 0, words, SeededRandom(2))
    (folder / "sent.bin").write_bytes(binary.encode(sent))
    files = ["--input", str(folder / "sent.bin"), "--output", str(folder / "mixed")]
    assert cli.main(["parties", "shuffle", str(path), *files]) == 0
    return folder


def test_three_processes_release_what_one_job_does_of_the_same_messages(
    road, log, domain, run, monkeypatch, workspace
) -> None:
    kinds = {metric.kind for metric in parted(road / "plan.yaml").metrics}
    # Each has a way through the parties; those that randomise nothing have another one, in
    # test_parties_counters.py.
    assert kinds == {*RANDOMISED}
    sent = messages(road / "sent.parquet", road / "plan.yaml")
    instead = dict(zip(TABLES, sent, strict=True))
    monkeypatch.setattr(Randomised, "reports", _instead(Randomised.reports, instead))
    outcome = run(["run", str(plan(workspace, log, domain, "out", MORE))])
    assert outcome.code == 0, outcome.err
    for metric, table in TABLES.items():
        one = pq.ParquetFile(f"out/{metric}/{table}").read()
        other = pq.ParquetFile(road / "released" / metric / table).read()
        assert own(one) == own(other)
        of_run = ["release_id"]
        assert one.drop_columns(of_run) == other.drop_columns(of_run)
        files = sorted(path.name for path in Path("out", metric).iterdir())
        assert files == sorted(path.name for path in (road / "released" / metric).iterdir())


def _instead(honest, sent):
    """A metric's reports, with these messages in the place of those that it draws."""

    def reports(self, tables):
        drawn = honest(self, tables)
        blocks = tables.pipeline | beam.Create([sent[self.name]]).with_output_types(np.ndarray)
        return drawn._replace(messages=blocks)

    return reports


def test_what_the_shuffler_sends_on_holds_no_id_and_no_canary(road) -> None:
    (file,) = (road / "mixed").glob("reports*")
    assert {path.name for path in (road / "mixed").iterdir()} == {file.name, "shuffle.json"}
    held = pq.ParquetFile(file)
    assert held.schema_arrow.names == ["version", "fingerprint", "metric", "message"]
    raw = b"".join(path.read_bytes() for path in [road / "sent.parquet", file])
    assert not canaries.found(raw.decode("latin-1"))
    before = messages(road / "sent.parquet", road / "plan.yaml")
    after = messages(file, road / "plan.yaml", Form(shuffled=True))
    for one, other in zip(before, after, strict=True):
        assert np.array_equal(np.sort(one), np.sort(other))
        assert one.size < 2 or not np.array_equal(one, other)


def test_a_million_duplicates_count_once(small, run, workspace) -> None:
    """The flood is one report, which the honest ones hold as well."""
    sent = _sent(small)
    copies = Reports(sent.fingerprint, sent.form, np.repeat(sent.records[:1], 1_000_000))
    Path("flood.bin").write_bytes(binary.encode(copies))
    outcome = run(_shuffle(small, str(small / "sent.bin"), "flood.bin"))
    assert outcome.code == 0, outcome.err
    said = json.loads(Path("mixed/shuffle.json").read_text())
    assert said["dropped"] == {"duplicate": 1_000_000}
    whole = json.loads((small / "mixed" / "shuffle.json").read_text())
    assert said["metrics"] == whole["metrics"] == {
        "which": {"min_reports": 1500, "reports": 1920, "sent_on": 1920}
    }  # fmt: skip


def _shuffle(folder: Path, *files: str) -> list[str]:
    """The words that shuffle some files into a folder here."""
    return ["parties", "shuffle", str(folder / "plan.yaml"), "--input", *files, "--output", "mixed"]


def _sent(folder: Path) -> Reports:
    """What the clients have sent."""
    of_plan = parted(folder / "plan.yaml")
    with (folder / "sent.bin").open("rb") as stream:
        parts = list(files_of_reports.read(stream, of_plan.expected(PLAIN)))
    records = np.concatenate([part.reports.records for part in parts])
    return Reports(of_plan.fingerprint, PLAIN, records)


def test_sealed_reports_pass_a_shuffler_that_cannot_read_them(small, run, log, workspace) -> None:
    for folder in ("keys", "others"):
        assert run(["parties", "keys", "new", folder]).code == 0
    public, private, strange = (
        str(next(Path(folder).glob(f"*.{half}.pem")))
        for folder, half in (("keys", "public"), ("keys", "private"), ("others", "public"))
    )
    path = str(small / "plan.yaml")
    outcome = run(
        ["parties", "client", path, "--input", log, "--seal", public, "--output", "sealed.bin"]
    )
    assert outcome.code == 0, outcome.err
    outcome = run(_shuffle(small, "sealed.bin"))  # as if they were plain
    assert (outcome.code, "2,000 dropped: other form" in outcome.err) == (1, True)
    outcome = run([*_shuffle(small, "sealed.bin"), "--seal", strange])
    assert (outcome.code, "2,000 dropped: unknown key" in outcome.err) == (1, True)
    assert not Path("mixed").exists()
    outcome = run([*_shuffle(small, "sealed.bin"), "--seal", public, strange])
    assert outcome.code == 0, outcome.err
    collected = ["parties", "collect", path, "--input", "mixed", "--output", "out"]
    assert "--key is missing: the reports in mixed are sealed" in run(collected).err
    assert "X25519 private key" in run([*collected, "--key", public]).err
    outcome = run([*collected, "--key", private])
    assert outcome.code == 0, outcome.err
    assert json.loads(Path("out/which/statement.json").read_text())["n"] == 2000


def _keys(run, *folders: str) -> list[dict[str, str]]:
    """Pairs of keys by their halves."""
    pairs = []
    for folder in folders:
        assert run(["parties", "keys", "new", folder]).code == 0
        halves = ("public", "private")
        pairs.append({half: str(next(Path(folder).glob(f"*.{half}.pem"))) for half in halves})
    return pairs


def test_two_shufflers_in_a_row_publish_what_one_does(small, run, log, workspace) -> None:
    """Neither can link a message to its sender: one sees no message, and one no order."""
    collector, second, strange = _keys(run, "collector", "second", "strange")
    path, seal = str(small / "plan.yaml"), ["--seal", collector["public"]]
    client = ["parties", "client", path, "--input", log, *seal, "--second", second["public"]]
    for name in ("twice.bin", "twice.parquet"):
        outcome = run([*client, "--output", name])
        assert outcome.code == 0, outcome.err
    # The first sees no collector's key, and cannot be told the wrong layer.
    assert run([*_shuffle(small, "twice.bin"), *seal]).code == 1
    outcome = run([*_shuffle(small, "twice.bin"), "--second", strange["public"]])
    assert (outcome.code, "2,000 dropped: unknown key" in outcome.err) == (1, True)
    shutil.copy("twice.parquet", "copy.parquet")
    files = ["twice.parquet", "copy.parquet"]
    outcome = run([*_shuffle(small, *files), "--second", second["public"]])
    assert outcome.code == 0, outcome.err
    assert "2,000 dropped: duplicate" in outcome.out
    first = json.loads(Path("mixed/shuffle.json").read_text())
    assert (first["second"], first["shufflers"]) == (Path(second["public"]).name[:16], 1)
    mixed = _records("mixed", Form(sealed=True, shuffled=True, twice=True), small)
    key = bytes.fromhex(Path(collector["public"]).name[:16])
    assert not any(key in one["sealed"].tobytes() for one in mixed)
    assert len({one.tobytes() for one in mixed["sealed"]}) == 2000
    collect = ["parties", "collect", path, "--output", "out", "--key", collector["private"]]
    outcome = run([*collect, "--input", "mixed"])
    assert (outcome.code, "its owner shuffles them first" in outcome.err) == (2, True)

    again = ["parties", "shuffle", path, "--input", "mixed", "--output", "again", *seal,
             "--shuffle-memory", "memory", "--shuffle-secret", "secret"]  # fmt: skip
    assert "its owner shuffles them first" in run([*again, "--key", strange["private"]]).err
    outcome = run([*again, "--key", second["private"]])
    assert outcome.code == 0, outcome.err
    assert json.loads(Path("again/shuffle.json").read_text())["shufflers"] == 2
    # In the order of neither the first shuffle nor, as its ids are gone, the clients' file.
    sealed = _records("again", Form(sealed=True, shuffled=True), small)
    opened = KeyRing.of([Path(second["private"]).read_bytes()]).open(
        Reports(parted(small / "plan.yaml").fingerprint,
                Form(sealed=True, shuffled=True, twice=True), mixed)
    ).reports.records["sealed"]  # fmt: skip
    before = {one.tobytes(): place for place, one in enumerate(opened)}
    places = np.array([before[one.tobytes()] for one in sealed["sealed"]])
    assert sorted(places) == list(range(2000))
    # Of uniform orders the correlation has a standard deviation of 1 / sqrt(1999): 7 of them.
    assert abs(np.corrcoef(places, np.arange(2000))[0, 1]) < 7 / np.sqrt(1999)
    # The same reports do not go on twice, not into another folder either.
    other = ["elsewhere/again" if word == "again" else word for word in again]
    outcome = run([*other, "--key", second["private"]])
    assert (outcome.code, "2,000 dropped: sent on before" in outcome.err) == (1, True)

    # Who is among both would count twice.
    assert run([*client[:7], "--output", "once.bin"]).code == 0
    once = [word if word != "mixed" else "once" for word in _shuffle(small, "once.bin")]
    assert run([*once, *seal, "--shuffle-memory", "other"]).code == 0
    outcome = run([*collect, "--input", "again", "once"])
    assert (outcome.code, "some reports passed one shuffler and some two" in outcome.err) == (
        2,
        True,
    )
    outcome = run([*collect, "--input", "again"])
    assert outcome.code == 0, outcome.err
    for folder in ("out", "out/which"):
        words = " ".join(json.loads(Path(folder, "statement.json").read_text())["in_words"])
        assert "at least one of the two keeps to itself what it knows" in words
    assert json.loads(Path("out/which/statement.json").read_text())["n"] == 2000


def test_a_second_shuffler_notices_what_the_first_has_done(small, run, log, workspace) -> None:
    """What is copied counts once, what is spoiled is counted, what is missing is refused."""
    collector, second = _keys(run, "collector", "second")
    path, seal = str(small / "plan.yaml"), ["--seal", collector["public"]]
    outcome = run(["parties", "client", path, "--input", log, *seal, "--second", second["public"],
                   "--output", "twice.bin"])  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert run([*_shuffle(small, "twice.bin"), "--second", second["public"]]).code == 0
    again = ["parties", "shuffle", path, *seal, "--key", second["private"], "--shuffle-memory",
             "memory", "--shuffle-secret", "secret", "--output"]  # fmt: skip
    form = Form(sealed=True, shuffled=True, twice=True)
    records, plan_mark = _records("mixed", form, small), parted(small / "plan.yaml").fingerprint
    spoiled = records[:300].copy()
    spoiled["sealed"][:, -1] ^= 1
    copied = np.concatenate([records[300:], records[300:800], spoiled])
    Path("handed.bin").write_bytes(binary.encode(Reports(plan_mark, form, copied)))
    outcome = run([*again, "copied", "--input", "handed.bin"])
    assert outcome.code == 0, outcome.err
    assert "500 dropped: duplicate" in outcome.out
    assert "300 dropped: seal does not open" in outcome.out
    assert (
        json.loads(Path("copied/shuffle.json").read_text())["metrics"]["which"]["sent_on"] == 1700
    )
    # min_reports holds at the second shuffler, too.
    Path("few.bin").write_bytes(binary.encode(Reports(plan_mark, form, records[:900])))
    few = [word if word != "memory" else "other" for word in again]
    assert run([*few, "few", "--input", "few.bin"]).code == 1
    # A folder of which a part is missing, or that is sealed once.
    (file,) = Path("mixed").glob("reports*")
    file.write_bytes(Path("copied").glob("reports*").__next__().read_bytes())
    outcome = run([*again, "part", "--input", "mixed"])
    assert (outcome.code, "hand over all that the shuffle has left" in outcome.err) == (2, True)
    outcome = run([*again, "once", "--input", "copied"])
    assert (outcome.code, "a second shuffle would gain nothing" in outcome.err) == (2, True)


def test_a_second_shuffler_is_refused_where_it_can_do_nothing(small, run, log, workspace) -> None:
    collector, second = _keys(run, "collector", "second")
    client = ["parties", "client", str(small / "plan.yaml"), "--input", log, "--output", "x.bin"]
    outcome = run([*client, "--second", second["public"]])
    assert (outcome.code, "name the collector's key, too" in outcome.err) == (2, True)
    outcome = run([*client, "--seal", collector["public"], "--second", second["private"]])
    assert (outcome.code, "--second: " in outcome.err) == (2, True)
    outcome = run([*client, "--seal", collector["public"], "--second", collector["public"]])
    assert (outcome.code, "it is the collector's key" in outcome.err) == (2, True)
    mine = ["--seal", collector["public"], "--key", collector["private"]]
    outcome = run([*_shuffle(small, "x.bin"), *mine])
    assert (outcome.code, "it is the collector's key" in outcome.err) == (2, True)
    both = ["--second", second["public"], "--seal", collector["public"]]
    outcome = run([*_shuffle(small, "x.bin"), *both])
    assert (outcome.code, "leave out the others" in outcome.err) == (2, True)
    text = (small / "plan.yaml").read_text()
    counted = text.replace("min_reports: 1500\nhonest_share: 0.9\n", "drawn_by: shuffler\n")
    counted = counted.replace("    mechanism: grr\n    epsilon_local: 3\n", "")
    Path("counters.yaml").write_text(counted)
    words = ["counters.yaml" if word.endswith("plan.yaml") else word for word in client]
    outcome = run([*words, *both])
    assert (outcome.code, "are for metrics of each-report" in outcome.err) == (2, True)


def _records(folder: str, form: Form, site: Path) -> np.ndarray:
    """All reports of a shuffle's folder, in their order."""
    of_plan, records = parted(site / "plan.yaml"), []
    for file in sorted(Path(folder).glob("reports*")):
        with file.open("rb") as stream:
            blocks = list(files_of_reports.read(stream, of_plan.expected(form)))
        records += [block.reports.records for block in blocks]
    return np.concatenate(records)


def test_poisoned_reports_are_released_and_only_with_a_warning(small, run, workspace) -> None:
    sent = _sent(small)
    made_up = Reports.submitted(sent.fingerprint, 0, np.full(2000, 3), SeededRandom(3))
    Path("poison.bin").write_bytes(binary.encode(made_up))
    assert run(_shuffle(small, "poison.bin")).code == 0
    path = str(small / "plan.yaml")
    outcome = run(["parties", "collect", path, "--input", "mixed", "--output", "out"])
    assert outcome.code == 0
    assert "hushbeam: warning: which: These reports cannot all be honest" in outcome.err
    assert list(json.loads(Path("out/statement.json").read_text())["doubts"]) == ["which"]
    for folder in ("out", "out/which"):
        words = json.loads(Path(folder, "statement.json").read_text())["in_words"][0]
        assert "cannot all be honest clients" in words
        assert "holds only if min_reports of these reports are such clients'" in words
        assert "promises of privacy stand" not in words
        assert "cannot all be honest clients" in Path(folder, "report.html").read_text()


def test_too_few_reports_are_withheld_and_the_folder_is_free_again(small, run, workspace) -> None:
    few = _sent(small)
    Path("few.bin").write_bytes(binary.encode(few.where(np.arange(len(few)) < 900)))
    outcome = run(_shuffle(small, "few.bin"))
    assert outcome.code == 1
    assert outcome.err == "hushbeam: withheld: no metric had its min_reports; 900 reports came\n"
    assert not Path("mixed").exists()


def test_a_shuffle_that_dies_leaves_nothing(small, run, workspace, monkeypatch) -> None:
    def crash(*_: object) -> None:
        raise ValueError("cannot handle 'CANARY-VALUE'")

    monkeypatch.setattr("pipelines.parties.shuffling.write", crash)  # all but the summary is there
    outcome = run(_shuffle(small, str(small / "sent.bin")))
    assert (outcome.code, outcome.out) == (3, "")
    assert not canaries.found(outcome.said)
    assert not Path("mixed").exists()


def test_a_shuffle_of_something_else_is_refused(small, run, workspace) -> None:
    path, mixed = str(small / "plan.yaml"), str(small / "mixed")
    shutil.copytree(mixed, "copy")
    words = ["parties", "collect", path, "--output", "out", "--input"]
    Path("copy/shuffle.json").unlink()
    outcome = run([*words, "copy"])
    assert (outcome.code, "holds no shuffle.json" in outcome.err) == (2, True)
    other = Path("plan.yaml")
    other.write_text(Path(path).read_text().replace("version: 1", "version: 2"))
    outcome = run(["parties", "collect", str(other), "--output", "out", "--input", mixed])
    assert (outcome.code, "for another plan" in outcome.err) == (2, True)
    outcome = run(
        ["parties", "collect", str(other), "--output", "out", "--input", f"{mixed}/reports*"]
    )
    assert (outcome.code, "1,920 reports were dropped: of another plan" in outcome.err) == (1, True)
    assert not Path("out").exists()


AUTO = """\
collection: parties
version: 1
input: {log}
output: released
epsilon: 3
model: local
min_reports: 1500
metrics:
  - {{name: which, kind: histogram, column: value, domain: {domain}}}
"""


def test_parties_whose_planners_disagree_find_out(run, log, domain, workspace, monkeypatch) -> None:
    """Reports that mean something else are counted and dropped, and it is said."""
    Path("plan.yaml").write_text(AUTO.format(log=log, domain=domain))

    def plans_by(system: str) -> None:
        chosen = functools.partial(search, name=system)
        monkeypatch.setattr("mechanisms.planner.search.search", lambda target, name: chosen(target))

    plans_by("grr")
    assert run(["parties", "client", "plan.yaml", "--input", log, "--output", "sent.bin"]).code == 0
    assert run([*SHUFFLED, "mixed"]).code == 0
    assert {path.name for path in Path().iterdir()} == {"mixed", "plan.yaml", "sent.bin", "tmp"}
    plans_by("hadamard")
    outcome = run([*SHUFFLED, "other"])
    assert outcome.code == 1
    dropped = (
        "2,000 reports were dropped: of another plan, version or window, or of a hushbeam that"
    )
    assert f"warning: {dropped} resolves this plan to another design" in outcome.err
    assert "2,000 dropped: other plan" in outcome.err
    outcome = run(["parties", "collect", "plan.yaml", "--input", "mixed"])
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "mixed was shuffled by a hushbeam that resolves the same plan to design" in outcome.err
    outcome = run(["parties", "collect", "plan.yaml", "--input", "mixed/reports*"])
    assert (outcome.code, dropped in outcome.err) == (1, True)
    assert not Path("released").exists()
    plans_by("grr")
    assert run(["parties", "collect", "plan.yaml", "--input", "mixed"]).code == 0


SHUFFLED = ["parties", "shuffle", "plan.yaml", "--input", "sent.bin", "--output"]


def test_the_ledger_counts_a_collected_release_once(small, run, workspace, log, domain) -> None:
    more = "ledger: ledger.sqlite\nbudget: {epsilon: 50, delta: 1.0e-5}\n"
    path = plan(workspace, log, domain, "out", more)
    begun_by(path)
    words = ["parties", "collect", str(path), "--input", str(small / "mixed")]
    assert run(words).code == 0
    assert "released before" in run([*words, "--output", "elsewhere"]).out
    assert not Path("elsewhere").exists()
    entries = json.loads(run(["ledger", "show", "--ledger", "ledger.sqlite", "--json"]).out)
    assert [entry["state"] for entry in entries] == ["committed"]


@pytest.mark.parametrize(
    ("metric", "told"),
    [
        ("kind: histogram, column: value, domain: 0..9, mechanism: oue", "several messages"),
        ("kind: histogram, column: value, domain: 0..9, drawn_by: job", "exact"),
        ("kind: mean, model: local, column: real, choose_bounds: true", "choose_bounds"),
        (
            "kind: vector-mean, number: ['real=0,300', 'number=-3,3'], mechanism: laplace_vector, "
            "unusable: count",
            "several messages",
        ),
    ],
)
def test_what_cannot_be_divided_is_refused(metric, told, log, domain, run, workspace) -> None:
    more = f"  - {{name: other, {metric}}}\n"
    path = plan(workspace, log, domain, "out", more)
    path.write_text(path.read_text().replace("epsilon: 3\n", "epsilon: 6\n"))
    outcome = run(["parties", "shuffle", str(path), "--input", "none", "--output", "mixed"])
    assert (outcome.code, outcome.out) == (2, "")
    assert "metric other: " in outcome.err
    assert told in outcome.err
    assert outcome.err.count("\n") == 1


def test_clients_ask_for_a_least_batch(log, domain, run, workspace) -> None:
    """They choose their noise for it; a key without a value says nothing, and leaves the plan's."""
    more = "  - {name: other, kind: mean, model: local, column: real, bounds: '0,300'%s}\n"
    path = plan(workspace, log, domain, "out", more % ", min_reports: null")
    words = ["parties", "client", str(path), "--input", log, "--output", "sent.bin"]
    assert run(words).code == 0
    alone = path.read_text().replace("min_reports: 1500\n", "").replace(
        "    mechanism: grr\n", "    mechanism: grr\n    min_reports: 1500\n"
    )  # fmt: skip
    path.write_text(alone)
    outcome = run(words)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert "metric other: min_reports is missing" in outcome.err
