"""Answers of searches are kept between processes, and what does not hold is searched for anew."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from mechanisms.counters.design import Counters
from mechanisms.counters.dummies import Beside, Correlated, Independent, dummies_of
from mechanisms.counters.levels import Level
from mechanisms.counters.noise import Gaussian, Laplace, recorded
from mechanisms.counters.solve import least_noise
from pipelines.metrics.counting import design
from pipelines.metrics.counting.design import _built
from pipelines.plan import joint, metrics
from pipelines.plan.job import PlanJob, unread_job
from pipelines.plan.loading import load
from pipelines.storage import solved

PLAN = """\
collection: trips
version: 1
unit: user
user_column: rider
input: logs.parquet
output: out
epsilon: 1.0
delta: 1.0e-6
drawn_by: shuffler
metrics:
  - {name: zones, kind: histogram, column: z, domain: 1..9}
  - {name: streets, kind: histogram, column: s, domain: 1..9}
  - {name: fare, kind: mean, column: f, bounds: "0,60", expected: 4000}
"""
ONE = [Level(1, 1)]
TARGET = ("add or remove", 1.0, 1e-6)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    _forget()


def _forget() -> None:
    """What this process remembers: as another one."""
    design._least_error.cache_clear()
    design.another.cache_clear()


def kept(folder: Path) -> list[Path]:
    return sorted((folder / "cache" / "hushbeam" / "solved").iterdir())


def job_of(folder: Path) -> PlanJob:
    _forget()
    path = folder / "plan.yaml"
    path.write_text(PLAN)
    return unread_job(load(str(path)), "all")


def one_counter() -> Any:
    _forget()
    target = (tuple(ONE), *TARGET)
    return design._least_error(*target, drawers=("shuffler",), beside=(), releases=1)


def test_an_answer_is_kept_of_its_question_alone(tmp_path: Path) -> None:
    solved.keep(("noise", 1.0), [1.5, {"mu": 3}])
    assert solved.recall(("noise", 1.0)) == [1.5, {"mu": 3}]
    assert solved.recall(("noise", 1.0000001)) is None
    assert stat.S_IMODE(kept(tmp_path)[0].parent.stat().st_mode) == 0o700


def test_another_version_of_the_search_is_another_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solved.keep("q", 1.0)
    monkeypatch.setattr(solved, "_code", lambda: "other")
    assert solved.recall("q") is None


def test_a_question_in_the_place_of_another_replaces_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solved, "_PLACES", 0)
    solved.keep("one", 1)
    solved.keep("other", 2)
    assert len(kept(tmp_path)) == 1
    assert (solved.recall("one"), solved.recall("other")) == (None, 2)


def _written_and_read(number: int) -> list[int]:
    solved.keep("q", [number] * 999)
    answer: list[int] = solved.recall("q")
    return answer


def test_writers_at_once_leave_whole_answers(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as several:
        seen = [*several.map(_written_and_read, range(64))]
    assert all(len(answer) == 999 and len({*answer}) == 1 for answer in seen)
    assert len(kept(tmp_path)) == 1  # and nothing half written beside it


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b'{"question": 1}', b"\xff"])
def test_what_is_no_answer_is_none(tmp_path: Path, content: bytes) -> None:
    solved.keep("q", 1)
    kept(tmp_path)[0].write_bytes(content)
    assert solved.recall("q") is None


def test_where_none_can_be_kept_none_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    solved.keep("q", 1)
    assert solved.recall("q") is None


def test_a_relative_folder_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    solved.keep("q", 1)
    assert [*(tmp_path / ".cache").iterdir()]
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("levels", "more"),
    [
        ([Level(1, 1)], {}),
        ([Level(3, 9)], {}),
        ([Level(1, 1, 1.0), Level(1, 1, 2.0), Level(1, 1, 4.0)], {"correlated": True}),
        ([Level(1, 1)], {"beside": [Level(1, 1)]}),
    ],
)
def test_what_is_written_of_dummies_is_read_to_the_last_bit(
    levels: list[Level], more: dict[str, Any]
) -> None:
    dummies = least_noise(levels, *TARGET, **more)
    assert isinstance(dummies, Independent | Correlated | Beside)
    assert dummies_of(json.loads(json.dumps(recorded(dummies)))) == dummies


def test_noise_is_searched_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = one_counter()
    monkeypatch.setattr(Counters, "meeting", None)
    assert one_counter() == first


@pytest.mark.parametrize(
    "answer",
    [
        recorded(Independent((Laplace(5, 3.0),))),  # epsilon 3
        recorded(Independent((Laplace(14, 1.0), Laplace(14, 1.0)))),  # of two levels
        {"law": "laplace", "mu": 14, "slope": 1.0},
        {"law": "independent", "laws": [{"law": "os.system"}]},
        {"law": "independent", "laws": [{"law": "gaussian", "mu": 9, "sigma": 1e200}]},
        recorded(Correlated((1,), Laplace(14, 1.0), Gaussian(9, 2.0))),  # nobody wants digits here
        recorded(Independent((Laplace(28, 0.5),))),  # private, and twice as wide as need be
        recorded(Independent((Gaussian(60, 8.0),))),
        [],
        {},
        7,
    ],
)
def test_noise_that_does_not_meet_its_target_is_thrown_away(tmp_path: Path, answer: object) -> None:
    first = one_counter()
    [file] = kept(tmp_path)
    whole = file.read_bytes()
    file.write_text(json.dumps(json.loads(whole) | {"answer": answer}))
    assert one_counter() == first
    assert file.read_bytes() == whole


def test_wider_noise_than_a_search_begins_with_is_thrown_away(tmp_path: Path) -> None:
    """Of what stands beside a statistic, too, and of noise that is made like another's."""
    levels, beside = (Level(1, 9), Level(1, 3)), (Level(1, 1),)

    def searched(at: float) -> Any:
        _forget()
        asked = {"drawers": ("shuffler",), "beside": beside, "releases": 1}
        first = design._least_error(levels, *TARGET, **asked)
        return first if at == 1 else design.another(first, at, 1e-6)

    for at in (1.0, 0.5):
        whole, last = searched(at), 1 if at == 1 else 2  # answers that are looked for
        for place in range(2):
            blocks = [*whole.dummies.blocks]
            blocks[place] = blocks[place].widened(1.2)
            forged = Beside(tuple(blocks))
            told = Counters((*levels, *beside), forged, TARGET[0], at, 1e-6, 1)
            assert told.guarantee.epsilon == at
            answers = [None] * (last - 1) + [recorded(forged)]
            with mock.patch.object(design, "recall", side_effect=answers) as recall:
                assert searched(at) == whole
            assert recall.call_count == last


