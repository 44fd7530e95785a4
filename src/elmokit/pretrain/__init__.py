"""Training the biLM on a corpus: text to batches, losses, the loop, checkpoints and perplexity."""
