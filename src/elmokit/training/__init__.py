"""Shared by biLM and task training: checkpoints, metrics, settings and seeds."""
