"""Beam's options of one command leave nothing behind for the next one in the process."""

from __future__ import annotations

import pytest

from pipelines.errors import RequestError
from pipelines.jobs.engine import prepared
from pipelines.jobs.run import beam_options
from transforms.files.systems import FileSystems


def test_words_that_nobody_knows_are_not_remembered(workspace) -> None:
    beam_options([])
    with pytest.raises(RequestError, match="unknown option: --bounds 0,1"):
        prepared(["--bounds", "0,1"])
    assert FileSystems.match(["*.none"])[0].metadata_list == []


def test_options_that_nobody_needed_are_not_those_of_the_next_command(monkeypatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(
        "apache_beam.io.filesystems.FileSystems.set_options",
        lambda options: told.append(options.get_all_options()["project"]),
    )
    prepared([])  # a plan that is checked, say: it looks at local names alone
    beam_options(["--project", "mine"])  # whoever makes these tells the file systems himself
    FileSystems.match(["*.none"])
    assert told == []
