"""What reaches into Beam: each piece with the version it was written for."""