@pytest.mark.parametrize("beside", [(), (Level(1, 1),)])
@pytest.mark.parametrize("more", [{}, {"releases": 20}, {"correlated": True}])
@pytest.mark.parametrize("epsilon", [0.2, 4.0])
def test_what_a_search_comes_to_is_kept(beside: Any, more: dict[str, Any], epsilon: float) -> None:
    """Or each run would search anew."""
    digits = (Level(1, 1, 1.0), Level(1, 1, 8.0), Level(1, 1, 64.0))
    asked = {"drawers": ("shuffler",), "beside": beside} | more
    found = []
    for _ in range(2):
        _forget()
        with mock.patch.object(Counters, "meeting", Counters.meeting if not found else None):
            found.append(design._least_error(digits, "add or remove", epsilon, 1e-6, **asked))
    assert found[0] == found[1]
    other = design.another(found[0], 1.1 * epsilon, 1e-6)
    design.another.cache_clear()
    with mock.patch.object(Counters, "meeting_another", side_effect=AssertionError):
        assert design.another(found[0], 1.1 * epsilon, 1e-6) == other


def test_a_plan_comes_to_the_same_from_what_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = job_of(tmp_path)
    monkeypatch.setattr(joint, "_largest", None)
    monkeypatch.setattr(Counters, "meeting", None)
    again = job_of(tmp_path)
    assert (again.design, again.guarantees) == (first.design, first.guarantees)


