import { select } from "d3-selection";
import { zoom as d3zoom, zoomIdentity } from "d3-zoom";
import { load } from "./data.js";
import { CanvasPen, SvgPen } from "./pen.js";
import { CLASSES, showReasons } from "./reasons.js";
import { forcedEdges, strength, VIEWS } from "./views.js";

const STILL = 20000; // most edges of a drawing at rest
const MOVING = 2500; // most edges while it moves
const SLOW = 20; // milliseconds; a slower drawing of nodes is moved as a picture
const by = (id) => document.getElementById(id);
const number = (value) => value.toLocaleString("en");

// Dotted names without the parts with which all of them begin and end, and without those that tell
// nothing, if the names still differ.
const PLAIN = new Set(["backbone", "core", "layer", "model", "stack", "sublayer", "trunk"]);
function shortNames(names) {
  const telling = names.map((name) => name.split(".").filter((part) => !PLAIN.has(part)));
  const differ = telling.every((part) => part.length) && new Set(telling.map(String)).size === names.length;
  const parts = differ ? telling : names.map((name) => name.split("."));
  if (parts.length < 2) return parts.map((all) => all.slice(-3).join("."));
  const equal = (index) => new Set(parts.map((all) => all.at(index))).size === 1;
  const fewest = Math.min(...parts.map((all) => all.length));
  let [first, last] = [0, 0];
  while (first < fewest - 1 && equal(first)) first++;
  while (last < fewest - 1 - first && equal(-1 - last)) last++;
  first = Math.max(0, first - 1); // "layers.0" rather than "0"
  return parts.map((all) => all.slice(first, all.length - last).join("."));
}

