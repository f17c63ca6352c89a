// The three drawings: lines between two columns, a matrix, and nodes in a plane.
//
// A view has `fit` (the first transform of d3-zoom), `extent` (limits of zoom and translation), `draw`
// and `hit` (what is under the pointer). A scene holds the data, the choice, the size, the transform
// and the colours.
import { quadtree } from "d3-quadtree";
import { bondLines, CLASSES } from "./reasons.js";

const LEVELS = 8;
const ROW = 24;
const CROWD = 400; // lines of a drawing above which those of the lowest levels become a haze
const FAINT = 2;
const SECOND_HOP = 600; // most edges of the neighbours of a pinned node
const [ACROSS, DOWN] = [2, 8]; // pixels of a cell of the haze
const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
const shorten = (text, count) => (text.length > count ? `${text.slice(0, count - 1)}…` : text);
// Names of nodes often differ at their ends only.
const shortenMiddle = (text, count) => (text.length > count ? `${text.slice(0, count - 7)}…${text.slice(-6)}` : text);
// The only source of a target has the weight 1, whatever the model has learned.
export function forcedEdges(graph, values) {
  const forced = new Uint8Array(values.length);
  for (let i = 0; i < graph.targets; i++) {
    const edge = graph.start[i];
    if (graph.start[i + 1] - edge === 1 && Math.abs(values[edge] - 1) < 0.002) forced[edge] = 1;
  }
  return forced.includes(1) ? forced : null;
}
// 1 is the largest weight, or five times the mean if all weights are alike, which are then faint.
export const strength = (scene, edge) => (scene.forced?.[edge] ? 0.02 : Math.min(1, Math.abs(scene.values[edge]) / (scene.scale || 1)));

// The strongest edges that pass the threshold and the test, at most `scene.limit`, by level.
export function strongest(scene, test, first = 0, last = scene.graph.edges) {
  const passing = [];
  const histogram = new Uint32Array(256);
  for (let e = first; e < last; e++) {
    const weight = Math.abs(scene.values[e]);
    if (weight === 0 || weight < scene.threshold || !test(e)) continue;
    passing.push(e);
    histogram[Math.min(255, Math.floor((255 * weight) / scene.max))]++;
  }
  let cut = 255;
  for (let count = histogram[255]; cut > 0 && count + histogram[cut - 1] <= scene.limit; ) count += histogram[--cut];
  const levels = Array.from({ length: LEVELS }, () => []);
  let drawn = 0;
  for (const e of passing) {
    const share = strength(scene, e);
    if (passing.length > scene.limit && (Math.floor((255 * Math.abs(scene.values[e])) / scene.max) < cut || drawn >= scene.limit)) continue;
    levels[Math.min(LEVELS - 1, Math.floor(share * LEVELS))].push(e);
    drawn++;
  }
  scene.drawn += drawn;
  scene.passing += passing.length;
  return levels;
}

const look = (level, faint = 1, least = 0.1) => ({
  alpha: faint * (least + ((0.95 - least) * (level + 0.5)) / LEVELS),
  width: 0.6 + (2.6 * (level + 0.5)) / LEVELS,
});

// Many lines are fainter, so that the drawing is not one blot.
const fade = (count, few, least = 0.3) => clamp(Math.sqrt(few / Math.max(count, 1)), least, 1);

// Edges of the pinned or hovered node: those it attends to, and those that attend to it.
function own(scene) {
  const focus = scene.focus;
  if (!focus) return { to: [], by: [] };
  const pass = (e) => Math.abs(scene.values[e]) >= scene.threshold && scene.values[e] !== 0;
  const both = scene.graph.rows === scene.graph.columns && scene.view === "nodes";
  const target = focus.side === "target" || both;
  const source = focus.side === "source" || both;
  return {
    to: target && focus.node < scene.graph.targets ? scene.data.edgesOfTarget(scene.graph, focus.node).filter(pass) : [],
    by: source && focus.node < scene.graph.sources ? scene.data.edgesOfSource(scene.graph, focus.node).filter(pass) : [],
  };
}

