"""Text processing: tokenization, vocabularies, character ids and batching. Needs numpy, not torch."""
