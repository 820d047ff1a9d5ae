"""What `import hushbeam` offers, what it costs, and what it refuses to stand for."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hushbeam
import mechanisms
from pipelines.errors import RequestError
from pipelines.metrics import registry
from pipelines.request.options import description, undashed
from tests.fakes.installed import FAKES, blocks, install

ROOT = Path(__file__).parents[2]
OURS = [name for name in registry.names() if name in registry._OURS]


def python(program: str, folder: Path, *paths: Path, **more: str) -> subprocess.CompletedProcess:
    """A process in a folder, which Python looks at first, with others after it."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (*paths, ROOT))), **more}
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip


def test_there_is_a_name_for_each_kind_and_few_others() -> None:
    assert len(hushbeam.__all__) == len({*hushbeam.__all__})
    kinds = {name.replace("-", "_") for name in OURS}
    others = {"Plan", "Ledger", "Release", "RunningTotals", "RequestError", "mechanisms"}
    others |= {"Session", "size", "compare", "site", "sql"}
    assert {*hushbeam.__all__} == kinds | others
    assert dir(hushbeam) == sorted(hushbeam.__all__)
    assert hushbeam.mechanisms is mechanisms
    assert hushbeam.RequestError is RequestError


def test_importing_it_imports_nothing_that_takes_long(tmp_path: Path) -> None:
    program = (
        "import sys; before = {*sys.modules}; import hushbeam;"
        "print(*sorted({name.partition('.')[0] for name in {*sys.modules} - before}"
        " - sys.stdlib_module_names))"
    )
    done = python(program, tmp_path)
    assert (done.stdout, done.stderr) == ("hushbeam\n", "")


@pytest.mark.parametrize("kind", OURS)
def test_a_function_says_what_the_kind_asks(kind: str) -> None:
    function, options = getattr(hushbeam, kind.replace("-", "_")), registry.options(kind)
    parameters = inspect.signature(function).parameters
    assert next(iter(parameters)) == "input"
    assert {*parameters} == {*options.model_fields} | {"ledger", "population", "beam", "debug"}
    text = " ".join(function.__doc__.split())
    for name, field in options.model_fields.items():
        if name in ("input", "output"):
            continue
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert (parameters[name].default is inspect.Parameter.empty) == field.is_required()
        assert " ".join(f"{name}: {undashed(str(description(field)))}".split()) in text
    assert function is getattr(hushbeam, kind.replace("-", "_"))


def test_a_name_that_is_none_tells_what_may_have_been_meant() -> None:
    with pytest.raises(AttributeError, match=r"no 'histogramm'; did you mean 'histogram'\?$"):
        hushbeam.histogramm  # noqa: B018
    with pytest.raises(AttributeError, match=r"it has: active_users, count, "):
        hushbeam.xyz  # noqa: B018
    assert not hasattr(hushbeam, "__wrapped__")


@pytest.mark.verify
def test_a_kind_of_another_distribution_is_a_function(tmp_path: Path) -> None:
    page = (ROOT / "docs/extending/your-own-metric.md").read_text("utf-8")
    (project,) = blocks(page, "toml")
    broken = 'even-share = "even_share.options:EvenShareOptions"\nbroken = "even_share.no:Options"'
    install(project.replace('even-share = "even_share.options:EvenShareOptions"', broken), tmp_path)
    program = (
        "import hushbeam, pyarrow as pa; from hushbeam import *\n"
        "even_share.__doc__.index('column: the column of integers')\n"
        "table = pa.table({'number': [2] * 700 + [1] * 300})\n"
        "print(hushbeam.even_share(table, column='number', epsilon=8).table['estimate'][0])\n"
        "try: broken(table)\n"
        "except hushbeam.RequestError as error: print(error)\n"
    )
    done = python(program, tmp_path, tmp_path, FAKES)
    assert done.returncode == 0, done.stderr
    estimate, complaint = done.stdout.splitlines()
    # Of 1,000 reports at epsilon 8 by grr a standard error is below 0.003.
    assert abs(float(estimate) - 0.7) < 0.03
    assert complaint.startswith("metric broken (even_share.no:Options) cannot be imported")


# ---- folders of the same names -------------------------------------------------------------------


def _own(folder: Path, form: str) -> str:
    """Something of a user's that has a name of ours, and where Python meets it."""
    name = form.partition(" ")[0]
    if form.endswith("a file"):
        (folder / f"{name}.py").touch()
        return str(folder / f"{name}.py")
    (folder / name).mkdir()
    (folder / name / "__init__.py").touch()
    return str(folder / name)


@pytest.mark.parametrize("form", ["pipelines", "transforms", "mechanisms", "pipelines a file"])
def test_a_folder_of_the_same_name_is_noticed(form: str, tmp_path: Path) -> None:
    place = _own(tmp_path, form)
    done = python("import hushbeam", tmp_path)
    last = done.stderr.splitlines()[-1]
    name = form.partition(" ")[0]
    assert done.returncode == 1
    assert last.startswith(
        f"ImportError: {place} is found before hushbeam's own package {name}: rename it, or keep "
    )
    command = python("import hushbeam_command as c, sys; sys.exit(c.entry())", tmp_path)
    assert (command.returncode, command.stdout) == (2, "")
    assert command.stderr == last.replace("ImportError", "hushbeam") + "\n"


def test_one_that_was_imported_already_is_noticed(tmp_path: Path) -> None:
    place = _own(tmp_path, "pipelines")
    program = f"import sys, pipelines; sys.path.remove(''); sys.path.insert(0, {str(ROOT)!r})\n"
    done = python(f"{program}import hushbeam", tmp_path)
    assert f"ImportError: {place} is found before" in done.stderr


@pytest.mark.skipif(sys.version_info < (3, 11), reason="python -P came with Python 3.11")
def test_where_python_does_not_look_at_the_folder_nothing_is_hidden(tmp_path: Path) -> None:
    _own(tmp_path, "pipelines")
    done = python("import hushbeam; hushbeam.count", tmp_path, PYTHONSAFEPATH="1")
    assert (done.returncode, done.stderr) == (0, "")


def test_folders_that_are_no_packages_hide_nothing_of_an_installed_one(tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    done = python("import hushbeam, pipelines.errors", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="workers look at the folder before 3.11")
@pytest.mark.verify
def test_worker_processes_look_where_their_command_does(tmp_path: Path, log: str) -> None:
    """The installed script does not look at the current folder, and nor must Beam's workers."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "__init__.py").write_text("raise SystemExit('not ours')")
    program = (
        "import sys; from hushbeam_command import entry; sys.argv[1:] = "
        f"['count', '--input', {log!r}, '--epsilon', '1', '--output', 'out', "
        "'--direct_running_mode=multi_processing', '--direct_num_workers=2']; entry()"
    )
    done = python(program, tmp_path, PYTHONSAFEPATH="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out" / "statement.json").exists()
