"""The network. One biLM serves pretraining, embedding, fine-tuning and the tasks.

Everything here is plain PyTorch: public operators, any device, any dtype, autograd. `elmokit.nn.cpu` has fast forms of
the same modules for CPUs.
"""
