"""Statements and tables of every kind and deployment are what they were, bit for bit.

A change that is meant to change them says why in its commit, and rewrites what is expected:

    python -m tests.golden check mean       # runs the cases whose names begin so, shows differences
    python -m tests.golden rewrite mean     # makes what they leave behind what is expected

Where the processor, numpy or scipy differs from those that made a golden, the last bits do, too:
floats are then compared to 1e-6. Rewrite goldens where they are compared bit for bit.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.releases.signature import SIGNATURE, signing_key
from pipelines.verify.release import Verifier
from tests.golden.cases import BY_NAME, CASES
from tests.golden.comparison import FOLDER, differences
from tests.golden.record import record

pytestmark = pytest.mark.verify

OTHER_PAGES = {"train-sums", "train-dp-sgd"}  # of what no table and no statement has
LARGEST = 52_000  # characters of a golden: a reviewer reads its diff


@pytest.mark.parametrize("name", BY_NAME)
def test_a_release_is_what_it_was(name: str, workspace: Path) -> None:
    folder = workspace / "case"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        made = record(BY_NAME[name], folder)
    lines = differences(name, made)
    shown = "\n".join(lines[:20])
    assert not lines, f"{len(lines)} differences, among them:\n{shown}"
    verifier = Verifier((signing_key().public_key(),))
    for signature in folder.rglob(SIGNATURE):
        findings = verifier.of_release(str(signature.parent))
        assert not [one for one in findings if one.outcome == "fault"]
        if name not in OTHER_PAGES:
            assert [one.outcome for one in findings if one.subject == "pages"] == ["holds"]


def test_every_golden_has_a_case_and_can_be_read() -> None:
    files = {path.stem: path for path in FOLDER.iterdir()}
    assert files.keys() == {case.name for case in CASES}
    for path in files.values():
        assert len(path.read_text(encoding="utf-8")) <= LARGEST, path.name
