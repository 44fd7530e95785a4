"""Nearest-neighbor search in a corpus, by contextual or static vectors."""
