"""`elmo serve`: the explorer page and an HTTP API."""
