"""Tests in the style of AllenNLP's own, of 2.10 and of 0.9, under its names. Run by test_allennlp_style.py.

The calls are those that AllenNLP's tests of ELMo make. The working folder has test_fixtures/elmo with options.json,
lm_weights.hdf5, sentences.json (rows of sentences) and lm_embeddings_<row>.hdf5 (top layer, both directions apart).
"""

import json
import sys

import h5py
import numpy
import pytest
import torch
from allennlp.commands import main
from allennlp.commands.elmo import ElmoEmbedder
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.testing import AllenNlpTestCase, requires_gpu
from allennlp.data import Instance, Token, Vocabulary
from allennlp.data.batch import Batch
from allennlp.data.data_loaders import SimpleDataLoader
from allennlp.data.dataset import Batch as OldBatch
from allennlp.data.fields import ListField, TextField
from allennlp.data.iterators import BasicIterator
from allennlp.data.token_indexers.elmo_indexer import ELMoTokenCharactersIndexer
from allennlp.data.token_indexers.single_id_token_indexer import SingleIdTokenIndexer
from allennlp.modules import ScalarMix
from allennlp.modules.elmo import Elmo, _ElmoBiLm, _ElmoCharacterEncoder
from allennlp.modules.elmo_lstm import ElmoLstm
from allennlp.modules.encoder_base import _EncoderBase
from allennlp.modules.token_embedders import ElmoTokenEmbedder, TokenEmbedder
from allennlp.nn.util import (
    get_lengths_from_binary_sequence_mask,
    remove_sentence_boundaries,
    sort_batch_by_length,
)

TEXTS = [["Green", "ideas", "sleep", "furiously"], ["They", "do"], ["Yes", ",", "they", "do", "!"]]


def instances_of(texts, **indexers):
    indexers = indexers or {"character_ids": ELMoTokenCharactersIndexer()}
    return [Instance({"elmo": TextField([Token(word) for word in text], indexers)}) for text in texts]


class ElmoCase(AllenNlpTestCase):
    def setup_method(self):
        super().setup_method()
        self.folder = self.FIXTURES_ROOT / "elmo"
        self.files = str(self.folder / "options.json"), str(self.folder / "lm_weights.hdf5")
        self.rows = json.loads((self.folder / "sentences.json").read_text())

    def expected(self, row):
        """The top layer of a row's sentences; None where no file has it."""
        path = self.folder / f"lm_embeddings_{row}.hdf5"
        if not path.is_file():
            return None
        with h5py.File(path, "r") as file:
            return [numpy.concatenate(file[str(k)][...], axis=-1) for k in range(len(self.rows[row]))]

    def both_ids(self, texts, kind=Batch):
        instances = instances_of(texts, character_ids=ELMoTokenCharactersIndexer(), tokens=SingleIdTokenIndexer())
        batch, vocab = kind(instances), Vocabulary.from_instances(instances)
        batch.index_instances(vocab)
        return vocab, batch.as_tensor_dict()["elmo"]


class TestBiLm(ElmoCase):
    def test_vectors_of_batches(self):
        bilm = _ElmoBiLm(*self.files)
        texts = [sentence.split() for batch in zip(*self.rows, strict=True) for sentence in batch]
        loader = SimpleDataLoader(instances_of(texts), 3)
        loader.index_with(Vocabulary())
        expected, compared = [self.expected(row) for row in range(3)], 0
        for k, batch in enumerate(loader):
            output = bilm(batch["elmo"]["character_ids"]["elmo_tokens"])
            top, mask = remove_sentence_boundaries(output["activations"][2], output["mask"])
            lengths = mask.data.numpy().sum(axis=1)
            assert lengths.tolist() == [len(row[k].split()) for row in self.rows]
            for row in range(3):
                if expected[row] is not None:
                    found = top[row, : lengths[row], :].data.numpy()
                    assert numpy.allclose(found, expected[row][k], atol=1e-6)
                    compared += 1
        assert len(loader) == len(self.rows[0]) and compared >= len(loader)

    def test_cached_words(self):
        vocab, tensors = self.both_ids(TEXTS)
        words = list(vocab.get_token_to_index_vocabulary("tokens").keys())
        characters, ids = tensors["character_ids"]["elmo_tokens"], tensors["tokens"]["tokens"]
        plain = _ElmoBiLm(*self.files)(characters, characters)
        cached = _ElmoBiLm(*self.files, vocab_to_cache=words)
        output = cached(characters, ids)
        numpy.testing.assert_array_equal(output["mask"].data.cpu().numpy(), plain["mask"].data.cpu().numpy())
        for found, layer in zip(output["activations"], plain["activations"], strict=True):
            numpy.testing.assert_array_almost_equal(found.data.numpy(), layer.data.numpy(), decimal=6)
        _, unseen = self.both_ids([[f"w{k}" for k in range(20)]])
        cached(unseen["character_ids"]["elmo_tokens"], unseen["tokens"]["tokens"])


