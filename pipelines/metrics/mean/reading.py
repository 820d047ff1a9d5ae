"""How means of randomised reports are to be read."""

READING = (
    "Numbers were clipped to their bounds and stochastically rounded to a grid (unbiased); then "
    "every report was randomised by itself. Decoded reports lie far outside of the bounds one by "
    "one, and their average is close to that of the numbers. Where that average falls outside the "
    "bounds, the estimate is the nearer bound.",
)
