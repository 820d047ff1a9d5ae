"""Execute the notebooks of docs/notebooks, each in its folder, and keep what they show."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def executed(path: Path) -> None:
    """Execute a notebook and write it back.

    Args:
        path: of the notebook; its folder is the current one of its cells.

    Raises:
        CellExecutionError: a cell has raised.
    """
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(
        notebook, kernel_name="python3", resources=resources, record_timing=False
    ).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            # Beam has every notebook fetch scripts from elsewhere; nothing here needs them.
            cell.outputs = [
                one for one in cell.outputs if "application/javascript" not in one.get("data", {})
            ]
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        executed(Path(name).resolve())
