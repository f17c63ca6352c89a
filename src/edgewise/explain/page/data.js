// Decode the data of the page. `page.py` describes the format.

export async function load(text) {
  const stream = new Blob([fromBase85(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const size = new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  return new Data(header, bytes.subarray(4 + size));
}

// The alphabet of Python's base64.b85encode, with a comma for "<".
const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~";

function fromBase85(text) {
  const digit = new Uint8Array(128);
  for (let i = 0; i < 85; i++) digit[ALPHABET.charCodeAt(i)] = i;
  const words = Math.ceil(text.length / 5);
  const view = new DataView(new ArrayBuffer(4 * words));
  for (let word = 0; word < words; word++) {
    let value = 0;
    for (let i = 5 * word; i < 5 * word + 5; i++) value = 85 * value + (i < text.length ? digit[text.charCodeAt(i)] : 84);
    view.setUint32(4 * word, value);
  }
  return view.buffer.slice(0, 4 * words - (5 * words - text.length));
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
    return { aspect, x: Float32Array.from(xs, (v) => v / 4095), y: Float32Array.from(ys, (v) => v / 4095) };
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
  column({ place, range: [low, high], steps }) {
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
    if (stored) return { graph: this.graphs[stored.graph], values: this.column(stored) };
    const columns = this.columnsOf(layer, head);
    if (!columns) return null;
    const heads = columns.map((column) => this.weights(column.layer, column.head));
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

  // Stored heads whose mean or maximum is asked for; null if some of them are not stored.
  columnsOf(layer, head) {
    if (typeof head === "number" || layer === "rollout") return null;
    const columns = this.columns.filter((column) => (layer === "all" ? column.layer !== "rollout" : column.layer === layer));
    if (columns.length < 2 || columns.some((column) => column.graph !== columns[0].graph)) return null;
    return layer === "all" || columns.length === this.layers[layer].heads.length ? columns : null;
  }

  has(layer, head) {
    return this.columns.some((column) => column.layer === layer && column.head === head) || this.columnsOf(layer, head) !== null;
  }

  // Whether the weights of all heads are stored.
  get complete() {
    return this.layers.every((layer, index) => this.columns.filter((column) => column.layer === index).length === layer.heads.length);
  }

  label(side, index) {
    const labels = this.sides[side];
    return labels ? labels[index] : String(index);
  }

  thumbnail({ place }) {
    return this.read(place);
  }
}
