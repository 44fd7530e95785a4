"""The explorer page, and what serves it."""
