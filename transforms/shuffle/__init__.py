"""The shuffler, and its dummies: what comes out depends on the multiset of messages alone."""
