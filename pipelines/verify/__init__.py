"""Whether a release is what it says: for who has no secret, and trusts nobody but the key."""