class TestElmoModule(ElmoCase):
    def setup_method(self):
        super().setup_method()
        self.elmo = Elmo(*self.files, 2, dropout=0.0)
        self.dim = self.elmo.get_output_dim()

    def ids(self, texts):
        batch = Batch(instances_of(texts))
        batch.index_instances(Vocabulary())
        return batch.as_tensor_dict()["elmo"]["character_ids"]["elmo_tokens"]

    def test_shapes(self):
        for elmo, length in ((self.elmo, 5), (Elmo(*self.files, 2, keep_sentence_boundaries=True), 7)):
            output = elmo(self.ids(TEXTS))
            shapes = [list(vectors.size()) for vectors in output["elmo_representations"]]
            assert shapes == [[3, length, self.dim]] * 2 and list(output["mask"].size()) == [3, length]

    def test_documents(self):
        parts = [self.ids(TEXTS), self.ids([*reversed(TEXTS)])]
        together = self.elmo(torch.cat([ids.unsqueeze(1) for ids in parts], dim=1))
        for k, ids in enumerate(parts):
            self.elmo._elmo_lstm._elmo_lstm.reset_states()
            numpy.testing.assert_array_almost_equal(
                together["elmo_representations"][0][:, k].data.numpy(),
                self.elmo(ids)["elmo_representations"][0].data.numpy(),
            )

    def test_module(self):
        elmo = Elmo(None, None, 2, dropout=0.0, module=_ElmoBiLm(*self.files))
        assert len(elmo(self.ids(TEXTS))["elmo_representations"]) == 2

    def test_documents_of_cached_words(self):
        vocab, tensors = self.both_ids(TEXTS)
        characters, ids = tensors["character_ids"]["elmo_tokens"], tensors["tokens"]["tokens"]
        words = list(vocab.get_token_to_index_vocabulary("tokens"))
        outputs = []
        for expand in (lambda x: x, lambda x: torch.stack([x] * 4, dim=1)):
            elmo = Elmo(*self.files, 1, vocab_to_cache=words)
            elmo.eval()
            outputs.append(elmo(expand(characters), expand(ids))["elmo_representations"][0].data.numpy())
        for k in range(4):
            numpy.testing.assert_array_almost_equal(outputs[1][:, k], outputs[0])

    @pytest.mark.parametrize("requires_grad", [True, False])
    def test_gradients(self, requires_grad):
        embedder = ElmoTokenEmbedder(*self.files, requires_grad=requires_grad)
        embedder(torch.from_numpy(numpy.random.randint(0, 262, (3, 4, 50)))).sum().backward()
        gradients = [p.grad for name, p in embedder.named_parameters() if "_elmo_lstm" in name]
        assert gradients and all((gradient is not None) is requires_grad for gradient in gradients)

    def test_sentence_marks(self):
        encoder = _ElmoCharacterEncoder(*self.files)
        for place, mark in ((0, "<S>"), (2, "</S>")):
            rows = ELMoTokenCharactersIndexer().tokens_to_indices([Token(mark)], Vocabulary())["elmo_tokens"]
            vectors = encoder(torch.from_numpy(numpy.array(rows)).view(1, 1, -1))["token_embedding"].data.numpy()
            assert numpy.allclose(vectors[0, place], vectors[0, 1])

    def test_token_embedder(self):
        params = Params({"options_file": self.folder / "options.json", "weight_file": self.files[1]})
        params["projection_dim"] = 20
        embedder = ElmoTokenEmbedder.from_params(vocab=None, params=params)
        assert isinstance(embedder, TokenEmbedder) and embedder.get_output_dim() == 20
        word = [6, 5, 4, 3] + [0] * 46
        assert embedder(torch.LongTensor([[word, word]])).data.numpy().shape == (1, 2, 20)
        assert embedder(torch.LongTensor([[[word]]])).data.numpy().shape == (1, 1, 1, 20)


