"""End-to-end coreference by ranking spans (Lee et al. 2017)."""
