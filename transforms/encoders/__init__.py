"""From rows to cells: pure functions of Arrow batches, which know no Beam."""
