"""A corpus as batches: complete, reproducible, resumable, divisible, bounded."""

from __future__ import annotations

import json
import lzma
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import chain, islice, pairwise
from pathlib import Path

import compressed
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.errors import ConfigError, InputError
from elmokit.pretrain.corpus import Corpus, Position, Share, count_overlap, split_sentence


def write_shards(folder: Path, n_shards: int = 3, n_lines: int = 40) -> list[list[str]]:
    """Shards of sentences of 1 to 9 tokens with blank lines between; returns the sentences, no two alike."""
    sentences = []
    for shard in range(n_shards):
        lines = []
        for line in range(n_lines):
            tokens = [f"w{shard}.{line}", *["the"] * ((7 * line + shard) % 9)]
            sentences.append(tokens)
            lines += [" ".join(tokens), *["", " \t"][: line % 3]]
        (folder / f"part-{shard}.txt").write_text("\n".join(lines), encoding="utf-8")
    return sentences


def epoch_of(corpus: Corpus, **options: int) -> list[Share]:
    """The first epoch's batches."""
    shares = []
    for share in corpus.batches(batch_tokens=options.pop("batch_tokens", 30), **options):  # type: ignore[arg-type]
        shares.append(share)
        if share.position.epoch:
            return shares
    raise AssertionError("batches never end")


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    """Three shards in several windows."""
    write_shards(tmp_path)
    return Corpus(tmp_path / "*.txt", window_tokens=200)


def test_an_epoch_holds_every_sentence_once(tmp_path: Path) -> None:
    sentences = write_shards(tmp_path)
    shares = epoch_of(Corpus(tmp_path / "*.txt", window_tokens=200))
    assert sorted(tokens for share in shares for tokens in share.sentences) == sorted(sentences)
    assert {share.position.shard for share in shares} == {0, 1, 2}  # several windows, so this is about their seams
    assert sum(share.n_tokens for share in shares) == sum(len(tokens) + 1 for tokens in sentences)


def test_batches_are_alike_in_length_within_and_in_size_between(corpus: Corpus) -> None:
    for share in epoch_of(corpus, batch_tokens=50):
        lengths = [len(tokens) for tokens in share.sentences]
        assert lengths == sorted(lengths, reverse=True)
        assert max(lengths) - min(lengths) <= 4
        assert share.n_tokens == sum(lengths) + len(lengths)
        assert 50 / 2 - 10 < share.n_tokens < 50 + 10  # no leftovers


def test_windows_and_batches_are_shuffled(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(f"w{i}" for i in range(1000)), encoding="utf-8")
    corpus = Corpus(tmp_path / "a.txt", window_tokens=1000)
    numbers = [int(tokens[0][1:]) for share in epoch_of(corpus, batch_tokens=20) for tokens in share.sentences]
    first, second = numbers[:500], numbers[500:]
    assert sorted(first) == list(range(500)) and sorted(second) == list(range(500, 1000))  # windows in order
    for half in (first, second):
        steps = sum(abs(b - a) for a, b in pairwise(half)) / 499
        assert 120 < steps < 210  # 167 for a random order, 1 for none


def test_longest_sentences_do_not_come_first(corpus: Corpus) -> None:
    longest = [max(map(len, share.sentences)) for share in epoch_of(corpus)]
    assert longest != sorted(longest, reverse=True)


def test_same_seed_same_batches_other_seed_others(corpus: Corpus) -> None:
    assert epoch_of(corpus, seed=1) == epoch_of(corpus, seed=1)
    assert epoch_of(corpus, seed=1) != epoch_of(corpus, seed=2)


def test_the_sequence_is_one_for_all_machines(tmp_path: Path) -> None:
    """As a first run gave it: a change here breaks the resume of runs begun before it."""
    (tmp_path / "a.txt").write_text("a\nb b\nc\nd d\ne e e\n", encoding="utf-8")
    shares = epoch_of(Corpus(tmp_path / "a.txt"), batch_tokens=5, seed=3)
    assert [[tokens[0] for tokens in share.sentences] for share in shares] == [["b"], ["d", "a", "c"], ["e"]]