function byLevel(scene, edges) {
  const levels = Array.from({ length: LEVELS }, () => []);
  for (const e of edges) levels[Math.min(LEVELS - 1, Math.floor(strength(scene, e) * LEVELS))].push(e);
  return levels;
}

// The density of many faint lines from left to right. Drawn one by one, they would show a moiré, and
// would be rounded to 8 bits at each crossing.
function haze(pen, groups, height) {
  const [x0, , x1] = groups.find(([ends]) => ends.length)?.[0] ?? [0, 0, 0];
  const [columns, rows] = [Math.ceil((x1 - x0) / ACROSS), Math.ceil(height / DOWN) + 1];
  if (columns < 1) return;
  const sum = new Float32Array(columns * rows);
  for (const [ends, { alpha, width }] of groups)
    for (let i = 0; i < ends.length; i += 4) {
      const step = (ends[i + 3] - ends[i + 1]) / columns / DOWN;
      const ink = (alpha * width) / DOWN; // at all slopes, because steep lines leave the picture
      let y = ends[i + 1] / DOWN + step / 2;
      for (let column = 0; column < columns; column++, y += step) {
        const row = Math.floor(y);
        if (row < 0 || row >= rows - 1) continue;
        sum[row * columns + column] += ink * (1 - y + row);
        sum[(row + 1) * columns + column] += ink * (y - row);
      }
    }
  const image = new ImageData(columns, rows);
  const colour = Number.parseInt(groups[0][1].colour.slice(1), 16);
  const bgr = (colour >> 16) | (colour & 0xff00) | ((colour & 255) << 16);
  const pixels = new Uint32Array(image.data.buffer); // of little-endian machines, as all arrays of the page
  for (let i = 0; i < sum.length; i++) pixels[i] = bgr | ((255 * (1 - Math.exp(-sum[i]))) << 24);
  const bitmap = Object.assign(document.createElement("canvas"), { width: columns, height: rows });
  bitmap.getContext("2d").putImageData(image, 0, 0);
  pen.image(bitmap, x0, -DOWN / 2, x1 - x0, rows * DOWN, true);
}

// ---------------------------------------------------------------------------- lines

