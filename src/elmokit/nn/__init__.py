"""The network: tensors in, tensors out. One biLM serves pretraining, embedding, fine-tuning and the tasks."""