class TestIndexer(AllenNlpTestCase):
    def test_lists_of_texts(self):
        indexers = {"elmo": ELMoTokenCharactersIndexer()}

        def instance(*texts):
            fields = [TextField([Token(word) for word in text.split()], indexers) for text in texts]
            return Instance({"tokens": fields[0], "targets": ListField(fields)})

        batch = Batch([instance("one"), instance("two", "three four")])
        batch.index_instances(Vocabulary())
        targets = batch.as_tensor_dict()["targets"]["elmo"]["elmo_tokens"]
        assert targets.shape == (2, 2, 2, 50)
        numpy.testing.assert_array_equal(numpy.zeros((2, 50)), targets[0][1].numpy())
        assert targets[0][0][0].any() and targets[1][1].any(dim=-1).all()


class TestParts(AllenNlpTestCase):
    def setUp(self):
        super().setUp()
        self.encoder = _EncoderBase(stateful=True)
        self.mask = torch.ones(5, 7)
        self.mask[1, 6:] = self.mask[2, :] = self.mask[3, 2:] = self.mask[4, :] = 0
        lengths = get_lengths_from_binary_sequence_mask(self.mask)
        _, _, self.restoration, self.sorting = sort_batch_by_length(torch.rand(5, 7, 3), lengths)

    def test_states_are_sorted(self):
        states = torch.randn(6, 5, 7), torch.randn(6, 5, 7)
        run = _EncoderBase(stateful=False).sort_and_run_forward
        _, found, restoration = run(lambda *x: x, torch.rand(5, 7, 3), self.mask, states)
        for state, original in zip(found, states, strict=True):
            self.assertEqual(list(state.size()), [6, 3, 7])
            restored = torch.cat([state, torch.zeros(6, 2, 7)], 1).index_select(1, restoration)
            numpy.testing.assert_array_equal(restored[:, [0, 1, 3]].numpy(), original[:, [0, 1, 3]].numpy())

    def test_states_of_masked_rows_stay(self):
        self.assertIsNone(self.encoder._get_initial_states(5, 3, self.sorting))
        old, new = torch.randn(1, 5, 7), torch.randn(1, 5, 7)
        self.encoder._update_states((old, old), self.restoration)
        new[:, -2:] = 0
        self.encoder._update_states((new, new), self.restoration)
        for row in range(5):
            source = old if row in (2, 4) else new
            expected = source.index_select(1, self.restoration)[:, row]
            numpy.testing.assert_array_equal(self.encoder._states[0][:, row].numpy(), expected.numpy())

    @requires_gpu
    def test_on_a_gpu(self):
        ElmoLstm(3, 5, 7, 2).cuda()(torch.rand(5, 7, 3).cuda(), self.mask.cuda())

    def test_lstm(self):
        lstm = ElmoLstm(num_layers=2, input_size=3, hidden_size=5, cell_size=7, memory_cell_clip_value=2)
        output = lstm(torch.rand(5, 7, 3), self.mask.bool())
        numpy.testing.assert_array_equal(output.data[:, 3, 2:].numpy(), 0.0)
        assert list(lstm._states[0].size()) == [2, 5, 10] and list(lstm._states[1].size()) == [2, 5, 14]

    def test_mix(self):
        mix, layers = ScalarMix(3, do_layer_norm="scalar_norm_reg"), [torch.randn(3, 4, 5) for _ in range(3)]
        mask = numpy.ones((3, 4), dtype="int32")
        mask[1, 2:] = 0
        mix.gamma.data[0] = 0.5
        normed = [(x - x[mask == 1].mean()) / x[mask == 1].std() for x in (layer.numpy() for layer in layers)]
        result = mix(layers, torch.from_numpy(mask)).data.numpy()
        numpy.testing.assert_almost_equal(result, 0.5 * sum(normed) / 3, decimal=5)
        with pytest.raises(ConfigurationError):
            mix(layers[:2])


