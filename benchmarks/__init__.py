"""Speed, memory and accuracy, measured. Never asserted on: machines differ."""
