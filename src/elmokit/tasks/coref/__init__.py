"""End-to-end coreference resolution by span ranking (Lee et al. 2017)."""
