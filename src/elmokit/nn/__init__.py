"""The network. One biLM serves pretraining, embedding, fine-tuning and the tasks.

Everything here is plain PyTorch: public operators, any device, any dtype, autograd. `elmokit.nn.cpu` has fast forms of
the same modules for CPUs.

Letters in shapes: B sentences, T steps (the longest sentence), N tokens of a packed batch, U distinct words, M
characters per word, F character filters, C LSTM cells, D projection size (so both directions together have 2D), L LSTM
layers per direction, V words of the vocabulary. The sentence marks are two special tokens, `<S>` and `</S>`, before and
after every sentence.
"""
