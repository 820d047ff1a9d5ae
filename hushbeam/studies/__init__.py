"""Systems side by side on simulated releases of populations whose truth is known.

`studies` has what can be evaluated, each as data: systems, populations, a grid, a simulation, what
is measured and drawn. `engine` runs any of them; `systems` and `populations` are what they choose
from, and `papers` what one paper alone compares, attacks or draws, a file a paper.
"""

from pipelines.cli.commands import CHOICE, Command

EVALUATE = Command(
    "hushbeam.studies.command", "compare systems on made releases of known truth", CHOICE
)
