"""Floor 0, the mathematics: what a device installs. Needs numpy, scipy and cryptography only."""
