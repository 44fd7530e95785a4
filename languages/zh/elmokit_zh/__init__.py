"""A Chinese biLM: the model `zh` of elmokit."""