const lines = {
  fit: (scene) => {
    const height = Math.max(scene.graph.targets, scene.graph.sources) * ROW;
    const k = clamp((scene.height - 90) / height, 1, 1.5); // short sequences fill the height
    return { k, x: 0, y: clamp((scene.height - k * height) / 2, 34, 60) };
  },
  extent(scene) {
    const height = Math.max(scene.graph.targets, scene.graph.sources) * ROW;
    return { scale: [Math.min(0.4, scene.height / (height + 80)), 3], area: [[0, -60], [scene.width, height + 60]] };
  },
  columns(scene) {
    const side = clamp(scene.width * 0.28, 80, 260);
    return { left: side, right: scene.width - side };
  },
  y: (scene, index) => scene.t.y + scene.t.k * (index + 0.5) * ROW,
  draw(scene, pen) {
    const { graph, data, colours, t } = scene;
    const { left, right } = this.columns(scene);
    const row = ROW * t.k;
    const first = clamp(Math.floor(-t.y / row) - 1, 0, graph.targets);
    const last = clamp(Math.ceil((scene.height - t.y) / row) + 1, 0, graph.targets);
    const put = (edges) => {
      const ends = new Float32Array(4 * edges.length);
      edges.forEach((e, i) => ends.set([left + 5, this.y(scene, graph.target[e]), right - 5, this.y(scene, graph.source[e])], 4 * i));
      return ends;
    };
    const focus = scene.focus;
    if (!focus || !scene.pinned) {
      const levels = strongest(scene, () => true, graph.start[first], graph.start[last]);
      const faint = scene.drawn > CROWD ? FAINT : 0;
      const style = (level, count) => ({ colour: colours.edge, ...look(level, focus ? 0.2 : fade(count, 200, 0.12)) });
      if (faint) haze(pen, levels.slice(0, faint).map((edges, level) => [put(edges), style(level, scene.drawn)]), scene.height);
      const count = levels.slice(faint).flat().length;
      levels.forEach((edges, level) => level >= faint && pen.lines(put(edges), style(level, count)));
    }
    const { to, by } = own(scene);
    if (scene.pinned) scene.drawn = scene.passing = to.length + by.length;
    byLevel(scene, [...to, ...by]).forEach((edges, level) => pen.lines(put(edges), { colour: colours.pin, ...look(level, 1, 0.2) }));
    const linked = { target: new Map(), source: new Map() };
    for (const e of to) linked.source.set(graph.source[e], strength(scene, e));
    for (const e of by) linked.target.set(graph.target[e], strength(scene, e));
    this.labels(scene, pen, "target", left, graph.targets, graph.rows, linked.target);
    this.labels(scene, pen, "source", right, graph.sources, graph.columns, linked.source);
    pen.rectangle(0, 0, scene.width, 24, { colour: colours.back, alpha: 0.92 });
    pen.text(left, 12, `target, ${scene.data.attends ? "attends to" : "receives from"}`, { colour: colours.muted, anchor: "end", size: 11 });
    pen.text(right, 12, "source", { colour: colours.muted, size: 11 });
  },
  labels(scene, pen, side, x, count, labels, linked) {
    const { colours, t } = scene;
    const row = ROW * t.k;
    const step = Math.max(1, Math.ceil(13 / row));
    const room = Math.floor((side === "target" ? x : scene.width - x) / 7);
    const first = clamp(Math.floor(-t.y / row), 0, count);
    const last = clamp(Math.ceil((scene.height - t.y) / row), 0, count);
    const shown = new Set(linked.size <= 400 ? linked.keys() : []);
    for (let i = Math.ceil(first / step) * step; i < last; i += step) shown.add(i);
    if (scene.focus?.side === side) shown.add(scene.focus.node);
    for (const i of shown) {
      if (i < first || i >= last) continue;
      const y = this.y(scene, i);
      const isFocus = scene.focus?.side === side && scene.focus.node === i;
      const share = linked.get(i);
      if (share !== undefined || isFocus) {
        const width = Math.min(room * 7, 200);
        pen.rectangle(side === "target" ? x - width : x, y - Math.min(row, 20) / 2, width, Math.min(row, 20) - 1, {
          colour: colours.pin,
          alpha: isFocus ? 0.35 : 0.06 + 0.3 * share,
        });
      } else if (scene.found?.has(i)) {
        pen.rectangle(side === "target" ? x - 60 : x, y + 8, 60, 2, { colour: colours.pin });
      }
      if (i % step && !isFocus && share < 0.3) continue;
      pen.text(side === "target" ? x - 2 : x + 2, y, shorten(scene.data.label(labels, i), room), {
        colour: colours.ink,
        anchor: side === "target" ? "end" : "start",
        size: clamp(row * 0.6, 10, 16),
        bold: isFocus,
      });
    }
  },
  hit(scene, x, y) {
    const side = x < scene.width / 2 ? "target" : "source";
    const node = Math.floor((y - scene.t.y) / (ROW * scene.t.k));
    const count = side === "target" ? scene.graph.targets : scene.graph.sources;
    return node >= 0 && node < count && y > 24 ? { side, node } : null;
  },
  centre: (scene, { node }) => [scene.width / 2 / scene.t.k, (node + 0.5) * ROW],
};

// --------------------------------------------------------------------------- matrix

