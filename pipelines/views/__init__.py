"""What people see of releases and runs: on the screen, in words, and on pages."""
