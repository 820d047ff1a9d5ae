"""What a mechanism, or a shuffled batch of its reports, reveals: computed, not promised."""