const matrix = {
  margin: (scene) => ({ left: clamp(scene.width * 0.16, 56, 120), top: 76 }),
  cell(scene) {
    const { left, top } = this.margin(scene);
    const { targets, sources } = scene.graph;
    const fitting = Math.min((scene.width - left - 16) / sources, (scene.height - top - 34) / targets);
    return Math.min(fitting, 40);
  },
  fit(scene) {
    const { left, top } = this.margin(scene);
    const cell = this.cell(scene);
    const k = scene.graph.banded && cell < 3 ? 9 / cell : 1; // start at the first corner
    return { k, x: left, y: top };
  },
  extent(scene) {
    const cell = this.cell(scene);
    const { left, top } = this.margin(scene);
    const { targets, sources } = scene.graph;
    return {
      scale: [0.8, Math.max(2, 40 / cell)],
      area: [[-left - 20, -top - 20], [Math.max(scene.width, sources * cell + 20), Math.max(scene.height, targets * cell + 40)]],
    };
  },
  draw(scene, pen) {
    const { graph, colours, t } = scene;
    const { left, top } = this.margin(scene);
    const cell = this.cell(scene) * t.k;
    const x = (j) => t.x + j * cell;
    const y = (i) => t.y + i * cell;
    const rows = [clamp(Math.floor((top - t.y) / cell), 0, graph.targets), clamp(Math.ceil((scene.height - t.y) / cell), 0, graph.targets)];
    const columns = [clamp(Math.floor((left - t.x) / cell), 0, graph.sources), clamp(Math.ceil((scene.width - t.x) / cell), 0, graph.sources)];
    const x0 = Math.max(left, x(0));
    const y0 = Math.max(top, y(0));
    pen.rectangle(x0, y0, Math.min(scene.width, x(graph.sources)) - x0, Math.min(scene.height, y(graph.targets)) - y0, {
      colour: colours.panel,
    });
    const visible = (e) => graph.source[e] >= columns[0] && graph.source[e] < columns[1];
    const [first, last] = [graph.start[rows[0]], graph.start[rows[1]]];
    if (cell >= 4 && last - first < 40000) {
      for (let e = first; e < last; e++) {
        if (!visible(e) || Math.abs(scene.values[e]) < scene.threshold) continue;
        const [px, py] = [x(graph.source[e]), y(graph.target[e])];
        scene.drawn++;
        pen.rectangle(px, py, cell - (cell > 9 ? 1 : 0), cell - (cell > 9 ? 1 : 0), {
          colour: scene.values[e] < 0 ? colours.negative : colours.edge,
          alpha: Math.sqrt(strength(scene, e)),
        });
      }
    } else {
      this.pixels(scene, pen, first, last, cell, left, top);
    }
    scene.passing = scene.drawn;
    const focus = scene.focus;
    pen.rectangle(0, 0, scene.width, top, { colour: colours.back });
    pen.rectangle(0, 0, left, scene.height, { colour: colours.back });
    if (focus?.side === "target" && focus.node < graph.targets && y(focus.node) > top - cell)
      pen.frame(x0 - 1, y(focus.node) - 1, Math.min(x(graph.sources), scene.width) - x0 + 1, Math.max(cell, 3) + 1, { colour: colours.pin });
    if (focus?.side === "source" && focus.node < graph.sources && x(focus.node) > left - cell)
      pen.frame(x(focus.node) - 1, y0 - 1, Math.max(cell, 3) + 1, Math.min(y(graph.targets), scene.height) - y0 + 1, { colour: colours.pin });
    const step = Math.max(1, Math.ceil(13 / cell));
    const size = clamp(cell * 0.6, 10, 13);
    for (let i = Math.ceil(rows[0] / step) * step; i < rows[1]; i += step)
      if (y(i + 0.5) > top)
        pen.text(left - 5, y(i + 0.5), shorten(scene.data.label(graph.rows, i), Math.floor(left / 7)), {
          ...this.mark(scene, "target", i), anchor: "end", size,
        });
    for (let j = Math.ceil(columns[0] / step) * step; j < columns[1]; j += step)
      if (x(j + 0.5) > left)
        pen.text(x(j + 0.5), top - 6, shorten(scene.data.label(graph.columns, j), 9), {
          ...this.mark(scene, "source", j), size, turn: -Math.PI / 3,
        });
    pen.text(6, 12, "row: target, column: source", { colour: colours.muted, size: 11 });
  },
  mark(scene, side, index) {
    const own = scene.focus?.side === side && scene.focus.node === index;
    return { colour: own || scene.found?.has(index) ? scene.colours.pin : scene.colours.ink, bold: own };
  },
  // Many small cells: one pixel takes the largest weight in it.
  pixels(scene, pen, first, last, cell, left, top) {
    const { graph, t } = scene;
    const [width, height] = [Math.max(1, Math.floor(scene.width - left)), Math.max(1, Math.floor(scene.height - top))];
    const bitmap = document.createElement("canvas");
    [bitmap.width, bitmap.height] = [width, height];
    const context = bitmap.getContext("2d");
    const image = context.createImageData(width, height);
    const colour = Number.parseInt(scene.colours.edge.slice(1), 16);
    const bytes = image.data;
    const side = Math.max(1, Math.round(cell));
    for (let e = first; e < last; e++) {
      const weight = Math.abs(scene.values[e]);
      if (weight < scene.threshold) continue;
      const px = Math.floor(t.x - left + graph.source[e] * cell);
      const py = Math.floor(t.y - top + graph.target[e] * cell);
      const alpha = 255 * Math.sqrt(weight / scene.scale);
      scene.drawn++;
      for (let dy = 0; dy < side; dy++)
        for (let dx = 0; dx < side; dx++) {
          if (px + dx < 0 || px + dx >= width || py + dy < 0 || py + dy >= height) continue;
          const at = 4 * ((py + dy) * width + px + dx);
          if (bytes[at + 3] >= alpha) continue;
          bytes[at] = colour >> 16;
          bytes[at + 1] = (colour >> 8) & 255;
          bytes[at + 2] = colour & 255;
          bytes[at + 3] = alpha;
        }
    }
    context.putImageData(image, 0, 0);
    pen.image(bitmap, left, top, width, height);
  },
  hit(scene, x, y) {
    const { left, top } = this.margin(scene);
    const cell = this.cell(scene) * scene.t.k;
    const [j, i] = [Math.floor((x - scene.t.x) / cell), Math.floor((y - scene.t.y) / cell)];
    const { targets, sources } = scene.graph;
    if (i >= 0 && i < targets && y > top) {
      const edge = x > left ? scene.data.edgesOfTarget(scene.graph, i).find((e) => scene.graph.source[e] === j) : undefined;
      return { side: "target", node: i, source: x > left && j >= 0 && j < sources ? j : undefined, edge };
    }
    return j >= 0 && j < sources && x > left ? { side: "source", node: j } : null;
  },
  centre(scene, { side, node }) {
    const cell = this.cell(scene);
    const middle = [scene.width / 2 / scene.t.k, scene.height / 2 / scene.t.k];
    if (scene.graph.banded) return [(node + 0.5) * cell, (node + 0.5) * cell];
    return side === "target" ? [middle[0] - scene.t.x / scene.t.k, (node + 0.5) * cell] : [(node + 0.5) * cell, middle[1] - scene.t.y / scene.t.k];
  },
};

