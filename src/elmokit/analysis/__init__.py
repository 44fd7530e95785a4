"""Analyses of the vectors as in the paper (Peters et al. 2018, section 5), for any model and data."""
