"""Studies over many runs of one task: ablation, sample efficiency and learned layer weights."""
