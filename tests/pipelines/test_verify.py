"""Releases that somebody has tampered with, and ledgers that were rolled back: all are refused.

Who tampers may have the key: then the release is signed again, and it is its content that tells.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mechanisms.channel import Guarantee
from mechanisms.privacy.gaussian_filter import WHOLE
from mechanisms.wire.oblivious import Evaluator
from pipelines.cli import cli
from pipelines.errors import FailedError, RequestError, WithheldError
from pipelines.journal import journal
from pipelines.journal.ask_session import FILE, journal_of
from pipelines.journal.checkpoint import Fact
from pipelines.journal.object_keeping import written
from pipelines.ledger import public_log
from pipelines.ledger.beginning import adopt
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.public_log import HEAD, LEAVES, read_head, read_log
from pipelines.releases import key_list, release, signature
from pipelines.releases.key_list import KeyList, WindowKey
from pipelines.releases.signature import SIGNATURE, VARIABLE
from pipelines.verify import price, tables
from pipelines.verify.price import of_plan
from pipelines.verify.registry import entries, write
from pipelines.verify.release import Verifier
from pipelines.verify.verdict import LIMIT, Check, unchecked
from pipelines.verify.verify import opened, verified
from pipelines.verify.words import of_release as words_of
from pipelines.wording import meaning
from tests.fakes.ledger_rivals import request
from tests.fakes.ledgers import begun
from tests.fakes.repeating import seeded

KEY = str(Path(os.environ["XDG_STATE_HOME"], "hushbeam", "signing-key.public.pem"))
KEPT = "kept.json"
PLAN = {
    "collection": "trips", "version": 1, "unit": "user", "user_column": "user",
    "input": "log.parquet", "output": "releases/{window}", "epsilon": 1,
    "ledger": "ledger.sqlite", "budget": {"epsilon": 9, "delta": 1e-3},
    "metrics": [
        {"name": "city", "kind": "histogram", "column": "city", "domain": "0..7"},
        {"name": "size", "kind": "mean", "column": "size", "bounds": "0,10"},
        {"name": "events", "kind": "count", "column": "city", "domain": "0..7",
         "drawn_by": "shuffler"},
        {"name": "said", "kind": "histogram", "column": "city", "domain": "0..7",
         "drawn_by": "each-report", "min_reports": 1000},
    ],
}  # fmt: skip


@contextlib.contextmanager
def _beside_logs(folder: Path, cities: int) -> Iterator[Path]:
    """In a folder, with logs of 2,000 users, and noise that comes again."""
    before, users = Path.cwd(), np.arange(2000)
    os.chdir(folder)
    try:
        rows = {"user": [f"u{k}" for k in users], "city": users % cities, "size": users % 11 * 1.0}
        for name in ("log", "2026-11-20"):
            pq.write_table(pa.table(rows), f"{name}.parquet")
        with seeded("verify"):
            yield folder
    finally:
        os.chdir(before)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two windows of a plan, the log of their ledger, and a head of it that was kept."""
    with _beside_logs(tmp_path_factory.mktemp("made"), 9) as folder:
        Path("plan.yaml").write_text(json.dumps(PLAN))
        for words in (
            ["ledger", "init", "plan.yaml"],
            ["run", "plan.yaml", "--window", "2026-11-20"],
            ["run", "plan.yaml", "--window", "2026-11-21"],
            ["ledger", "log", "--ledger", "ledger.sqlite", "--output", "log"],
        ):
            assert cli.main(words) == 0
        shutil.copy(Path("log", HEAD), KEPT)
    return folder


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    """A folder to tamper with."""
    shutil.copytree(made / "releases/2026-11-20", tmp_path / "release")
    return tmp_path / "release"


def faults(made: Path, folder: Path) -> list[str]:
    """What is wrong with a release, by who has the log and a head of it."""
    verifier = opened([KEY], str(made / "log"), str(made / KEPT))
    findings = verified([str(folder)], verifier).findings[str(folder)]
    return [f"{one.subject}: {one.said}" for one in findings if one.outcome == "fault"]


# ---- tampering -----------------------------------------------------------------------------------

Said = dict[str, Any]


def edit(folder: Path, name: str, change: Callable[[Said], object]) -> None:
    path = folder / name / "statement.json"
    said = json.loads(path.read_text("utf-8"))
    change(said)
    path.write_text(json.dumps(said), "utf-8")


def column(folder: Path, file: str, name: str, change: Callable[[Any], Any]) -> None:
    """Write one column of a table anew."""
    table = pq.ParquetFile(folder / file).read()
    place, kind = table.column_names.index(name), table.schema.field(name).type
    cells = pa.array([change(cell) for cell in table[name].to_pylist()], kind)
    pq.write_table(table.set_column(place, name, cells), folder / file)


def sign(folder: Path) -> None:
    names = [path for path in folder.rglob("*") if path.is_file() and path.name != SIGNATURE]
    files = {str(path.relative_to(folder)): path.read_bytes() for path in names}
    (folder / SIGNATURE).write_bytes(signature.signed(files))


def byte(folder: Path, _: Path) -> None:
    path = folder / "city/histogram.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def words(folder: Path, _: Path) -> None:
    path = folder / "report.html"
    path.write_text(path.read_text("utf-8").replace("epsilon", "Epsilon"), "utf-8")


def gone(folder: Path, _: Path) -> None:
    (folder / "size/mean.parquet").unlink()


def more(folder: Path, _: Path) -> None:
    (folder / "size/more.parquet").write_bytes(b"more")


def unsigned(folder: Path, _: Path) -> None:
    (folder / SIGNATURE).unlink()


def of_another(folder: Path, made: Path) -> None:
    shutil.copy(made / "releases/2026-11-21" / SIGNATURE, folder / SIGNATURE)


def mixed(folder: Path, made: Path) -> None:
    shutil.copytree(made / "releases/2026-11-21/city", folder / "city", dirs_exist_ok=True)


def redigested(folder: Path, made: Path) -> None:
    """The digest is that of the altered file, and the signature still the old one."""
    byte(folder, made)
    said = json.loads((folder / SIGNATURE).read_text())
    changed = json.loads(signature.signed({"a": (folder / "city/histogram.parquet").read_bytes()}))
    said["files"]["city/histogram.parquet"] = changed["files"]["a"]
    (folder / SIGNATURE).write_text(json.dumps(said))


def strange_key(folder: Path, _: Path) -> None:
    """All is consistent, and signed by somebody else."""
    with pytest.MonkeyPatch.context() as patch:
        other = Ed25519PrivateKey.from_private_bytes(bytes(32))
        patch.setattr(signature, "signing_key", lambda: other)
        sign(folder)


def garbled(folder: Path, _: Path) -> None:
    (folder / SIGNATURE).write_text("[" * 5000)


WITHOUT_KEY = (
    byte, words, gone, more, unsigned, of_another, mixed, redigested, strange_key, garbled,
)  # fmt: skip


def said(name: str, *path: Any, to: Any) -> Callable[[Path], None]:
    """A field of a statement is another one."""

    def tamper(folder: Path) -> None:
        def change(statement: Any) -> None:
            for key in path[:-1]:
                statement = statement[key]
            before = statement[path[-1]]
            statement[path[-1]] = to(before) if callable(to) else to

        edit(folder, name, change)

    return tamper


