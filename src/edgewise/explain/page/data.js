// Decode the data of the page. `page.py` describes the format.

export async function load(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const size = new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  return new Data(header, bytes.subarray(4 + size));
}

class Data {
  constructor(header, bytes) {
    Object.assign(this, header);
    this.bytes = bytes;
    this.cache = new Map();
    this.graphs = header.graphs.map((graph) => this.readGraph(graph));
    this.points = header.positions && this.readPoints(header.positions);
  }

  // Arrays are stored as byte planes: all lowest bytes first.
  read([offset, count, width]) {
    const out = new Uint32Array(count);
    for (let plane = 0; plane < width; plane++) {
      const start = offset + plane * count;
      for (let i = 0; i < count; i++) out[i] |= this.bytes[start + i] << (8 * plane);
    }
    return out;
  }

  readSigned(place) {
    return Int32Array.from(this.read(place), (value) => (value >>> 1) ^ -(value & 1));
  }

  readPoints({ x, y, aspect }) {
    const [xs, ys] = [this.read(x), this.read(y)];
    return { aspect, x: Float32Array.from(xs, (v) => v / 65535), y: Float32Array.from(ys, (v) => v / 65535) };
  }

  readGraph(graph) {
    const degrees = this.readSigned(graph.degrees);
    const steps = this.readSigned(graph.steps);
    const start = new Int32Array(graph.targets + 1);
    const source = new Int32Array(steps.length);
    const target = new Int32Array(steps.length);
    let degree = 0;
    let edge = 0;
    for (let i = 0; i < graph.targets; i++) {
      degree += degrees[i];
      start[i + 1] = start[i] + degree;
      for (let last = i; edge < start[i + 1]; edge++) {
        last = source[edge] = last + steps[edge];
        target[edge] = i;
      }
    }
    return { ...graph, start, source, target, edges: steps.length };
  }

  // Edges sorted by source, for the question "which targets attend to this node?".
  bySource(graph) {
    if (!graph.outgoing) {
      const start = new Int32Array(graph.sources + 1);
      for (const j of graph.source) start[j + 1]++;
      for (let j = 0; j < graph.sources; j++) start[j + 1] += start[j];
      const next = start.slice();
      const edge = new Int32Array(graph.edges);
      for (let e = 0; e < graph.edges; e++) edge[next[graph.source[e]]++] = e;
      graph.outgoing = { start, edge };
    }
    return graph.outgoing;
  }

  edgesOfTarget(graph, i) {
    return Array.from({ length: graph.start[i + 1] - graph.start[i] }, (_, k) => graph.start[i] + k);
  }

  edgesOfSource(graph, j) {
    const { start, edge } = this.bySource(graph);
    return Array.from(edge.subarray(start[j], start[j + 1]));
  }

  // The weights of a stored column; square roots are stored, on an even scale.
  column(place, low, high) {
    const steps = 2 ** (8 * place[2]) - 1;
    return Float32Array.from(this.read(place), (value) => {
      const root = low + ((high - low) * value) / steps;
      return Math.sign(root) * root * root;
    });
  }

  // Weights of a choice: layer is an index or "all" or "rollout", head an index, "mean" or "maximum".
  weights(layer, head) {
    const key = `${layer}/${head}`;
    if (!this.cache.has(key)) this.cache.set(key, this.compute(layer, head));
    return this.cache.get(key);
  }

  compute(layer, head) {
    const stored = this.columns.find((column) => column.layer === layer && column.head === head);
    if (stored) return { graph: this.graphs[stored.graph], values: this.column(stored.place, ...stored.range) };
    if (typeof layer !== "number" || typeof head === "number") return null;
    const heads = this.layers[layer].heads.map((index) => this.weights(layer, index));
    if (heads.includes(null)) return null; // not all heads are in full
    const values = heads[0].values.slice();
    for (const one of heads.slice(1))
      for (let e = 0; e < values.length; e++)
        values[e] = head === "mean" ? values[e] + one.values[e] : Math.max(values[e], one.values[e]);
    if (head === "mean") for (let e = 0; e < values.length; e++) values[e] /= heads.length;
    return { graph: heads[0].graph, values };
  }

  heads(layer) {
    if (layer === "rollout") return ["mean"];
    if (layer === "all") return ["mean", "maximum"];
    const { heads } = this.layers[layer];
    return heads.length > 1 ? ["mean", "maximum", ...heads] : heads;
  }

  has(layer, head) {
    if (this.columns.some((column) => column.layer === layer && column.head === head)) return true;
    if (typeof layer !== "number" || typeof head === "number") return false;
    return this.layers[layer].heads.every((index) => this.has(layer, index));
  }

  label(side, index) {
    const labels = this.sides[side];
    return labels ? labels[index] : String(index);
  }

  thumbnail({ place }) {
    return this.read(place);
  }
}
