"""Shared by all analyses: streams of layer vectors, word occurrences, plots, results files."""
