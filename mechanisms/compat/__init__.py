"""What reaches into scipy: each piece with the versions that it knows."""
