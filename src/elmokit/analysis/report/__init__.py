"""Report page that compares measured results with those of the paper."""
