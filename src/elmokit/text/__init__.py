"""From raw text to the numbers that the network reads. Needs numpy, never torch."""
