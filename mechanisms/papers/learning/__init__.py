"""Training by papers whose runs protect nobody, or lose to a constant: for studies alone."""
