"""A report of every enrolled device: of those without rows, too, and nobody sees of which."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa

from mechanisms.counters.levels import Layout, Level
from tests.oracles.transforms import run, source
from transforms.elements.conservation import PASSED
from transforms.encoders.block import SlotBlock
from transforms.encoders.users import UserDigest
from transforms.units.enrolled import UNKNOWN, OfEnrolled, listed

LAYOUT = Layout((Level(2, 300), Level(1, 4)))
USERS = UserDigest("user", 12345, as_text=True)


def digests(*names: str) -> np.ndarray:
    return USERS(pa.array(names))


def reports(words: list[list[int]], *names: str) -> list[SlotBlock]:
    """A block for each user, as steps before hand them on."""
    rows = np.array(words, np.uint16).reshape(len(names), 1, 3)
    return [SlotBlock(row, digests(name)) for row, name in zip(rows, names, strict=True)]


def of_enrolled(blocks: list[SlotBlock]):
    """(words, users, counters, flow) of what leaves."""

    def road(p):
        blocks_, _, (flow,) = p | source(blocks, SlotBlock) | OfEnrolled("list", LAYOUT, USERS)
        kept = blocks_ | "Blocks" >> beam.Map(lambda block: ("block", block))
        return (kept, flow) | beam.Flatten()

    outcome = run(road)
    found = [value for name, value in outcome.elements if name == "block"]
    flow = [pair for pair in outcome.elements if pair[0] != "block"]
    words = np.concatenate([block.words for block in found])
    return words, np.concatenate([block.users for block in found]), outcome.counters, flow


def test_each_device_of_the_list_sends_in_an_order_that_rows_do_not_change(workspace: Path) -> None:
    names = [str(name) for name in range(40)]
    Path("list").write_text("\r\n".join(names) + "\n\n7\n")
    idle = LAYOUT.idle(1)[0].tolist()
    nobody = of_enrolled([])
    assert nobody[0].tolist() == [idle] * 40
    assert nobody[2:] == ({}, [(PASSED, 0)])
    said = [[0, 299, 303], [5, 304, 305], [1, 2, 305]]
    words, users, counted, flow = of_enrolled(reports(said, "39", "3", "stranger"))
    assert users.tolist() == nobody[1].tolist() == sorted(digests(*names).tolist())
    rows = dict(zip(users.tolist(), words.tolist(), strict=True))
    assert [rows[one] for one in digests("39", "3").tolist()] == said[:2]
    assert sum(row != idle for row in words.tolist()) == 2
    assert (counted, flow) == ({UNKNOWN: 1}, [(PASSED, 3)])


def test_a_list_is_read_a_part_at_a_time(workspace: Path, monkeypatch) -> None:
    monkeypatch.setattr("transforms.units.enrolled._BYTES", 10)
    names = [b"n%d" % n * (1 + n % 7) for n in range(50)]
    Path("list").write_bytes(b"\n".join(names))
    parts = [*listed("list")]
    assert [name for part in parts for name in part] == names
    assert len(parts) > 5
