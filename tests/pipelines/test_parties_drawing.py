"""Noisy counters between shuffler and collector: what is hidden, drawn once, and counted.

Each side door of docs/appendix/counters.md has a test here, by name.
"""

from __future__ import annotations

import functools
import io
import json
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from mechanisms.counters.amounts import Amounts
from mechanisms.counters.design import Counters
from mechanisms.randomness import SeededRandom
from mechanisms.wire import binary, screening
from mechanisms.wire.report import WORDS, Form, Reports
from mechanisms.wire.screening import Expected
from mechanisms.wire.sealing import KeyRing, create_key, public_key, seal_slots
from pipelines.errors import RequestError
from pipelines.jobs.run import beam_options
from pipelines.parties import asking, drawing, summary
from pipelines.parties.batches import chosen_of
from pipelines.parties.drawing import shuffle_counters
from pipelines.parties.memory import ShufflerMemory
from pipelines.parties.report_files import find
from pipelines.plan.document import PlanDocument
from tests.oracles.statistics import FALSE_ALARM
from tests.oracles.transforms import run, source
from transforms.reports import report_tables
from transforms.reports.unseal import UnsealDoFn
from transforms.shuffle.dummies import spread
from transforms.shuffle.slots import CountWords

MARK = bytes(range(16))
EVENTS = Counters.meeting(Amounts(3, 2, 2).levels, "add or remove", epsilon=1.0, delta=1e-6)
USERS = Counters.meeting(Amounts(1500).levels, "add or remove", epsilon=1.0, delta=1e-6)


@dataclass(frozen=True)
class Window:
    """What a shuffler and a collector know of a window, without a plan's file."""

    counters: tuple[Counters, ...] = (EVENTS,)

    fingerprint, strings, handed, tokens = MARK, False, WORDS, ""

    @property
    def metrics(self):
        return [
            SimpleNamespace(name=f"m{place}", counters=one, crowds=None)
            for place, one in enumerate(self.counters)
        ]

    @cached_property
    def job(self):
        plan = PlanDocument.model_construct(collection="c", version=1)
        return SimpleNamespace(plan=plan, window="all", design=MARK)

    def expected(self, form: Form) -> Expected:
        slots = tuple(int(one.layout.types.size) for one in self.counters)
        return Expected(MARK, (), form, slots)


