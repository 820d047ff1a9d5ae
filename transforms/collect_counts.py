"""Counting messages of few codes: the state of a collector that decodes afterwards."""

from __future__ import annotations

import numpy as np
from apache_beam import typehints
from numpy.typing import NDArray

from transforms.discover import Counted, CountMessages


@typehints.with_input_types(np.ndarray)
@typehints.with_output_types(Counted)
class CountCodes(CountMessages):
    """`CountMessages`, a hundred times as fast where a block has more messages than codes."""

    def add_input(self, state: Counted, messages: NDArray[np.uint64]) -> Counted:
        if self._mechanism.codes > messages.size:
            return super().add_input(state, messages)
        valid = self._mechanism.valid(messages)
        invalid = int(messages.size - np.count_nonzero(valid))
        counts = self._mechanism.count(messages[valid] if invalid else messages)
        np.add(state.counts, counts, out=state.counts)
        return Counted(state.counts, state.invalid + invalid)
