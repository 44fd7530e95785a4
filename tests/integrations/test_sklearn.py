"""The scikit-learn transformers inside scikit-learn: pipelines, clones, searches, caches and pickles."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import write_variant

pytest.importorskip("sklearn", reason="needs the extra sklearn")
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from elmokit import Elmo
from elmokit.errors import ConfigError, InputError
from elmokit.integrations.sklearn import ElmoTokenTransformer, ElmoTransformer

ANIMALS = ["The cat sleeps .", "A dog barks .", "My horse eats grass .", "The cow gives milk .", "A bird sings ."]
MONEY = ["The bank lent money .", "Prices rose today .", "He paid cash .", "Shares fell again .", "Taxes are high ."]
TEXTS = ANIMALS + MONEY
LABELS = ["animal"] * len(ANIMALS) + ["money"] * len(MONEY)
SENTENCES = [["Ada", "lives", "in", "London"], ["He", "sleeps"], ["Rain", "falls", "in", "Paris", "."]]


@pytest.fixture(scope="module")
def elmo() -> Elmo:
    return Elmo.from_pretrained()


def test_vectors_are_those_of_encode(elmo: Elmo) -> None:
    np.testing.assert_allclose(ElmoTransformer().fit_transform(TEXTS), elmo.encode(TEXTS), atol=1e-5)
    options: dict[str, Any] = {"pool": "max", "layers": 2, "punctuation": False, "tokenizer": "spaces"}
    np.testing.assert_allclose(
        ElmoTransformer(**options, batch_size=3).transform(TEXTS), elmo.encode(TEXTS, **options), atol=1e-5
    )


def test_rows_of_any_container() -> None:
    pandas = pytest.importorskip("pandas")
    expected = ElmoTransformer().transform(TEXTS)
    series = pandas.Series(TEXTS, index=range(5, 15))
    tokens = [text.split() for text in TEXTS]
    for rows in (
        np.array(TEXTS),
        np.array(TEXTS, dtype=object)[:, None],
        series,
        series.to_frame(),
        tuple(TEXTS),
        tokens,
        [np.array(sentence) for sentence in tokens],
    ):
        np.testing.assert_allclose(ElmoTransformer().transform(rows), expected, atol=1e-5)
    assert ElmoTransformer().transform([]).shape == (0, expected.shape[1])


@pytest.mark.parametrize("bad", ["one text", 3, np.array([["a", "b"]]), ["text", None], ["text", float("nan")], [1]])
def test_wrong_input_is_named(bad: Any) -> None:
    with pytest.raises(InputError, match="expected"):
        ElmoTransformer().fit_transform(bad)


@pytest.mark.parametrize(
    "settings",
    [{"pool": "sum"}, {"layers": 7}, {"state": "carry"}, {"dtype": "float8"}, {"model": 3}, {"batch_size": 0}],
)
def test_wrong_settings_are_named(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        ElmoTransformer(**settings).fit_transform(TEXTS)
    with pytest.raises(InputError, match="tokenizer"):
        ElmoTransformer(tokenizer="letters").fit(TEXTS)


def test_parameters_clone_and_representation() -> None:
    transformer = ElmoTransformer(layers=1, pool="max")
    assert transformer.get_params()["layers"] == 1
    again = clone(transformer).set_params(pool="mean")
    assert (again.layers, again.pool, transformer.pool) == (1, "mean", "max")
    assert "layers=1" in repr(transformer)
    assert again._elmo() is transformer._elmo()  # loaded once


def test_pickle_holds_settings_only(tmp_path: Path) -> None:
    transformer = ElmoTransformer(layers="top").fit(TEXTS)
    expected = transformer.transform(TEXTS)
    data = pickle.dumps(transformer)
    assert len(data) < 1000
    np.testing.assert_array_equal(pickle.loads(data).transform(TEXTS), expected)


def test_a_model_that_was_replaced_is_loaded_again(tmp_path: Path) -> None:
    write_variant(tmp_path / "model", "usual", seed=1)
    transformer = ElmoTransformer(str(tmp_path / "model"))
    before = transformer.transform(TEXTS)
    np.testing.assert_array_equal(clone(transformer).transform(TEXTS), before)
    write_variant(tmp_path / "model", "usual", seed=2)
    after = transformer.transform(TEXTS)
    assert np.abs(after - before).max() > 1e-3
    np.testing.assert_allclose(after, Elmo.from_pretrained(tmp_path / "model").encode(TEXTS), atol=1e-5)


def test_a_pair_of_files_and_a_missing_model(tmp_path: Path, elmo: Elmo) -> None:
    folder, _, _ = write_variant(tmp_path / "model", "usual")
    pair = (folder / "options.json", folder / "weights.hdf5")
    np.testing.assert_allclose(
        ElmoTransformer(pair).transform(TEXTS), Elmo.from_pretrained(pair).encode(TEXTS), atol=1e-5
    )
    with pytest.raises(ValueError, match="nowhere"):
        ElmoTransformer(tmp_path / "nowhere").fit(TEXTS)


def test_output_as_a_table(elmo: Elmo) -> None:
    pandas = pytest.importorskip("pandas")
    series = pandas.Series(TEXTS, index=[f"row {k}" for k in range(len(TEXTS))])
    table = ElmoTransformer().set_output(transform="pandas").fit_transform(series)
    assert list(table.columns[:2]) == ["elmotransformer0", "elmotransformer1"] and len(table) == 10
    assert list(table.index) == list(series.index)
    np.testing.assert_allclose(table.to_numpy(), elmo.encode(TEXTS), atol=1e-5)


def test_column_transformer(elmo: Elmo) -> None:
    pandas, dim = pytest.importorskip("pandas"), elmo.config.vector_dim
    table = pandas.DataFrame({"text": TEXTS, "title": TEXTS[::-1], "length": [len(text) for text in TEXTS]})
    columns = ColumnTransformer(
        [
            ("text", ElmoTransformer(), "text"),  # a Series
            ("title", ElmoTransformer(layers=0), ["title"]),  # a table with one column
            ("length", StandardScaler(), ["length"]),
        ]
    )
    features = columns.fit_transform(table)
    assert features.shape == (10, 2 * dim + 1)
    np.testing.assert_allclose(features[:, :dim], ElmoTransformer().transform(TEXTS), atol=1e-5)
    names = columns.get_feature_names_out()
    assert names[0] == "text__elmotransformer0" and names[-1] == "length__length"


def test_grid_search_in_two_processes() -> None:
    pipeline = Pipeline([("elmo", ElmoTransformer()), ("classifier", LogisticRegression())])
    grid = {"elmo__layers": ["average", 0], "classifier__C": [0.1, 10.0]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of joblib, about workers
        search = GridSearchCV(pipeline, grid, cv=2, n_jobs=2, error_score="raise").fit(TEXTS, LABELS)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_estimator_.predict(["The dog sleeps ."])[0] == "animal"
    assert len(pickle.dumps(search.best_estimator_)) < 10_000


def test_pipeline_with_a_cache(tmp_path: Path) -> None:
    def fitted(**settings: Any) -> Pipeline:
        return make_pipeline(ElmoTransformer(**settings), LogisticRegression(), memory=str(tmp_path)).fit(TEXTS, LABELS)

    def entries() -> int:
        return len(list(tmp_path.rglob("output.pkl")))

    first = fitted()
    assert entries() == 1
    again = fitted()
    assert entries() == 1  # taken from the cache
    np.testing.assert_array_equal(first.predict_proba(TEXTS), again.predict_proba(TEXTS))
    fitted(layers=0)
    assert entries() == 2


def test_token_vectors_are_those_of_embed(elmo: Elmo) -> None:
    arrays = ElmoTokenTransformer().fit_transform(SENTENCES)
    for found, sentence in zip(arrays, elmo.embed(SENTENCES), strict=True):
        np.testing.assert_allclose(found, sentence.vectors, atol=1e-5)
    rows = ElmoTokenTransformer(layers="all", stack=True).fit_transform([*SENTENCES, []])
    expected = [np.concatenate(sentence.layers, axis=1) for sentence in elmo.embed(SENTENCES)]
    np.testing.assert_allclose(rows, np.concatenate(expected), atol=1e-5)
    assert ElmoTokenTransformer(layers="all", stack=True).transform([]).shape == (0, 3 * elmo.config.vector_dim)
    assert len(pickle.dumps(ElmoTokenTransformer().fit(SENTENCES))) < 1000


def test_token_transformer_wants_tokens() -> None:
    with pytest.raises(InputError, match="sentence 1: expected a list of tokens"):
        ElmoTokenTransformer().transform([["A"], "A text ."])
    with pytest.raises(ConfigError, match="layers"):
        ElmoTokenTransformer(layers=9).fit(SENTENCES)
    assert not hasattr(ElmoTokenTransformer(), "set_output")  # rows of sentences are no table


def test_tagging() -> None:
    tags = [["name", "x", "x", "place"], ["x", "x"], ["x", "x", "x", "place", "x"]]
    tagger = make_pipeline(ElmoTokenTransformer(stack=True), LogisticRegression(C=100.0))
    flat = [tag for sentence in tags for tag in sentence]
    rows = tagger[0].fit_transform(SENTENCES)
    tagger[-1].fit(rows, flat)
    assert list(tagger.predict([["She", "lives", "in", "Rome"]]))[-1] == "place"