class TestOldDialect(ElmoCase):
    """As in 0.9: ids under field and indexer, `setUp`, the command."""

    def setUp(self):
        super().setUp()
        self.text, self.out = str(self.TEST_DIR / "in.txt"), str(self.TEST_DIR / "out.hdf5")

    def test_iterator_and_batch(self):
        vocab, tensors = self.both_ids(TEXTS, OldBatch)
        assert tensors["character_ids"].shape == (3, 5, 50) and tensors["tokens"].shape == (3, 5)
        assert vocab.get_token_from_index(int(tensors["tokens"][1, 1])) == "do"
        iterator = BasicIterator(2)
        iterator.index_with(vocab)
        batches = list(iterator(instances_of(TEXTS), num_epochs=2, shuffle=False))
        self.assertEqual([len(batch["elmo"]["character_ids"]) for batch in batches], [2, 1, 2, 1])
        self.assertTrue(torch.equal(batches[1]["elmo"]["character_ids"][0], tensors["character_ids"][2]))
        indexer = ELMoTokenCharactersIndexer()
        rows = indexer.tokens_to_indices([Token("a")], vocab, "elmo")["elmo"]
        padded = indexer.as_padded_tensor({"key": rows}, desired_num_tokens={"key": 3}, padding_lengths={})["key"]
        assert padded.shape == (3, 50)

    def run(self, lines, *flags):
        with open(self.text, "w") as file:
            file.writelines(f"{line}\n" for line in lines)
        files = ["--options-file", self.files[0], "--weight-file", self.files[1]]
        sys.argv = ["run.py", "elmo", self.text, self.out, *flags, *files]
        main()

    def test_command(self):
        lines = ["Michael bought eggs .", "test / this"]
        for flag, choose in (("--all", lambda x: x), ("--top", lambda x: x[2]), ("--average", lambda x: sum(x) / 3)):
            self.run(lines, flag)
            embedder = ElmoEmbedder(options_file=self.files[0], weight_file=self.files[1])
            expected = embedder.embed_batch([line.split() for line in lines])
            with h5py.File(self.out, "r") as file:
                assert set(file.keys()) == {"0", "1", "sentence_to_index"}
                assert json.loads(file.get("sentence_to_index")[0]) == {lines[0]: "0", lines[1]: "1"}
                for k in range(2):
                    numpy.testing.assert_allclose(file.get(str(k)), choose(expected[k]), rtol=1e-4, atol=1e-6)

    def test_keys(self):
        self.run(["a b", "c"], "--all", "--use-sentence-keys")
        with h5py.File(self.out, "r") as file:
            assert set(file.keys()) == {"a b", "c"}
        self.run(["a b", "a b"], "--all", "--forget-sentences")
        with h5py.File(self.out, "r") as file:
            assert set(file.keys()) == {"0", "1"}
        with pytest.raises(ConfigurationError):
            self.run(["A", "", "B"], "--all")

    def test_embedder(self):
        embedder = ElmoEmbedder(options_file=self.files[0], weight_file=self.files[1])
        texts = [sentence.split() for batch in zip(*self.rows, strict=True) for sentence in batch]
        found = list(embedder.embed_sentences(texts, 3))
        for k, expected in enumerate(self.expected(0)):
            numpy.testing.assert_array_almost_equal(found[3 * k][2], expected)
        assert embedder.embed_sentence([]).shape == (3, 0, 1024)
        assert len(list(embedder.embed_sentences([["This", "is", "a", "test"], []]))) == 2
