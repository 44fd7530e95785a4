"""Embedding: sentences in, vectors out, in input order and in bounded memory."""
