"""Systems that papers compose of mechanisms defined elsewhere: one file a paper."""
