"""The explorer page in a real browser, computing by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest

from elmokit import Elmo, weights
from elmokit.tasks.shared.task_registry import TASKS

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


def test_every_section_opens_without_a_fault(watched: Any, open_all: Any) -> None:
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
    page.click("#map .choice button:has-text('star')")
    page.wait_for_selector("text=Occurrences of “star”", timeout=30_000)
    page.fill("#map-s2", "4")
    shared = page.url.split("/site/")[1]
    assert "map.word=star" in shared and "map.s=0" in shared
    again = watched(suffix=shared)
    again.page.wait_for_selector("text=Occurrences of “star”", timeout=60_000)
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


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_click_through(watched: Any, clicked_through: Any, size: str, scheme: str) -> None:
    clicked_through(watched(size, scheme))


def test_digits_of_the_heat_map_can_be_read_on_a_phone(watched: Any) -> None:
    page = watched("phone").ready()
    size = page.evaluate("""() => {
      const svg = document.querySelector('#compare [role=region] svg');
      const digits = svg.querySelector('.in-heat, .on-heat');
      const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
      return scale * parseFloat(getComputedStyle(digits).fontSize);
    }""")
    assert size >= 9
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")  # the figure scrolls, not the page
    assert page.get_attribute("#compare [role=region]", "tabindex") == "0"


def test_labels_of_wide_letters_are_not_cut_off(watched: Any) -> None:
    page = watched().ready()
    page.fill("#compare-a", "WWWWWWWWWWWWWW Commonwealth mmmmmmmmmm")
    for other in "bc":
        page.fill(f"#compare-{other}", "The WWWWWWWWWWWWWWWWWW of a mmmmmmmmmmmmmmmmmm")
    page.wait_for_selector("#compare svg text:text-is('mmmmmmmmmmmmmmmmmm')")
    page.wait_for_selector("#compare svg text:text-is('WWWWWWWWWWWWWW')")
    outside = page.evaluate("""() => [...document.querySelectorAll('#compare svg text')].filter((text) => {
      const mark = text.getBoundingClientRect(), frame = text.ownerSVGElement.getBoundingClientRect();
      return mark.left < frame.left - 1 || mark.right > frame.right + 1 || mark.top < frame.top - 1;
    }).map((text) => text.textContent)""")
    assert outside == []


def test_the_active_example_is_marked(watched: Any) -> None:
    page = watched().ready()
    pressed = "#compare .choice[aria-label=Examples] button[aria-pressed=true]"
    assert page.inner_text(pressed) == "present"
    page.click("#compare .choice button:text-is('play')")
    assert page.inner_text(pressed) == "play"
    page.fill("#compare-a", "Something else.")
    assert page.locator(pressed).count() == 0


def test_the_map_starts_with_bank_and_fills_its_frame(watched: Any) -> None:
    page = watched(suffix="#map").page
    page.wait_for_selector("#map .dot", timeout=60_000)
    assert page.inner_text("#map .figure-title >> nth=0") == "Occurrences of “bank”"
    dots = "[...document.querySelectorAll('#map [role=group] > .dot')]"
    places = f"(axis) => {dots}.map((d) => Math.abs(Number(d.getAttribute(axis)) - 240))"
    for preset in ("equal weights", "layer 1 only", "layer 2 only"):
        page.click(f"#map .choice button:text-is('{preset}')")
        most = max(*page.evaluate(places, "cx"), *page.evaluate(places, "cy"))
        assert 0.9 * 224 < most <= 224, preset  # of 240, less a margin
    page.click(
        "#map .choice button:text-is('layer 0 only')"
    )  # all occurrences have the same vector: noise is not enlarged
    assert max(*page.evaluate(places, "cx"), *page.evaluate(places, "cy")) < 3


def test_clusters_color_the_map_and_its_layers(watched: Any) -> None:
    page = watched(suffix="#map").page
    page.wait_for_selector("#map .thirds .dot", timeout=60_000)
    dots = "[...document.querySelectorAll(place)]"
    kinds = f"(place) => new Set({dots}.map((d) => d.getAttribute('class').match(/k[0-9]/)[0])).size"
    for k in (2, 4, 3):
        page.click(f"#map .choice[aria-label=Clusters] button:text-is('{k}')")
        assert page.evaluate(kinds, "#map [role=group] > .dot") == k
        assert page.evaluate(kinds, "#map .thirds > div:nth-child(3) .dot") == k
    page.click("#map .choice button:text-is('sense')")
    assert "the senses" in page.inner_text("#map figure:has(.thirds) .note")


def test_the_caption_of_the_map_says_when_clusters_are_chance(watched: Any) -> None:
    page = watched(suffix="#map").page
    page.wait_for_selector("#map .dot", timeout=60_000)
    for word, chance in (("bank", False), ("play", True)):
        page.click(f"#map .choice button:text-is('{word}')")
        page.wait_for_selector(f"text=Occurrences of “{word}”", timeout=30_000)
        caption = page.inner_text("#map figure:first-of-type .note")
        assert "of the 36 occurrences with an annotated sense" in caption and "majority sense" in caption
        assert ("do not follow the senses" in caption) == chance, caption


def test_the_paper_in_words_with_legends(watched: Any, tmp_path: Path) -> None:
    page = watched(suffix="#paper").page
    page.wait_for_selector("#paper figure", timeout=60_000)
    labels = page.locator("#paper .choice button").all_inner_texts()
    assert {"Nearest neighbors", "Layer weights", "Perplexity", "Universal tags", "Penn Treebank tags"} < set(labels)
    assert "column" not in page.inner_text("#paper")
    for label, words in (("Six tasks", ("paper", "elmokit", "open circle")), ("Layer weights", ("layer 0", "layer 2"))):
        page.click(f"#paper .choice button:text-is('{label}')")
        with page.expect_download() as download:
            page.click("#paper .exports button:text-is('SVG')")
        download.value.save_as(tmp_path / "figure.svg")
        assert all(f">{word}" in (tmp_path / "figure.svg").read_text() for word in words), label
    page.click("#paper .choice button:text-is('Perplexity')")
    assert page.locator("#paper .bar").count() >= 2 and "cannot be compared" in page.inner_text("#paper figure")
    page.click("#paper .choice button:text-is('Nearest neighbors')")
    assert page.locator("#paper figure").count() >= 2


def test_the_page_has_a_picture_for_every_task(watched: Any) -> None:
    handled = "import('./sections/tasks.js').then(({ SHOW, EXAMPLES }) => [Object.keys(SHOW), Object.keys(EXAMPLES)])"
    for names in watched().page.evaluate(handled):
        assert set(names) == set(TASKS)
