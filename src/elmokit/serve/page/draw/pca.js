/** Principal components, k-means and its purity for a few dozen vectors, fast enough to follow a slider. */

/**
 * Inner products of all pairs of points, of every pair of layers, centered: (L, L, n, n).
 * A mix of layers has those of the layers, weighted: what a slider moves is a sum of small matrices.
 */
export function grams(layers) {
  const centered = layers.map((points) => {
    const mean = new Float32Array(points[0].length);
    for (const point of points) for (let d = 0; d < point.length; d++) mean[d] += point[d] / points.length;
    return points.map((point) => point.map((v, d) => v - mean[d]));
  });
  return centered.map((a) => centered.map((b) => a.map((p) => Float64Array.from(b, (q) => {
    let sum = 0;
    for (let d = 0; d < p.length; d++) sum += p[d] * q[d];
    return sum;
  }))));
}

export function mixGram(all, weights) {
  const n = all[0][0].length, mixed = Array.from({ length: n }, () => new Float64Array(n));
  weights.forEach((a, k) => weights.forEach((b, l) => {
    for (let i = 0; i < n; i++) for (let j = 0, row = all[k][l][i], out = mixed[i]; j < n; j++) out[j] += a * b * row[j];
  }));
  return mixed;
}

/** The first two principal components of points with these inner products: [[x, y]], and their shares of the variance. */
export function components(gram, before = null) {
  const n = gram.length, trace = gram.reduce((sum, row, i) => sum + row[i], 0);
  const vectors = [], values = [];
  for (let c = 0; c < 2; c++) {
    let v = Float64Array.from({ length: n }, (_, i) => before?.[i]?.[c] || Math.sin(1 + i * (c + 1.3)));
    let value = 0;
    for (let turn = 0; turn < 200; turn++) {
      const next = gram.map((row) => {
        let sum = 0;
        for (let j = 0; j < n; j++) sum += row[j] * v[j];
        return sum;
      });
      vectors.forEach((other) => {
        const along = next.reduce((sum, x, i) => sum + x * other[i], 0);
        next.forEach((_, i) => { next[i] -= along * other[i]; });
      });
      const length = Math.hypot(...next);
      if (length < 1e-9 * (trace || 1) || length < 1e-12) { v = new Float64Array(n); value = 0; break; }
      const unit = next.map((x) => x / length);
      const change = Math.hypot(...unit.map((x, i) => x - v[i]));
      v = unit;
      value = length;
      if (change < 1e-7) break;
    }
    vectors.push(v);
    values.push(value);
  }
  const points = Array.from({ length: n }, (_, i) => vectors.map((v, c) => v[i] * Math.sqrt(values[c])));
  if (before) {  // an axis that turned around is turned back
    for (let c = 0; c < 2; c++) {
      if (points.reduce((sum, p, i) => sum + p[c] * before[i][c], 0) < 0) points.forEach((p) => { p[c] = -p[c]; });
    }
  }
  return { points, shares: values.map((value) => (trace > 1e-12 ? value / trace : 0)) };
}

/** k-means by inner products alone, from points far apart; the same every time. Returns a cluster number per point. */
export function clusters(gram, k) {
  const n = gram.length, apart = (i, j) => gram[i][i] + gram[j][j] - 2 * gram[i][j];
  const seeds = [gram.reduce((best, row, i) => (row[i] > gram[best][best] ? i : best), 0)];
  while (seeds.length < Math.min(k, n)) {
    const distance = (i) => Math.min(...seeds.map((seed) => apart(i, seed)));
    seeds.push(gram.reduce((best, _, i) => (distance(i) > distance(best) ? i : best), 0));
  }
  let of = gram.map((_, i) => seeds.reduce((best, seed, c) => (apart(i, seed) < apart(i, seeds[best]) ? c : best), 0));
  for (let turn = 0; turn < 30; turn++) {
    const members = seeds.map((_, c) => of.flatMap((cluster, i) => (cluster === c ? [i] : [])));
    const inner = members.map((m) => m.reduce((sum, a) => sum + m.reduce((t, b) => t + gram[a][b], 0), 0) / (m.length ** 2 || 1));
    const far = (i, c) => (members[c].length ? gram[i][i] - 2 * members[c].reduce((sum, a) => sum + gram[i][a], 0) / members[c].length + inner[c] : Infinity);
    const next = of.map((_, i) => seeds.reduce((best, _, c) => (far(i, c) < far(i, best) ? c : best), 0));
    if (next.every((c, i) => c === of[i])) break;
    of = next;
  }
  const order = [...new Set(of)];  // numbered as they come, so that colors stay
  return of.map((c) => order.indexOf(c));
}

/** Points whose label is the majority of their cluster. */
export function purity(of, labels) {
  const clusters = new Map();
  of.forEach((c, i) => {
    const counts = clusters.get(c) ?? clusters.set(c, new Map()).get(c);
    counts.set(labels[i], (counts.get(labels[i]) ?? 0) + 1);
  });
  return [...clusters.values()].reduce((sum, counts) => sum + Math.max(...counts.values()), 0);
}

/** `purity` with the labels shuffled, some hundred times, ascending: what chance gives. The same every time. */
export function shuffledPurity(of, labels, times = 200) {
  const mixed = [...labels];
  let seed = 1;
  const below = (n) => { seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0; return Math.floor(seed / 2 ** 32 * n); };
  return Array.from({ length: times }, () => {
    for (let i = mixed.length - 1; i > 0; i--) { const j = below(i + 1); [mixed[i], mixed[j]] = [mixed[j], mixed[i]]; }
    return purity(of, mixed);
  }).sort((a, b) => a - b);
}
