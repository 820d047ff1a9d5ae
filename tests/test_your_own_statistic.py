"""The first part of docs/extending/your-own-metric.md: one file, by all noises for totals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.metrics import registry
from tests.contract import examples, forms, runs
from tests.contract.test_ways import SEALED, SEALED_FAR, require_near
from tests.contract.truth import Key, Log, Truth
from tests.fakes.installed import FAKES, blocks, install
from tests.fakes.repeating import RUNNER, seeded

KIND = "share-of-total"
PAGE = (Path(__file__).parents[1] / "docs/extending/your-own-metric.md").read_text("utf-8")
FORMS = {"shuffler": {}, "devices": {"enrolled": examples.ROWS}, "job": {}}
ASKED = {
    "column": "size", "bounds": "0,63", "group_by": "team", "groups": "groups.txt",
    "expected": examples.ROWS, "epsilon": 2,
}  # fmt: skip


def parts(log: Log) -> dict[Key, float]:
    """What each group has of all, rows of other groups among them."""
    sums = examples.sum_of_all_groups(log)
    return {key: total / sum(sums.values()) for key, total in sums.items()}


TRUTHS = (Truth("share-of-total.parquet", parts, keys=("group",), shared=True),)


@pytest.fixture(autouse=True)
def installed(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The page's package, the contract's log, and no other test's imports."""
    runs.write_inputs(workspace, examples.log())
    site = workspace / "site"
    site.mkdir()
    (site / "share_of_total.py").write_text((FAKES / "share_of_total.py").read_text("utf-8"))
    points = f'"hushbeam.metrics"]\n{KIND} = "share_of_total:ShareOfTotalOptions"\n'
    install(f'[project]\nname = "{KIND}"\nversion = "1"\n[project.entry-points.{points}', site)
    monkeypatch.syspath_prepend(site)
    yield
    registry.options.cache_clear()


def test_the_page_shows_the_file() -> None:
    text = (FAKES / "share_of_total.py").read_text("utf-8")
    assert blocks(PAGE, "python")[0] == text
    assert len(text.splitlines()) <= 120


def test_it_is_offered_with_every_noise_that_serves_totals() -> None:
    assert forms.offered(KIND).keys() == FORMS.keys()


@pytest.mark.verify
@pytest.mark.parametrize("name", FORMS)
def test_its_figures_are_true(name: str) -> None:
    asked = ASKED | forms.offered(KIND)[name] | FORMS[name]
    runs.require_true(TRUTHS, runs.repeat(KIND, asked, 100, name))


@pytest.mark.verify
@pytest.mark.parametrize("name", FORMS)
def test_in_a_plan(name: str, run) -> None:
    write_plan(name)
    with seeded(f"{name} in a plan"):
        assert run(["check", "plan.yaml"]).code == 0
        assert run(["run", "plan.yaml", "--window", "2024-05-08", RUNNER]).code == 0
    require_near(TRUTHS, "out/2024-05-08/m")


@pytest.mark.verify
def test_by_three_parties(run) -> None:
    """Of the shuffler's dummies; where devices draw them each of them reports all of its rows.

    They are sealed one by one: at three times the epsilon of one figure all digits have few.
    """
    write_plan("shuffler", epsilon=3 * SEALED)
    plan = ["plan.yaml", "--window", "b"]
    assert run(["parties", "keys", "new", "keys"]).code == 0
    public, private = (str(next(Path("keys").glob(f"*.{k}.pem"))) for k in ("public", "private"))
    with seeded("by parties"):
        for words in (
            ["client", *plan, "--input", "log.parquet", "--output", "sent", "--seal", public],
            ["shuffle", *plan, "--input", "sent", "--output", "mixed", "--seal", public],
            ["collect", *plan, "--input", "mixed", "--key", private],
        ):
            outcome = run(["parties", *words])
            assert outcome.code == 0, outcome.said
    require_near(TRUTHS, "out/b/m", SEALED_FAR)


def write_plan(name: str, **more: float) -> None:
    """A plan of this kind alone, in a form."""
    asked = ASKED | forms.offered(KIND)[name] | FORMS[name] | more
    text = runs.plan([("m", KIND, asked)], input="log.parquet", output="out/{window}")
    Path("plan.yaml").write_text(text)