// ---------------------------------------------------------------------------- nodes

const nodes = {
  fit: () => ({ k: 1, x: 0, y: 0 }),
  extent: (scene) => ({ scale: [0.5, 60], area: [[-scene.width / 2, -scene.height / 2], [1.5 * scene.width, 1.5 * scene.height]] }),
  // World coordinates of all nodes, in pixels at scale 1.
  places(scene) {
    const { x, y, aspect } = scene.data.points;
    const pad = clamp(scene.width * 0.06, 22, 44);
    const [wide, tall] = scene.data.image?.patch ?? [0, 0]; // half a patch on each side
    const height = Math.max(20, Math.min((scene.height - 2 * pad) / (1 + tall), (scene.width - 2 * pad) / aspect / (1 + wide)));
    const width = height * aspect;
    const [left, top] = [(scene.width - width) / 2, (scene.height - height) / 2];
    const key = `${scene.width}/${scene.height}`;
    if (this.key !== key) {
      this.key = key;
      this.at = { x: x.map((v) => left + v * width), y: y.map((v) => top + (1 - v) * height), left, top, width, height };
      this.tree = quadtree(Array.from(x.keys()), (i) => this.at.x[i], (i) => this.at.y[i]);
    }
    return this.at;
  },
  spacing(scene) {
    const { width, height } = this.places(scene);
    return Math.sqrt((width * height) / scene.data.points.x.length) * scene.t.k;
  },
  radius(scene) {
    if (scene.data.kind === "molecule") return clamp(this.spacing(scene) * 0.2, 8, 17);
    return clamp(this.spacing(scene) * 0.16, 1.6, scene.data.points.x.length > 300 ? 6 : 12);
  },
  draw(scene, pen) {
    const { graph, data, colours, t } = scene;
    const at = this.places(scene);
    const x = (i) => t.x + t.k * at.x[i];
    const y = (i) => t.y + t.k * at.y[i];
    const inside = (i) => x(i) > -20 && x(i) < scene.width + 20 && y(i) > -20 && y(i) < scene.height + 20;
    const radius = this.radius(scene);
    if (data.image) this.image(scene, pen, at);
    if (data.bonds) {
      const [from, to] = [data.bondEnds ??= data.read(data.bonds)].flatMap((all) => [all.subarray(0, all.length / 2), all.subarray(all.length / 2)]);
      const ends = Array.from(from).flatMap((a, i) => bondLines([x(a), y(a)], [x(to[i]), y(to[i])], data.orders?.[i] ?? 1, 2.2 * radius).flat());
      pen.lines(ends, { colour: colours.line, width: clamp(radius * 0.2, 2, 4) });
    }
    const { to, by } = own(scene);
    const { focus } = scene;
    if (data.image) {
      scene.drawn = scene.passing = graph.edges;
    } else if (!focus || !scene.pinned) {
      const levels = strongest(scene, (e) => graph.source[e] !== graph.target[e] && (inside(graph.source[e]) || inside(graph.target[e])));
      const count = scene.drawn;
      levels.forEach((edges, level) => this.edges(scene, pen, edges, { x, y, radius, colour: colours.edge, ...look(level, focus ? 0.3 : fade(count, 80)), arrows: count <= 1500 }));
    } else {
      // The edges of the neighbours, so that two hops are seen.
      const near = new Set([...to.map((e) => graph.source[e]), ...by.map((e) => graph.target[e])]);
      const mine = (e) => graph.source[e] === focus.node || graph.target[e] === focus.node;
      scene.limit = Math.min(scene.limit, SECOND_HOP);
      const levels = strongest(scene, (e) => graph.source[e] !== graph.target[e] && !mine(e) && (near.has(graph.source[e]) || near.has(graph.target[e])));
      levels.forEach((edges, level) => this.edges(scene, pen, edges, { x, y, radius, colour: colours.muted, ...look(level, 0.7, 0.3), arrows: false }));
      scene.drawn += to.length + by.length;
      scene.passing += to.length + by.length;
    }
    if (!data.image) {
      byLevel(scene, by).forEach((edges, level) => this.edges(scene, pen, edges, { x, y, radius, colour: colours.edge, ...look(level, 1, 0.4), arrows: true }));
      byLevel(scene, to).forEach((edges, level) => this.edges(scene, pen, edges, { x, y, radius, colour: colours.pin, ...look(level, 1, 0.4), arrows: true }));
    }
    this.nodes(scene, pen, { x, y, radius, inside, to, by });
  },
  edges(scene, pen, edges, { x, y, radius, arrows, ...style }) {
    const { graph } = scene;
    const ends = [];
    for (const e of edges) {
      const [a, b] = [graph.source[e], graph.target[e]];
      const [x1, y1, x2, y2] = [x(a), y(a), x(b), y(b)];
      if (a === b) {
        pen.circle(x1, y1, radius + 3, { stroke: style.colour, width: style.width, alpha: style.alpha });
        continue;
      }
      const length = Math.hypot(x2 - x1, y2 - y1);
      if (length < 0.5) continue;
      // Both directions of a pair run beside each other.
      const [dx, dy] = [(x2 - x1) / length, (y2 - y1) / length];
      const shift = arrows ? Math.min(2.5, radius / 3) : 0;
      const gap = Math.min(radius + 1, length / 3);
      const [sx, sy] = [x1 + dx * gap - dy * shift, y1 + dy * gap + dx * shift];
      const [ex, ey] = [x2 - dx * gap - dy * shift, y2 - dy * gap + dx * shift];
      const head = arrows && length > 3 * radius ? 4 + 1.6 * style.width : 0;
      ends.push(sx, sy, ex - dx * head * 0.8, ey - dy * head * 0.8);
      if (head)
        pen.polygon([ex, ey, ex - dx * head - dy * head * 0.45, ey - dy * head + dx * head * 0.45, ex - dx * head + dy * head * 0.45, ey - dy * head - dx * head * 0.45], style);
    }
    pen.lines(ends, style);
  },
  image(scene, pen, at) {
    const { data, t } = scene;
    const { bitmap, extent } = data.image;
    const [x0, x1, y0, y1] = [at.left + extent[0] * at.width, at.left + extent[1] * at.width, at.top + (1 - extent[3]) * at.height, at.top + (1 - extent[2]) * at.height];
    const box = [t.x + t.k * x0, t.y + t.k * y0, t.k * (x1 - x0), t.k * (y1 - y0)];
    pen.image(bitmap, ...box);
    // Colours are seen on pictures of all colours if these are paler.
    if (!scene.focus) pen.rectangle(...box, { colour: scene.colours.back, alpha: 0.75 });
  },
  // The attention that each node receives; 1 is the largest, as in `strength`.
  received(scene) {
    const { graph, values } = scene;
    const sum = new Float32Array(graph.sources);
    for (let e = 0; e < graph.edges; e++) sum[graph.source[e]] += Math.abs(values[e]);
    const mean = sum.reduce((total, value) => total + value, 0) / graph.sources;
    const scale = Math.max(...sum, 3 * mean, 1e-9); // alike ones are faint
    return sum.map((value) => value / scale);
  },
  nodes(scene, pen, { x, y, radius, inside, to, by }) {
    const { data, colours, graph, focus } = scene;
    const count = data.points.x.length;
    const linked = new Map();
    for (const e of by) linked.set(graph.target[e], { colour: colours.edge, share: strength(scene, e) });
    for (const e of to) linked.set(graph.source[e], { colour: colours.pin, share: strength(scene, e), to: strength(scene, e) });
    const spacing = this.spacing(scene);
    const named = spacing > 38 && !(scene.pinned && count > 60);
    if (data.image) {
      const [patch, tall] = data.image.patch.map((size, axis) => size * (axis ? this.at.height : this.at.width) * scene.t.k);
      // The other patches are dimmed, which works on pictures of all colours.
      const largest = Math.max(1e-9, ...to.map((e) => strength(scene, e)));
      if (focus)
        for (let i = 0; i < count; i++)
          pen.rectangle(x(i) - patch / 2, y(i) - tall / 2, patch + 0.5, tall + 0.5, { colour: colours.back, alpha: 0.85 * (1 - (linked.get(i)?.to ?? 0) / largest) });
      if (focus) pen.frame(x(focus.node) - patch / 2, y(focus.node) - tall / 2, patch, tall, { colour: colours.pin });
      else this.received(scene).forEach((fraction, i) => pen.rectangle(x(i) - patch / 2, y(i) - tall / 2, patch, tall, { colour: colours.edge, alpha: 0.85 * fraction }));
      if (scene.found) for (const i of scene.found) pen.frame(x(i) - patch / 2, y(i) - tall / 2, patch, tall, { colour: colours.edge });
      return;
    }
    const numbers = data.classes && (data.classes.numbers ??= data.read(data.classes.of));
    const small = [];
    const last = focus && focus.node < count ? focus.node : count - 1; // the chosen node lies on top
    for (let k = 0; k < count; k++) {
      const i = k === count - 1 ? last : k === last ? count - 1 : k;
      if (!inside(i)) continue;
      const mine = focus?.node === i;
      const link = linked.get(i);
      const found = scene.found?.has(i);
      const faint = scene.pinned && !mine && !link && !found;
      if (data.kind === "molecule") {
        pen.circle(x(i), y(i), radius, { fill: colours.back, stroke: mine ? colours.pin : (link?.colour ?? colours.line), width: mine ? 3 : link ? 2 : 1 });
        pen.text(x(i), y(i), data.label(graph.rows, i), { colour: colours.ink, anchor: "middle", size: clamp(radius * 0.95, 9, 15), bold: mine });
        continue;
      }
      if (radius < 2.2 && !numbers && !mine && !link && !found) small.push(x(i), y(i));
      else pen.circle(x(i), y(i), mine ? Math.max(radius, 5) + 1 : found ? Math.max(radius, 4) : Math.max(radius, link ? 3 : 0), {
          fill: numbers && i < numbers.length ? CLASSES[numbers[i] % CLASSES.length] : mine || found ? colours.pin : (link?.colour ?? colours.node),
          alpha: faint ? 0.3 : 1,
          stroke: numbers && (mine || found) ? colours.pin : numbers && link ? link.colour : colours.back,
          width: numbers && (mine || found || link) ? 2.5 : 1,
        });
    }
    pen.dots(small, 2 * radius, { colour: colours.node, alpha: scene.pinned ? 0.3 : 0.8 });
    if (data.kind === "molecule") return;
    const strongestLinks = [...linked].sort((a, b) => b[1].share - a[1].share).slice(0, 14).map(([i]) => i);
    const listed = new Set([...(focus ? [focus.node] : []), ...strongestLinks]);
    if (named) for (let i = 0; i < count && listed.size < 250; i++) if (inside(i)) listed.add(i);
    const taken = [];
    for (const i of listed) {
      if (i >= count || !inside(i)) continue;
      const text = shortenMiddle(data.label(graph.rows, i), scene.width < 600 ? 16 : 28);
      const width = 7 * text.length + 4;
      const mine = focus?.node === i;
      // The name of the chosen node stands above it; others right of their nodes, or left if there is no room.
      const beside = x(i) + radius + 4 + width > scene.width && x(i) > width ? x(i) - radius - width : x(i) + radius + 4;
      const [left, middle] = mine ? [x(i) - width / 2, y(i) - Math.max(radius, 5) - 11] : [beside, y(i)];
      // A name that would cover another one is left out; stronger links come first.
      if (taken.some(([a, b, wide]) => left < a + wide && a < left + width && Math.abs(middle - b) < 13)) continue;
      taken.push([left, middle, width]);
      if (mine) {
        pen.rectangle(left, middle - 8, width, 15, { colour: colours.back, alpha: 0.85 });
        pen.text(x(i), middle, text, { colour: colours.pin, size: 12, anchor: "middle", bold: true });
      } else pen.text(beside < x(i) ? left + width - 4 : left, middle, text, { colour: colours.ink, size: 11, anchor: beside < x(i) ? "end" : "start" });
    }
  },
  hit(scene, x, y) {
    this.places(scene);
    const { t } = scene;
    const reach = scene.data.image ? Infinity : Math.max(14, this.radius(scene) + 4);
    const node = this.tree.find((x - t.x) / t.k, (y - t.y) / t.k, reach / t.k);
    return node === undefined || node >= scene.graph.targets ? null : { side: "target", node };
  },
  centre(scene, { node }) {
    const at = this.places(scene);
    return [at.x[node], at.y[node]];
  },
};

export const VIEWS = { lines, matrix, nodes };
