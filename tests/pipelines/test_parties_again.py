"""Passes over one batch between shuffler, collector and ledger: who keeps what, and until when."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import cached_property
from hashlib import sha256
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest

from mechanisms.channel import Guarantee
from mechanisms.counters.passes import layer
from mechanisms.wire.sealing import create_key
from pipelines.errors import RequestError
from pipelines.ledger.entries import Budget, Entry
from pipelines.ledger.listing import Entries
from pipelines.ledger.reservation import begun
from pipelines.ledger.rules import BudgetExceeded, Spend, losses_of, once, require_affordable
from pipelines.parties import asking, drawing, passes, summary
from pipelines.parties.asking import ask, draw, kept_of, shares_of, sweep
from pipelines.parties.memory import KEPT, LAYERS, Begun, Sent, ShufflerMemory, put
from pipelines.plan.document import PlanDocument
from tests.pipelines.test_parties_drawing import ANN, BEA, EVENTS, MARK, Window, counted, reported
from tests.pipelines.test_parties_drawing import shuffle as shuffle_once

RIVALS, SHARES = 16, (0.1, 0.25, 0.5)


@dataclass(frozen=True)
class Kept(Window):
    """A window whose plan lets its batch be asked again for a week."""

    tokens = ""

    @cached_property
    def job(self):
        plan = PlanDocument.model_construct(collection="c", version=1, ask_again="7d")
        return SimpleNamespace(plan=plan, window="all", design=MARK)


@pytest.fixture(autouse=True)
def place(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    Path("keys").mkdir()
    create_key(workspace / "keys")
    Path("secret").write_bytes(bytes(32))
    monkeypatch.setattr(asking, "mark", lambda plan: MARK)
    return workspace


def memory() -> ShufflerMemory:
    return ShufflerMemory(str(Path("memory").absolute()), MARK, "secret")


def handed(shares: tuple[float, ...] = (0.25,), name: str = "b" * 32) -> str:
    """A batch that was handed over, as far as its memory knows; without a job."""
    mine = memory()
    with mine.lock():
        begun = Begun(collection="c", created="", output="quick", key="", here=True, once=True)
        mine.begin(name, begun)
        draw(mine, name, Kept(), shares, "quick")
        Path("quick").mkdir(exist_ok=True)
        Path("sent").touch()
        notes = Path(mine.of(name))
        put(str(notes / "sent.json"), Sent(files=(), batches={}, reports=0))
    return name


def asked(share: float = 1.0, into: str = "all") -> str:
    mine = memory()
    with mine.lock():
        sweep(mine.place)
        batch = mine.handed()
        assert batch is not None
        ask(Kept(), mine, batch, (share,), into)
    return into


def layers() -> list[Path]:
    return [*Path("memory").rglob(LAYERS)]


def test_each_share_has_a_layer_of_its_own() -> None:
    """One that was drawn for two shares would be taken away, and the batch be told at no noise."""
    handed(SHARES)
    kept = asking.layers_of(str(layers()[0].parent))
    assert kept.shape == (len(SHARES), EVENTS.codes)
    # Eight counts, whose deviations are above 10: two draws are equal less often than once in
    # 10^11, even of one law.
    assert len({row.tobytes() for row in kept}) == len(SHARES)
    for share, row in zip(SHARES, kept, strict=True):
        means = layer(EVENTS, share).dummies.means
        for counts, mean in zip(EVENTS.layout.split(row), means, strict=True):
            assert ((counts >= 0) & (counts <= 2 * mean)).all()
            assert (counts > 0).any()


def test_a_batch_and_what_is_taken_away_from_it_are_the_counts_of_one_pass(monkeypatch) -> None:
    """All that was counted under the layers is there; the layers alone are kept, and then gone."""
    whole = drawing.shuffle_counters

    def quickly(*of, **more):
        return whole(*of, shares=(0.25, 0.5), **more)

    monkeypatch.setattr("tests.pipelines.test_parties_drawing.shuffle_counters", quickly)
    folder = shuffle_once(reported([ANN, BEA]), into="quick", window=Kept())
    batch = counted(folder)
    names = sorted(p.name for p in Path(memory().folder).rglob("*") if p.is_file())
    assert names == ["begun.json", "kept.json", LAYERS, "lock", "sent.json"]
    told = summary.read(folder)
    assert (told.share, told.passes) == (0.25, (0.25, 0.5))
    kept = asking.layers_of(str(layers()[0].parent))
    assert kept.shape == (2, EVENTS.codes)
    raised = np.zeros(EVENTS.codes, np.int64)
    np.add.at(raised, [0, 2, 3, 1, 6], 1)
    raised[EVENTS.layout.nulls] = [1, 3]
    for share, under in ((0.5, kept[:1]), (1.0, kept)):
        asked(share, f"at{share}")
        found = passes.passes_in(["quick", f"at{share}"])
        assert found.inputs == ("quick",)
        (taken,) = passes.taken_by(found, Kept())
        assert (taken == under.sum(axis=0)).all()
    assert not layers()
    dummies = batch - taken - raised
    for row, mean in zip(EVENTS.layout.split(dummies), EVENTS.dummies.means, strict=True):
        assert ((row >= 0) & (row <= 2 * mean)).all()
    assert (batch - raised - dummies == kept.sum(axis=0)).all()


def test_what_was_kept_is_destroyed_when_its_time_is_over(monkeypatch) -> None:
    """By the next shuffle of any window; and no pass is handed over after it."""
    handed()
    soon = datetime.now(timezone.utc) + timedelta(days=6, hours=23)
    monkeypatch.setattr(asking, "_now", lambda: soon)
    sweep(memory().place)
    assert layers()
    monkeypatch.setattr(asking, "_now", lambda: soon + timedelta(hours=1, seconds=1))
    with pytest.raises(RequestError, match=r"until .* UTC, was destroyed: ask a window again"):
        asked()
    assert not layers()
    assert not Path("all").exists()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (KEPT, b'{"version": 2}', "is of format 2, and this hushbeam keeps format 1"),
        (KEPT, b"{}", "has no format number"),
        (KEPT, b"\x93NUMPY", "is cut off, or is no JSON"),
        (LAYERS, b"", "cannot be read, or is damaged"),
        (LAYERS, b"\x93NUMPY" + bytes(100), "cannot be read, or is damaged"),
        (LAYERS, b"PK\x03\x04" + bytes(100), "cannot be read, or is damaged"),
    ],
)
def test_what_was_kept_in_another_format_is_refused_and_left_alone(
    name: str, content: bytes, said: str
) -> None:
    handed()
    path = layers()[0].parent / name
    path.write_bytes(content)
    with pytest.raises(RequestError, match=said):
        asked()
    assert path.read_bytes() == content
    assert layers()
    assert not Path("all").exists()


def test_a_pass_that_is_killed_hands_over_the_same_bytes(monkeypatch) -> None:
    """Between any two steps: nothing is drawn for it, so nothing can be drawn twice."""
    handed((0.25, 0.5))
    kept = asking.layers_of(str(layers()[0].parent))
    for module, step in (
        (summary, "write"), (asking.pq, "write_table"), (asking, "outlast"), (asking, "_destroy"),
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(module, step, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                asked()
            if step == "write":
                with pytest.raises(RequestError, match="did not finish"):
                    passes.passes_in(["all"])
                with pytest.raises(RequestError, match=r"handed over before, into .*all"):
                    asked(into="other")
    asked()
    assert not layers()
    taken = pq.read_table(f"all/{asking.TAKEN}")["dummies"].to_numpy()
    assert (taken == kept.sum(axis=0)).all()
    asked()  # by a scheduler that tries again
    assert not Path("other").exists()


def test_what_cannot_be_told_is_refused_in_one_line() -> None:
    handed((0.25, 0.5))
    for share, said in (
        (0.4, "for passes at 0.25, 0.5 and rest: name one"), (0.25, "handed over before, into"),
    ):  # fmt: skip
        with pytest.raises(RequestError, match=said):
            asked(share)
    asked()
    with pytest.raises(RequestError, match="tells all of this one"):
        asked(0.5, "less")
    for words in (
        ["0.5", "0.25"], ["0"], ["1.5"], ["much"], ["nan"], ["0.25", "rest"],
        ["0.2500001", "0.2500002"], ["0.2500001"], ["0.9999999"],  # passes of one name
    ):  # fmt: skip
        with pytest.raises(RequestError, match="say which shares"):
            shares_of(words, Kept())
    assert shares_of(["rest"], Kept()) == (1.0,)
    assert shares_of([], Window()) == ()
    unkept = SimpleNamespace(job=SimpleNamespace(plan=PlanDocument.model_construct(ask_again=None)))
    with pytest.raises(RequestError, match="where the plan says for how long"):
        shares_of(["0.5"], unkept)


def test_passes_of_two_batches_or_without_their_batch_are_refused() -> None:
    told = summary.Summary(
        shuffle_id="b", created="", collection="c", version=1, fingerprint="",
        window="all", sealed=True, words=0, share=1.0, passes=(0.25,), sample=(),
    )  # fmt: skip
    for folder, one in (
        ("all", told), ("quick", told.model_copy(update={"share": 0.25})),
        ("other", told.model_copy(update={"share": 0.25, "shuffle_id": "o"})),
    ):  # fmt: skip
        summary.write(folder, one)
    for inputs in (["all"], ["all", "other"], ["all", "quick", "other"]):
        with pytest.raises(RequestError, match="what to take away from its batch"):
            passes.passes_in(inputs)
    with pytest.raises(RequestError, match="does not hold all of its"):
        passes.taken_by(passes.passes_in(["all", "quick"]), Kept())


def test_a_batch_that_is_killed_before_it_is_whole_leaves_no_layers(monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(drawing, "run_beam", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        patch.setattr(drawing, "require_nothing_lost", lambda: None)  # whatever other jobs lost
        with pytest.raises(KeyboardInterrupt), memory().lock():
            drawing.shuffle_counters(
                Kept(), asking_files(), b"", "quick", memory(), None, True, (0.25,)
            )
    assert not [*Path("memory").rglob("*.json"), *layers()]


def asking_files() -> SimpleNamespace:
    return SimpleNamespace(about=lambda form: 0, mark="")


DAY = Guarantee("shuffle", epsilon=1.0, delta=1e-6, unit="user", how="enumeration")


def spend(share: float, batch: str = "b" * 12, epsilon: float = 1.0) -> Spend:
    return Spend(
        "trips", 1, "f00d", "d1" if share == 1 else f"d1~{share:g}", "user",
        Budget(epsilon=1.0, delta=1e-6), (replace(DAY, epsilon=epsilon * share),), "out",
        design="d", files=(batch,),
    )  # fmt: skip


def test_the_ledger_counts_the_dearest_pass_over_a_batch() -> None:
    """In whatever order they were collected; another batch, or another design, adds up."""
    quick, half, whole = spend(0.25), spend(0.5), spend(1.0)
    for releases in ([quick, half, whole], [whole, quick], [half, whole, quick]):
        assert once([(one, 1) for one in releases]) == [(whole, 1)]
        assert [loss.epsilon for loss in losses_of(Entries.of([]), *releases).elements()] == [1.0]
    assert once([(quick, 1), (half, 1)]) == [(half, 1)]
    others = [spend(1.0, "c" * 12), replace(whole, design="e"), replace(whole, window="d2")]
    for other in others:
        assert once([(quick, 1), (other, 1)]) == [(quick, 1), (other, 1)]
    entries = Entries.of([begun(quick, lambda: "0" * 16)])
    require_affordable(whole, entries)
    with pytest.raises(BudgetExceeded):
        require_affordable(spend(1.0, "c" * 12), entries)


def test_prices_that_follow_answers_add_up() -> None:
    """Whoever asks on has seen something: what was composed as if settled before is a sum."""

    def priced(window: str) -> Spend:
        return replace(
            spend(1.0, sha256(window.encode()).hexdigest()[:12]), window=window,
            losses=(replace(DAY, epsilon=0.05, delta=1e-9),),
        )  # fmt: skip

    numbers = count()

    def paid(window: str) -> Entry:
        return begun(priced(window), lambda: f"{next(numbers):016x}")

    days, quick = [paid(f"d{day}") for day in range(23)], "e~0.25"
    require_affordable(priced("e"), Entries.of(days))  # 1.2 by their sum, less than 1 composed
    for window, entries in ((quick, days), ("f", [*days, paid(quick)])):
        with pytest.raises(BudgetExceeded, match="is chosen after answers, so prices add up"):
            require_affordable(priced(window), Entries.of(entries))
    require_affordable(priced("f"), Entries.of([*days[:18], paid(quick)]))  # 1 by their sum


def _race(task: tuple[int, str, float]) -> float:
    number, folder, share = task
    os.chdir(folder)
    asking.mark = lambda plan: MARK
    try:
        asked(share, f"out{number}")
    except RequestError:
        return 0.0
    return share


@pytest.mark.parametrize("rounds", [6, pytest.param(200, marks=pytest.mark.verify)])
def test_sixteen_askers_never_tell_more_than_all(rounds, place) -> None:
    """Each pass is handed over once at the most, and none after one that tells more."""
    rng = np.random.default_rng(5)
    with multiprocessing.get_context("fork").Pool(RIVALS) as pool:
        for number in range(rounds):
            folder = place / f"round{number}"
            folder.mkdir()
            os.chdir(folder)
            Path("secret").write_bytes(bytes(32))
            batch = handed(SHARES)
            kept = asking.layers_of(str(layers()[0].parent))
            shares = rng.choice([0.25, 0.5, 1.0], RIVALS)
            tasks = [(i, str(folder), float(share)) for i, share in enumerate(shares)]
            told = [share for share in pool.map(_race, tasks, chunksize=1) if share]
            assert told
            assert len(set(told)) == len(told) <= 3
            note = kept_of(memory(), batch)
            assert note.passes.keys() == {0.1, *told}
            for share in told:
                into = note.passes[share]
                taken = pq.read_table(f"{into}/{asking.TAKEN}")["dummies"].to_numpy()
                assert (taken == kept[np.array(SHARES) < share].sum(axis=0)).all()
            assert bool(layers()) is (1.0 not in told)


def test_layers_of_several_metrics_stand_side_by_side() -> None:
    two = Kept((EVENTS, EVENTS))
    mine = memory()
    with mine.lock():
        begun = Begun(collection="c", created="", output="o", key="", here=True, once=True)
        mine.begin("b", begun)
        draw(mine, "b", two, (0.25,), "quick")
    table = asking.layers_of(mine.of("b"))
    own = layer(EVENTS, 0.25)
    assert table.shape == (1, 2 * EVENTS.codes)
    for part in np.split(table[0], 2):
        for row, mean in zip(EVENTS.layout.split(part), own.dummies.means, strict=True):
            assert ((row >= 0) & (row <= 2 * mean)).all()
    assert (table[0][: EVENTS.codes] != table[0][EVENTS.codes :]).any()  # drawn for each
