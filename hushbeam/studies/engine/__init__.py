"""What all studies have in common: settings, runs that can be interrupted, tables, figures."""
