"""The same figures by every other way: a plan, three parties, a stream; one job of each form.

Figures are as far from the truth as their stated errors allow once in 10^12, whichever way they
came; how large errors are, and how often intervals cover, is held to the commands.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.contract import examples, forms, runs
from tests.contract.test_figures import asked, every_case, most_cases_later
from tests.fakes.repeating import RUNNER, seeded

UNSERVED = (
    "cannot be divided among clients", "name a user_column", "--strings is missing",
    "level by level", "waits? for",
)  # fmt: skip
"""What the client says of forms that three parties do not serve, or not of rows alone."""


@pytest.fixture(autouse=True)
def log(workspace: Path) -> None:
    runs.write_inputs(workspace, examples.log())


SEALED, SEALED_FAR = 8, 160.0
"""The epsilon of sealed reports, so that dummies are few, and standard errors at most once in
10^12: noise is 0 but once in 1,500 times, and four (four errors of e^-8) are 155 of its errors."""


def require_near(truths: Any, release: str, far: float = runs.LAPLACE_FAR) -> None:
    for truth in truths:
        figures = runs.read(truth, examples.columns(), [Path(release)])
        off = abs(figures.estimate - figures.true)
        if figures.error is not None:
            assert (off <= far * figures.error + 1e-9 * figures.true).all()


def plan(kind: str, options: dict[str, Any], **said: Any) -> None:
    text = runs.plan([("m", kind, options)], input="log.parquet", output="out/{window}", **said)
    Path("plan.yaml").write_text(text)


@most_cases_later
def test_a_plan(kind: str, name: str, run) -> None:
    form, options = asked(kind, name)
    if form.refused or name == forms.HORIZON:  # as it is tried in test_figures: by a plan
        return
    plan(kind, options)
    assert run(["check", "plan.yaml"]).code == 0
    with seeded(f"plan {kind} {name}"):
        outcome = run(["run", "plan.yaml", "--window", "2024-05-08", RUNNER])
    assert outcome.code == 0, outcome.said
    if (kind, name) not in UNLABELLED:
        require_near(form.truths, "out/2024-05-08/m")


@pytest.mark.verify
@every_case
def test_three_parties(kind: str, name: str, run) -> None:
    form, options = asked(kind, name)
    sealed = "model" not in options
    # Numbers are digits among up to a million dummies, each sealed by itself: a minute and more.
    # tests/end_to_end/test_parties_counters.py has small ones.
    if form.refused or name == forms.HORIZON or (sealed and {"bounds", "number"} & options.keys()):
        return
    options |= {"epsilon": SEALED} if sealed else {"min_reports": options.get("min_reports", 2500)}
    plan(kind, options)
    assert run(["parties", "keys", "new", "keys"]).code == 0
    public, private = (str(next(Path("keys").glob(f"*.{k}.pem"))) for k in ("public", "private"))
    window = ["--window", "2024-05-08"]
    steps = [
        [
            "parties",
            "client",
            "plan.yaml",
            *window,
            "--input",
            "log.parquet",
            "--output",
            "sent.bin",
        ],
        ["parties", "shuffle", "plan.yaml", *window, "--input", "sent.bin", "--output", "mixed"],
        ["parties", "collect", "plan.yaml", *window, "--input", "mixed"],
    ]
    for words, more in zip(steps, ("--seal", "--seal", "--key"), strict=True):
        key = [more, public if more == "--seal" else private] if sealed else []
        if words[1] == "client" and {"enrolled", "user_column"} <= options.keys():
            users = dict.fromkeys(examples.columns()["user"].tolist())
            Path("devices.txt").write_text("\n".join(users))
            key += ["--devices", "devices.txt"]
        outcome = run([*words, *key])
        if outcome.code == 2 and words[1] == "client":
            assert re.search("|".join(UNSERVED), outcome.err), outcome.err
            return
        assert outcome.code == 0, outcome.said
    if (kind, name) not in UNLABELLED:
        require_near(form.truths, "out/2024-05-08/m", SEALED_FAR if sealed else runs.LAPLACE_FAR)


UNLABELLED = {("mean", "shuffler"), ("mean", "devices"), ("sum", "shuffler"), ("sum", "devices")}
