"""Six tasks on top of ELMo, and what they share: inputs, encoders, the CRF, the fit loop, the run folder."""
