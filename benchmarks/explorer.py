"""Time from a click on the explorer page to its answer, in headless Chromium.

    python benchmarks/explorer.py      # writes docs/results/explorer.json, see `make tables`
    python benchmarks/explorer.py --screenshots docs/images           # takes the pictures of docs/explorer.md

Both back ends with the packaged model, and the browser with random weights of a larger shape (768 cells, 256-d
projections, 1,024 filters, half precision). Times are taken inside the page, from the click to the frame that shows
the answer; the median and the slowest of several clicks are reported.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import results
import torch
from playwright.sync_api import sync_playwright
from safetensors.torch import load_file, save_file

from elmokit import weights
from elmokit.serve.pages import export_web

BASE = Path(weights.__file__).parents[1] / "models" / "base"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
LARGER = {"lstm": {512: 768, 2048: 3072, 128: 256}, "cnn": {512: 1024, 128: 256}, "softmax": {128: 256}}

# section, what is clicked, and what then has to be on the page
CLICKS = [
    *(("compare", f"#compare .choice button:text-is('{w}')", f"chosen '{w}'") for w in ("play", "bank", "present")),
    *(("compare", f"#compare .sentence:nth-of-type(2) .chip >> nth={k}", "") for k in (1, 3)),
    *(("map", f"#map .choice button:text-is('{w}')", f"title '{w}'") for w in ("bank", "star", "match", "letter")),
    *(("map", f"#map .choice button:text-is('{p}')", "") for p in ("layer 2 only", "equal weights", "3")),
    *(("next", f"#next .choice button >> nth={k}", "") for k in (1, 2, 3)),
    *(("inside", f"#inside .chip >> nth={k}", "") for k in (1, 3, 6)),
]
WATCH = """([section, wanted]) => {
  const content = document.querySelector(`#${section} .content`);
  const [kind, word] = wanted.split(" ").map((part) => part.replaceAll("'", ""));
  const shown = () => !content.classList.contains("busy") && (
    kind === "chosen" ? content.querySelector(".chip[aria-pressed=true]")?.textContent === word
      : kind === "title" ? content.querySelector(".wide-left .figure-title")?.textContent.includes(`“${word}”`) : true);
  window.answered = new Promise((resolve) => content.addEventListener("click", () => {
    const start = performance.now();
    const look = new MutationObserver(() => {
      if (!shown()) return;
      look.disconnect();
      requestAnimationFrame(() => resolve(performance.now() - start));
    });
    look.observe(content, { subtree: true, childList: true, attributes: true });
  }, { once: true, capture: true }));
}"""


def write_larger(folder: Path) -> Path:
    """The packaged model with random weights of a larger shape, in half precision."""
    shutil.copytree(BASE, folder)
    options = json.loads((folder / "options.json").read_text())
    options["lstm"] |= {"dim": 768, "projection_dim": 256}
    options["char_cnn"]["filters"] = [[width, 2 * count] for width, count in options["char_cnn"]["filters"]]
    (folder / "options.json").write_text(json.dumps(options))
    torch.manual_seed(0)
    for file, room in (("weights.safetensors", None), ("softmax.safetensors", "softmax")):
        tensors = {}
        for name, tensor in load_file(folder / file).items():
            shape = list(tensor.shape)
            if "convolutions" in name:
                shape[-1] *= 2
            elif "char_embedding" not in name:
                sizes = LARGER[room or ("cnn" if "token_encoder" in name else "lstm")]
                last = len(shape) - 1  # rows of a softmax are words or reduced dimensions, and stay
                shape = [sizes.get(n, n) if room is None or k == last else n for k, n in enumerate(shape)]
                if room and len(shape) == 1:
                    shape = list(tensor.shape)
            tensors[name] = (0.05 * torch.randn(shape)).half()
        save_file(tensors, folder / file)
    return folder


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def static_site(folder: Path) -> Any:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@contextmanager
def elmo_serve() -> Any:
    command = [sys.executable, "-m", "elmokit", "serve", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    found = re.search(r"http://\S+", server.stdout.readline())
    assert found and server.stdout.readline() == "Ready.\n"
    yield found[0] + "/"
    server.terminate()
    server.wait()


def measure(browser: Any, address: str) -> dict[str, Any]:
    context = browser.new_context(viewport={"width": 1200, "height": 850})
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("#compare figure", timeout=120_000)
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    times: dict[str, list[float]] = {}
    current = None
    for section, selector, wanted in CLICKS:
        if section != current:
            page.click(f"nav a[href='#{section}']")
            page.wait_for_selector(f"#{section} .content figure", timeout=120_000)
            page.wait_for_timeout(2000)
            current = section
        page.evaluate(WATCH, [section, wanted])
        page.click(selector)
        times.setdefault(section, []).append(page.evaluate("answered"))
        page.wait_for_timeout(300)
    context.close()
    clicks = {
        name: {"median_ms": round(statistics.median(some)), "slowest_ms": round(max(some))}
        for name, some in times.items()
    }
    return {"first_paint_ms": round(paint), "clicks": clicks}


def screenshots(browser: Any, address: str, folder: Path) -> None:
    """The pictures of the documentation, with few colors so that they stay small."""
    from PIL import Image

    page = browser.new_page(viewport={"width": 1000, "height": 800})
    page.goto(f"{address}#map?map.word=bank&map.s=-5,-5,5")
    page.wait_for_selector("text=Occurrences of “bank”", timeout=120_000)
    for section in ("inside", "compare", "map"):
        page.click(f"nav a[href='#{section}']")
        page.wait_for_selector(f"#{section} figure >> nth=1", timeout=120_000)
    page.wait_for_selector("#map .bar", timeout=120_000)
    page.wait_for_timeout(1000)
    page.mouse.move(0, 0)
    page.evaluate("document.querySelector('.top').hidden = true")
    for section in ("compare", "map", "inside"):
        file = folder / f"explorer-{section}.png"
        page.locator(f"#{section}").screenshot(path=file)
        image = Image.open(file).convert("RGB")
        image.quantize(128, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(file, optimize=True)
    page.close()


def table(facts: dict[str, Any]) -> str:
    """The figures as the Markdown table of docs/explorer.md."""
    names = list(next(iter(facts["back_ends"].values()))["clicks"])
    lines = [f"| back end and model | first paint | {' | '.join(names)} |", f"|---|---:|{'---:|' * len(names)}"]
    for label, found in facts["back_ends"].items():
        cells = [f"{one['median_ms']} ({one['slowest_ms']})" for one in found["clicks"].values()]
        lines.append(f"| {label} | {found['first_paint_ms']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, help="JSON file [docs/results/explorer.json]")
    parser.add_argument("--screenshots", type=Path, metavar="FOLDER", help="measure nothing; take those of the docs")
    options = parser.parse_args()
    facts: dict[str, Any] = {"cores": os.cpu_count(), "load_average_before": round(os.getloadavg()[0], 1)}
    found = facts["back_ends"] = {}
    chromium = next(path for name in ("chromium", "google-chrome") if (path := shutil.which(name)))
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        if options.screenshots:
            with static_site(export_web(weights.load(), Path(place) / "site")) as address:
                screenshots(browser, address, options.screenshots)
            return
        with elmo_serve() as address:
            found["server, packaged model"] = measure(browser, address)
        models = {"packaged model": None, "random weights, 768 cells": str(write_larger(Path(place) / "larger"))}
        for number, (label, model) in enumerate(models.items()):
            with static_site(export_web(weights.load(model), Path(place) / f"site{number}")) as address:
                found[f"browser, {label}"] = measure(browser, address)
        browser.close()
    print(table(facts))
    results.write("explorer", facts, model=weights.load(), table=table(facts), output=options.output)


if __name__ == "__main__":
    main()
