"""Local names with stars mean what Beam takes them for, and Beam is not imported for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from apache_beam.io.filesystems import FileSystems as Beams

from transforms.files.systems import FileSystems


@pytest.fixture
def tree(workspace: Path) -> Path:
    for name in ("a/x.json", "a/y.json", "b/x.json", ".c/x.json", "d/e/x.json", "z.json", "a/.h"):
        path = Path("root", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    Path("root/link").symlink_to("a")
    Path("root/x.link").symlink_to("a/x.json")
    Path("there").symlink_to("root")
    Path("root/new\nline").mkdir()
    Path("root/new\nline/x.json").touch()
    return workspace


@pytest.mark.parametrize(
    "pattern",
    ["root/*/x.json", "root/*", "root/a/*.json", "root/*/*", "root/a*/x*", "root/*/e/*.json",
     "there/*/x.json", "*/x.json", "*", "root/nothing/*", "root/z.json/*", "root/*.json",
     "root/**", "root/[ab]/x.json", "root/?/x.json", "root/link/*", "root/*/e",
     "./root/*/x.json", "root/a.*/x.json"],
)  # fmt: skip
def test_stars_mean_what_beam_takes_them_for(tree: Path, pattern: str) -> None:
    for name in (pattern, str(tree / pattern)):
        (ours,), (theirs,) = FileSystems.match([name]), Beams.match([name])
        assert sorted(file.path for file in ours.metadata_list) == sorted(
            file.path for file in theirs.metadata_list
        )
        assert {(f.size_in_bytes, f.last_updated_in_seconds) for f in ours.metadata_list} == {
            (f.size_in_bytes, f.last_updated_in_seconds) for f in theirs.metadata_list
        }


def test_a_folder_that_cannot_be_read_holds_nothing(tree: Path, monkeypatch) -> None:
    def denied(_: str) -> list[str]:
        raise PermissionError

    monkeypatch.setattr("os.listdir", denied)
    assert FileSystems.match(["root/*/x.json"])[0].metadata_list == []


def test_local_stars_need_no_beam(tree: Path) -> None:
    program = (
        "import sys; from transforms.files.systems import FileSystems as files;"
        "assert len(files.match(['root/*/x.json'])[0].metadata_list) == 4;"
        "assert not [name for name in sys.modules if name.startswith('apache_beam')]"
    )
    path = {"PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-c", program], check=True, env=path)
