"""The engine: sentences in, vectors out, in order, at the speed of the machine's matrix product."""
