"""What is shipped: everything that a worker imports, and a floor that a device can carry."""

from __future__ import annotations

import ast
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
import tomllib
import yaml
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
FLOORS = ("mechanisms", "transforms", "pipelines", "hushbeam")
COMMAND = "hushbeam_command.py"


def shipped() -> set[str]:
    """The modules and data files of the floors, as they lie in the repository."""
    return {
        str(path.relative_to(ROOT))
        for floor in FLOORS
        for path in (ROOT / floor).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive, packed as Beam packs it when it gets --setup_file."""
    copy = tmp_path_factory.mktemp("copy") / "hushbeam"
    copy.mkdir()
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", COMMAND):
        shutil.copy(ROOT / name, copy)
    (copy / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "test_packaging.py", copy / "tests")  # setuptools would pack it
    for floor in FLOORS:
        shutil.copytree(ROOT / floor, copy / floor, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", "packed"],
        cwd=copy, check=True, capture_output=True,
    )  # fmt: skip
    (packed,) = (copy / "packed").glob("hushbeam-*.tar.gz")
    return packed


def test_the_archive_holds_all_floors_whole(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        packed = {name.partition("/")[2] for name in tar.getnames()}
    assert "pipelines/views/page.css" in packed
    assert shipped() <= packed
    assert {"pyproject.toml", "setup.py", "LICENSE", COMMAND} <= packed
    assert not [name for name in packed if name.startswith("tests")]


@pytest.mark.verify
def test_what_a_worker_installs_can_make_a_page(archive: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [sys.executable, *install, "--disable-pip-version-check", "--target", str(site), archive],
        check=True, capture_output=True,
    )  # fmt: skip
    installed = {
        str(path.relative_to(site))
        for floor in FLOORS
        for path in (site / floor).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert installed == shipped()
    assert (site / COMMAND).read_text() == (ROOT / COMMAND).read_text()
    (points,) = site.glob("hushbeam-*.dist-info/entry_points.txt")
    assert "hushbeam = hushbeam_command:entry" in points.read_text()
    program = "import pipelines.views.pages as r; print(r.__file__); print(len(r.styles()))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(site)}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    file, size = done.stdout.split()
    assert Path(file).is_relative_to(site)
    assert int(size) == len((ROOT / "pipelines" / "views" / "page.css").read_text("utf-8"))


@pytest.mark.verify
def test_a_wheel_of_the_archive_alone_runs_in_an_empty_folder(
    archive: Path, tmp_path: Path
) -> None:
    quiet = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    pip = [sys.executable, "-m", "pip"]
    subprocess.run(
        [*pip, "wheel", *quiet, "--no-build-isolation", "--wheel-dir", tmp_path, archive],
        check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("hushbeam-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        held = {name for name in packed.namelist() if ".dist-info/" not in name}
        (path,) = [name for name in packed.namelist() if name.endswith(".dist-info/METADATA")]
        facts = Metadata.from_email(packed.read(path), validate=True)  # as the index does
    assert held == {*shipped(), COMMAND}
    assert {f"{floor}/py.typed" for floor in FLOORS} | {"hushbeam/__init__.pyi"} <= held
    assert (facts.name, str(facts.version)) == ("hushbeam", project(ROOT)["version"])
    assert facts.license_expression == "Apache-2.0"
    assert facts.description_content_type == "text/markdown"
    assert facts.description == (ROOT / "README.md").read_text("utf-8")

    venv.create(tmp_path / "bare", with_pip=False)
    bare = tmp_path / "bare" / "bin" / "python"
    (site,) = (tmp_path / "bare" / "lib").glob("python*/site-packages")
    # All that this environment has, but the project itself: that is there by a .pth, which this
    # one does not follow.
    (site / "lent.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    subprocess.run([*pip, "--python", bare, "install", *quiet, wheel], check=True)
    empty = tmp_path / "empty"
    empty.mkdir()
    apart = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    program = "import hushbeam, hushbeam.beam as b; print(hushbeam.__file__, b.Count.__module__)"
    said = [
        subprocess.run(
            words, cwd=empty, env=apart, capture_output=True, text=True, check=True
        ).stdout.split()
        for words in ([bare, "-c", program], [bare.with_name("hushbeam"), "--version"])
    ]
    assert Path(said[0][0]).is_relative_to(site)
    assert str(facts.version) in said[1]


def top_level(path: Path) -> set[str]:
    """The packages that a module imports when it is itself imported."""
    names: set[str] = set()
    nodes = [*ast.parse(path.read_text("utf-8")).body]
    for node in nodes:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            names.add(node.module)
        elif isinstance(node, ast.ClassDef):
            nodes += node.body
    return {name.partition(".")[0] for name in names}


def required(words: list[str]) -> set[str]:
    """The distributions that pip installs for these, as far as this environment has them."""
    known, left = set[str](), [Requirement(word) for word in words]
    while left:
        word = left.pop()
        name = canonicalize_name(word.name)
        if name in known or (word.marker and not word.marker.evaluate({"extra": ""})):
            continue
        known.add(name)
        left += [Requirement(more) for more in distribution(word.name).requires or ()]
    return known


def test_what_is_imported_is_installed_with_the_project_alone() -> None:
    """Extras and what tests need are here, and not everywhere: Beam has orjson for clouds alone."""
    modules = [path for floor in FLOORS for path in (ROOT / floor).rglob("*.py")]
    # Nothing imports the shelf, and only a service its application: extras have what they need.
    apart = (ROOT / "hushbeam" / "studies", ROOT / "pipelines" / "serve" / "application.py")
    read = [path for path in modules if not any(map(path.is_relative_to, apart))]
    read.append(ROOT / COMMAND)
    own = {*FLOORS, Path(COMMAND).stem} | sys.stdlib_module_names
    imported = set().union(*map(top_level, read)) - own
    assert imported > {"apache_beam", "orjson", "pyarrow"}
    provided = {
        file.parts[0].partition(".")[0]
        for name in required(project(ROOT)["dependencies"])
        for file in distribution(name).files or ()
    }
    assert not imported - provided


def test_the_clients_package_says_what_the_whole_says() -> None:
    client, whole = ROOT / "clients" / "typescript", project(ROOT)
    facts = json.loads((client / "package.json").read_text())
    assert (facts["version"], facts["license"]) == (whole["version"], whole["license"])
    lock = json.loads((client / "package-lock.json").read_text())
    assert lock["version"] == facts["version"]
    crates = tomllib.loads((ROOT / "clients" / "rust" / "Cargo.toml").read_text())
    common = crates["workspace"]["package"]
    assert (common["version"], common["license"]) == (whole["version"], whole["license"])
    for language in ("typescript", "rust"):
        own = ROOT / "clients" / language / "LICENSE"
        assert own.read_bytes() == (ROOT / "LICENSE").read_bytes()


# Imports every module of the first floor where only what a device has can be imported, and lets a
# report travel from a client to a collector.
DEVICE = """
import importlib, pkgutil, sys

ALLOWED = {
    "numpy", "scipy", "cryptography", "mechanisms",
    "cffi", "_cffi_backend", "pycparser", "typing_extensions",  # what cryptography itself needs
} | sys.stdlib_module_names


class Device:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in ALLOWED and not top.startswith("_sysconfigdata"):  # Python's own
            raise ModuleNotFoundError(f"a device has no {name}", name=name)


sys.meta_path.insert(0, Device())
sys.path.insert(0, sys.argv[1])
try:
    import pyarrow
except ModuleNotFoundError:
    pass
else:
    sys.exit("nothing is blocked")

import mechanisms

modules = [found.name for found in pkgutil.walk_packages(mechanisms.__path__, "mechanisms.")]
for name in modules:
    importlib.import_module(name)

from mechanisms.catalog import build
from mechanisms.randomness import SecureRandom

olh = build("olh", epsilon=1.0, domain_size=100)
assert olh.estimate(olh.count(olh.perturb(list(range(100)), SecureRandom()))).shape == (100,)
print(*modules)
"""


def test_a_device_needs_numpy_scipy_and_cryptography_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DEVICE, str(ROOT)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    walked = {name.replace(".", "/") for name in done.stdout.split()}
    modules = (ROOT / "mechanisms").rglob("*.py")
    lying = {str(p.relative_to(ROOT).with_suffix("")).removesuffix("/__init__") for p in modules}
    assert lying - {"mechanisms"} == walked


# ---- the distribution of a device ------------------------------------------------------------


def project(folder: Path) -> dict[str, object]:
    """What a pyproject.toml says of its distribution."""
    facts: dict[str, object] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return facts


def test_a_devices_distribution_says_what_the_whole_says() -> None:
    device, whole = project(ROOT / "deploy" / "device"), project(ROOT)
    for fact in ("version", "requires-python", "license"):
        assert device[fact] == whole[fact]
    assert set(device["dependencies"]) < set(whole["dependencies"])
    assert {word.partition(">")[0] for word in device["dependencies"]} == {
        "cryptography", "numpy", "scipy",
    }  # fmt: skip
    # Workers that pack the whole with --setup_file could not fetch another distribution.
    for needed in (whole["dependencies"], *whole["optional-dependencies"].values()):
        assert not [word for word in needed if word.startswith("hushbeam")]


# A value goes from a device to a collector, sealed, and one that comes back has the same message.
REPORTS = """
import json, os
from importlib.util import find_spec

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import mechanisms
from mechanisms.catalog import build
from mechanisms.memoised import MemoisedClient
from mechanisms.randomness import SecureRandom
from mechanisms.wire import binary
from mechanisms.wire.identity import ReportIds
from mechanisms.wire.report import Reports
from mechanisms.wire.screening import Expected
from mechanisms.wire.sealing import KeyRing, seal

olh = build("olh", epsilon=4.0, domain_size=10)
messages = olh.perturb(np.arange(4000) % 5, SecureRandom())
estimate = olh.estimate(olh.count(messages))

grr, plan, secret = build("grr", epsilon=2.0, domain_size=10), bytes(16), os.urandom(32)
client, key = MemoisedClient(secret, plan, 0, grr), X25519PrivateKey.generate()
message = client.report([3])
ids = ReportIds(secret, plan, 0, "2026-11-20").of_device()
sealed = seal(Reports.identified(plan, 0, message, ids), key.public_key())
upload = binary.encode(sealed)
ring = KeyRing([key])
expected = Expected(plan, (grr,), sealed.form)
opened = ring.open(binary.decode(upload, expected).reports).reports

absent = ("pipelines", "transforms", "hushbeam", "apache_beam", "pyarrow", "pydantic", "sklearn")
print(json.dumps({
    "from": mechanisms.__file__,
    "found": [name for name in absent if find_spec(name)],
    "estimate": estimate.tolist(),
    "error": max(float(olh.variance(share, n=4000)) ** 0.5 for share in (0.2, 0.0)),
    "same": bool(client.report([3]) == message),
    "opened": opened.records["message"].tolist() == message.tolist(),
}))
"""


def _lend(packages: tuple[str, ...], folder: Path) -> None:
    """Some of this environment's distributions, and no others."""
    folder.mkdir()
    for package in packages:
        files = distribution(package).files
        for top in {file.parts[0] for file in files if file.parts[0] != ".."}:
            (folder / top).symlink_to(distribution(package).locate_file(top))


@pytest.mark.verify
def test_a_devices_distribution_runs_with_what_it_says_it_needs(tmp_path: Path) -> None:
    copy, quiet = tmp_path / "tree", ["--quiet", "--disable-pip-version-check", "--no-index"]
    for folder in ("mechanisms", "deploy/device"):
        ignored = shutil.ignore_patterns("__pycache__", "build")
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *quiet, "--no-deps", "--no-build-isolation",
         "--wheel-dir", tmp_path, copy / "deploy" / "device"],
        check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("hushbeam_device-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        held = {name for name in packed.namelist() if ".dist-info/" not in name}
        licence = f"{wheel.stem.partition('-py3')[0]}.dist-info/licenses/LICENSE"
        assert packed.read(licence) == (ROOT / "LICENSE").read_bytes()
    assert held == {name for name in shipped() if name.startswith("mechanisms/")}

    venv.create(tmp_path / "bare", with_pip=False)
    bare = tmp_path / "bare" / "bin" / "python"
    (site,) = (tmp_path / "bare" / "lib").glob("python*/site-packages")
    _lend(("numpy", "scipy", "cryptography", "cffi", "pycparser"), tmp_path / "lent")
    (site / "lent.pth").write_text(f"{tmp_path / 'lent'}\n")
    pip = [sys.executable, "-m", "pip", "--python", bare]
    subprocess.run([*pip, "install", *quiet, wheel], check=True, capture_output=True)
    subprocess.run([*pip, "check"], check=True, capture_output=True)
    done = subprocess.run(
        [bare, "-c", REPORTS], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={name: text for name, text in os.environ.items() if name != "PYTHONPATH"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert Path(said["from"]).is_relative_to(site)
    assert (said["found"], said["same"], said["opened"]) == ([], True, True)
    # Ten shares beyond 7 standard errors: by chance below 1e-10.
    off = [abs(share - (k < 5) / 5) for k, share in enumerate(said["estimate"])]
    assert max(off) < 7 * said["error"]


@pytest.mark.verify
def test_a_wheel_is_of_a_commit_alone_and_comes_out_the_same(tmp_path: Path) -> None:
    built = runpy.run_path(str(ROOT / "deploy" / "distributions.py"))["built"]
    clone = tmp_path / "clone"
    clone.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    for floor in FLOORS:
        (clone / floor).mkdir()
        (clone / floor / "__init__.py").write_text('"""A floor."""\n')

    def git(*words: str, date: str = "@1700000000 +0000") -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(
            ["git", *who, *words], cwd=clone, check=True, capture_output=True,
            env=os.environ | {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date},
        )  # fmt: skip

    def wheel(turn: str) -> bytes:
        (tmp_path / turn).mkdir()
        return built("wheel", tmp_path / turn, clone).read_bytes()

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "one")
    first = wheel("first")
    (clone / "mechanisms" / "stray.py").write_text("secret = 1\n")
    (clone / "mechanisms" / "__init__.py").chmod(0o600)
    os.utime(clone / "mechanisms" / "__init__.py", (0, 1_000_000_000))
    before = os.umask(0o077)
    try:
        assert wheel("second") == first
    finally:
        os.umask(before)
    # Another commit's is another, so that the comparison can fail.
    git("commit", "--quiet", "--allow-empty", "--message", "two", date="@1800000000 +0000")
    assert wheel("third") != first


def test_the_workflow_that_publishes_is_pinned_and_trusted_with_little() -> None:
    flow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    assert flow[True] == {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+"]}}  # YAML reads `on` as true
    assert flow["permissions"] == {}
    build, publish = flow["jobs"]["build"], flow["jobs"]["publish"]
    assert build["permissions"] == {"contents": "read"}
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"] == "release"
    uses = [step["uses"] for job in (build, publish) for step in job["steps"] if "uses" in step]
    assert len(uses) == 6
    assert [use for use in uses if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", use)] == []
    assert "make dist" in [step.get("run") for step in build["steps"]]
    assert [step for step in publish["steps"] if "run" in step] == []  # no code of ours has a token


def test_a_pull_request_has_to_pass_what_a_desk_runs_and_is_trusted_with_nothing() -> None:
    flow = yaml.safe_load((ROOT / ".github" / "workflows" / "pull-request.yml").read_text())
    assert [*flow[True]] == ["pull_request"]  # not `pull_request_target`, which has secrets
    assert flow["permissions"] == {"contents": "read"}
    steps = flow["jobs"]["check"]["steps"]
    uses = [step["uses"] for step in steps if "uses" in step]
    assert [use for use in uses if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", use)] == []
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]
    assert not steps[0]["with"]["persist-credentials"]


def test_what_no_index_has_yet_is_advised_only_for_when_it_is_published() -> None:
    texts = [
        *ROOT.glob("*.md"), *ROOT.glob("*.toml"), ROOT / "Makefile",
        *(p for top in (*FLOORS, "docs", "deploy", "examples", "benchmarks", "clients")
          for p in (ROOT / top).rglob("*")
          if p.suffix in {".py", ".md", ".html", ".yaml"} and "node_modules" not in p.parts),
    ]  # fmt: skip
    advice = re.compile(
        r"(pip install (--?\w[\w-]* )*['\"]?hushbeam(?!` any more)|npm install hushbeam)"
    )

    def unconditional(text: str) -> bool:
        """Whether a paragraph, with the code that follows it, lacks the condition."""
        condition = re.compile(r"\bonce\b.*\bpublished\b", re.S | re.I)
        parts = re.split(r"\n\s*\n(?!```)", text)
        return any(advice.search(part) and not condition.search(part) for part in parts)

    bad = [str(p.relative_to(ROOT)) for p in texts if unconditional(p.read_text("utf-8"))]
    assert bad == []
    assert unconditional("pip install 'hushbeam[gcp]'")
    assert unconditional("Once more: it is published.\n\nnpm install hushbeam-client")
    assert not unconditional("pip install '.[gcp]' in a clone")
    assert not unconditional("Once it is published: `pip install hushbeam`.")
