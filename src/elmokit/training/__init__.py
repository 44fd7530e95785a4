"""What every training run leaves on disk, be it a biLM or a task: checkpoints and metrics."""