def cell(file: str, name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    return lambda folder: column(folder, file, name, change)


def halved(x: float) -> float:
    return x / 2


def in_words_too(folder: Path) -> None:
    """Half the epsilon of a metric, in numbers, in words, and by the whole release."""
    for name in ("city", ""):
        path = folder / name / "statement.json"
        statement = json.loads(path.read_text("utf-8"))
        promise = statement["guarantees"]["release"]
        promise["epsilon"] /= 2
        statement["in_words"] = [_half(line) for line in statement["in_words"]]
        for account in statement["design"] if name == "" else ():
            account["epsilon"] /= 2
        path.write_text(json.dumps(statement), "utf-8")


def _half(line: str) -> str:
    from pipelines.wording import factor, upward

    if "This is epsilon " not in line:
        return line
    head, _, rest = line.partition("This is epsilon ")
    number, _, rest = rest.partition(",")
    whole = head.partition("of at most ")
    small = float(number) / 2
    unless = whole[2][whole[2].index(",") :] if "," in whole[2] else ". "
    return f"{whole[0]}{whole[1]}{factor(small)}{unless}This is epsilon {upward(small, 6):g},{rest}"


def deleted(folder: Path) -> None:
    (folder / "events/count.parquet").unlink()


def forgotten(folder: Path) -> None:
    """A metric is no account any more, so that the others come to less."""
    edit(folder, "", lambda one: one["design"].pop())


def undesigned(folder: Path) -> None:
    edit(folder, "events", lambda one: one.update(design=None))


def cells(file: str, names: Sequence[str], to: float | None) -> Callable[[Path], None]:
    """Several columns of a table say another thing."""
    return lambda folder: [column(folder, file, name, lambda _: to) for name in names] and None


def certain(folder: Path) -> None:
    """No noise is owned up to, and no interval contradicts that."""
    names = ("lower", "upper", "lower_simultaneous", "upper_simultaneous")
    cells(COUNT, names, math.nan)(folder)
    column(folder, COUNT, "standard_error", lambda _: 0.0)


def swapped(folder: Path) -> None:
    """Of figures that say no estimate, lower ends stand above upper ones."""
    column(folder, COUNT, "estimate", lambda _: None)
    table = pq.ParquetFile(folder / COUNT).read()
    names = ["upper" if name == "lower" else "lower" if name == "upper" else name
             for name in table.column_names]  # fmt: skip
    pq.write_table(table.rename_columns(names).select(table.column_names), folder / COUNT)


LAW = ("design", "laws", 0)
BLOCK = ("design", "dummies", "blocks", 0, "laws", 0)
HISTOGRAM, COUNT, MEAN = "city/histogram.parquet", "events/count.parquet", "size/mean.parquet"
RE_SIGNED: dict[str, Callable[[Path], None]] = {
    "a metric's epsilon": said("city", "guarantees", "release", "epsilon", to=halved),
    "an epsilon everywhere": in_words_too,
    "the joint epsilon": said("", "guarantees", "release", "epsilon", to=halved),
    "a delta": said("events", "guarantees", "release", "delta", to=0.0),
    "less noise of the job": said("city", *LAW, "sigma", to=halved),
    "less noise of dummies": said("events", *BLOCK, "sigma", to=halved),
    "more rows of a user": said("city", "design", "rows", to=2),
    "more slots": said("events", "design", "levels", 0, "slots", to=2),
    "a local epsilon": said("said", "guarantees", "local", "epsilon", to=halved),
    "a unit": said("city", "guarantees", "release", "unit", to="row"),
    "no number of reports": said("said", "n", to=None),
    "another least batch": said("said", "request", "min_reports", to=999),
    "no least batch": said("said", "request", "min_reports", to=None),
    "no honest share": said("said", "request", "honest_share", to=None),
    "a contradicting line": said(
        "city",
        "in_words",
        to=lambda lines: [*lines, "By another proof this is epsilon 0.01, delta 0."],
    ),
    "no promise in words": said("size", "in_words", to=lambda lines: lines[1:]),
    "a contradicting proof": said("city", "guarantees", "release", "how", to="epsilon is 0.01"),
    "a promise of a report": said(
        "city",
        "in_words",
        to=lambda lines: [
            *lines,
            "Nothing is promised about a single report by itself: it is public.",
        ],
    ),
    "a whole that contradicts": said(
        "",
        "in_words",
        to=lambda lines: [
            "It changes the probability of any outcome by a factor of at most 1.01.",
            *lines,
        ],
    ),
    "other neighbours": said("city", "guarantees", "release", "neighbours", to="add or remove"),
    "a larger local epsilon": said("said", "design", "mechanism", "epsilon", to=lambda e: 2 * e),
    "a larger batch": said("said", "design", "n", to=10**6),
    "no design": undesigned,
    "a design that is none": said("", "design", to=10**9),
    "an account's epsilon": said("", "design", 0, "epsilon", to=halved),
    "an account is missing": forgotten,
    "words": said("size", "in_words", to=lambda lines: [line.replace("1", "9") for line in lines]),
    "an estimate": cell(HISTOGRAM, "estimate", lambda x: x + 0.5),
    "an interval": cell(COUNT, "upper", lambda x: x - 1000),
    "a joint interval": cell(COUNT, "lower_simultaneous", lambda x: x + 15),
    "a table's epsilon": cell(COUNT, "epsilon", halved),
    "a table's window": cell(MEAN, "window", lambda _: "2026-11-21"),
    "an error": cell(COUNT, "standard_error", lambda x: -x),
    "an error of 0": cell(COUNT, "standard_error", lambda _: 0.0),
    "an infinite error": cell(COUNT, "standard_error", lambda _: math.inf),
    "an error of 0 without intervals": certain,
    "an infinite end": cell(COUNT, "upper", lambda _: math.inf),
    "an infinite end of all": cell(COUNT, "lower_simultaneous", lambda _: -math.inf),
    "swapped ends": swapped,
    "shares": cell(HISTOGRAM, "unbiased", lambda x: x * 1.01),
    "how many took part": said("city", "took_part", "estimate", to=lambda n: 2 * n),
    "no first table": deleted,
    "another window": said("", "plan", "window", to="2026-11-22"),
    "a price that was opened": said("", "ledger", "opened", "prices", 0, 0, to=halved),
    "another change": said("", "ledger", "changes", to=lambda n: n + 1),
    "another ledger": said("", "ledger", "id", to="0" * 16),
}


def test_what_nobody_has_touched_has_no_faults(made: Path) -> None:
    for name in ("2026-11-20", "2026-11-21"):
        assert faults(made, made / "releases" / name) == []


@pytest.mark.parametrize("tamper", WITHOUT_KEY, ids=lambda one: one.__name__)
def test_a_release_that_was_altered_is_refused(
    made: Path, copy: Path, tamper: Callable[[Path, Path], None]
) -> None:
    tamper(copy, made)
    assert faults(made, copy)


@pytest.mark.parametrize("name", RE_SIGNED)
def test_a_release_that_was_altered_and_signed_again_is_refused(
    made: Path, copy: Path, name: str
) -> None:
    RE_SIGNED[name](copy)
    sign(copy)
    wrong = [line for line in faults(made, copy) if not line.startswith("pages")]
    assert wrong  # not only by the page, which is that of the statement before
    assert not any(line.startswith(("signature", "files")) for line in wrong)


@pytest.mark.parametrize(
    ("name", "claim"),
    [("model", "local"), ("neighbours", "add or remove"), ("unit", "row"), ("epsilon", 1e-3),
     ("delta", 0.0)],
)  # fmt: skip
def test_a_whole_promises_no_more_than_its_metrics(made: Path, name: str, claim: Any) -> None:
    """Also where one of them has no design, and the joint price cannot be computed."""
    folder = made / "releases/2026-11-20"
    whole, *metrics = (
        json.loads((folder / part / "statement.json").read_text("utf-8"))
        for part in ("", "city", "size", "events", "said")
    )
    own = {one["metric"]: one for one in metrics}
    assert not [one for one in of_plan(whole, own) if one.outcome == "fault"]
    metrics[0]["design"] = whole["design"][0]["metrics"]["city"] = None
    assert [one.outcome for one in of_plan(whole, own)] == ["not checked"]
    whole["guarantees"]["release"][name] = claim
    assert [one.outcome for one in of_plan(whole, own)] == ["fault"]


CONTRADICTED = [
    ("said", ("guarantees", "local", "epsilon"), halved, "reports reveal more"),
    ("said", ("guarantees", "local", "epsilon"), lambda _: None, "reports reveal more"),
    ("city", ("guarantees", "local"), lambda one: one | {"model": "local", "epsilon": 9.0},
     "reports reveal more"),
    ("events", ("guarantees", "release", "model"), lambda _: "local", "the shuffle model"),
    ("size", ("guarantees", "release", "model"), lambda _: "shuffle", "the central model"),
    ("size", ("guarantees", "release", "unit"), lambda _: "row", "for another unit"),
    ("size", ("request", "unit"), lambda _: "row", "for another unit"),
    ("said", ("n",), lambda _: 999, "fewer came"),
    ("said", ("n",), lambda _: None, "lacks what its price"),
    ("said", ("request", "min_reports"), lambda _: None, "min_reports is 1000 in its design"),
    ("said", ("request", "honest_share"), lambda _: 0.5, "honest_share is 1 in its design"),
    ("said", ("request",), lambda _: {"unit": "user"}, "lacks what its price"),
    ("said", ("guarantees", "local"), lambda _: None, "lacks what its price"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "path", "change", "reason"), CONTRADICTED)
def test_what_a_statement_says_beside_its_design_is_compared(
    made: Path, copy: Path, name: str, path: tuple[str, ...], change: Any, reason: str
) -> None:
    read = lambda: json.loads((copy / name / "statement.json").read_text("utf-8"))  # noqa: E731
    assert price.of_metric(name, read()).outcome == "holds"
    before = read()
    for key in path:
        before = before[key]
    said(name, *path, to=lambda _: change(before))(copy)
    finding = price.of_metric(name, read())
    assert finding.outcome == "fault"
    assert reason in finding.said


def test_reports_of_all_metrics_reveal_no_more_than_a_whole_says(made: Path) -> None:
    """Two metrics of randomised reports: the local epsilon of a unit is the sum of theirs."""
    text = (made / "releases/2026-11-20/said/statement.json").read_text("utf-8")
    own = {name: json.loads(text) | {"metric": name} for name in ("a", "b")}
    loss = own["a"]["guarantees"]["release"]
    once = own["a"]["guarantees"]["local"]
    account = {"epsilon": loss["epsilon"], "delta": loss["delta"]}
    whole = {
        "guarantees": {
            "release": loss | {"epsilon": 2 * loss["epsilon"], "delta": 2 * loss["delta"]},
            "local": once | {"epsilon": 2 * once["epsilon"]},
        },
        "design": [account | {"metrics": {name: own[name]["design"]}} for name in own],
        "metrics": ["a", "b"], "withheld": [], "plan": {"unit": "user"},
    }  # fmt: skip
    assert [one.outcome for one in of_plan(whole, own)] == ["holds"]
    for withheld in ([], ["b"]):  # of a metric that was withheld, reports came all the same
        whole |= {"metrics": ["a", "b"][: 2 - len(withheld)], "withheld": withheld}
        left = {name: own[name] for name in whole["metrics"]}
        assert [one.outcome for one in of_plan(whole, left)] == ["holds"]
        for local in (once, once | {"epsilon": 2 * once["epsilon"] * (1 - 1e-6)}):
            wrong = whole | {"guarantees": whole["guarantees"] | {"local": local}}
            (finding,) = of_plan(wrong, left)
            assert finding.outcome == "fault"
            assert "reports reveal more" in finding.said
    for field, value in (("model", "local"), ("neighbours", "add or remove")):
        promise = whole["guarantees"]["release"] | {field: value}
        wrong = whole | {"guarantees": whole["guarantees"] | {"release": promise}}
        assert [one.outcome for one in of_plan(wrong, {})] == ["fault"]


def test_words_beside_promises_are_not_checked_and_say_so(made: Path) -> None:
    folder = str(made / "releases/2026-11-20")
    findings = verified([folder], opened([KEY])).findings[folder]
    words = [one for one in findings if one.subject == "statement"]
    assert [one.outcome for one in words] == ["holds"] * 5 + ["not checked"]
    lines = words[-1].lines
    assert (
        words[-1].said == f"lines, proofs and fields, which nothing shows to be true: {len(lines)}"
    )
    assert len({*lines}) == len(lines) < 60  # each once, whichever metrics say it


# What promises more than numbers do, in words that no pattern knows all of.
WORDS = (
    "Epsilon is 0.1.", "EPSILON 0.1", "epsilon of only 0.1", "epsilon below 0.1", "ε = 0.1, δ = 0",
    "epsilon: less than 0.1", "epsilon .1", "epsilon 1/10", "epsilon 10^-3", "epsilon １",
    "epsilon 1e−3", "epsilon 1 %", "epsilon is one tenth", "a factor of 1.01 at the most",
    "by a factor of no more than 1.01", "factor at most 1.01", "nothing about anybody leaves",
    "no epsilon at all is spent", "epsilon) 0.1", "(epsilon) 0.1", "epsilon≤0.1", "eps 0.1",
    "epsilon_total 0.1", "Das Epsilon beträgt 0,1", "εpsilon 0.1", "epsilon<b>0.1</b>",
    "epsilon\u200b 0.1", "0.1 epsilon", "epsilon 0.9999", "1 is the epsilon, of which 0.001 is",
    "Adding any one user changes the probability of any outcome by at most 1 %", "epsilon 0x0.1",
    "privacy loss 0.01 per user", "\u2002epsilon 1e-3", "epsilon\n0.1", "epsilon equals 0.1",
    "perfectly private: delta 0, epsilon 0", "epsilon is epsilon is 0.1", "epsilon was 0.1",
    "epsilon (user level): 0.1", "epsilon and delta are 0.1 and 0", "\x1b[2Jepsilon 0.1",
)  # fmt: skip


def findings_of(folder: Path) -> list[Check]:
    """What is said of a release that is signed again."""
    sign(folder)
    return opened([KEY]).of_release(str(folder))


def listed(findings: list[Check], subject: str) -> list[str]:
    """The lines, or files, that are said not to be checked."""
    return [line for one in findings if one.subject == subject for line in one.lines]


@pytest.mark.parametrize("part", ["", "city"])
def test_further_words_are_listed_as_not_checked(copy: Path, part: str) -> None:
    edit(copy, part, lambda one: one["in_words"].extend(WORDS))
    name = part or "(the release)"
    lines = listed(findings_of(copy), "statement")
    assert {f"{name}: {line}" for line in WORDS if line.isprintable()} <= {*lines}
    assert all(line.isprintable() for line in lines)
    assert len([line for line in lines if line.startswith(f"{name}: ")]) >= len(WORDS)


@pytest.mark.parametrize("words", ["EPSILON 0.1", "epsilon ０.1", "Epsilon of 0.1", "DELTA 1e-30"])
def test_no_spelling_of_a_smaller_number_is_none(copy: Path, words: str) -> None:
    edit(copy, "city", lambda one: one["in_words"].append(words))
    assert any("promises more in words" in one.said for one in findings_of(copy))


def test_what_a_statement_says_beside_its_promises_is_listed(copy: Path) -> None:
    """Also where somebody who reads it finds another epsilon in it."""
    texts = {
        "title": "rows (epsilon 0.001)", "neighbours": "everything", "published_exactly": "ε 0.1",
        "also": "epsilon 0.001",
    }  # fmt: skip

    def change(one: Said) -> None:
        one.update(texts)
        one["guarantees"]["release"]["how"] = "Epsilon, in truth, of 1.1"
        one["guarantees"]["shuffle"] = one["guarantees"]["local"]
        one["sizes"] = {"epsilon": 0.001}
        one["in_words"] = [meant(one), *one["in_words"][1:]]

    edit(copy, "events", change)
    lines = listed(findings_of(copy), "statement")
    assert {f"events: {name}: {text}" for name, text in texts.items()} <= {*lines}
    assert "events: how it is known: Epsilon, in truth, of 1.1" in lines
    (fields,) = (line for line in lines if line.startswith("events: fields: "))
    assert {"guarantees.shuffle", "sizes", "request"} <= {*fields.split(": ")[-1].split(", ")}


def meant(statement: Said) -> str:
    return meaning(Guarantee(**statement["guarantees"]["release"]), 0)


def test_without_a_design_a_smaller_number_in_words_is_a_fault(copy: Path) -> None:
    more = "Adding a user changes the probability of any outcome by a factor of at most 1.001."
    edit(copy, "city", lambda one: one.update(design=None))
    for lines, outcome in (([], "holds"), ([f"{more} This is epsilon 0.001, delta 0."], "fault")):
        edit(copy, "city", lambda one, lines=lines: one["in_words"].extend(lines))
        (city,) = (
            one for one in findings_of(copy)
            if one.subject == "statement" and one.said.startswith("city: ")
        )  # fmt: skip
        assert city.outcome == outcome


def relabelled(statement: Said, model: str = "local", **more: Any) -> Said:
    """As if each report had been randomised by itself, by a mechanism that has no record."""
    promise = statement["guarantees"]["release"] | {"neighbours": "replace", "model": model}
    return statement | {
        "design": None, "request": statement["request"] | {"drawn_by": "each-report"},
        "guarantees": statement["guarantees"] | {"release": promise},
    } | more  # fmt: skip


def test_noise_of_others_is_not_relabelled_as_reports(made: Path) -> None:
    """Without a design nothing shows that, and what the release says elsewhere may deny it."""
    read = lambda name: json.loads((folder / name / "statement.json").read_text("utf-8"))  # noqa: E731
    folder = made / "releases/2026-11-20"
    by_shuffler, by_job, by_reports = read("events"), read("city"), read("said")
    bare = {key: by_job[key] for key in by_job if key not in ("cut", "took_part")}
    counted = {"n": 2000, "rejects": {}}
    for statement, why in (
        (relabelled(by_shuffler, "shuffle"), "and no count is made of randomised reports"),
        (relabelled(by_shuffler, **counted), "and no count is made of randomised reports"),
        (relabelled(by_job), "and it does not count reports"),
        (relabelled(by_job, **counted), "and it does not count reports"),
        (relabelled(bare, n=None, rejects={}), "and it does not count reports"),
        (relabelled(bare, **counted), "and nothing is promised of the reports"),
        ({**by_job, "design": None}, "from which its price follows"),
    ):  # fmt: skip
        finding = price.of_metric("m", statement)
        assert (finding.outcome, f"m: it has no design, {why}" in finding.said) == ("fault", True)
    finding = price.of_metric("m", by_reports | {"design": None})
    assert finding.outcome == "not checked"
    assert "made of randomised reports, and has no design to show it" in finding.said
    # What names the rest as reports do is believed, and says so.
    assert price.of_metric("m", relabelled(bare, "shuffle", **counted)).outcome == "not checked"


# ---- files that nobody looks at ------------------------------------------------------------------


def page_faults(findings: list[Check]) -> list[str]:
    return [one.said for one in findings if one.outcome == "fault"]


@pytest.mark.parametrize("file", ["report.html", "city/report.html"])
def test_a_page_is_that_of_its_statement_and_tables(copy: Path, file: str) -> None:
    (copy / file).write_text("<h1>epsilon 0.001 per user, for ever</h1>", "utf-8")
    differs = [f"{file} is not the page of its statement and tables"]
    assert page_faults(findings_of(copy)) == differs
    edit(copy, file.rpartition("/")[0], lambda one: one.pop("versions"))
    assert differs[0] in page_faults(findings_of(copy))


def test_a_page_that_cannot_be_written_again_is_listed(copy: Path) -> None:
    """One of another version, and one of a kind that writes it from other things."""
    (copy / "size/report.html").write_text("epsilon 0.001", "utf-8")
    edit(copy, "size", lambda one: one["versions"].update(hushbeam="0.0.1"))
    edit(copy, "events", lambda one: one.pop("page"))
    findings = findings_of(copy)
    assert page_faults(findings) == []
    assert listed(findings, "files") == ["events/report.html", "size/report.html"]


def test_files_beside_those_of_metrics_are_listed(copy: Path) -> None:
    (copy / "PROMISE.md").write_text("epsilon 0.001", "utf-8")
    shutil.copy(copy / COUNT, copy / "events/second.parquet")
    findings = findings_of(copy)
    assert page_faults(findings) == []
    assert listed(findings, "files") == ["PROMISE.md", "events/second.parquet"]


def test_a_folder_of_no_published_metric_is_a_fault(copy: Path) -> None:
    shutil.copytree(copy / "city", copy / "exact")
    shutil.copytree(copy / "city", copy / "city/inside")
    wrong = page_faults(findings_of(copy))
    assert wrong == [
        f"{name}/ is no folder of a metric that was published" for name in ("city/inside", "exact")
    ]


def test_a_folder_of_a_withheld_metric_is_a_fault(copy: Path) -> None:
    def withhold(one: Said) -> None:
        one["metrics"].remove("city")
        one["withheld"].append("city")

    edit(copy, "", withhold)
    wrong = page_faults(findings_of(copy))
    assert "city/ is no folder of a metric that was published" in wrong


@pytest.mark.parametrize("file", ["statement.json", "city/statement.json"])
def test_a_statement_that_says_a_thing_twice_is_refused(copy: Path, file: str) -> None:
    text = (copy / file).read_text("utf-8")
    twice = '{"guarantees": {"release": {"epsilon": 0.001}}, "in_words": ["epsilon 0.001"], '
    (copy / file).write_text(twice + text[1:], "utf-8")
    assert any("no JSON with each key once" in line for line in page_faults(findings_of(copy)))


def test_one_price_pays_for_one_release(made: Path, copy: Path) -> None:
    for part in ("", "city", "size", "events", "said"):
        edit(copy, part, lambda one: one.update(release_id="f" * 32))
    sign(copy)
    original = str(made / "releases/2026-11-20")
    found = verified([original, str(copy)], opened([KEY], str(made / "log"))).findings
    assert [one.outcome for one in found[original] if one.subject == "ledger"] == ["holds"]
    (ledger,) = (one for one in found[str(copy)] if one.subject == "ledger")
    assert ledger.said.endswith("of the log has paid for another release")


def test_one_price_pays_for_one_draw(made: Path, copy: Path) -> None:
    """Two copies are one draw; two draws under one id are two."""
    original, releases = str(made / "releases/2026-11-20"), [str(copy)]
    for outcome in ("holds", "fault"):
        findings = verified([original, *releases], opened([KEY], str(made / "log"))).findings
        (ledger,) = (one for one in findings[str(copy)] if one.subject == "ledger")
        assert ledger.outcome == outcome
        for name in ("estimate", "lower", "upper", "lower_simultaneous", "upper_simultaneous"):
            column(copy, COUNT, name, lambda x: x + 1)
        sign(copy)


def test_a_price_is_computed_of_nothing_that_is_not_signed(
    made: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    byte(copy, made)
    monkeypatch.setattr(price, "of_metric", lambda *_: pytest.fail("it was"))
    findings = opened([KEY]).of_release(str(copy))
    assert {one.subject for one in findings if one.outcome == "fault"} == {"files"}
    assert [one.outcome for one in findings if one.subject == "statement"] == ["not checked"]


def test_one_price_pays_for_one_draw_of_any_design(made: Path, copy: Path) -> None:
    """Two draws whose statement has no design, and is one and the same, are two."""
    edit(copy, "", lambda one: one.update(design=None))
    other = Path(shutil.copytree(copy, copy.parent / "other"))
    column(other, COUNT, "estimate", lambda x: x + 1)
    verifier = opened([KEY], str(made / "log"))
    for folder, again in ((copy, False), (other, True)):
        sign(folder)
        (ledger,) = (one for one in verifier.of_release(str(folder)) if one.subject == "ledger")
        assert ledger.said.endswith("has paid for another release") == again


def test_signing_again_is_no_fault_of_its_own(made: Path, copy: Path) -> None:
    sign(copy)
    assert faults(made, copy) == []


# ---- ledgers -------------------------------------------------------------------------------------

WINDOWS = 6


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with its log, and what it and its witness were after each window."""
    folder = tmp_path_factory.mktemp("ledger")
    path = str(folder / "ledger.sqlite")
    begun(path, witness=folder / "witness.json")
    for day in range(WINDOWS):
        spend(path, day)
        for name in ("ledger.sqlite", "witness.json"):
            shutil.copy(folder / name, folder / f"{day}-{name}")
    CollectionLedger.open(path).publish_log(str(folder / "log"))
    return folder


def spend(path: str, day: int) -> None:
    """A window that fails: it gives its price back, and leaves two changes like any other."""
    output = os.path.join(os.path.dirname(path), f"out-{day}")
    with CollectionLedger.open(path).spend(request(f"day {day}", output, 0.01)):
        pass


@pytest.fixture
def rolled(copies: Path) -> Iterator[Callable[[int, int], str]]:
    """Puts a copy and its witness back, lets it go on, and publishes its log in another place."""
    path, kept = copies / "ledger.sqlite", copies / "kept"
    kept.mkdir()
    for name in ("ledger.sqlite", "witness.json"):
        shutil.copy(copies / name, kept / name)

    def roll(day: int, windows: int) -> str:
        for name in ("ledger.sqlite", "witness.json"):
            shutil.copy(copies / f"{day}-{name}", copies / name)
        for number in range(windows):
            spend(str(path), 100 + number)
        log = copies / f"log-{day}-{windows}"
        CollectionLedger.open(str(path)).publish_log(str(log))
        return str(log)

    yield roll
    for name in ("ledger.sqlite", "witness.json"):
        shutil.copy(kept / name, copies / name)
    shutil.rmtree(kept)


ROLLED = [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)]
FORKED = [(0, 7), (1, 4), (2, 3), (3, 9), (4, 2)]


@pytest.mark.parametrize(("day", "windows"), [*ROLLED, *FORKED])
def test_a_ledger_that_was_rolled_back_is_refused_by_who_has_a_later_head(
    copies: Path, rolled: Callable[[int, int], str], day: int, windows: int
) -> None:
    log = rolled(day, windows)
    finding = opened([KEY], log, str(copies / "log" / HEAD)).of_log()
    assert (finding.outcome, finding.subject) == ("fault", "ledger")
    assert ("rolled back" in finding.said) or windows
    assert opened([KEY], log).of_log().outcome == "not checked"
    # Nor does it go on in the place where the log was published.
    path = str(copies / "ledger.sqlite")
    with pytest.raises(RequestError, match="does not go on from"):
        CollectionLedger.open(path).publish_log(str(copies / "log"))


def test_a_log_goes_on_from_every_head_that_it_had(copies: Path, tmp_path: Path) -> None:
    path, log = str(copies / "ledger.sqlite"), tmp_path / "log"
    ledger = CollectionLedger.open(path)
    heads = []
    for day in range(200, 203):
        ledger.publish_log(str(log))
        shutil.copy(log / HEAD, tmp_path / f"{day}.json")
        heads.append(tmp_path / f"{day}.json")
        spend(path, day)
    ledger.publish_log(str(log))
    for head in heads:
        assert opened([KEY], str(log), str(head)).of_log().outcome == "holds"


def test_a_log_has_the_changes_of_all_segments_and_an_adopted_ledger_begins_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_LEAST", 3)
    path, log = str(tmp_path / "ledger.sqlite"), str(tmp_path / "log")
    begun(path, witness=tmp_path / "witness.json")
    for day in range(4):
        spend(path, day)
        head = CollectionLedger.open(path).publish_log(log)
        assert (head.after, head.size) == (0, CollectionLedger.open(path).read().seen.changes)
    (tmp_path / "witness.json").unlink()
    adopt(path, str(tmp_path / "other.json"), None, surely=True)
    ledger = CollectionLedger.open(path)
    with pytest.raises(RequestError, match="of another ledger"):
        ledger.publish_log(log)
    new = ledger.publish_log(str(tmp_path / "new"))
    assert new.after == head.size
    assert new.after + new.size == ledger.read().seen.changes


def test_leaves_of_a_log_tell_nothing(copies: Path) -> None:
    """Of windows that failed nothing is opened: each leaf is 32 bytes, and none comes twice."""
    log = read_log(str(copies / "log"), opened([KEY]).keys)
    assert len({*log.leaves}) == log.head.size >= 2 * WINDOWS
    written = (copies / "log" / LEAVES).read_bytes() + (copies / "log" / HEAD).read_bytes()
    assert b"day" not in written
    assert len((copies / "log" / LEAVES).read_bytes()) == 32 * log.head.size


def test_a_log_does_not_tell_windows_that_were_withheld_from_others(tmp_path: Path) -> None:
    """Whether one failed, was withheld or was published, it leaves two leaves, of 32 bytes each."""
    path, log = str(tmp_path / "ledger.sqlite"), str(tmp_path / "log")
    begun(path, witness=tmp_path / "witness.json")
    sizes = [CollectionLedger.open(path).publish_log(log).size]
    for day, ends in enumerate((FailedError("lost"), WithheldError("too few"), None)):
        asked = request(f"day {day}", str(tmp_path / f"out-{day}"), 0.01)
        with (
            contextlib.suppress(FailedError, WithheldError),
            CollectionLedger.open(path).spend(asked) as reservation,
        ):
            if ends is not None:
                raise ends
            reservation.commit()
        sizes.append(CollectionLedger.open(path).publish_log(log).size)
    assert np.diff(sizes).tolist() == [2, 2, 2]
    assert len((tmp_path / "log" / LEAVES).read_bytes()) == 32 * sizes[-1]


@pytest.mark.parametrize("change", [{"size": 1}, {"root": "0" * 64}, {"ledger": "0" * 16}])
def test_a_head_that_was_altered_is_none(copies: Path, tmp_path: Path, change: Said) -> None:
    head = json.loads((copies / "log" / HEAD).read_text())
    (tmp_path / HEAD).write_text(json.dumps(head | change))
    with pytest.raises(ValueError, match="not signed"):
        read_head(str(tmp_path / HEAD), opened([KEY]).keys)
    shutil.copy(copies / "log" / LEAVES, tmp_path / LEAVES)
    (finding,) = (opened([KEY], str(tmp_path)).of_log(),)
    assert (finding.outcome, "is not signed by key" in finding.said) == ("fault", True)


# ---- keys that follow one another ----


@pytest.fixture
def signing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], str]:
    """Signs with a key by its number from now on; the file of its public half."""

    def take(number: int) -> str:
        key = Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
        monkeypatch.setattr(signature, "signing_key", lambda: key)
        monkeypatch.setattr(public_log, "signing_key", lambda: key)
        public = tmp_path / f"{number}{signature.PUBLIC}"
        public.write_bytes(signature.written(key.public_key()))
        return str(public)

    return take


def test_a_new_key_is_introduced_by_the_old_one(
    tmp_path: Path, signing: Callable[[int], str], run, refused
) -> None:
    path, log = str(tmp_path / "ledger.sqlite"), str(tmp_path / "log")
    begun(path, witness=tmp_path / "witness.json")
    first, second, third = (signing(number) for number in (1, 2, 3))
    heads, introduced = [], [str(tmp_path / "to-2.json"), str(tmp_path / "to-3.json")]
    words = ["ledger", "log", "--ledger", path, "--output", log]
    for number, new in enumerate((second, third, None), 1):
        signing(number)
        spend(path, number)
        if number > 1:  # the publisher names the key of the head that stands there
            refused(words, "does not go on from")
        before = [] if number == 1 else ["--key", [first, second][number - 2]]
        assert run([*words, *before]).code == 0
        heads.append(shutil.copy(Path(log, HEAD), tmp_path / f"head-{number}.json"))
        if new is not None:
            to = introduced[number - 1]
            assert run(["ledger", "introduce", "--new-key", new, "--output", to]).code == 0
    for head in map(str, heads):  # in any order
        for keys in ([first, *introduced], [*reversed(introduced), first], [first, second, third]):
            assert opened(keys, log, head).of_log().outcome == "holds"
    assert "is not signed by key" in opened([first], log).of_log().said
    with pytest.raises(RequestError, match="signed by none of the keys"):
        opened([first, introduced[1]], log)
    with pytest.raises(RequestError, match="signed by none of the keys"):
        opened([third, introduced[0]], log)
    said = json.loads(Path(introduced[0]).read_text())
    other = Ed25519PrivateKey.from_private_bytes(bytes([9]) * 32).public_key()
    for forged in ({"key": other.public_bytes_raw().hex()}, {"signature": "00" * 64}):
        Path(introduced[0]).write_text(json.dumps(said | forged))
        with pytest.raises(RequestError, match="signed by none of the keys"):
            opened([first, introduced[0]], log)
    for forged in ({"key": "00"}, {"introduction_version": 9}, {"signature": None}):
        Path(introduced[0]).write_text(json.dumps(said | forged))
        with pytest.raises(RequestError, match="--key"):
            opened([first, introduced[0]], log)


def test_a_release_may_be_signed_by_a_later_key(
    copy: Path, tmp_path: Path, signing: Callable[[int], str]
) -> None:
    first, second = signing(1), signing(2)
    sign(copy)
    assert next(one.subject for one in opened([first]).of_release(str(copy))) == "signature"
    for keys, outcome in (([first], "fault"), ([first, second], "holds")):
        assert opened(keys).of_release(str(copy))[0].outcome == outcome


def test_lists_of_window_keys_are_signed_and_alike(
    made: Path, tmp_path: Path, run, refused
) -> None:
    signer = Ed25519PrivateKey.from_private_bytes(bytes([7]) * 32)
    (tmp_path / "signer.pem").write_bytes(signature.written(signer.public_key()))

    def key(k: int, seed: int, **fields: str) -> WindowKey:
        public = Evaluator(bytes([seed]) * 32, b"").public.hex()
        named = {"window": f"d{k}", "fingerprint": f"{k:032x}", "public": public} | fields
        return WindowKey(role="issuer", **named)

    def listed(name: str, *seeds: int, more: Sequence[WindowKey] = ()) -> str:
        keys = [*(key(k, one) for k, one in enumerate(seeds)), *more]
        (tmp_path / name).write_bytes(key_list.signed(KeyList(keys=tuple(keys)), signer))
        return str(tmp_path / name)

    release = str(made / "releases/2026-11-20")
    words = ["verify", release, "--key", KEY, "--signer", str(tmp_path / "signer.pem")]
    mine, later, other = listed("mine", 1, 2), listed("later", 1, 2, 3), listed("other", 1, 9)
    outcome = run([*words, "--keys", mine, "--keys", later])
    assert outcome.code == 0
    assert "holds: keys: alike in all lists that have them: 2 of 3 keys" in outcome.out
    assert "not checked: keys: in one list alone: 1 of 3 keys" in outcome.out
    for lists, line in (
        ([mine], "in one list alone: 2 of 2 keys"),
        ([listed("empty")], "the lists have no keys"),
    ):
        said = run([*words, *(word for name in lists for word in ("--keys", name))]).out
        assert f"not checked: keys: {line}" in said
        assert "holds: keys" not in said
    odd = {
        "one key as issuer key of window d0 and as issuer key of window d1": listed("twice", 1, 1),
        "window d0 has keys of two plans": listed("plans", 1, more=[key(7, 2, window="d0")]),
        "the issuer key of window d1 is none": listed("none", 1, more=[key(1, 2, public="0" * 64)]),
    }
    for line, name in odd.items():
        outcome = run([*words, "--keys", name])
        assert outcome.code == 1
        assert line in outcome.out
    outcome = run([*words, "--keys", mine, "--keys", other])
    assert outcome.code == 1
    assert "fault: keys:" in outcome.out
    assert "another key of window d1" in outcome.out
    Path(mine).write_bytes(Path(mine).read_bytes().replace(b"d1", b"d2"))
    outcome = run([*words, "--keys", mine])
    assert (outcome.code, "fault: keys:" in outcome.out) == (1, True)
    assert "1 fault, " in outcome.said
    refused([*words, "--keys", "absent"], "--keys: absent cannot be read")
    refused(words, "--keys and --signer go together")
    refused([*words[:4], "--keys", later], "--keys and --signer go together")


def test_a_file_that_differs_leaves_no_signature_that_holds(made: Path, copy: Path) -> None:
    byte(copy, made)
    findings = opened([KEY]).of_release(str(copy))
    assert not [one for one in findings if (one.subject, one.outcome) == ("signature", "holds")]


def test_a_site_marks_what_does_not_verify(made: Path, copy: Path, run, refused) -> None:
    for part in ("", "city", "size", "events", "said"):
        edit(copy, part, lambda one: one.update(release_id="f" * 32))
    releases = [str(made / "releases/2026-11-21"), str(copy)]
    assert run(["site", *releases, "--output", "public", "--key", KEY]).code == 0
    index = Path("public/index.html").read_text("utf-8")
    assert index.count('"faulty":true') == index.count('"faulty":false') == 1
    marked = {
        path.parts[2] for path in Path("public/releases").rglob("report.html")
        if "this release does not verify" in path.read_text("utf-8")
    }  # fmt: skip
    assert marked == {"f" * 32}
    page = Path("public/verification.html").read_text("utf-8")
    assert ".fault { color: #" in page
    for part in ("", "city", "size", "events", "said"):
        whole = json.loads((made / "releases/2026-11-21" / part / "statement.json").read_text())
        edit(copy, part, lambda one, whole=whole: one.update(release_id=whole["release_id"]))
    refused(["site", *releases, "--output", "public", "--key", KEY], "says another thing")


GOLDENS = sorted(Path(__file__, "../../golden/expected").resolve().glob("*.json"))


@pytest.mark.parametrize("file", GOLDENS, ids=lambda file: file.stem)
def test_words_and_prices_of_every_golden_hold(file: Path) -> None:
    """Whatever a release is made by, and whatever has shuffled it."""
    written = json.loads(file.read_text("utf-8")).get("statements", {})
    statements = {p: one for p, one in written.items() if "in_words" in one}
    wholes = {Path(p).parent: one for p, one in statements.items() if one["release"] == "plan"}
    findings = []
    for one in statements.values():
        if one["release"] != "plan":
            findings += [*words_of(one, {"m": one}), price.of_metric("m", one)]
    for folder, whole in wholes.items():
        inner = {p: one for p, one in statements.items() if Path(p).parent.parent == folder}
        own = {one["metric"]: one for one in inner.values()}
        findings += [*words_of(whole, own), *of_plan(whole, own)]
    findings = [one for one in findings if not one.lines]
    assert {one.outcome for one in findings} <= {"holds"}, findings


# ---- what goes on, and what is made in rounds or steps -------------------------------------------

ALARM = {
    "collection": "alarms", "version": 1, "unit": "user", "user_column": "user",
    "input": "{window}.parquet", "output": "alarms/{window}", "epsilon": 1, "delta": 1e-6,
    "ledger": "alarms.sqlite", "budget": {"epsilon": 9, "delta": 1e-3},
    "metrics": [{"name": "users", "kind": "count", "horizon": 30, "above": 1200}],
}  # fmt: skip
_SQL = "SELECT AVG(size) AS mean, SUM(size) AS sum FROM 'log.parquet'"
_PAYS = "--ledger others.sqlite --population p"
_SIZES = f"--input log.parquet --column size --choose-bounds --user-column user {_PAYS}"
_TOTALS = (
    "count --column city --domain 0..2 --user-column user --user-windows 2 --horizon 30 "
    f"--epsilon 1 --delta 1e-6 --output totals {_PAYS}"
)
_ASK = "ask session --input log.parquet --column city --domain 0..8 --share 0.25"
_CITIES = "--group-by city --groups 0..8 --rows-per-user 2"
_TRAIN = (
    f"train --input log.parquet --number size=0,10 --target city=0..2 --loss logistic {_PAYS} "
    "--method dp-sgd --epochs 2 --epsilon 4 --user-column user --min-reports 2000 --output model"
)


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bounds of a first round, a model, a session and an alarm, and the logs of their ledgers."""
    with _beside_logs(tmp_path_factory.mktemp("others"), 3) as folder:
        pq.write_table(pq.read_table("log.parquet").slice(1000), "later.parquet")
        Path("alarm.yaml").write_text(json.dumps(ALARM))
        query = ["query", _SQL, "--rows-per-user", "2", "--choose-bounds", "--output", "query"]
        ledger = "ledger init --ledger others.sqlite --population p --unit user --budget 99,1e-2"
        for code, words in (
            (0, ["ledger", "init", "alarm.yaml"]),
            (0, ledger.split()),
            (4, ["run", "alarm.yaml", "--window", "2026-11-20"]),
            (0, f"mean {_SIZES} --epsilon 5 --output mean".split()),
            (0, [*query, "--user-column", "user", "--epsilon", "5", *_PAYS.split()]),
            (0, _TRAIN.split()),
            (0, f"ask session --epsilon 2 --user-column user {_PAYS}".split()),
            (0, _ASK.replace("session", "session count").split()),
            (0, _ASK.replace("session", "session most-common").split()),
            *(
                (0, f"ask session {asked} --share 0.1 --input log.parquet".split())
                for asked in (
                    "count --column city --domain 0..8 --rows-per-user 2 --per-value 3",
                    f"sum --column size --bounds=-3,8 {_CITIES}",
                    f"mean --column size --bounds=2,10 {_CITIES}",
                    "first-above --column city --domain 0..8 --threshold 9 --per-value 2",
                )
            ),
            (0, f"{_TOTALS} --input log.parquet --window 2026-11-20".split()),
            (0, f"{_TOTALS} --input later.parquet --window 2026-11-21".split()),
            (0, ["ledger", "log", "--ledger", "others.sqlite", "--output", "log"]),
            (0, ["ledger", "log", "--ledger", "alarms.sqlite", "--output", "alarms-log"]),
        ):
            assert cli.main(words) == code, words
    return folder


OTHERS = (
    "mean",
    "mean-bounds",
    "query",
    "query-bounds",
    "model",
    "session",
    "alarms/2026-11-20",
)


def findings_among(others: Path, name: str, folder: Path) -> list[Check]:
    log = "alarms-log" if name.startswith("alarms") else "log"
    return opened([KEY], str(others / log)).of_release(str(folder))


@pytest.mark.parametrize("name", OTHERS)
def test_prices_of_rounds_steps_answers_and_alarms_are_computed_again(
    others: Path, name: str
) -> None:
    findings = findings_among(others, name, others / name)
    assert not [one for one in findings if one.outcome == "fault"]
    prices = [one for one in findings if one.subject in ("price", "ledger")]
    assert {one.outcome for one in prices} == {"holds"}
    tight = [one.said for one in prices if "epsilon" in one.said]
    assert tight
    assert all(line.endswith("computed again") for line in tight)


def answer(kind: str = "count", **changes: Any) -> Callable[[Path], None]:
    """Other answers to a kind of question; functions take what was there."""

    def tamper(folder: Path) -> None:
        journal = journal_of(str(folder))
        state = journal.read()
        facts = [Fact("names", *one) for one in state.rows("names").items()]
        for id, one in state.rows("answers").items():
            own = changes if one["question"] == kind else {}
            new = {k: to(one[k]) if callable(to) else to for k, to in own.items()}
            facts.append(Fact("answers", id, one | new))
        forged = written(journal.first(state.account, facts), journal.keeping.form)
        (folder / FILE).write_bytes(forged)

    return tamper


def doubled(x: Any) -> Any:
    return 2 * x


def first_words(folder: Path) -> None:
    """The line of the first round, and its name, promise more."""
    said("", "first_round", "release", to="b (epsilon is 0.01)")(folder)
    line = lambda one: one.replace("in mean-bounds", "in b (epsilon is 0.01)")  # noqa: E731
    said("", "in_words", to=lambda lines: [*map(line, lines)])(folder)


def less_in_all(folder: Path) -> None:
    """A session of half the epsilon, in all that its statement says."""
    for path in (("guarantees", "release"), ("design",)):
        said("", *path, "epsilon", to=halved)(folder)
    edit(folder, "", lambda one: one.update(in_words=[_half(line) for line in one["in_words"]]))


RELEASE, ROUND = ("guarantees", "release"), ("design", "rounds")
UNMET = "its noise does not meet"
OF_FIRST = ("first_round", "guarantee", "epsilon")
OTHERS_RE_SIGNED: list[tuple[str, str, Callable[[Path], None], str]] = [
    ("mean", "epsilon", said("", *RELEASE, "epsilon", to=halved), UNMET),
    ("mean", "noise of the first", said("", *ROUND, 0, "laws", 0, "numerator", to=doubled), UNMET),
    ("mean", "noise of the second", said("", *ROUND, 1, "laws", 0, "numerator", to=doubled), UNMET),
    ("mean", "no first", said("", *ROUND, to=lambda all_: all_[1:]), "first round costs another"),
    ("mean", "no rounds", said("", *ROUND, to=[]), UNMET),
    ("mean", "a share", said("", *OF_FIRST, to=doubled), "first round costs another"),
    ("mean", "another design", said("", "design", to=lambda one: one["rounds"][1]), "lacks what"),
    ("mean", "a design of tomorrow", said("", "design", "is", to="tomorrow"), "less was paid"),
    ("mean", "bounds", said("", "request", "bounds", to="0.0,1.0"), "bounds are not those"),
    ("mean", "words", first_words, "promises more in words"),
    ("mean", "neighbours", said("", *ROUND, 1, "neighbours", to="replace"), "not meet"),
    ("query", "a share", said("", *OF_FIRST, to=halved), "first round comes to more"),
    ("query", "a larger share", said("", *OF_FIRST, to=doubled), "together come to more"),
    ("query", "an account of the first", said("", "first_round", "design", 0, "epsilon", to=halved),
     "do not meet their prices"),
    ("query", "no first", said("", "first_round", "design", to=[]), "do not meet their prices"),
    ("query", "epsilon", said("", *RELEASE, "epsilon", to=lambda x: x * 0.99), "come to more"),
    ("model", "epsilon", said("", *RELEASE, "epsilon", to=halved), UNMET),
    ("model", "delta", said("", *RELEASE, "delta", to=halved), UNMET),
    ("model", "noise", said("", "design", "sigma", to=halved), UNMET),
    ("model", "noise as it is said", said("", "training", "noise_in_clips", to=doubled),
     "with other noise"),
    ("model", "steps", said("", "design", "steps", to=1), "in other steps"),
    ("model", "rate", said("", "design", "rate", to=halved), "in other steps"),
    ("model", "averages", said("", "design", "averages", to=None), "was told by others"),
    ("model", "neighbours", said("", *RELEASE, "neighbours", to="add or remove"),
     "for other neighbours"),
    ("model", "words", said("", "in_words", to=lambda lines: lines[2:]), "in words another thing"),
    ("session", "epsilon", said("", *RELEASE, "epsilon", to=halved), UNMET),
    ("session", "a larger budget", said("", "design", "epsilon", to=doubled), UNMET),
    ("session", "a smaller one", less_in_all, "epsilon is 1 in its design"),
    ("session", "terms", said("", "request", "epsilon", to=halved), "under other terms"),
    ("session", "parts", answer(parts=WHOLE), "more than the budget"),
    ("session", "no parts", answer(parts=-1), "takes no part"),
    ("session", "distance", answer(distance=1e-3), "more than the budget"),
    ("session", "a distance below 0", answer(distance=-1.0), "takes no part"),
    ("session", "an answer's epsilon", answer(guarantee={"epsilon": 0.1}), "promises more than"),
    *(("session", f"an answer's {name}", answer(guarantee=lambda one, own=own: one | own),
       "promises another thing")
      for name, own in (("delta", {"delta": 0.0}), ("neighbours", {"neighbours": "replace"}),
                        ("unit", {"unit": "everybody"}), ("model", {"model": "local"}))),
    ("session", "a share", answer(share=1e-6), "another share"),
    *(("session", f"fewer numbers of {kind}",
       answer(kind, answer=lambda one: one | {"noisy": one["noisy"][:-1]}), "more or fewer numbers")
      for kind in ("count", "sum", "mean")),
    ("session", "no people", answer("mean", answer=lambda one: one | {
        "scale": one["scale"] | {"people": 0}}), "not as hushbeam writes them"),
    ("session", "noise", answer(answer=lambda one: one | {"variance": one["variance"] / 2}),
     "has less noise"),
    *(("session", f"less noise of {kind}",
       answer(kind, answer=lambda one: one | {"variance": one["variance"] * 0.999}), "less noise")
      for kind in ("count", "sum", "mean")),
    ("session", "fewer rows", answer(request=lambda one: one | {"rows_per_user": 3}),
     "less noise"),
    ("session", "more of a value", answer(request=lambda one: one | {"per_value": 4}),
     "has less noise"),
    ("session", "wider bounds", answer("sum", request=lambda one: one | {"bounds": "-3,8.1"}),
     "has less noise"),
    ("session", "a smaller unit", answer("sum", answer=lambda one: one | {
        "scale": one["scale"] | {"unit": one["scale"]["unit"] * 0.999}}), "has less noise"),
    ("session", "bounds of a mean", answer("mean", request=lambda one: one | {"bounds": "0,10"}),
     "not as hushbeam writes"),
    ("session", "a whole of a mean", answer("mean", answer=lambda one: one | {
        "scale": one["scale"] | {"people": one["scale"]["people"] + 5}}), "has less noise"),
    ("session", "a sampler's distance", answer(distance=0.0), "nearer to its law"),
    ("session", "a selection's error", answer(
        "first-above", answer=lambda one: one | {"standard_error": one["standard_error"] / 2}),
     "as near the truth as no part"),
    ("session", "a selection", answer("most-common", answer=lambda one: one | {"within": 1.0}),
     "as near the truth as no part"),
    ("session", "a selection's reach", answer("most-common", request={"per_value": 2}),
     "as near the truth as no part"),
    ("session", "an answer that is none", answer(answer=[]), "not as hushbeam writes"),
    ("alarms/2026-11-20", "epsilon", said("users", *RELEASE, "epsilon", to=halved), UNMET),
    ("alarms/2026-11-20", "delta", said("users", *RELEASE, "delta", to=0.0), UNMET),
    ("alarms/2026-11-20", "noise", said("users", "design", "epsilon", to=doubled), UNMET),
    ("alarms/2026-11-20", "threshold", said("users", "design", "above", to=1000), "above is 1000"),
    ("alarms/2026-11-20", "horizon", said("users", "design", "horizon", to=29), "horizon is 29"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "what", "tamper", "reason"),
    OTHERS_RE_SIGNED,
    ids=[f"{name} {what}" for name, what, *_ in OTHERS_RE_SIGNED],
)
def test_rounds_steps_answers_and_alarms_that_were_altered_and_signed_again_are_refused(
    others: Path, tmp_path: Path, name: str, what: str, tamper: Callable[[Path], None], reason: str
) -> None:
    folder = tmp_path / "release"
    shutil.copytree(others / name, folder)
    tamper(folder)
    sign(folder)
    wrong = [one for one in findings_among(others, name, folder) if one.outcome == "fault"]
    assert any(reason in one.said for one in wrong), wrong
    assert not {one.subject for one in wrong} & {"signature", "files"}


def paid(verifier: Verifier, folder: Path) -> str:
    (ledger,) = (one for one in verifier.of_release(str(folder)) if one.subject == "ledger")
    return ledger.outcome


def fewer(folder: Path) -> None:
    """A session as it was before its last answer."""
    journal = journal_of(str(folder))
    state = journal.read()
    facts = [Fact("names", *one) for one in state.rows("names").items()]
    facts += [Fact("answers", *one) for one in [*state.rows("answers").items()][:-1]]
    (folder / FILE).write_bytes(written(journal.first(state.account, facts), journal.keeping.form))


def first_window(folder: Path) -> None:
    """Running totals as they were after one window."""
    table = pq.ParquetFile(folder / "totals.parquet").read()
    pq.write_table(table.slice(0, len(table) // 2), folder / "totals.parquet")


GROWING: list[tuple[str, Callable[[Path], None], Callable[[Path], None]]] = [
    ("session", fewer, answer(parts=1)),
    ("totals", first_window, cell("totals.parquet", "estimate", lambda x: x + 1)),
]


@pytest.mark.parametrize(("name", "before", "change"), GROWING)
@pytest.mark.parametrize("later_first", [False, True])
def test_a_release_that_grew_is_paid_for_once(
    others: Path, tmp_path: Path, name: str, before: Any, change: Any, later_first: bool
) -> None:
    """Its price pays for what each of its copies has, and for no other figures."""
    folders = [others / name, tmp_path / "earlier", tmp_path / "altered"]
    for folder, tamper in zip(folders[1:], (before, change), strict=True):
        shutil.copytree(others / name, folder)
        tamper(folder)
        sign(folder)
    verifier = opened([KEY], str(others / "log"))
    order = folders if later_first else [folders[1], folders[0], folders[2]]
    assert [paid(verifier, one) for one in order] == ["holds", "holds", "fault"]


def test_what_a_request_and_its_design_both_name_is_alike(made: Path, others: Path) -> None:
    read = lambda folder: json.loads((folder / "statement.json").read_text("utf-8"))  # noqa: E731
    window = made / "releases/2026-11-20"
    for folder, name, value in (
        (window / "city", "neighbours", "add or remove"), (window / "said", "model", "local"),
        (window / "events", "neighbours", "add or remove"),
        (others / "alarms/2026-11-20/users", "firings", 2),
        (others / "mean", "neighbours", "replace"),
    ):  # fmt: skip
        statement = read(folder)
        assert price.of_metric("m", statement).outcome == "holds"
        statement["request"][name] = value
        finding = price.of_metric("m", statement)
        assert (finding.outcome, f"{name} is " in finding.said) == ("fault", True)


@pytest.mark.parametrize(
    ("name", "wider"),
    [("split", "0,10.1"), ("sums", "-5,10.1"), ("sums", "-10.1,5"), ("digits", "-5,10.1"),
     ("window/size", "0,10.1"), ("window/size", "-0.1,10"), ("others/mean", None)],
)  # fmt: skip
def test_noise_covers_the_bounds_of_numbers(
    stated: Path, made: Path, others: Path, name: str, wider: str | None
) -> None:
    """Of numbers that are rounded, by the size of the unit that they are rounded to."""
    places = {"window/size": made / "releases/2026-11-20/size", "others/mean": others / "mean"}
    folder = places.get(name, stated / name)
    statement = json.loads((folder / "statement.json").read_text("utf-8"))
    finding = "a unit moves its figures by less in its design than its bounds let it"
    assert price.of_metric("m", statement).outcome == "holds"
    if wider is not None:
        wide = statement | {"request": statement["request"] | {"bounds": wider}}
        assert price.of_metric("m", wide).said == f"m: {finding}"
    last = statement["design"]["rounds"][-1] if wider is None else statement["design"]
    unit = last["unit"]
    for smaller in (None, unit * 0.999):
        last["unit"] = smaller
        assert price.of_metric("m", statement).said == f"m: {finding}"
    if name == "window/size":  # of moments, in seconds since 1970
        last["unit"] = unit * 8640
        days = statement["request"] | {"bounds": "1970-01-01,1970-01-02"}
        assert price.of_metric("m", statement | {"request": days}).outcome == "holds"
    last["unit"] = 2 * unit  # then figures would have more noise than their table says
    assert price.of_metric("m", statement).outcome == "holds"
    ((file, figure),) = statement["figures"].items()
    (fault,) = tables.of_metric("m", str(folder), statement)
    assert fault.said == f"m: {file}: {figure}: errors are smaller than the noise of the design"


@pytest.mark.parametrize(
    ("name", "file"),
    [("window/city", "histogram"), ("window/events", "count"), ("window/size", "mean"),
     ("split", "sum"), ("digits", "sum"), ("two", "count"), ("devices", "count"), ("rows", "mean"),
     ("spread", "mean"), ("spread", "variance"), ("spread", "deviation")],
)  # fmt: skip
def test_errors_are_no_smaller_than_noise(
    stated: Path, made: Path, tmp_path: Path, name: str, file: str
) -> None:
    window, _, metric = name.rpartition("/")
    source = made / "releases/2026-11-20" / metric if window else stated / name
    folder = Path(shutil.copytree(source, tmp_path / "release"))
    statement = json.loads((folder / "statement.json").read_text("utf-8"))
    (finding,) = tables.of_metric("m", str(folder), statement)
    assert finding.outcome == "holds"
    column(folder, f"{file}.parquet", "standard_error", lambda x: x / 10)
    (fault,) = tables.of_metric("m", str(folder), statement)
    assert fault.said.startswith(f"m: {file}.parquet: ")
    assert fault.said.endswith(": errors are smaller than the noise of the design")


@pytest.mark.parametrize(
    "option", ["over_bounds", "number", "vector", "mean", "total", "quantile", "target"]
)
def test_bounds_by_whichever_option_are_listed(stated: Path, option: str) -> None:
    statement = json.loads((stated / "two/statement.json").read_text("utf-8"))
    for value, there in (([], False), (["size=0,10"], True)):
        asked = statement | {"request": statement["request"] | {option: value}}
        lines = listed([*words_of(asked, {"m": asked})], "statement")
        assert any("bounds of numbers" in line for line in lines) == there


def test_errors_that_nobody_compares_are_listed(made: Path) -> None:
    for name, words in (("said", "errors and intervals: "), ("size", "intervals: ")):
        path = made / "releases/2026-11-20" / name / "statement.json"
        said = json.loads(path.read_text("utf-8"))
        lines = [one.removeprefix("m: ") for one in listed([*words_of(said, {"m": said})],
                                                           "statement")]  # fmt: skip
        assert sum(line.startswith(words) for line in lines) == 1
        assert sum("intervals: " in line for line in lines) == 1


def test_bounds_that_nobody_compares_are_listed(stated: Path) -> None:
    lines = {
        name: [line for one in opened([KEY]).of_release(str(stated / name)) for line in one.lines]
        for name in ("divided", "sums")
    }
    said = [any("bounds of numbers" in line for line in lines[name]) for name in lines]
    assert said == [True, False]


# ---- what a statement says beside its design -----------------------------------------------------

_PLAN: Said = {"version": 1, "unit": "user", "user_column": "user"}
_BY_ROW = "--column size --bounds 0,10 --by-row --rows-per-user 2"
_ROWS = "--input log.parquet --user-column user --epsilon 1"
DIVIDED = _PLAN | {
    "collection": "divided", "input": "log.parquet", "output": "divided", "epsilon": 2,
    "model": "local",
    "metrics": [
        {"name": "city", "kind": "histogram", "column": "city", "domain": "0..2"},
        {"name": "size", "kind": "mean", "column": "size", "bounds": "0,10"},
    ],
}  # fmt: skip
RUNNING = _PLAN | {
    "collection": "running", "input": "{window}.parquet", "output": "{window}", "epsilon": 1,
    "delta": 1e-6,
    "metrics": [
        {"name": "users", "kind": "count", "column": "city", "domain": "0..2", "horizon": 30,
         "user_windows": 2},
        {"name": "days", "kind": "count", "horizon": 30, "user_windows": 5},
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def stated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Metrics that divide users, noise of devices, split and mix, and running totals."""
    with _beside_logs(tmp_path_factory.mktemp("stated"), 3) as folder:
        for plan in (DIVIDED, RUNNING):
            Path(f"{plan['collection']}.yaml").write_text(json.dumps(plan))
        devices = f"{_ROWS} --enrolled 5000 --honest-share 0.5"
        for words in (
            "run divided.yaml", "run running.yaml --window 2026-11-20",
            f"count {devices} --column city --domain 0..2 --drawn-by devices --output devices",
            f"sum {devices} --column size --bounds 0,10 --mechanism split-mix --output split",
            f"count {_ROWS} --column city --domain 0..2 --rows-per-user 2 --output two",
            f"sum {_ROWS} --column size --bounds=-5,10 --output sums",
            f"sum {_ROWS} --column size --bounds=-5,10 --drawn-by shuffler --output digits",
            f"mean {_ROWS} {_BY_ROW} --output rows", f"variance {_ROWS} {_BY_ROW} --output spread",
        ):  # fmt: skip
            assert cli.main(words.split()) == 0, words
    return folder


STATED = ("divided", "2026-11-20", "devices", "split", "two", "sums", "digits", "rows", "spread")


@pytest.mark.parametrize("name", STATED)
def test_prices_of_shared_devices_and_running_noise_hold(stated: Path, name: str) -> None:
    findings = opened([KEY]).of_release(str(stated / name))
    prices = [one for one in findings if one.subject == "price"]
    assert {one.outcome for one in prices} == {"holds"}
    assert not [one for one in findings if one.outcome == "fault"]


def shuffled(folder: Path) -> None:
    """A metric that divides units is one of the shuffle model."""
    said("", "design", 0, "metrics", "city", "model", to="shuffle")(folder)
    said("city", "design", "model", to="shuffle")(folder)


def in_turn(folder: Path) -> None:
    """Noise of a metric that divides units is permanent."""
    said("", "design", 0, "metrics", "city", "distinct", to=1)(folder)
    said("city", "design", "distinct", to=1)(folder)


def anybody(name: str, unit: str, *metrics: str) -> Callable[[Path], None]:
    """A promise is about another unit, of a release and of its metrics."""

    def tamper(folder: Path) -> None:
        for part in ("", *metrics):
            said(part, "guarantees", name, "unit", to=unit)(folder)

    return tamper


def no_design(folder: Path) -> None:
    """A metric, or a release of several, has no design, and any price at all."""
    edit(folder, "", lambda one: one.update(design=None))


def one_slot(folder: Path) -> None:
    """Half the epsilon, as if each user raised one counter."""
    said("", "design", "levels", 0, "slots", to=1)(folder)
    for path in (("design",), ("guarantees", "release")):
        said("", *path, "epsilon", to=0.51)(folder)


NO_DESIGN = "it has no design"
RELATIVES = "row of a person, and all rows of all of their relatives, for ever,"
ALWAYS = "user in all windows of all collections together"
DRAWS, ADD_UP = ("design", 0, "draws"), "their prices add up"
ANOTHER, LOCAL = "for another unit", ("guarantees", "local")
STATED_RE_SIGNED: list[tuple[str, str, Callable[[Path], None], str]] = [
    ("divided", "no draws", said("", "design", 0, to=lambda one: one | {"draws": {}}), ADD_UP),
    ("divided", "draws that are none", said("", *DRAWS, to=None),
     "do not meet their prices"),
    ("divided", "draws of all", said("", *DRAWS, to=lambda one: {key: ["0", "9"] for key in one}),
     ADD_UP),
    ("divided", "draws that meet", said("", *DRAWS, "size", 0, to=lambda one: str(int(one) - 1)),
     ADD_UP),
    ("divided", "a draw beyond", said("", *DRAWS, "size", 1, to=str(1 << 64)), ADD_UP),
    ("divided", "draws of others", said("", *DRAWS, to=lambda one: {"a": one["city"]}), ADD_UP),
    ("divided", "a shuffler", shuffled, ADD_UP),
    ("divided", "permanent noise", in_turn, ADD_UP),
    ("devices", "no design", no_design, NO_DESIGN),
    ("two", "no design", no_design, NO_DESIGN),
    ("split", "no design", no_design, NO_DESIGN),
    ("divided", "no accounts", no_design, "are none"),
    ("two", "a design of a later version", said("", "design", "is", to="later"), "does not know"),
    ("two", "a level of a later version", said("", "design", "levels", 0, "is", to="levelled"),
     "does not know"),
    ("two", "too many levels", said("", "design", "levels", to=lambda one: one * 50_000), UNMET),
    ("two", "slots", one_slot, "fewer counters"),
    ("two", "rows", said("", "request", "rows_per_user", to=3), "fewer counters"),
    ("rows", "rows", said("", "request", "rows_per_user", to=50), "fewer counters"),
    ("spread", "rows", said("", "request", "rows_per_user", to=3), "fewer counters"),
    ("two", "per value", said("", "request", "per_value", to=2), "adds less in its design"),
    ("devices", "per value", said("", "request", "per_value", to=2), "adds less in its design"),
    ("two", "epsilon", said("", "request", "epsilon", to=0.01), "a larger epsilon"),
    ("devices", "delta", said("", "request", "delta", to=1e-9), "a larger delta"),
    ("divided", "epsilon", said("city", "request", "epsilon", to=0.01), "a larger epsilon"),
    ("devices", "a unit", anybody("release", RELATIVES), ANOTHER),
    ("devices", "a unit of all", said("", "request", "unit", to="person"), ANOTHER),
    ("two", "a longer unit", anybody("release", "user for ever"), ANOTHER),
    ("divided", "units", anybody("release", ALWAYS, "city", "size"), ANOTHER),
    ("divided", "units of one", anybody("release", ALWAYS, "city"), ANOTHER),
    ("divided", "a plan's unit", said("", "plan", "unit", to="user for ever"), "are none"),
    ("2026-11-20", "no condition", anybody("release", "user", "users", "days"), ANOTHER),
    ("2026-11-20", "a condition", said("", *RELEASE, "unit", to="user"), "their unit is another"),
    ("2026-11-20", "one condition", said("", *RELEASE, "unit", to=lambda x: x.split(" and ")[0]),
     "their unit is another"),
    ("2026-11-20", "horizon", said("users", "request", "horizon", to=3), "horizon is 30"),
    ("2026-11-20", "first", said("users", "request", to=lambda x: x | {"first": "at"}), ANOTHER),
    ("divided", "a report's unit", anybody("local", ALWAYS, "city"), ANOTHER),
    ("divided", "reports' unit", anybody("local", ALWAYS), ANOTHER),
    ("divided", "reports' model", said("", *LOCAL, "model", to="central"), ANOTHER),
    ("divided", "reports' neighbours", said("", *LOCAL, "neighbours", to="add or remove"), ANOTHER),
    ("divided", "a report's model", said("city", *LOCAL, "model", to="shuffle"), ANOTHER),
    ("divided", "a report's neighbours", said("city", *LOCAL, "neighbours", to="add or remove"),
     ANOTHER),
    ("devices", "no report's model", said("", *LOCAL, "model", to="local"), "reports reveal more"),
    ("devices", "no report's unit", said("", *LOCAL, "unit", to="user"), "reports reveal more"),
    ("devices", "a share", said("", "request", "honest_share", to=0.1), "honest_share is 0.5"),
    ("devices", "no share", said("", "request", "honest_share", to=None), "honest_share is 0.5"),
    ("devices", "noise for more", said("", "design", "honest_share", to=1.0), "honest_share is 1"),
    ("split", "a share", said("", "request", "honest_share", to=0.1), "honest devices"),
    ("split", "no share", said("", "request", "honest_share", to=None), "lacks what its price"),
    ("split", "fewer", said("", "design", "honest", to=2400), "honest devices"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "what", "tamper", "reason"),
    STATED_RE_SIGNED,
    ids=[f"{name} {what}" for name, what, *_ in STATED_RE_SIGNED],
)
def test_statements_that_contradict_their_designs_are_refused(
    stated: Path,
    tmp_path: Path,
    name: str,
    what: str,
    tamper: Callable[[Path], None],
    reason: str,
) -> None:
    folder = tmp_path / "release"
    shutil.copytree(stated / name, folder)
    tamper(folder)
    sign(folder)
    wrong = [one for one in opened([KEY]).of_release(str(folder)) if one.outcome == "fault"]
    assert any(one.subject == "price" and reason in one.said for one in wrong), wrong
    assert not {one.subject for one in wrong} & {"signature", "files"}


def test_a_table_has_no_more_rows_than_there_is_noise_for(stated: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(stated / "devices", tmp_path / "release"))
    said("", "design", "levels", 0, "counters", to=1)(folder)
    sign(folder)
    findings = opened([KEY]).of_release(str(folder))
    assert any("more rows than its design" in one.said for one in findings)


@pytest.mark.parametrize("draws", [False, True])
def test_metrics_that_do_not_divide_units_cost_their_sum(made: Path, draws: bool) -> None:
    """Whatever account they stand in: three of 0.4374 each come to more than that."""
    folder = made / "releases/2026-11-20"
    names = ("city", "size", "events", "said")
    whole, *metrics = (
        json.loads((folder / part / "statement.json").read_text("utf-8")) for part in ("", *names)
    )
    accounts = whole["design"]
    one = {key: max(own[key] for own in accounts) for key in ("epsilon", "delta")}
    own = {name: record for account in accounts for name, record in account["metrics"].items()}
    places = {name: [str(9 * k), str(9 * k + 8)] for k, name in enumerate(names)}
    whole["design"] = [one | {"metrics": own} | ({"draws": places} if draws else {})]
    whole["guarantees"]["release"] |= one
    (finding,) = of_plan(whole, dict(zip(names, metrics, strict=True)))
    assert finding.outcome == "fault"
    assert ("add up" in finding.said) == draws


PERMANENT: list[tuple[float, int | None, int | None, str, bool]] = [
    (3, 3, 3, "permanent", True), (2.9, 3, 3, "permanent", False), (1, 1, 3, "permanent", False),
    (1, None, 3, "permanent", False), (1, None, None, "fresh", True),
    (3, 3, None, "fresh", False), (3, 3, 3, "fresh", False), (1, None, None, "permanent", False),
]  # fmt: skip


@pytest.mark.parametrize(("times", "distinct", "values", "noise", "fits"), PERMANENT)
def test_permanent_noise_costs_all_values_that_a_plan_says(
    made: Path, times: float, distinct: int | None, values: int | None, noise: str, fits: bool
) -> None:
    text = (made / "releases/2026-11-20/said/statement.json").read_text("utf-8")
    said = json.loads(text)
    epsilon = said["guarantees"]["local"]["epsilon"] * times
    said["guarantees"]["local"] |= {"epsilon": epsilon}
    promise = said["guarantees"]["local"]
    said["guarantees"]["release"] = promise
    said["design"] |= {"model": "local", "epsilon": epsilon, "delta": 0.0, "distinct": distinct}
    said["request"] |= {"model": "local", "epsilon": 9.0, "distinct_values": values}
    account = {"epsilon": epsilon, "delta": 0.0, "metrics": {"m": said["design"]}}
    whole = {
        "guarantees": said["guarantees"], "design": [account], "metrics": ["m"], "withheld": [],
        "plan": {"unit": "user", "noise": noise, "distinct_values": values},
    }  # fmt: skip
    checks = [price.of_metric("m", said), *of_plan(whole, {"m": said})]
    assert ({one.outcome for one in checks} == {"holds"}) == fits
    assert fits or checks[1].outcome == "fault"
    # A metric alone is held to its own request, whoever looks at no plan.
    assert (checks[0].outcome == "holds") == (distinct == values and times == (values or 1))


# ---- the command ---------------------------------------------------------------------------------


def test_the_command_says_first_what_it_cannot_show(made: Path, copy: Path, run) -> None:
    whole = ["verify", str(copy), "--key", KEY]
    outcome = run(whole)
    assert outcome.code == 0
    assert outcome.out.startswith("No release can show that noise was drawn")
    assert "not checked: ledger" in outcome.out
    assert "\n  size: title: " in outcome.out
    log, head = str(made / "log"), str(made / KEPT)
    own = str(made / "log" / HEAD)
    assert "not checked: ledger: no --head" in run([*whole, "--log", log, "--head", own]).out
    outcome = run([*whole, "--log", log, "--head", head])
    assert (outcome.code, "not checked: ledger" in outcome.out) == (0, False)
    gone(copy, made)
    outcome = run([*whole, "--json"])
    assert outcome.code == 1
    said = json.loads(outcome.out)
    assert said["faults"] >= 1
    assert {one["outcome"] for one in said["findings"]} == {"not checked", "fault"}


NO_RELEASE: Said = {"release": 5, "guarantees": 5}


def _belied() -> dict[str, Callable[[Path], object]]:
    """Faults in what is verified: in a copy of a release, its log, a kept head, or a list."""

    def head(file: str, **change: Any) -> Callable[[Path], object]:
        def alter(folder: Path) -> None:
            path = folder / file
            path.write_text(json.dumps(json.loads(path.read_text()) | change))

        return alter

    def signed_again(change: Callable[[Path], object]) -> Callable[[Path], object]:
        return lambda folder: (change(folder / "release"), sign(folder / "release"))

    def leaves(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
        def alter(folder: Path) -> None:
            path = folder / "log" / LEAVES
            path.write_bytes(change(path.read_bytes()))

        return alter

    unlink = lambda *names: lambda folder: [(folder / one).unlink() for one in names]  # noqa: E731
    return {
        "a log whose head is another": head(f"log/{HEAD}", size=1),
        "a log whose head is none": lambda folder: (folder / "log" / HEAD).write_text("{"),
        "a log with other leaves": leaves(lambda data: bytes(32) + data[32:]),
        "a log with fewer leaves": leaves(lambda data: data[:-32]),
        "a log without leaves": unlink(f"log/{LEAVES}"),
        "a kept head that was altered": head(KEPT, root="0" * 64),
        "a kept head that is none": lambda folder: (folder / KEPT).write_text("[" * 5000),
        "a list of keys that nobody signed": lambda folder: (folder / "keys").write_text("{}"),
        "a release without a statement": unlink("release/statement.json"),
        "a release without a signature": unlink("release/signature.json"),
        "a release without a table": unlink(f"release/{COUNT}"),
        "a statement that is none": signed_again(
            lambda folder: (folder / "statement.json").write_text("5")
        ),
        "a statement of nothing": signed_again(
            lambda folder: edit(folder, "", lambda one: one.update(NO_RELEASE))
        ),
        "a metric's statement of nothing": signed_again(
            lambda folder: edit(folder, "city", lambda one: one.update(guarantees=5))
        ),
        "no request": signed_again(
            lambda folder: edit(folder, "city", lambda one: one.pop("request"))
        ),
        "a price": signed_again(said("city", *LAW, "sigma", to=halved)),
    }  # fmt: skip


BELIED = _belied()


@pytest.fixture
def whole(made: Path, copy: Path) -> list[str]:
    """The words that verify a copy of a release, its log and a head, in one folder."""
    shutil.copytree(made / "log", copy.parent / "log")
    shutil.copy(made / KEPT, copy.parent / KEPT)
    folder = str(copy.parent)
    return [
        "verify", str(copy), "--key", KEY, "--log", f"{folder}/log", "--head", f"{folder}/{KEPT}",
    ]  # fmt: skip


@pytest.mark.parametrize("name", BELIED)
def test_a_fault_in_what_is_verified_ends_with_1(
    copy: Path, run, whole: list[str], name: str
) -> None:
    signer = Ed25519PrivateKey.from_private_bytes(bytes([7]) * 32)
    (copy.parent / "signer").write_bytes(signature.written(signer.public_key()))
    (copy.parent / "keys").write_bytes(key_list.signed(KeyList(), signer))
    words = [*whole, "--keys", str(copy.parent / "keys"), "--signer", str(copy.parent / "signer")]
    assert run(words).code == 0
    BELIED[name](copy.parent)
    outcome = run(words)
    assert (outcome.code, "fault: " in outcome.out) == (1, True), outcome.said
    # Of several, too, where the others have no fault.
    if name.startswith("a release"):
        shutil.copytree(copy.parent / "release", copy.parent / "releases/one")
        assert run(["verify", str(copy.parent / "releases"), *words[2:]]).code == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"--key": "absent.pem"}, "--key: absent.pem cannot be read"),
        ({"--log": "absent"}, "--log: absent/head.json cannot be read"),
        ({"--head": "absent"}, "--head: absent cannot be read"),
        ({"--log": None}, "name that with --log"),
        ({"--keys": "absent"}, "--keys and --signer go together"),
        ({"--keys": "absent", "--signer": KEY}, "--keys: absent cannot be read"),
        ({"--keys": KEPT, "--signer": KEPT}, "holds no Ed25519 public key"),
        ({"--key": KEPT}, "--key: kept.json has no format number"),
        ({"verify": "absent"}, "there is no release"),
    ],
)
def test_what_is_not_there_or_is_no_key_ends_with_2(
    copy: Path, whole: list[str], refused, monkeypatch, change: dict[str, Any], told: str
) -> None:
    monkeypatch.chdir(copy.parent)
    words = {whole[k]: whole[k + 1] for k in range(0, len(whole), 2)} | change
    said = [word for pair in words.items() if pair[1] is not None for word in pair]
    refused(said, told)


def test_a_key_is_made_once_and_its_public_half_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "own"))
    with pytest.warns(match="made .*own, under which releases are signed"):
        first = signature.signing_key()
    assert signature.signing_key().private_bytes_raw() == first.private_bytes_raw()
    public = signature.public_keys("--key", [str(tmp_path / f"own{signature.PUBLIC}")])
    assert public == (first.public_key(),)
    assert (tmp_path / "own").stat().st_mode & 0o077 == 0


def test_a_release_that_grew_is_signed_again_and_nothing_else_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "release"
    release.publish(str(folder), {"a": b"1", "b": b"2"}, {"release_id": "one"})
    (folder / "a").write_bytes(b"tampered")
    (folder / "b").write_bytes(b"22")
    release.sign_again(str(folder), {"b": b"22"})
    findings = opened([KEY]).of_release(str(folder))
    wrong = [one.said for one in findings if one.subject == "files"]
    assert wrong == ["a is not as it was signed"]


def test_a_release_that_is_a_link_is_not_followed(made: Path, copy: Path) -> None:
    path = copy / "city/histogram.parquet"
    path.unlink()
    path.symlink_to(made / "releases/2026-11-20/city/histogram.parquet")
    assert any("it is a link" in line for line in faults(made, copy))


@pytest.mark.parametrize(
    "record",
    [
        {"is": "os"}, {"is": "level"}, {"is": "job totals", "levels": "all"}, [[[]]], 3, "design",
        {"is": "reports", "mechanism": {"is": "level", "slots": 1, "counters": 1}},
        {"numerator": 1, "denominator": 0}, {"is": []},
    ],
)  # fmt: skip
def test_a_record_of_anybody_raises_nothing(made: Path, copy: Path, record: Any) -> None:
    """What is of a kind that nobody knows is not checked for the metric, and never holds."""
    edit(copy, "city", lambda one: one.update(design=record))
    sign(copy)
    verifier = opened([KEY])
    findings = verified([str(copy)], verifier).findings[str(copy)]
    of_city = [one for one in findings if one.subject == "price" and one.said.startswith("city")]
    assert of_city
    assert all(one.outcome != "holds" for one in of_city)


def test_a_site_has_a_page_of_what_was_verified(made: Path, run, refused) -> None:
    releases = str(made / "releases")
    words = ["site", f"{releases}/2026*", "--output", "public"]
    refused([*words, "--log", str(made / "log")], "name the --key as well")
    log, head = str(made / "log"), str(made / KEPT)
    assert run([*words, "--key", KEY, "--log", log, "--head", head]).code == 0
    page = Path("public/verification.html").read_text("utf-8")
    assert page.index(LIMIT) < page.index("holds")
    assert "0 faults, 2 not checked" in page
    assert page.count("<li>size: title: ") == 2
    assert "<script" not in page
    assert "verification.html" in Path("public/index.html").read_text("utf-8")


def test_an_entry_of_the_registry_says_what_was_declared_and_counts_nobody(
    made: Path, copy: Path, run
) -> None:
    words = ["verify", str(copy), "--key", KEY, "--registry", "entry.yaml"]
    assert run(words).code == 0
    text = Path("entry.yaml").read_text("utf-8")
    said = yaml.safe_load(text)["deployment"]
    assert set(said) == {
        "basic", "dp_variant", "privacy_loss", "deployment_model", "implementation",
        "administrative",
    }  # fmt: skip
    loss = said["privacy_loss"]
    assert loss["privacy_parameters"]["epsilon"] <= 1
    assert said["dp_variant"]["variant_name"] == "Approximate DP"
    assert "number_of_privacy_units" not in loss  # 2,000 users reported, and none were declared
    assert "2000" not in text
    edit(copy, "size", lambda one: one["request"].update(expected=1234))
    (only,) = entries([str(copy)])
    assert only["deployment"]["privacy_loss"]["number_of_privacy_units"] == 1234
    before = only["deployment"]["privacy_loss"]
    edit(copy, "size", lambda one: one.update(neighbours="epsilon 0.001"))
    edit(copy, "", lambda one: one["guarantees"]["release"].update(how="epsilon 0.001"))
    (only,) = entries([str(copy)])
    assert only["deployment"]["privacy_loss"] == before
    gone(copy, made)
    outcome = run([*words[:-1], "other.yaml"])
    assert (outcome.code, Path("other.yaml").exists()) == (1, False)


def test_the_registry_has_no_entry_of_what_has_no_price(
    made: Path, copy: Path, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["verify", str(copy), "--key", KEY, "--registry", "entry.yaml"]
    unknown = lambda name, _: unchecked("price", f"{name}: unknown")  # noqa: E731
    monkeypatch.setattr(price, "of_metric", unknown)
    outcome = run(words)
    assert (outcome.code, Path("entry.yaml").exists()) == (1, False)
    assert "no entry was written: a release has faults, or an unknown price" in outcome.said
    assert "0 faults" in outcome.said


def test_each_collection_has_an_entry_of_the_registry_and_its_windows_one(
    made: Path, copy: Path, workspace: Path
) -> None:
    for part in ("", "city", "size", "events", "said"):
        edit(copy, part, lambda one: one.update(release_id="f" * 32))
    edit(copy, "", lambda one: one["plan"].update(collection="other"))
    write("entries.yaml", [f"{made}/releases/2026*", str(copy)])
    made_of = {
        one["url_slug"]: one["deployment"]["deployment_model"]["release_type"]
        for one in yaml.safe_load_all(Path("entries.yaml").read_text("utf-8"))
    }
    assert made_of == {"other": "One release", "trips": "Many releases"}


def test_an_error_of_0_is_a_fault_where_no_design_tells_one() -> None:
    """Tables of which the noise is not computed again have figures alone to look at."""
    ends = ("lower", "upper", "lower_simultaneous", "upper_simultaneous")
    known = {name: np.array([7.0]) for name in ("estimate", *ends)}
    assert tables._figures(known | {"standard_error": np.array([0.0])}) == ""
    unknown = known | {name: np.array([math.nan]) for name in ends}
    assert tables._figures(unknown | {"standard_error": np.array([0.1])}) == ""
    said = tables._figures(unknown | {"standard_error": np.array([0.0])})
    assert said == "an error of 0 stands beside an interval that is no point"
