"""Embedding: sentences in, vectors out, in input order and bounded memory."""
