"""Six supervised tasks on top of ELMo, and their shared inputs, encoders, CRF, training loop and run folders."""
