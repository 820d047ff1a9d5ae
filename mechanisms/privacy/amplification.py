"""What shuffling adds: the guarantee of a whole batch, from that of one report."""

from mechanisms.privacy.shuffled import shuffled_delta, shuffled_epsilon

__all__ = ["shuffled_delta", "shuffled_epsilon"]
