"""Mechanisms of a trusted collector: it sees the values and releases one noisy answer.

They are the yardstick for what local and shuffled collection cost, and the tool for releasing
facts about data that a collector holds in the clear anyway.
"""
