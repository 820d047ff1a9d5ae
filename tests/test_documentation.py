"""The documentation as a site: every link leads somewhere, nothing is loaded from elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
WRITTEN = [path for path in sorted(DOCS.rglob("*.md")) if path.parent.name != "reference"]
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
# What a browser fetches by itself; a link that a reader may follow is none of these.
_FETCHED = {"script", "link", "img", "iframe", "source", "video", "audio", "object", "embed"}


class Fetched(HTMLParser):
    """Addresses that a page loads, and those that its links lead to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.classes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        addresses = [said[name] for name in ("src", "href", "srcset", "data") if name in said]
        self.classes |= {*said.get("class", "").split()}
        if tag in _FETCHED:
            self.loaded += addresses
        elif tag == "a":
            self.links += addresses


def _mkdocs(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", *arguments], cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documentation") / "site"
    done = _mkdocs("--site-dir", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.verify
def test_every_page_is_in_the_navigation(site: Path) -> None:
    links = {*Fetched((site / "index.html").read_text("utf-8")).links}
    pages = [*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")]
    assert len(pages) > 30
    for page in pages:
        built = page.relative_to(DOCS).with_suffix(".html").as_posix()
        assert (site / built).is_file(), built
        assert built in links, built


@pytest.mark.verify
def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        fetched = Fetched(page.read_text("utf-8"))
        assert [one for one in fetched.loaded if re.match(r"\w+:(?!image/)|//", one)] == []
        assert "mermaid" not in fetched.classes, page  # the theme would fetch what draws it
    for style in site.rglob("*.css"):
        assert re.findall(r"(?:@import|url\()\s*['\"]?(?:https?:)?//", style.read_text()) == []


@pytest.mark.verify
def test_functions_that_are_made_at_run_time_are_in_the_reference(site: Path) -> None:
    page = (site / "reference" / "hushbeam.html").read_text("utf-8")
    for name in ("histogram", "vector_mean", "count"):
        assert f"hushbeam.{name}</code>" in page
    assert "the privacy loss of the release" in page
    assert "removed_with" in page
    assert "&gt;&gt;&gt; " in (site / "reference" / "mechanisms.html").read_text("utf-8")


@pytest.mark.verify
@pytest.mark.parametrize("link", ["gone.md", "there.md#gone", "#gone", "there.md"])
def test_a_link_that_leads_nowhere_fails(link: str, tmp_path: Path) -> None:
    """The settings are the site's; its pages are two."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Here\n\n[a link]({link})\n")
    (tmp_path / "docs" / "there.md").write_text("# There\n")
    (tmp_path / "mkdocs.yml").write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: docs\nsite_dir: site\nhooks: []\nplugins: []\n"
        "nav: [{Here: index.md}, {There: there.md}]\n"
    )
    done = _mkdocs("--config-file", str(tmp_path / "mkdocs.yml"))
    assert (done.returncode == 0) == (link == "there.md"), done.stderr
    assert done.returncode == 0 or "gone" in done.stderr


def _shown(notebook: Path) -> list[str]:
    """What the cells print."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    outputs = [one for cell in cells for one in cell.get("outputs", [])]
    return ["".join(one["text"]) for one in outputs if one["output_type"] == "stream"]


@pytest.mark.verify
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_executed(notebook: Path, tmp_path: Path) -> None:
    folder = tmp_path / "docs" / "notebooks"
    folder.mkdir(parents=True)
    (tmp_path / "docs" / "figures").mkdir()
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    copy = Path(shutil.copy(notebook, folder))
    done = subprocess.run(
        [sys.executable, ROOT / "deploy" / "notebooks.py", copy], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    cells = [one for one in json.loads(copy.read_text("utf-8"))["cells"] if "outputs" in one]
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    # What is committed was executed, too, and fetches nothing.
    text = notebook.read_text("utf-8")
    assert [one for one in ('"execution_count": null', "<script", "https:") if one in text] == []
    assert len(_shown(copy)) == len(_shown(notebook)) > 0
    if notebook.stem == "choosing":  # nothing is drawn in it
        assert _shown(copy) == _shown(notebook)
        drawn = {path.name for path in (tmp_path / "docs" / "figures").iterdir()}
        assert drawn == {path.name for path in (DOCS / "figures").glob("choosing-*")}


def test_there_are_two_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["choosing", "from-python"]


def test_every_page_begins_with_who_needs_it_and_what_for() -> None:
    for path in WRITTEN:
        _, first, *_ = path.read_text("utf-8").split("\n\n")
        assert first.startswith("For "), path.name
        assert len(first.split()) <= 50, path.name


def test_a_test_that_a_page_names_is_there() -> None:
    """A page that shows a claim by a test must not outlive it."""
    named = {name for page in WRITTEN for name in re.findall(r"`(test_\w+)`", page.read_text())}
    sources = [p.read_text() for p in (ROOT / "tests").rglob("*.py") if "mutants" not in p.parts]
    there = {name for source in sources for name in re.findall(r"def (test_\w+)", source)}
    assert len(named) > 20
    assert named <= there, named - there


def test_lines_of_pages_are_short() -> None:
    """100 characters, and a few more where a line would else begin as a list does."""
    for path in WRITTEN:
        prose = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        long = [line for line in prose.splitlines() if len(line) > 110 and line[0] not in "|!<[ "]
        assert not long, (path.name, long)
