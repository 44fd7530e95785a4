"""Integrations with other libraries, one module or package each; imported on demand."""
