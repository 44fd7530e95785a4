"""The explorer page in a real browser, computing by itself."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest

from elmokit import Elmo, weights

SENTENCES = [
    "The actor was praised in the play.",
    "I don't know what she'll present -- it's $5 at the U.S. bank!",
    "Ünïcödé naïve 눈이 옵니다 花園 😀",
    "Word",
]
ASK = "async ([call, argument]) => (await import('./backend.js')).openBackend(() => {}).then((b) => b[call](argument))"


def ask(page: Any, call: str, **argument: Any) -> Any:
    """What a function of the back end answers."""
    return page.evaluate(ASK, [call, argument])


def vectors(answer: dict[str, Any]) -> np.ndarray:
    return np.array(answer["vectors"], dtype=np.float32).reshape(answer["shape"])


@pytest.fixture(scope="module")
def elmo() -> Elmo:
    return Elmo.from_pretrained()


def open_all(page: Any) -> None:
    for section in ("compare", "map", "next", "inside", "tasks", "paper"):
        page.click(f"nav a[href='#{section}']")
        page.wait_for_selector(f"#{section} .content > *", timeout=30_000)
    page.wait_for_selector("#map .bar", timeout=60_000)  # static neighbors come last
    page.wait_for_selector("#next figure:nth-of-type(3)", timeout=30_000)
    page.wait_for_selector("#inside figure:nth-of-type(2)", timeout=30_000)


def test_every_section_opens_without_a_fault(watched: Any) -> None:
    found = watched()
    page = found.ready()
    assert page.inner_text("#backend").startswith("Computed in your browser, WebAssembly SIMD · model base")
    open_all(page)
    assert page.locator("#map .dot").count() > 36 and page.locator("#paper figure").count() == 1
    assert "need a server" in page.inner_text("#tasks")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert found.faults == []


def test_the_browser_agrees_with_the_engine(watched: Any, elmo: Elmo) -> None:
    found = watched()
    page = found.ready()
    for answer, sentence in zip(
        ask(page, "embedAll", texts=SENTENCES, select=None), elmo.embed(SENTENCES), strict=True
    ):
        assert answer["tokens"] == sentence.tokens
        assert [tuple(pair) for pair in answer["offsets"]] == sentence.offsets
        assert np.abs(vectors(answer) - sentence.layers).max() < 1e-4
    for direction, text in (("forward", "Let's stick to"), ("backward", "of the river."), ("gap", "the ___ of a")):
        guessed = ask(page, "predictNext", text=text, direction=direction, top=6, gap="___")
        expected = elmo.predict_next(text, direction=direction, top=6)
        assert [one["word"] for one in guessed] == [one.word for one in expected]
        assert np.allclose([p["probability"] for p in guessed], [p.probability for p in expected], atol=1e-4)
    assert found.faults == []


def test_plain_javascript_gives_the_same_vectors(watched: Any, elmo: Elmo) -> None:
    page = watched(suffix="?simd=off").ready()
    assert "plain JavaScript" in page.inner_text("#backend")
    (answer,) = ask(page, "embedAll", texts=SENTENCES[:1], select=[[3, 6]])
    (sentence,) = elmo.embed(SENTENCES[:1])
    assert np.abs(vectors(answer) - sentence.layers[:, [3, 6]]).max() < 1e-4


RUN = """async ([folder, sentences]) => {
  const { Elmo } = await import('./elmo/elmo.js'), { readSafetensors } = await import('./elmo/safetensors.js');
  const get = (name) => fetch(`../${folder}/${name}`);
  const elmo = new Elmo({
    options: await (await get('options.json')).json(),
    tensors: readSafetensors(await (await get('weights.safetensors')).arrayBuffer()),
    vocabulary: folder.endsWith('words') ? (await (await get('vocabulary.txt')).text()).split('\\n') : null,
  });
  return elmo.embed(sentences).map((layers) => Array.from(layers));
}"""


def test_models_of_every_shape(watched: Any, root: Path) -> None:
    """Layers, clips, projections, highways, activations, warm starts and word tables, against the engine."""
    page = watched().ready()
    sentences = [["Live", "in", "the", "present", "."], ["a"], ["naïve", "x" * 60]]
    for number, name in enumerate(models.VARIANTS):
        source, _, _ = models.write_variant(root / f"source {number}", name)
        folder = f"variant-{number}-{name.replace(' ', '-')}"
        weights.save(weights.load(source), root / folder)
        for flat, sentence in zip(
            page.evaluate(RUN, [folder, sentences]), Elmo.from_pretrained(root / folder).embed(sentences), strict=True
        ):
            assert np.abs(np.array(flat).reshape(sentence.layers.shape) - sentence.layers).max() < 1e-4, name


def test_state_travels_in_the_address(watched: Any) -> None:
    found = watched()
    page = found.ready()
    page.click("#map .choice button:has-text('bank')")
    page.wait_for_selector("text=Occurrences of “bank”", timeout=30_000)
    page.fill("#map-s2", "4")
    shared = page.url.split("/site/")[1]
    assert "map.word=bank" in shared and "map.s=0" in shared
    again = watched(suffix=shared)
    again.page.wait_for_selector("text=Occurrences of “bank”", timeout=60_000)
    assert again.page.input_value("#map-s2") == "4" and again.faults == []


def test_sliders_move_the_map_and_keys_walk_over_it(watched: Any) -> None:
    page = watched(suffix="#map").page
    page.wait_for_selector("#map .dot", timeout=60_000)
    places = (
        "[...document.querySelectorAll('#map figure:first-of-type .dot')].slice(0, 20).map((d) => d.getAttribute('cx'))"
    )
    before = page.evaluate(places)
    page.fill("#map-s0", "-5")
    page.fill("#map-s1", "-5")
    assert page.evaluate(places) != before
    page.fill("#map-gamma", "0.1")
    spread = np.ptp(np.array(page.evaluate(places), dtype=float))
    page.fill("#map-gamma", "1")
    assert np.isclose(np.ptp(np.array(page.evaluate(places), dtype=float)), 10 * spread, rtol=0.02)
    page.click("#map .choice button:text-is('layer 2 only')")
    page.fill("#map-gamma", "2")
    dots = "[...document.querySelectorAll('#map figure:first-of-type .dot')].slice(0, 36)"
    for axis in ("cx", "cy"):
        found = np.array(page.evaluate(f"{dots}.map((d) => Number(d.getAttribute('{axis}')))"))
        assert found.min() >= 6 and found.max() <= 474  # of 480: none is cut off
    first = page.inner_text("#map .reading")
    page.focus("#map .dot[tabindex='0']")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#map .reading") != first


@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_links_of_sections_arrive(watched: Any, size: str) -> None:
    """Sections above the chosen one are filled while the page scrolls, and must not push it away."""
    page = watched(size).ready()
    for section in ("tasks", "inside", "paper", "map"):
        page.click(f"nav a[href='#{section}']")
        page.wait_for_selector(f"#{section} .content > *", timeout=30_000)
        page.wait_for_selector("#map .bar, #tasks pre", timeout=30_000)
        page.wait_for_timeout(500)
        box = page.evaluate(f"document.querySelector('#{section}').getBoundingClientRect().toJSON()")
        end = page.evaluate("scrollY + innerHeight >= document.documentElement.scrollHeight - 2")
        assert end or 0 <= box["top"] < 150, (section, box["top"])
        assert page.url.endswith(f"#{section}")


def test_a_missing_model_is_reported(watched: Any) -> None:
    def block(page: Any) -> None:
        page.route("**/model/weights.safetensors", lambda route: route.fulfill(status=404, body="none"))

    page = watched(before=block).page
    page.wait_for_selector("#backend:has-text('could not be loaded')")
    assert "weights.safetensors" in page.inner_text("#backend")


def axe_source() -> str:
    """axe-core, as its Python wrapper ships it."""
    wrapper = pytest.importorskip("axe_playwright_python", reason="needs axe-core: pip install 'elmokit[test]'")
    return next(Path(wrapper.__path__[0]).rglob("axe.min.js")).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_click_through(watched: Any, tmp_path: Path, size: str, scheme: str) -> None:
    """Everything that can be clicked, every export, and the accessibility rules of axe-core."""
    found = watched(size, scheme)
    page = found.ready()
    for word in ("play", "bank", "present"):
        page.click(f"#compare .choice button:text-is('{word}')")
        page.wait_for_selector(f"#compare .chip[aria-pressed=true]:text-is('{word}')")
    page.click("#compare .chip >> nth=1")
    page.click("#compare .choice button:text-is('1')")
    open_all(page)
    for word in ("present", "star"):
        page.click(f"#map .choice button:text-is('{word}')")
        page.wait_for_selector(f"text=Occurrences of “{word}”", timeout=60_000)
    for button in page.locator("#map .choice button:not(:text-matches('^[a-z]{3,7}$'))").all():
        button.click()
    page.fill("#map-own", "A star fell from the sky.")
    page.wait_for_selector("text=37 occurrences", timeout=30_000)
    page.fill("#map-word", "nosuchword")
    page.wait_for_selector("text=a map needs three occurrences")
    page.fill("#map-word", "star")
    page.fill("#next-text", "He opened the")
    page.wait_for_selector("text=After the text")
    page.click("#next .pickable >> nth=0")
    page.wait_for_function("document.querySelector('#next-text').value.split(' ').length === 4")
    page.wait_for_selector("#next .content:not(.busy)")
    page.focus("#next .pickable >> nth=0")
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('#next-text').value.split(' ').length === 5")
    page.click("#inside .chip:text-is('beautifuly')")
    page.wait_for_selector("text=What stands out in “beautifuly”")
    for button in page.locator("#paper .choice button").all():
        button.click()
        assert page.locator("#paper figure").count() >= 1
    for place in page.locator("figure").all():
        for kind in ("PNG", "SVG", "JSON", "CSV"):
            with page.expect_download() as download:
                place.locator(f".exports button:text-is('{kind}')").click()
            file = tmp_path / "export"
            download.value.save_as(file)
            content = file.read_bytes()
            if kind == "PNG":
                assert content.startswith(b"\x89PNG") and len(content) > 1000
            elif kind == "SVG":
                assert content.startswith(b"<svg") and b"var(--" not in content
            elif kind == "JSON":
                assert json.loads(content)
            else:
                assert len(list(csv.reader(content.decode().splitlines()))) > 1
    page.evaluate(axe_source())
    rules = page.evaluate("axe.run().then(({ passes, violations }) => ({ passes: passes.length, violations }))")
    assert [(one["id"], one["nodes"][0]["html"][:120]) for one in rules["violations"]] == [] and rules["passes"] > 20
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert found.faults == []
