"""Word senses: disambiguation against WordNet, polysemous words, and one word in two sentences."""