@pytest.mark.parametrize(
    "scales", [[1e6], [float("nan")], ["1.2"], [], [1.2] * 99, [0.5], {"scale": 1.2}, [1.2, None]]
)
def test_scales_that_do_not_fit_are_thrown_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scales: object
) -> None:
    first = job_of(tmp_path)
    monkeypatch.setattr(joint, "recall", lambda _: scales)
    again = job_of(tmp_path)
    assert (again.design, again.guarantees) == (first.design, first.guarantees)


def test_scales_that_spend_too_much_are_thrown_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = job_of(tmp_path)
    most = 1 / max(first.plan.spending(False).values())
    monkeypatch.setattr(joint, "recall", lambda _: [most - 1e-3])
    again = job_of(tmp_path)
    assert again.guarantees[0].epsilon <= 1
    assert (again.design, again.guarantees) == (first.design, first.guarantees)


def test_equal_metrics_have_one_design(tmp_path: Path) -> None:
    zones, streets, _ = job_of(tmp_path).metrics
    assert zones.design is streets.design


def test_what_another_draws_is_not_kept(tmp_path: Path) -> None:
    _forget()
    made = design._least_error(tuple(ONE), *TARGET, drawers=("job",), beside=())
    assert design.another(made, 0.5, 1e-6).epsilon == 0.5
    assert not (tmp_path / "cache").exists()


def test_a_plan_is_fingerprinted_once_however_many_metrics_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(tmp_path)
    design_of_all = job.design
    look = mock.Mock(wraps=metrics.mark)
    monkeypatch.setattr(metrics, "mark", look)
    assert job.design == design_of_all
    assert look.call_count == 2  # of the plan, and for its public seed


_DIGITS = Correlated((1, 2), Laplace(40, 0.2), Gaussian(20, 2.5))


@pytest.mark.parametrize(
    ("dummies", "built"),
    [
        (_DIGITS, True),
        (Beside((_DIGITS, Independent((Laplace(40, 0.1),)))), True),
        (Correlated((1, -1), _DIGITS.total, _DIGITS.mask), False),  # other weights
        (Correlated((1, 2, 4), _DIGITS.total, _DIGITS.mask), False),  # over what is beside
        (Beside((Independent((Laplace(14, 1.0),)), _DIGITS)), False),
        ((Laplace(14, 1.0),), False),
    ],
)
def test_only_what_a_search_builds_is_priced(dummies: object, built: bool) -> None:
    """A forged answer would else share one noise among counters that are no digits of one sum."""
    digits = (Level(1, 9, 1.0), Level(1, 9, 2.0))
    assert _built(dummies, digits) == built
    assert not _built(_DIGITS, ())
    assert not _built(_DIGITS, (Level(1, 9, 1.0), Level(1, 8, 2.0)))


def test_noise_that_tables_share_is_thrown_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its price is that of digits, and holds; but a user moves two sums of tables, not one."""
    monkeypatch.setattr(design, "errs_no_more", lambda *_, **__: True)  # however little it errs
    tables = (Level(1, 4), Level(1, 4))

    def searched() -> Any:
        _forget()
        return design._least_error(tables, *TARGET, drawers=("shuffler",), beside=(), releases=1)

    first = searched()
    [file] = kept(tmp_path)
    whole = file.read_bytes()
    forged = Correlated((1, -1), Laplace(600, 0.05), Gaussian(600, 40.0))
    assert Counters(tables, forged, *TARGET).guarantee.epsilon == 1
    file.write_text(json.dumps(json.loads(whole) | {"answer": recorded(forged)}))
    assert searched() == first
    assert file.read_bytes() == whole
