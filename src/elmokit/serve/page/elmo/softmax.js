/** The output layer over the vocabulary: log p of every word, in full or in tiers (Grave et al. 2017). */

export class Softmax {
  constructor({ tensors, kernel }) {
    this.kernel = kernel;
    const linear = (weight, bias) => {
      const { data, shape: [nOut, nIn] } = tensors.get(weight);
      return { matrix: kernel.matrix(data, nIn, nOut, true), bias: bias ? tensors.get(bias).data : new Float32Array(nOut), nOut };
    };
    this.tails = [];
    if (tensors.has("tiers.head.weight")) {
      this.head = linear("tiers.head.weight", "tiers.head.bias");
      for (let k = 0; tensors.has(`tiers.tail.${k}.0.weight`); k++) {
        this.tails.push([linear(`tiers.tail.${k}.0.weight`), linear(`tiers.tail.${k}.1.weight`)]);
      }
    } else this.head = linear("weight", "bias");
    this.nWords = this.head.nOut - this.tails.length + this.tails.reduce((sum, [, words]) => sum + words.nOut, 0);
  }

  /** A vector (D,) to log p of every word, (V,). */
  logProbabilities(x) {
    const front = logSoftmax(this.apply(this.head, x));
    const n = this.head.nOut - this.tails.length;
    const all = new Float32Array(this.nWords);
    all.set(front.subarray(0, n));
    let first = n;
    this.tails.forEach(([shorten, words], k) => {
      const inside = logSoftmax(this.apply(words, this.apply(shorten, x)));
      for (let i = 0; i < inside.length; i++) all[first + i] = inside[i] + front[n + k];
      first += inside.length;
    });
    return all;
  }

  apply({ matrix, bias, nOut }, x) {
    return this.kernel.multiply(matrix, x, 1, new Float32Array(nOut), bias);
  }
}

/** In place. */
export function logSoftmax(scores) {
  let top = -Infinity;
  for (const score of scores) if (score > top) top = score;
  let sum = 0;
  for (const score of scores) sum += Math.exp(score - top);
  const shift = top + Math.log(sum);
  for (let i = 0; i < scores.length; i++) scores[i] -= shift;
  return scores;
}
