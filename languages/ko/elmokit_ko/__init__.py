"""A Korean biLM: the model `ko` of elmokit."""
