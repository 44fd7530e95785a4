/**
 * Words to character ids, as `elmokit.text.characters`: UTF-8 bytes for the published models, code points for
 * ELMoForManyLangs.
 */

const BOS = 257, EOS = 258, BOW = 259, EOW = 260, PAD = 261;  // bytes are 1 to 256

export class ByteCharacters {
  begin = "<S>";
  end = "</S>";
  pad = PAD;

  constructor(maxCharacters = 50) {
    this.maxCharacters = maxCharacters;
  }

  /** Ids of a word, Int32Array of maxCharacters; how many of them are not padding is `length` of `symbols`. */
  encode(word) {
    const row = new Int32Array(this.maxCharacters).fill(PAD);
    const inner = word === this.begin ? [BOS] : word === this.end ? [EOS] : firstBytes(word, this.maxCharacters - 2);
    row[0] = BOW;
    for (let i = 0; i < inner.length; i++) row[i + 1] = inner[i];
    row[inner.length + 1] = EOW;
    return row;
  }

  /** What each id of a row stands for, up to the end of the word: { text, char } with the number of the character. */
  symbols(word) {
    const symbols = [{ text: "^", char: -1 }];
    if (word === this.begin || word === this.end) symbols.push({ text: word, char: 0 });
    else {
      const left = this.maxCharacters - 2;
      [...word].forEach((text, char) => {
        const bytes = isLoneSurrogate(text) ? 0 : new TextEncoder().encode(text).length;
        for (let b = 0; b < bytes && symbols.length <= left; b++) symbols.push({ text: b ? "" : text, char });
      });
    }
    return [...symbols, { text: "$", char: -2 }];
  }
}

export class CodePointCharacters {
  begin = "<bos>";
  end = "<eos>";

  constructor(alphabet, maxCharacters = 50) {
    this.alphabet = new Map(Object.entries(alphabet));
    for (const mark of ["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"]) {
      if (!this.alphabet.has(mark)) throw new Error(`alphabet.json: expected the mark ${mark}, found none`);
    }
    this.maxCharacters = maxCharacters;
    this.pad = this.alphabet.get("<pad>");
  }

  encode(word) {
    const row = new Int32Array(this.maxCharacters).fill(this.pad);
    const unknown = this.alphabet.get("<oov>");
    const inner = word === this.begin || word === this.end
      ? [this.alphabet.get(word)]
      : [...word].slice(0, this.maxCharacters - 2).map((c) => this.alphabet.get(c) ?? unknown);
    row[0] = this.alphabet.get("<eow>");  // begin and end are swapped: so were they when these models were trained
    inner.forEach((id, i) => { row[i + 1] = id; });
    row[inner.length + 1] = this.alphabet.get("<bow>");
    return row;
  }

  symbols(word) {
    const inner = word === this.begin || word === this.end ? [word] : [...word].slice(0, this.maxCharacters - 2);
    return [{ text: "^", char: -1 }, ...inner.map((text, char) => ({ text, char })), { text: "$", char: -2 }];
  }
}

const isLoneSurrogate = (character) => character.length === 1 && (character.charCodeAt(0) & 0xf800) === 0xd800;

/** Ids of the first bytes of a word's UTF-8 form; lone surrogates, which have none, vanish. */
function firstBytes(word, room) {
  const bytes = [];
  for (const character of word) {
    if (bytes.length >= room) break;
    if (isLoneSurrogate(character)) continue;
    for (const byte of new TextEncoder().encode(character)) bytes.push(byte + 1);
  }
  return bytes.slice(0, room);
}
