"""What a release of strings knows is made once: to spell them took longer than to count them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.central import asked
from transforms.encoders.strings import words_of
from transforms.shuffle.crowds import Crowded


def test_strings_are_spelt_once_an_estimate() -> None:
    release = asked("strings", column="origin", delta=1e-6)
    words = words_of(pa.array(["a", "bc"], pa.large_string()), release.length)
    one, other = (Crowded(words, np.array([90, number]), 200) for number in (50, 60))
    known = release.evidence(one)
    assert release.evidence(one) is known
    assert (known.strings, known.figures["estimate"].tolist()) == (["a", "bc"], [90, 50])
    assert release.evidence(other).figures["estimate"].tolist() == [90, 60]
