"""Linear classifiers that predict tags from the vectors of each layer."""
