/**
 * The tokenizer `words` of elmokit, in JavaScript: English words in the manner of the Penn Treebank (`do n't`, `it 's`,
 * `$ 5`, `( s )`). Kept in step with `elmokit.text.tokenizer`, which explains every rule, by a test over thousands of
 * lines. Offsets count code points, as Python does.
 */

// Python's \w, \s and \d, which differ from JavaScript's
const W = String.raw`\p{L}\p{N}_`;
const S = String.raw`\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000`;
const D = String.raw`\p{Nd}`;
const OPEN_OR_CLOSE = String.raw`"\(\)\[\]\{\}<>“”„‟«»‹›「」『』（）【】〈〉《》‘‚` + "`";
const ALWAYS_APART = String.raw`${S},;:!?…—―‒$£€¥%¿¡、。，．！？；：${OPEN_OR_CLOSE}`;

/** Letters in either case, as Python's IGNORECASE folds them. */
const anyCase = (letters) => letters.replace(/[a-z]/g, (c) => {
  const more = { i: "ıİ", s: "ſ" }[c] ?? "";
  return `[${c}${c.toUpperCase()}${more}]`;
});

const ALONE = ["s", "re", "ve", "ll", "d", "m", "em", "n", "bout", "cause", "round", "til", "tis", "twas"].map(anyCase);
const PIECE = new RegExp([
  String.raw`(?:https?|ftp):\/\/[^${S}<>"“”]*[${W}\/]`,
  String.raw`\.{2,3}|-{2,}|''|` + "``",
  String.raw`['’](?:${ALONE.join("|")}|${D}0${anyCase("s")})(?![${W}\-])`,
  String.raw`[A-Z]{1,3}\$`,
  String.raw`(` + [
    String.raw`(?:[^.'’–${ALWAYS_APART}\-]+`,
    String.raw`(?<!-)-(?!-)`,
    String.raw`\.(?=-?[${W}])(?!(?<=[a-z][a-z]\.)[A-Z][a-z])`,
    String.raw`(?<=[${W}])['’–](?=[${W}])`,
    String.raw`(?<=${D})[,:](?=${D}))+`,
  ].join("|") + String.raw`)(\.(?![${W}.]))?`,
  String.raw`[^${S}]`,
].join("|"), "gu");
const CLITIC = new RegExp(
  String.raw`(?<=[\p{L}\p{N}])(?:${anyCase("n")}['’]${anyCase("t")}|['’](?:${["s", "re", "ve", "ll", "d", "m"].map(anyCase).join("|")}))$`, "u",
);
const JOINED = { cannot: 3, gonna: 3, gotta: 3, wanna: 3, gimme: 3, lemme: 3 };

const PLAIN = new Map();
const plainAs = (characters, replacement) => [...characters].forEach((c) => PLAIN.set(c, replacement));
plainAs("“”„‟«»", '"');
plainAs("‘’‚‛‹›", "'");
plainAs("—―", "--");
plainAs("‐‑‒–", "-");
plainAs("…", "...");
plainAs("\u00ad\u200b\u200c\u200d\u2060\ufeff", "");

const AFTER_FINAL_DOT = " \t\r\n\v\f\"'’”»)]}";
const SPACES_AT_END = new RegExp(`[${S}]+$`, "u");
const DOTTED = /(?:^|-)(?:\p{L}{1,2}\.)+\p{L}{1,2}$/u;
const BEFORE_DIGITS = new RegExp(
  String.raw`^[${S}]*[${D}\xb2\xb3\xb9\u2070\u2074-\u2079\u2080-\u2089\u2460-\u2468\u2474-\u247c\u2488-\u2490]`, "u",
);
const set = (words) => new Set(words.split(" "));
const TITLES = set(
  "adm amb attys brig capt cmdr col cpl dr drs gen gov hon lt maj messrs mlle mme mr mrs ms msgr pres prof pvt rep "
  + "reps rev sen sens sgt supt",
);
const BEFORE_NUMBERS = set("ch eq fig figs no nos para pp sec vol vols");
const OTHERS = set(
  "al approx apr assn assoc aug ave bldg blvd bros ca cf co corp dec dept ed eds esp esq est etc feb fl ft inc intl "
  + "jan jr lb lbs ltd mfg mt mts nov oct oz rd sep sept sp spp sq sr ssp st ste subsp univ viz vs",
);

const isDotted = (word) => word.includes(".") && DOTTED.test(word);

function isAbbreviation(word, after) {
  const lower = word.toLowerCase();
  if (BEFORE_NUMBERS.has(lower)) return BEFORE_DIGITS.test(after);
  return /^\p{L}$/u.test(word) || TITLES.has(lower) || OTHERS.has(lower);
}

/** A word with straight quotes, `--`, `...`, and nothing invisible. */
export function plain(word) {
  let changed = "";
  for (const character of word) changed += PLAIN.get(character) ?? character;
  return changed || word;
}

/** A word, with its clitics split off from the right: [text, start, end] in UTF-16 units. */
function parts(word, start) {
  const cuts = [word.length];
  if (/['’]/.test(word)) {
    let match;
    while ((match = CLITIC.exec(word.slice(0, cuts[0])))) cuts.unshift(match.index);
  } else if (Object.hasOwn(JOINED, word.toLowerCase())) cuts.unshift(JOINED[word.toLowerCase()]);
  let first = 0;
  return cuts.map((last) => {
    const part = [word.slice(first, last), start + first, start + last];
    first = last;
    return part;
  });
}

/** Text to { tokens, offsets }: offsets are pairs of code point numbers. */
export function tokenize(text) {
  const found = [];
  let body = text.replace(SPACES_AT_END, "");
  while (body && AFTER_FINAL_DOT.includes(body.at(-1))) body = body.slice(0, -1);
  const finalDot = body.endsWith(".") ? body.length - 1 : -1;
  for (const match of text.matchAll(PIECE)) {
    const [piece, word, dot] = match;
    const start = match.index;
    if (word === undefined) {
      found.push([piece, start, start + piece.length]);
      continue;
    }
    const end = start + word.length;
    if (dot === undefined) found.push(...parts(word, start));
    else if (isDotted(word)) {
      found.push([word + ".", start, end + 1]);
      if (end === finalDot) found.push([".", end, end + 1]);
    } else if (end !== finalDot && (isAbbreviation(word, twoAfter(text, end + 1)) || text[end + 1] === ",")) {
      found.push([word + ".", start, end + 1]);
    } else found.push(...parts(word, start), [".", end, end + 1]);
  }
  const at = codePointNumbers(text);
  return { tokens: found.map(([token]) => plain(token)), offsets: found.map(([, start, end]) => [at(start), at(end)]) };
}

const twoAfter = (text, at) => [...text.slice(at, at + 4)].slice(0, 2).join("");

/** A function from UTF-16 places, in any order, to code point numbers. */
function codePointNumbers(text) {
  if (!/[\ud800-\udfff]/.test(text)) return (place) => place;
  const numbers = new Uint32Array(text.length + 1);
  let number = 0;
  let place = 0;
  for (const character of text) {
    numbers.fill(number, place, place + character.length);
    place += character.length;
    number++;
  }
  numbers[text.length] = number;
  return (at) => numbers[at];
}

/** The part of a text between two code point offsets. */
export const sliceText = (text, [start, end]) => [...text].slice(start, end).join("");
