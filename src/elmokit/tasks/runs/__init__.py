"""Training and loading task models: batches, layer cache, training loop, run folders, comparison of runs."""
