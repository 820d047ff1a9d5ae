"""What is shipped: everything that a worker imports, and a floor that a device can carry."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLOORS = ("mechanisms", "transforms", "pipelines")


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
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
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
    assert "pipelines/metrics/histogram/page.html" in packed
    assert shipped() <= packed
    assert {"pyproject.toml", "setup.py"} <= packed


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
    program = (
        "import pipelines.metrics.mean.view as r, importlib.resources as i; print(r.__file__); "
        "print(len(i.files('pipelines.metrics.mean').joinpath('page.html').read_text('utf-8')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(site)}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    file, size = done.stdout.split()
    assert Path(file).is_relative_to(site)
    assert int(size) == len(
        (ROOT / "pipelines" / "metrics" / "mean" / "page.html").read_text("utf-8")
    )


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