def test_epochs_differ(corpus: Corpus) -> None:
    batches = corpus.batches(batch_tokens=30)
    epochs: list[list[list[list[str]]]] = [[], []]
    for share in batches:
        if share.epoch == 2:
            break
        epochs[share.epoch].append(share.sentences)
    first, second = ([tokens for sentences in epoch for tokens in sentences] for epoch in epochs)
    assert sorted(first) == sorted(second) and first != second


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**40), batch_tokens=st.integers(1, 80), window_tokens=st.integers(1, 600))
def test_resumed_at_any_point_it_goes_on_the_same(
    tmp_path_factory: pytest.TempPathFactory, seed: int, batch_tokens: int, window_tokens: int
) -> None:
    folder = tmp_path_factory.mktemp("corpus")
    write_shards(folder, n_shards=2, n_lines=12)
    corpus = Corpus(folder / "*.txt", window_tokens=window_tokens, max_sentence=5)
    run = corpus.batches(batch_tokens=batch_tokens, seed=seed)
    whole = []
    while not whole or whole[-1].epoch < 2:  # two epochs and a bit
        whole.append(next(run))
    for done, share in enumerate(whole[:-1], 1):
        position = Position(**json.loads(json.dumps(asdict(share.position))))
        again = list(islice(corpus.batches(batch_tokens=batch_tokens, seed=seed, start=position), 4))
        assert again[: len(whole) - done] == whole[done : done + 4]


@pytest.mark.parametrize("world", [2, 3, 7])
def test_shares_of_all_processes_are_the_batch_of_one(corpus: Corpus, world: int) -> None:
    alone = epoch_of(corpus, seed=5)
    together = [epoch_of(corpus, seed=5, rank=rank, world=world) for rank in range(world)]
    assert world <= 3 or any(not share.sentences for share in together[-1])  # more processes than sentences: none
    for whole, *shares in zip(alone, *together, strict=True):
        assert Counter(map(tuple, whole.sentences)) == Counter(tuple(s) for share in shares for s in share.sentences)
        for share in shares:
            assert replace(share, sentences=whole.sentences) == whole
        sizes = [len(share.sentences) for share in shares]
        assert max(sizes) - min(sizes) <= 1 and sum(sizes) == whole.n_sentences