@pytest.fixture(autouse=True)
def place(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a key of the collector's and a secret of the shuffler's."""
    Path("keys").mkdir()
    create_key(workspace / "keys")
    Path("secret").write_bytes(bytes(32))
    monkeypatch.setattr(asking, "mark", lambda plan: MARK)
    return workspace


def pem() -> bytes:
    return next(Path("keys").glob("*.public.pem")).read_bytes()


def ring() -> KeyRing:
    return KeyRing.read(Path("keys"))


def reported(words, place: int = 0, window: Window = Window(), seed: int = 1) -> Reports:
    """Sealed reports of some users, a row of words each."""
    rows = np.asarray(words, np.uint64)
    ids = SeededRandom(seed).words(2 * len(rows)).reshape(-1, 2)
    types = window.counters[place].layout.types
    return seal_slots(MARK, place, types, rows, ids, public_key(pem()))


def shuffle(*reports: Reports, into: str = "out", window: Window = Window()) -> str:
    """What `hushbeam parties shuffle` does with some reports."""
    for old in Path(".").glob("reports*.bin"):
        old.unlink()
    for number, block in enumerate(reports):
        Path(f"reports{number}.bin").write_bytes(binary.encode(block))
    memory = ShufflerMemory(str(Path("memory").absolute()), MARK, "secret")
    files = find(["reports*.bin"], or_none=True)
    with memory.lock():
        shuffle_counters(window, files, pem(), into, memory, beam_options([]), here=True)
    return into


def words_of(folder: str) -> Reports:
    """All that a collector is handed."""
    expected = Expected(MARK, (), WORDS, (99,) * 9)
    blocks = []
    for file in sorted(Path(folder).glob("reports*")):
        with open(file, "rb") as stream:
            blocks += [
                screened.reports.records for screened in report_tables.read(stream, expected)
            ]
    return Reports(MARK, WORDS, np.concatenate([WORDS.empty(0), *blocks]))


def counted(folder: str, window: Window = Window(), place: int = 0):
    """What the collector counts."""
    opened = ring().open(words_of(folder))
    assert not opened.dropped
    count = CountWords(place, window.counters[place].layout)
    return count.add_input(count.create_accumulator(), opened.reports).counts


EMPTY = [6, 6, 7, 7]  # the nulls of both levels; counters are 0 .. 2 and 3 .. 5
ANN, BEA = [0, 2, 3, 7], [1, 6, 7, 7]


def seen(folder: str) -> tuple:
    """All that a collector is handed, but for ids, time and words: names, headers, types."""
    told = json.loads(Path(folder, "shuffle.json").read_text())
    headers = set()
    for file in Path(folder).glob("reports*"):
        footer = pq.ParquetFile(file)
        marks = {key: len(value) for key, value in footer.schema_arrow.metadata.items()}
        headers.add((str(footer.schema_arrow.remove_metadata()), str(sorted(marks.items()))))
    drawn = {"shuffle_id", "created", "words"}
    return (
        sorted(path.name for path in Path(folder).rglob("*")),
        {key: value for key, value in told.items() if key not in drawn}, sorted(told), headers,
    )  # fmt: skip


def test_side_door_what_is_said_beside_words_is_the_same_whoever_reports():
    """Counts, samples of ids, file names and numbers: of nobody, of one, and of many users."""
    nobody = shuffle(into="nobody")
    views = [seen(nobody)]
    for number, users in enumerate(([ANN], [ANN, BEA] * 100)):
        Path("memory").rename(f"memory{number}")
        views.append(seen(shuffle(reported(users), into=f"some{number}")))
    assert views[0] == views[1] == views[2]
    assert len(views[0][0]) == drawing.FILES + 1
    assert views[0][2] == [
        "collection", "created", "design", "fingerprint", "plan", "sealed", "second", "shuffle_id",
        "shufflers", "summary_version", "tokens", "version", "window", "words",
    ]  # fmt: skip


def test_side_door_sizes_tell_the_words_and_nothing_else():
    """Nulls are counters with noise: what a type has in all is what its counters add up to."""
    folder = shuffle(reported([ANN, BEA, EMPTY]))
    words = words_of(folder)
    counts = counted(folder)
    by_level = np.bincount(words.records["level"], minlength=2)
    own = [counts[0:3].sum() + counts[6], counts[3:6].sum() + counts[7]]
    assert by_level.tolist() == own
    assert json.loads(Path(folder, "shuffle.json").read_text())["words"] == counts.sum()
    sizes = [pq.ParquetFile(file).metadata.num_rows for file in Path(folder).glob("reports*")]
    assert sum(sizes) == counts.sum()


def test_side_door_dummies_are_sealed_as_reports_are():
    """Same columns, widths, key id, and words of 8 bytes: nothing tells a dummy but its seal."""
    words = words_of(shuffle(reported([ANN])))
    assert len(np.unique(words.records["key_id"])) == 1
    assert set(words.records["metric"].tolist()) == {0}
    assert len(ring().open(words).reports) == len(words) > 4
    seals = {bytes(seal) for seal in words.records["sealed"]}
    assert len(seals) == len(words)


def law_test(counts, raised, counters: Counters) -> float:
    """How likely it is that dummies of their law lie as far from it: a chi-square of columns."""
    law = counters.dummies.parts[0].law
    dummies = counts - raised
    assert dummies.min() >= 0
    assert dummies.max() <= 2 * law.mu
    expected = np.asarray(law.pmf) * dummies.size
    common = np.flatnonzero(expected >= 5)
    cut = np.clip(dummies, common[0], common[-1]) - common[0]
    found = np.bincount(cut, minlength=common.size)
    due = expected[common]
    due[0], due[-1] = expected[: common[0] + 1].sum(), expected[common[-1] :].sum()
    return float(stats.chisquare(found, due * found.sum() / due.sum()).pvalue)


@pytest.mark.verify
@pytest.mark.parametrize("users", [0, 1])
def test_the_law_of_two_logs_that_differ_by_one_user(users):
    """1,500 counters are as many draws of the law, of which the user's is moved by one: drawn once
    each, independent of who reports. What is not in the counts is the same: see above."""
    window, code = Window((USERS,)), 17
    reports = [reported([[code]], window=window)] if users else []
    counts = counted(shuffle(*reports, window=window), window)
    raised = np.zeros(1500, np.int64)
    raised[code] = users
    assert law_test(counts[:1500], raised, USERS) > FALSE_ALARM
    wrong = law_test(np.maximum(counts[:1500] - 3, 0), 0 * raised, USERS)
    assert wrong < FALSE_ALARM  # the test has the power to see a draw that is moved by 3
    nulls = counts[1500] - 0
    assert 0 <= nulls <= 2 * USERS.dummies.null_laws(0)[0].mu  # a user of one slot has raised none


def test_where_a_word_lies_does_not_depend_on_whose_it_is():
    """Words of reports are spread over files and places as dummies are."""
    reports = reported([ANN] * 500)
    folder = shuffle(reports)
    mine = {bytes(seal) for seal in reports.records["sealed"].reshape(-1, 56)}
    files, ranks = [], []
    for number, file in enumerate(sorted(Path(folder).glob("reports*"))):
        seals = pq.read_table(file)["sealed"].to_pylist()
        at = [place for place, seal in enumerate(seals) if seal in mine]
        files += [number] * len(at)
        ranks += [(place + 0.5) / len(seals) for place in at]
    assert len(files) == 2000
    assert stats.chisquare(np.bincount(files, minlength=drawing.FILES)).pvalue > FALSE_ALARM
    assert stats.kstest(ranks, "uniform").pvalue > FALSE_ALARM


def test_side_door_an_empty_window_has_its_dummies_and_its_batch():
    counts = counted(shuffle())
    assert (counts[EVENTS.layout.nulls] > 0).all()
    for row, law in zip(EVENTS.layout.split(counts), EVENTS.dummies.means, strict=True):
        assert ((row >= 0) & (row <= 2 * law)).all()
    assert counts.sum() > 0


def test_side_door_a_window_is_drawn_once():
    """Neither for reports that come later, nor into another folder, nor after a hundred windows."""
    shuffle(reported([ANN]))
    memory = ShufflerMemory(str(Path("memory").absolute()), MARK, "secret")
    for into in ("out", "again"):
        with pytest.raises(RequestError, match=r"was shuffled before, into .*out: .*drawn once"):
            shuffle(reported([ANN, BEA], seed=2), into=into)
        assert not Path("again").exists()
    left = [path.name for path in Path(memory.folder).rglob("*") if path.is_file()]
    assert sorted(left) == ["begun.json", "lock", "sent.json"]  # the draw is destroyed
    memory.trim("c")
    assert Path(memory.folder).exists()


def test_side_door_a_shuffle_that_is_killed_hands_over_the_same_bytes(monkeypatch):
    """However often, and whatever else is handed in meanwhile."""
    copy, times = drawing._copy, Counter()

    def killed(*args: str) -> None:
        times["copied"] += 1
        if times["copied"] in (5, 40):
            raise KeyboardInterrupt
        copy(*args)

    monkeypatch.setattr(drawing, "_copy", killed)
    with pytest.raises(KeyboardInterrupt):
        shuffle(reported([ANN]))
    first = {path.name: path.read_bytes() for path in Path("out").glob("reports*")}
    assert len(first) == 4
    with pytest.raises(RequestError):
        chosen_of(["out"], Window(), sealed=True)
    with pytest.raises(KeyboardInterrupt):
        shuffle(reported([ANN, BEA], seed=2))
    shuffle()
    assert all(Path("out", name).read_bytes() == data for name, data in first.items())
    assert chosen_of(["out"], Window(), sealed=True).size == counted("out").sum()


def test_a_batch_whose_files_are_others_is_not_handed_over_and_not_destroyed(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(drawing, "_copy", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            shuffle(reported([ANN]))
    (note,) = Path("memory").rglob("made.json")
    file = note.parent / next(iter(json.loads(note.read_text())["files"].values()))
    other = next(path for path in note.parent.glob(f"*{file.suffix}") if path != file)
    for path, content in (
        (file, b""), (file, b"PAR1 half"), (file, other.read_bytes()), (note, b"{}"),
        (note, note.read_bytes().replace(b'"version": 1', b'"version": 2')),
    ):  # fmt: skip
        whole = path.read_bytes()
        path.write_bytes(content)
        with pytest.raises(RequestError, match=r"is damaged, or not of the batch|keeps format 1"):
            shuffle()
        assert path.read_bytes() == content
        assert not Path("out/shuffle.json").exists()
        path.write_bytes(whole)
    shuffle()
    assert chosen_of(["out"], Window(), sealed=True).size == counted("out").sum()


def test_side_door_a_shuffle_that_is_killed_earlier_leaves_nothing_of_its_draw(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(ShufflerMemory, "make", lambda *_: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(Exception, match="full"):
            shuffle(reported([ANN]))
    assert not Path("out").exists()
    assert not [path for path in Path("memory").rglob("*") if path.suffix == ".words"]
    shuffle(reported([ANN]))


def test_side_door_one_that_may_still_be_at_work_is_waited_for():
    memory = ShufflerMemory(str(Path("memory").absolute()), MARK, "secret")
    with memory.lock():
        memory.begin("1", drawing.Begun(collection="c", created="", output="o", key="", once=True))
    with pytest.raises(RequestError, match="may still be at work"):
        shuffle()
    # In a bucket both may have looked before either began.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShufflerMemory, "only", lambda _: None)
        with pytest.raises(RequestError, match="another shuffle of it has begun"):
            shuffle()
    assert [path.parent.name for path in Path("memory").rglob("begun.json")] == ["1"]


def test_side_door_a_range_that_comes_twice_is_no_draw():
    """What an engine hands on of two attempts of one bundle would be two draws."""
    draw = np.stack(EVENTS.draw(EVENTS.ranges(9)[0], SeededRandom(1)))
    assert sum(map(len, spread((0, [draw.tobytes()])))) == draw[1].sum()
    with pytest.raises(ValueError, match="too many"):
        list(spread((0, [draw.tobytes()] * 2)))


def test_side_door_two_batches_of_a_window_are_refused():
    """The words of reports would be known by standing in both."""
    shuffle(reported([ANN]), into="one")
    Path("memory").rename("other")
    shuffle(reported([ANN]), into="two")
    line = "dummies are drawn once for a window"
    for inputs in (["one", "two"], ["one/reports-00000*"], ["one", "two/reports-00000*"]):
        with pytest.raises(RequestError, match=line):
            chosen_of(inputs, Window(), sealed=True)
    next(Path("one").glob("reports*")).unlink()
    with pytest.raises(RequestError, match="do not hold all of its words") as refused:
        chosen_of(["one"], Window(), sealed=True)
    batch = summary.read("one").shuffle_id
    assert not set("0123456789") & set(str(refused.value).replace(batch, ""))


def test_side_door_copied_seals_multiply_nobody():
    """Whoever carries a report can put other ids on it, or parts of it into others, and no more."""
    victim = reported([ANN])
    again = replace(victim, records=np.repeat(victim.records, 50))
    again.records["report_id"] = SeededRandom(5).words(100).reshape(-1, 2)
    parts = reported([EMPTY] * 50, seed=6)
    parts.records["sealed"][:, 1] = victim.records["sealed"][0, 1]  # in a slot of its level
    parts.records["sealed"][:, 2] = victim.records["sealed"][0, 1]  # and in one of another
    folder = shuffle(victim, again, parts, into="many")
    opened = ring().open(words_of(folder))
    copies = sum(bytes(s) in seals_of(victim) for s in words_of(folder).records["sealed"])
    assert copies == 4 + 1  # one word of each, and one in a level where it does not open
    assert opened.dropped == {screening.UNOPENED: 1}


def seals_of(reports: Reports) -> set[bytes]:
    return {bytes(seal) for seal in reports.records["sealed"].reshape(-1, 56)}


def test_a_liar_moves_a_counter_by_its_slots_and_no_more():
    """All slots filled with one code, of its own level or of another's; with anything at all."""
    window = Window((EVENTS,))
    rows = [[2] * 4] * 10 + [[5] * 4] * 10 + [[2**64 - 1, 8, 9, 10**9]] * 10
    lies = ring().open(reported(rows, window=window).apart(EVENTS.layout.types)).reports
    count = CountWords(0, EVENTS.layout)
    counts, _, dropped = count.add_input(count.create_accumulator(), lies)
    assert dropped == 80
    assert counts.tolist() == [0, 0, 20, 0, 0, 20, 0, 0]
    assert EVENTS.layout.poisoning == [2, 2]


def test_a_word_opens_in_its_own_level_alone():
    words = reported([ANN]).apart(EVENTS.layout.types)
    words.records["level"] = 1 - words.records["level"]
    assert ring().open(words).dropped == {screening.UNOPENED: 4}


@pytest.mark.parametrize("parquet", [False, True])
def test_reports_of_other_widths_are_dropped_one_by_one(parquet):
    """Each metric has its own number of slots; other reports, and plain ones, are no reports."""
    window = Window((EVENTS, USERS))
    blocks = [reported([ANN, BEA], window=window), reported([[3]], 1, window)]
    lie = replace(blocks[1], records=blocks[1].records.copy())
    lie.records["metric"] = 0
    plain = Reports.submitted(MARK, 0, [1, 2], SeededRandom(1))
    expected = window.expected(Form(sealed=True, slots=1))
    kept, dropped = [], Counter()
    for block in (*blocks, lie, plain):
        if parquet:
            found = [report_tables.from_table(report_tables.to_table(block), expected)]
        else:
            found = list(binary.read(io.BytesIO(binary.encode(block)), expected))
        for screened in found:
            kept += [len(screened.reports)] * bool(len(screened.reports))
            dropped += Counter(screened.dropped)
    assert kept == [2, 1]
    form = screening.OTHER_COLUMNS if parquet else screening.OTHER_FORM
    assert dropped == {screening.OTHER_WIDTH: 1, form: 2}


def test_words_are_counted_by_the_pipeline_as_by_hand():
    folder = shuffle(reported([ANN, BEA]))
    words, layout = words_of(folder), EVENTS.layout
    keys = functools.partial(KeyRing.read, Path("keys"))

    def road(p):
        plain = Window().expected(Form(shuffled=True, slots=1))
        opened = p | source([words], Reports) | beam.ParDo(UnsealDoFn(plain, keys))
        return opened | beam.CombineGlobally(CountWords(0, layout))

    (found,) = run(road).elements
    assert found.counts.tolist() == counted(folder).tolist()
