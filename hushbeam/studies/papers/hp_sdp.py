"""HP-SDP: eight systems that publish histograms of shuffled reports.

Source: Zhang, Xu, Xia, "Histogram publication under shuffled differential privacy", J. of Software
2022, figures 3 to 6; run again in docs/appendix/reproduction.md.
"""

from __future__ import annotations

SYSTEMS = ("laplace", "sh", "aue", "murs", "mixdump", "puredump", "hp-sm", "hp-sdp")
"""The systems of its figures; those with a closed form of their own stand under it there."""
