"""What is asked: one file for each kind, whoever adds the noise."""