def test_progress_grows_to_one_within_an_epoch(corpus: Corpus) -> None:
    progress = [share.progress for share in epoch_of(corpus)]
    assert progress == sorted(progress) and progress[0] > 0 and progress[-1] == pytest.approx(1)
    assert abs(progress[len(progress) // 2] - 0.5) < 0.15


def test_long_sentences_are_cut_and_counted(tmp_path: Path) -> None:
    long = [f"t{i}" for i in range(11)]
    (tmp_path / "a.txt").write_text(f"a b c\n{' '.join(long)}\na b c d e\n", encoding="utf-8")
    shares = epoch_of(Corpus(tmp_path / "a.txt", max_sentence=5), batch_tokens=1000)
    pieces = sorted((tokens for tokens in shares[0].sentences if tokens[0] != "a"), key=lambda p: int(p[0][1:]))
    assert [len(piece) for piece in pieces] == [3, 4, 4] and list(chain(*pieces)) == long
    assert shares[-1].position.long_sentences == 1


def test_long_sentences_are_counted_over_windows_and_epochs(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a b c\nd\ne f g h i\nj k\nl m n\n", encoding="utf-8")
    batches = Corpus(tmp_path / "a.txt", max_sentence=2, window_tokens=3).batches(batch_tokens=100)
    counts = [share.position.long_sentences for share in islice(batches, 8)]
    assert counts == [1, 2, 2, 3, 4, 5, 5, 6]  # five lines: d and e are one window


@given(st.integers(0, 50), st.integers(1, 12))
def test_pieces_are_few_and_even(n: int, bound: int) -> None:
    tokens = [str(i) for i in range(n)]
    pieces = split_sentence(tokens, bound)
    assert list(chain(*pieces)) == tokens
    assert len(pieces) == max(1, -(-n // bound)) and max(map(len, pieces)) <= bound
    assert max(map(len, pieces)) - min(map(len, pieces)) <= 1


def test_tokenizers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Don't stop (now).\n", encoding="utf-8")
    path = tmp_path / "a.txt"
    assert list(Corpus(path).read()) == [["Don't", "stop", "(now)."]]
    assert list(Corpus(path, tokenizer="words").read()) == [["Do", "n't", "stop", "(", "now", ")", "."]]
    shares = epoch_of(Corpus(path, tokenizer=lambda text: text.split("t")))
    assert shares[0].sentences == [["Don'", " s", "op (now)."]]
    with pytest.raises(InputError, match="tokenizer: expected words, han, spaces"):
        Corpus(path, tokenizer="treebank")


def test_white_space_of_all_kinds_parts_tokens_as_the_named_tokenizer_does(tmp_path: Path) -> None:
    from elmokit.text.tokenizer import spaces

    line = "a\u00a0b\u3000c\x1cd\x85e\tf\u200bg"
    (tmp_path / "a.txt").write_text(line, encoding="utf-8")
    assert list(Corpus(tmp_path / "a.txt").read()) == [[token.text for token in spaces(line)]]


def test_compressed_and_plain_shards_together(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    compressed.write(tmp_path / "b.txt.xz", "two\nthree\n")
    corpus = Corpus([tmp_path / "*.xz", tmp_path / "a.txt", tmp_path / "a*"])
    assert [path.name for path in corpus.files] == ["a.txt", "b.txt.xz"]
    assert list(corpus.read()) == [["one"], ["two"], ["three"]]
    assert sorted(epoch_of(corpus, batch_tokens=99)[0].sentences) == [["one"], ["three"], ["two"]]


def test_a_name_that_looks_like_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "a[1].txt").write_text("one\n", encoding="utf-8")
    assert list(Corpus(str(tmp_path / "a[1].txt")).read()) == [["one"]]


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no-.*\.txt: expected one text file or more, found none; check"):
        Corpus([tmp_path / "no-*.txt"])
    with pytest.raises(InputError, match=r"found a folder; write .*\*"):
        Corpus(tmp_path)
    with pytest.raises(InputError, match="found none"):
        Corpus([])


def test_nothing_but_blank_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n \n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"expected sentences, found only blank lines in .*a\.txt, .*b\.txt; "):
        next(Corpus(tmp_path / "*.txt").batches(batch_tokens=10))


def test_a_shard_disappears(corpus: Corpus) -> None:
    batches = corpus.batches(batch_tokens=30)
    position = next(batches).position
    corpus.files[1].unlink()
    with pytest.raises(InputError, match=r"part-1\.txt: expected a file of the corpus, found none; restore it"):
        list(islice(batches, 1000))
    fewer = Corpus(corpus.files[0].parent / "*.txt", window_tokens=200)
    with pytest.raises(InputError, match=r"expected the 3 files of .* bytes that the run began with, found 2 of"):
        fewer.batches(batch_tokens=30, start=position)


def test_a_damaged_shard_is_named(tmp_path: Path) -> None:
    path = compressed.write(tmp_path / "a.txt.xz", "one\n" * 1000)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"a\.txt\.xz: damaged or cut off"):
        next(Corpus(path).batches(batch_tokens=10))


def test_options_that_cannot_work(corpus: Corpus) -> None:
    with pytest.raises(ConfigError, match="max_sentence: expected at least 1, found 0"):
        Corpus(corpus.files, max_sentence=0)
    with pytest.raises(ConfigError, match="batch_tokens"):
        corpus.batches(batch_tokens=0)
    with pytest.raises(ConfigError, match="seed"):
        corpus.batches(batch_tokens=1, seed=-1)
    with pytest.raises(ConfigError, match="rank: expected 0 to 1 of 2 processes, found 2"):
        corpus.batches(batch_tokens=1, rank=2, world=2)


def test_overlap_with_held_out_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the cat\nsat\n\nthe cat\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("on a mat \n", encoding="utf-8")
    (tmp_path / "dev").write_text("on a mat\nthe dog\n\nsat\nsat\nthe  cat\n", encoding="utf-8")
    assert count_overlap(Corpus(tmp_path / "*.txt"), tmp_path / "dev") == 3


def test_the_first_batch_waits_for_one_window_only(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a b c\n" * 1000, encoding="utf-8")
    read: list[str] = []

    def spy(text: str) -> list[str]:
        read.append(text)
        return text.split()

    next(Corpus(tmp_path / "a.txt", tokenizer=spy, window_tokens=40).batches(batch_tokens=8))
    assert len(read) == 11  # ten sentences of 3 + 1, and the one that begins the next window


def peak_of(batches: Iterator[Share], n: int) -> int:
    """Most bytes held while so many batches are made."""
    tracemalloc.start()
    for _ in islice(batches, n):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_is_that_of_windows_not_of_the_corpus(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.xz"
    with lzma.open(path, "wt", encoding="utf-8", preset=0) as file:
        for line in range(8_000):  # 168,000 tokens, about 1 MB
            file.write(" ".join(f"w{(line * 31 + i * i) % 5000}" for i in range(20)) + "\n")
    corpus = Corpus(path, window_tokens=10_000)
    few = peak_of(corpus.batches(batch_tokens=500), 80)
    assert peak_of(corpus.batches(batch_tokens=500), 600) < 1.2 * few
    assert peak_of(Corpus(path, window_tokens=100_000).batches(batch_tokens=500), 10) < 100_000 * 30
