"""Unknown strings: those that enough units hold, of which none was declared, and how many do."""
