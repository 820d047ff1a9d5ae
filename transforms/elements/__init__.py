"""What goes from step to step: blocks, their packing and counting, and what a person watches."""