// The tab of attention. It returns a function that draws again in other colours.
function start(data) {
  const state = { layer: 0, head: 0, view: "", threshold: 0, pin: null, hover: null, found: null, moving: false };
  const canvas = by("drawing");
  const zoom = d3zoom();
  const transforms = {};
  const digits = Math.min(...data.columns.map((column) => column.steps)) > 255 ? 4 : 3;
  const weight = (value) => (value !== 0 && Math.abs(value) < 0.5 * 10 ** -digits ? value.toExponential(0) : value.toFixed(digits));
  let scene = null;
  const still = { milliseconds: 0, picture: null, t: null }; // the last drawing at rest
  let asked = 0;
  let rest = 0;

  const reads = data.attends ? "attends to" : "receives from";
  const isRead = data.attends ? "attended to by" : "sends to";
  const views = data.points ? ["nodes", "matrix"] : ["lines", "matrix"];
  state.wanted = views[0];
  if (data.image) {
    const bitmap = document.createElement("canvas");
    [bitmap.width, bitmap.height] = data.image.size;
    const pixels = new Uint8ClampedArray(data.read(data.image.place));
    bitmap.getContext("2d").putImageData(new ImageData(pixels, ...data.image.size), 0, 0);
    data.image.bitmap = bitmap;
  }

  // ------------------------------------------------------------------- the choices

  const layers = [...data.layers.keys(), ...(data.layers.length > 1 && data.has("all", "mean") ? ["all"] : []), ...(data.has("rollout", "mean") ? ["rollout"] : [])];
  const name = (layer) => (typeof layer === "number" ? data.layers[layer].name : layer === "rollout" ? layer : data.complete ? "all layers" : "heads in full");
  const short = shortNames(data.layers.map((layer) => layer.name));
  const usable = (layer) => data.heads(layer).some((head) => data.has(layer, head));
  const option = (text, value, disabled) => Object.assign(document.createElement("option"), { textContent: text, value, disabled });
  const called = (layer) => (typeof layer === "number" ? `${data.layers[layer].number}: ${short[layer]}` : name(layer));
  for (const layer of layers) by("layer").append(option(called(layer), layer, !usable(layer)));
  const parse = (text) => (/^\d+$/.test(text) ? Number(text) : text);

  function choose(layer, head) {
    const heads = data.heads(layer);
    if (!data.has(layer, head)) head = heads.find((one) => data.has(layer, one));
    const before = scene?.graph;
    state.layer = layer;
    state.head = head;
    by("layer").value = layer;
    by("head").replaceChildren(...heads.map((one) => option(typeof one === "number" ? `head ${one}` : one, one, !data.has(layer, one))));
    by("head").value = head;
    for (const button of by("heads").querySelectorAll("button"))
      button.setAttribute("aria-pressed", button.dataset.layer === String(layer) && (button.dataset.head === String(head) || typeof head !== "number"));
    const { graph, values } = data.weights(layer, head);
    if (before && (before.targets !== graph.targets || before.sources !== graph.sources)) {
      for (const key of Object.keys(transforms)) delete transforms[key];
      state.hover = null;
      const side = state.pin?.side === "source" ? "columns" : "rows";
      if (before[side] !== graph[side] || state.pin?.node >= graph[side === "rows" ? "targets" : "sources"]) state.pin = null;
    }
    let [max, sum, count] = [0, 0, 0];
    scene = { data, graph, values, forced: data.attends ? forcedEdges(graph, values) : null, drawn: 0, passing: 0 };
    const { forced } = scene;
    const others = forced?.includes(0); // whose weights are compared
    values.forEach((value, e) => {
      if (others && forced[e]) return;
      max = Math.max(max, Math.abs(value));
      sum += Math.abs(value);
      count++;
    });
    Object.assign(scene, { max, scale: Math.max(max, Math.min(1, (5 * sum) / Math.max(count, 1))) });
    if (before && before.rows !== graph.rows) search(by("search").value);
    setView(state.wanted);
    details();
  }

  by("layer").onchange = (event) => choose(parse(event.target.value), state.head);
  by("head").onchange = (event) => choose(state.layer, parse(event.target.value));
  for (const view of views) {
    const button = Object.assign(document.createElement("button"), { textContent: view[0].toUpperCase() + view.slice(1) });
    button.dataset.view = view;
    button.onclick = () => setView(view);
    by("views").append(button);
  }

  // Layers over other nodes than those with coordinates, such as merged patches, have a matrix only.
  const inPlane = () => !data.points || (scene.graph.targets === data.points.x.length && scene.graph.sources === scene.graph.targets);

  function setView(view) {
    state.wanted = view; // shown again when a layer has coordinates
    if (view === "nodes" && !inPlane()) view = "matrix";
    state.view = view;
    for (const button of by("views").children) {
      button.setAttribute("aria-pressed", button.dataset.view === view);
      button.disabled = button.dataset.view === "nodes" && !inPlane();
    }
    measure();
    const limits = VIEWS[view].extent(scene);
    zoom.scaleExtent(limits.scale).translateExtent(limits.area);
    place(transforms[view] ?? VIEWS[view].fit(scene));
  }

  const place = ({ x, y, k }) => select(canvas).call(zoom.transform, zoomIdentity.translate(x, y).scale(k));

  // -------------------------------------------------------------------- the drawing

  function measure() {
    const { clientWidth, clientHeight } = canvas;
    const ratio = window.devicePixelRatio || 1;
    Object.assign(scene, { width: clientWidth, height: clientHeight, view: state.view });
    if (canvas.width !== Math.round(clientWidth * ratio) || canvas.height !== Math.round(clientHeight * ratio)) {
      [canvas.width, canvas.height] = [Math.round(clientWidth * ratio), Math.round(clientHeight * ratio)];
      zoom.extent([[0, 0], [clientWidth, clientHeight]]);
    }
  }

  function colours() {
    const style = getComputedStyle(document.documentElement);
    return Object.fromEntries(["back", "panel", "ink", "muted", "line", "edge", "pin", "negative", "node"].map((key) => [key, style.getPropertyValue(`--${key}`).trim()]));
  }

  function paint(pen, limit) {
    Object.assign(scene, {
      limit, drawn: 0, passing: 0, threshold: scene.max * state.threshold ** 2, found: state.found,
      focus: state.pin ?? state.hover, pinned: Boolean(state.pin), colours: state.colours ??= colours(),
    });
    VIEWS[state.view].draw(scene, pen);
  }

  function draw() {
    asked = 0;
    const began = performance.now();
    const context = canvas.getContext("2d");
    const ratio = canvas.width / scene.width;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, scene.width, scene.height);
    const { t } = scene;
    if (state.moving && state.view === "nodes" && still.milliseconds > SLOW) {
      const k = t.k / still.t.k;
      context.drawImage(still.picture, t.x - k * still.t.x, t.y - k * still.t.y, k * scene.width, k * scene.height);
      return;
    }
    paint(new CanvasPen(context), state.moving ? MOVING : STILL);
    const all = scene.graph.edges;
    const part = scene.drawn < all ? `${number(scene.drawn)} of ${number(all)} edges drawn` : `${number(all)} edges`;
    by("status").textContent = scene.passing > scene.drawn ? `${part}, the strongest` : part;
    if (state.moving) return;
    still.milliseconds = performance.now() - began;
    if (state.view !== "nodes" || still.milliseconds <= SLOW) return;
    Object.assign(still, { t, picture: Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height }) });
    still.picture.getContext("2d").drawImage(canvas, 0, 0);
  }

  const render = () => (asked ||= requestAnimationFrame(draw));

  zoom
    .filter((event) => (event.type === "wheel" ? state.view !== "lines" || event.ctrlKey : !event.button))
    .clickDistance(4)
    .on("zoom", ({ transform, sourceEvent }) => {
      // A click may come before the next drawing, so the scene has the transform at once.
      scene.t = transforms[state.view] = transform;
      by("tip").hidden = true; // until the pointer moves over the new drawing
      state.moving = Boolean(sourceEvent);
      clearTimeout(rest);
      rest = setTimeout(() => {
        state.moving = false;
        render();
      }, 150);
      render();
    });
  select(canvas).call(zoom).on("dblclick.zoom", null);
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (state.view !== "lines" || event.ctrlKey) return;
      event.preventDefault();
      state.moving = true;
      const k = transforms.lines.k;
      select(canvas).call(zoom.translateBy, 0, (-event.deltaY * (event.deltaMode ? 24 : 1)) / k);
    },
    { passive: false },
  );
  new ResizeObserver(() => {
    if (!scene) return;
    measure();
    setView(state.wanted);
  }).observe(by("stage"));

  // ------------------------------------------------------------ pointer and details

  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const same = (a, b) => a?.node === b?.node && a?.side === b?.side;
  const label = ({ side, node }) => data.label(side === "target" ? scene.graph.rows : scene.graph.columns, node);

  // The number of a node precedes its name only if another node has the same name.
  const unique = (side) => (data.unique ??= data.sides.map((labels) => new Set(labels).size === labels.length))[side];
  const named = (side, node) => (unique(side) ? data.label(side, node) : `${node}: ${data.label(side, node)}`);
  const title = ({ side, node }) => named(side === "target" ? scene.graph.rows : scene.graph.columns, node);

  canvas.addEventListener("pointermove", (event) => {
    if (event.buttons || event.pointerType === "touch") return;
    const [x, y] = at(event);
    const hit = VIEWS[state.view].hit(scene, x, y);
    const tip = by("tip");
    tip.hidden = !hit;
    if (hit) {
      tip.textContent = title(hit);
      if (hit.source !== undefined) {
        const value = hit.edge === undefined ? "no edge" : weight(scene.values[hit.edge]);
        tip.textContent += ` → ${named(scene.graph.columns, hit.source)}, ${value}`;
      }
      tip.style.left = `${Math.min(x + 14, scene.width - tip.offsetWidth - 4)}px`;
      tip.style.top = `${Math.max(0, y - 30)}px`;
    }
    if (same(hit, state.hover)) return;
    state.hover = hit;
    if (!state.pin) details();
    render();
  });
  canvas.addEventListener("pointerleave", () => {
    by("tip").hidden = true;
    state.hover = null;
    if (!state.pin) details();
    render();
  });
  canvas.addEventListener("click", (event) => {
    const hit = VIEWS[state.view].hit(scene, ...at(event));
    pin(hit && !same(hit, state.pin) ? { side: hit.side, node: hit.node } : null);
  });

  function pin(where, move = false) {
    state.pin = where;
    details();
    render();
    if (where && move) {
      const limits = VIEWS[state.view];
      select(canvas).call(zoom.translateTo, ...limits.centre(scene, where));
    }
  }

  function list(words, edges, end, side) {
    const section = document.createElement("div");
    const shown = edges.filter((e) => scene.values[e] !== 0).sort((a, b) => Math.abs(scene.values[b]) - Math.abs(scene.values[a])).slice(0, 25);
    const rest = edges.length - shown.length;
    const heading = Object.assign(document.createElement("h3"), { textContent: words });
    if (state.view === "nodes" && !data.image) heading.style.color = `var(--${side === "source" ? "pin" : "edge"})`; // as the arrows
    section.append(heading);
    const items = document.createElement("ol");
    for (const e of shown) {
      const item = document.createElement("li");
      item.dataset.node = end[e];
      item.dataset.weight = scene.values[e];
      const bar = document.createElement("i");
      bar.style.width = `${100 * strength(scene, e)}%`;
      const text = document.createElement("span");
      text.textContent = label({ side, node: end[e] });
      text.title = title({ side, node: end[e] });
      item.append(bar, text, Object.assign(document.createElement("span"), { textContent: weight(scene.values[e]) }));
      item.onclick = () => pin({ side, node: end[e] }, true);
      items.append(item);
    }
    section.append(items);
    if (rest > 0) section.append(Object.assign(document.createElement("h3"), { textContent: `and ${number(rest)} more` }));
    return section;
  }

  function details() {
    const focus = state.pin ?? state.hover;
    const { graph } = scene;
    by("lists").replaceChildren();
    const lines = [];
    if (typeof state.layer === "number" && typeof state.head === "number") {
      const layer = data.layers[state.layer];
      const at = layer.heads.indexOf(state.head);
      lines.push(`Head ${state.head}: mean entropy ${layer.entropy[at].toFixed(2)} nats` + (layer.distance ? `, mean distance ${layer.distance[at].toFixed(1)}` : "") + `, largest weight ${weight(layer.largest[at])}.`);
    }
    if (state.layer === "rollout" && data.rolloutNote) lines.push(data.rolloutNote);
    if (!focus) {
      by("pinned").textContent = `${called(state.layer)}, ${typeof state.head === "number" ? `head ${state.head}` : state.head}`;
      lines.push("Point at a node to see its weights, click it to keep them.");
    } else {
      const shared = graph.rows === graph.columns && graph.targets === graph.sources;
      by("pinned").textContent = title(focus);
      if ((focus.side === "target" || shared) && focus.node < graph.targets)
        by("lists").append(list(reads, data.edgesOfTarget(graph, focus.node), graph.source, "source"));
      if ((focus.side === "source" || shared) && focus.node < graph.sources)
        by("lists").append(list(isRead, data.edgesOfSource(graph, focus.node), graph.target, "target"));
    }
    by("facts").textContent = lines.join(" ");
    legend(focus);
    canvas.setAttribute("aria-label", `${data.title}: ${state.view} of ${name(state.layer)}, ${state.head}. ${focus ? by("pinned").textContent : ""}`);
  }

  function legend(focus) {
    const swatch = (background, words) => {
      const square = Object.assign(document.createElement("i"), { className: "swatch" });
      square.style.background = background;
      const item = document.createElement("span");
      item.append(square, words);
      return item;
    };
    const [blue, orange] = ["var(--edge)", "var(--pin)"];
    const arrows = focus ? [swatch(orange, `arrow from a node that it ${reads}`), swatch(blue, data.attends ? "arrow to a node that attends to it" : "arrow to a node that it sends to")] : [swatch(blue, data.attends ? "arrow from a source to the target that attends to it" : "arrow from a source to its target")];
    const items = {
      lines: [swatch(focus ? orange : blue, `line from a target (left) to a source (right) that it ${reads}`)],
      matrix: [swatch(blue, `row ${reads} column`), ...(scene.values.some((value) => value < 0) ? [swatch("var(--negative)", "negative weight")] : [])],
      nodes: data.image ? [focus ? "bright: patches that the framed patch attends to" : swatch(blue, "attention that a patch receives, summed over all patches")] : arrows,
    }[state.view];
    items.push("stronger colour: larger weight");
    if (scene.forced) items.push("faint: the only source of a target, whose weight is always 1");
    by("legend").replaceChildren(...items.map((item) => (typeof item === "string" ? Object.assign(document.createElement("span"), { textContent: item }) : item)));
    by("classes").hidden = !data.classes;
    if (data.classes) by("classes").replaceChildren("Predicted class:", ...data.classes.names.slice(0, 12).map((words, number) => swatch(CLASSES[number % CLASSES.length], words)));
  }

  // -------------------------------------------------------- thumbnails of all heads

  function thumbnails() {
    const widest = Math.max(...data.layers.map((layer) => layer.heads.length));
    const side = Math.max(20, Math.min(40, Math.floor(250 / widest)));
    const grid = by("heads");
    grid.style.gridTemplateColumns = `auto repeat(${widest}, ${side}px)`;
    const colour = Number.parseInt(colours().edge.slice(1), 16);
    grid.replaceChildren();
    data.layers.forEach((layer, number) => {
      const text = Object.assign(document.createElement("span"), { className: "name", textContent: layer.number, title: layer.name });
      grid.append(text);
      layer.heads.forEach((head, place) => {
        const button = document.createElement("button");
        const { width, height, at } = layer.thumbnails;
        const small = Object.assign(document.createElement("canvas"), { width, height });
        const context = small.getContext("2d");
        const image = context.createImageData(width, height);
        data.read(at).subarray(place * width * height, (place + 1) * width * height).forEach((value, i) => image.data.set([colour >> 16, (colour >> 8) & 255, colour & 255, value], 4 * i));
        context.putImageData(image, 0, 0);
        button.append(small);
        button.style.width = button.style.height = `${side}px`;
        button.dataset.layer = number;
        button.dataset.head = head;
        button.disabled = !data.has(number, head);
        button.title = `${layer.name}, head ${head}: entropy ${layer.entropy[place].toFixed(2)} nats` + (layer.distance ? `, distance ${layer.distance[place].toFixed(1)}` : "") + (button.disabled ? ". Only this overview is in the page." : "");
        button.setAttribute("aria-label", button.title);
        button.onclick = () => choose(number, head);
        grid.append(button);
      });
      for (let k = layer.heads.length; k < widest; k++) grid.append(document.createElement("span"));
    });
  }

  // ----------------------------------------------------- search, threshold, buttons

  let matches = [];
  let current = -1;
  function search(text) {
    const wanted = text.trim().toLowerCase();
    matches = [];
    if (wanted) for (let i = 0; i < scene.graph.targets; i++) if (data.label(scene.graph.rows, i).toLowerCase().includes(wanted)) matches.push(i);
    current = -1;
    state.found = wanted ? new Set(matches) : null;
    by("found").textContent = wanted ? number(matches.length) : "";
    render();
  }
  by("search").oninput = (event) => search(event.target.value);
  by("search").onkeydown = (event) => {
    if (event.key === "Enter" && matches.length) {
      current = (current + (event.shiftKey ? matches.length - 1 : 1)) % matches.length;
      by("found").textContent = `${current + 1} of ${number(matches.length)}`;
      pin({ side: "target", node: matches[current] }, true);
    }
    if (event.key === "Escape") canvas.focus();
    event.stopPropagation();
  };
  function threshold(value) {
    state.threshold = Math.max(0, Math.min(1, value));
    by("threshold").value = state.threshold;
    by("least").textContent = weight(scene.max * state.threshold ** 2);
    render();
  }
  by("threshold").oninput = (event) => threshold(Number(event.target.value));

  const repaint = () => {
    state.colours = null;
    thumbnails();
    if (scene) choose(state.layer, state.head);
  };
  by("help").onclick = () => {
    by("keys").hidden = !by("keys").hidden;
    by("help").setAttribute("aria-expanded", !by("keys").hidden);
  };

  const file = () => `${data.attends ? "attention" : "weights"}-${name(state.layer)}-${state.head}`.replace(/[^\w.-]+/g, "-");
  function save(blob, ending) {
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: `${file()}.${ending}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
  by("svg").onclick = () => {
    const pen = new SvgPen(scene.width, scene.height, colours().back);
    paint(pen, STILL);
    save(new Blob([pen.toString()], { type: "image/svg+xml" }), "svg");
  };
  by("png").onclick = () => {
    const sheet = Object.assign(document.createElement("canvas"), { width: 2 * scene.width, height: 2 * scene.height });
    const context = sheet.getContext("2d");
    context.scale(2, 2);
    context.fillStyle = colours().back;
    context.fillRect(0, 0, scene.width, scene.height);
    paint(new CanvasPen(context), STILL);
    sheet.toBlob((blob) => save(blob, "png"));
  };

  // ------------------------------------------------------------------------- keys

  const next = (all, value, step, usable) => {
    for (let i = 1; i <= all.length; i++) {
      const found = all[(all.indexOf(value) + step * i + all.length * i) % all.length];
      if (usable(found)) return found;
    }
    return value;
  };
  const keys = {
    ArrowRight: () => choose(state.layer, next(data.heads(state.layer), state.head, 1, (head) => data.has(state.layer, head))),
    ArrowLeft: () => choose(state.layer, next(data.heads(state.layer), state.head, -1, (head) => data.has(state.layer, head))),
    ArrowDown: () => choose(next(layers, state.layer, 1, usable), state.head),
    ArrowUp: () => choose(next(layers, state.layer, -1, usable), state.head),
    j: () => pin({ side: state.pin?.side ?? "target", node: Math.min((state.pin?.node ?? -1) + 1, scene.graph.targets - 1) }, true),
    k: () => pin({ side: state.pin?.side ?? "target", node: Math.max((state.pin?.node ?? 1) - 1, 0) }, true),
    Escape: () => pin(null),
    v: () => setView(next(views, state.view, 1, () => true)),
    "/": () => by("search").focus(),
    "+": () => select(canvas).call(zoom.scaleBy, 1.3),
    "-": () => select(canvas).call(zoom.scaleBy, 1 / 1.3),
    0: () => place(VIEWS[state.view].fit(scene)),
    "[": () => threshold(state.threshold - 0.02),
    "]": () => threshold(state.threshold + 0.02),
    t: () => by("theme").click(),
    "?": () => by("help").click(),
  };
  window.addEventListener("keydown", (event) => {
    const key = event.key === "=" ? "+" : event.key;
    if (by("attention").hidden || event.ctrlKey || event.metaKey || event.altKey || !(key in keys) || /^(INPUT|SELECT)$/.test(event.target.tagName)) return;
    event.preventDefault();
    keys[key]();
  });

  // ------------------------------------------------------------------------- start

  for (const note of data.notes) by("notes").append(Object.assign(document.createElement("p"), { textContent: note }));
  thumbnails();
  const first = data.first ?? layers.find(usable);
  choose(first, data.heads(first).find((head) => data.has(first, head)));
  threshold(0);
  if (data.focus !== null && data.focus < scene.graph.targets) {
    pin({ side: "target", node: data.focus });
    if (data.points?.x.length > 300) {
      const [x, y] = VIEWS.nodes.centre(scene, state.pin);
      // Most neighbours are in the picture.
      const { graph } = scene;
      const near = [...data.edgesOfTarget(graph, data.focus).map((e) => graph.source[e]), ...data.edgesOfSource(graph, data.focus).map((e) => graph.target[e])];
      const far = near.map((node) => VIEWS.nodes.centre(scene, { node })).map(([a, b]) => Math.hypot(a - x, b - y)).sort((a, b) => a - b);
      const reach = far[Math.floor(0.9 * (far.length - 1))] || 0;
      const k = Math.max(1, Math.min(20, (0.4 * Math.min(scene.width, scene.height)) / Math.max(reach, 1)));
      place({ k, x: scene.width / 2 - k * x, y: scene.height / 2 - k * y });
    }
  }
  return repaint;
}

function open(data) {
  document.title = data.input ? `${data.answer}: ${data.input}` : data.title;
  document.body.dataset.kind = data.kind;
  by("tab-attention").textContent = data.attends ? "Attention" : "Weights";
  by("title").textContent = by("title").title = data.input || data.title;
  by("answer").textContent = by("answer").title = data.answer;
  by("answer").className = data.reasons?.answers.length > 1 ? "short" : ""; // the tab has a button for each
  let repaint = null;
  const theme = (dark) => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    by("theme").textContent = dark ? "Light" : "Dark";
    repaint?.();
  };
  by("theme").onclick = () => theme(document.documentElement.dataset.theme !== "dark");
  theme(window.matchMedia("(prefers-color-scheme: dark)").matches);
  const show = (tab) => {
    for (const name of ["reasons", "attention"]) {
      by(name).hidden = name !== tab;
      by(`tab-${name}`).setAttribute("aria-selected", name === tab);
    }
    for (const name of ["svg", "png", "help"]) by(name).hidden = tab === "reasons";
    if (tab === "attention") repaint ??= start(data);
  };
  by("tabs").hidden = !data.reasons;
  for (const name of ["reasons", "attention"]) by(`tab-${name}`).onclick = () => show(name);
  show(data.reasons ? "reasons" : "attention");
  if (data.reasons) showReasons(data);
  document.body.dataset.ready = "true";
}

load(by("data").textContent).then(open).catch((error) => {
  by("title").textContent = "The page cannot be shown";
  by("answer").textContent = `${error}. It needs a browser with DecompressionStream (2023 or later).`;
  console.error(error);
});
