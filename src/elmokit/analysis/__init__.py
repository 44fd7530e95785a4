"""What the vectors know: the analyses of the paper (Peters et al. 2018, section 5) on any model and any data."""
