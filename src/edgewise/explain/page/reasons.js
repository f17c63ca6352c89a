// The first tab: the input, coloured by what each part of it does for and against the answer.

const by = (id) => document.getElementById(id);
const SMALL = 0.1; // log-odds; it changes a probability of 0.5 by 0.025
const NARROW = 600; // pixels of a drawing below which it shows fewer nodes
const LISTED = 25; // parts of a list until a click shows all
const BUTTONS = 24; // answers up to which each has a button
const FEW = 60; // words up to which each has a number below
export const CLASSES = ["#009e73", "#cc79a7", "#e8d33f", "#8c6bb1", "#7f7f7f", "#a6761d", "#a5cf4c", "#8b2252"];

// The digits of `rounded` in edgewise/_utils/digits.py, with a sign.
export function rounded(value, sign = "+") {
  const plus = value >= 0 ? sign : "";
  if (!value) return `${plus}${(0).toFixed(4)}`;
  const exponent = Number(value.toExponential(3).split("e")[1]);
  if (exponent >= -4 && Math.abs(value) < 1e15) return `${plus}${value.toFixed(Math.max(0, 3 - exponent))}`;
  return `${plus}${value.toExponential(3).replace(/e([+-])(\d)$/, "e$10$2")}`;
}

function html(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const hint = (text) => svg("title", {}, document.createTextNode(text));
const shorten = (text, count) => (text.length > count ? `${text.slice(0, count - 1)}…` : text);
// Names of RDF without the address of a resource and the type of a value.
const brief = (text) => text.replace(/"([^"]*)"\^\^<[^>]*>/g, '"$1"').replace(/https?:\/\/(?:(?!https?:\/\/)[^\s"<>()])*[/#](?=[^\s/#"<>()])/g, "");
const colour = (effect) => `var(--${effect < 0 ? "against" : "for"})`;
const picture = (width, height, label) => svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });

// The parallel lines of a bond, each as x1, y1, x2, y2.
export function bondLines([x1, y1], [x2, y2], order, unit) {
  const length = Math.hypot(x2 - x1, y2 - y1) || 1;
  const [nx, ny] = [(-(y2 - y1) / length) * unit * 0.16, ((x2 - x1) / length) * unit * 0.16];
  const offsets = { 1: [0], 1.5: [-1, 1], 2: [-1, 1], 3: [-2, 0, 2] }[order] ?? [0];
  return offsets.map((k) => [x1 + k * nx, y1 + k * ny, x2 + k * nx, y2 + k * ny]);
}

export function showReasons(data) {
  const { reasons } = data;
  const state = { answer: 0, method: 0, width: 0 };
  const answer = () => reasons.answers[state.answer];
  const method = () => answer().methods[Math.min(state.method, answer().methods.length - 1)];
  const named = (index) => answer().labels[index];
  const claim = () => answer().claim?.text ?? answer().answer;
  const signed = () => !["attention", "rollout"].includes(method().name);

  // The largest effect. An effect on log-odds below SMALL is pale, also where it is the largest.
  const largestOf = (values) => Math.max(...values.map(Math.abs), signed() && answer().odds ? SMALL : 1e-30);
  const isSmall = () => signed() && answer().odds && Math.max(...method().reasons.map(([, value]) => Math.abs(value)), 0) < SMALL;

  // Fractions of the largest effect, from -1 to 1.
  function scaled() {
    const { effects, edges } = method();
    const largest = largestOf([...effects, ...edges.map(([, , value]) => value)]);
    return { of: (value) => value / largest, node: effects.map((value) => value / largest) };
  }
  const alpha = (fraction) => (0.7 * Math.sqrt(Math.abs(fraction))).toFixed(3);
  const about = (index) => `${named(index)}: ${rounded(method().effects[index])}`;

  // ------------------------------------------------------------------- the drawings

  const drawings = {
    words() {
      const { node } = scaled();
      const chips = answer().labels.map((label, index) => {
        const own = answer().own.includes(index);
        const chip = html("span", { className: own ? "word own" : "word", title: own ? "the explained word" : about(index) });
        chip.append(html("span", { textContent: shorten(label, 24) }));
        if (!own && node.length <= FEW) chip.append(html("small", { textContent: rounded(method().effects[index]) }));
        if (!own) chip.style.background = `color-mix(in srgb, ${colour(node[index])} ${80 * alpha(node[index])}%, transparent)`;
        const other = reasons.answers.findIndex((one) => one.own.length === 1 && one.own[0] === index);
        if (!own && reasons.answers.length === answer().labels.length && other >= 0) chip.onclick = () => choose(other, state.method);
        return chip;
      });
      return html("div", { className: "words" }, ...chips);
    },
    bars() {
      const { node } = scaled();
      const { values, waveform } = reasons;
      const top = values ? 150 : waveform ? 80 : 0;
      const all = state.width;
      const [up, down] = [Math.max(...node, 0), -Math.min(...node, 0)];
      const unit = 170 / Math.max(up + down, 1);
      const base = top + 10 + up * unit;
      const root = picture(all, top + 210, "effect of each part, in order");
      const width = (all - 20) / node.length;
      const x = (index) => 10 + (index + 0.5) * width;
      if (values) {
        const [low, high] = [Math.min(...values), Math.max(...values)];
        const y = (value) => 140 - (115 * (value - low)) / (high - low || 1);
        root.append(svg("polyline", { points: values.map((value, index) => `${x(index)},${y(value)}`).join(" "), class: "series" }));
        values.forEach((value, index) => {
          const dot = svg("circle", { cx: x(index), cy: y(value), r: Math.min(7, Math.max(2, width / 3)), fill: colour(node[index]), "fill-opacity": alpha(node[index]), class: "dot" }, hint(`${named(index)}: value ${rounded(value, "")}, effect ${rounded(method().effects[index])}`));
          root.append(dot);
        });
        root.append(text(10, 12, `values from ${rounded(low, "")} to ${rounded(high, "")}`, "start"));
      }
      if (waveform) {
        const edge = (index) => 10 + (index * width) / waveform.bins;
        const outline = [...waveform.peaks.entries(), ...[...waveform.peaks.entries()].reverse().map(([index, peak]) => [index, -peak])];
        root.append(svg("polygon", { points: outline.map(([index, peak]) => `${edge(index + 0.5)},${top / 2 - (top / 2 - 5) * peak}`).join(" "), class: "wave" }, hint("the recording: largest amplitude at each time")));
      }
      root.append(svg("line", { x1: 10, x2: all - 10, y1: base, y2: base, class: "axis" }));
      node.forEach((fraction, index) => {
        const height = Math.max(1, unit * Math.abs(fraction));
        root.append(svg("rect", { x: x(index) - width * 0.4, y: fraction < 0 ? base : base - height, width: width * 0.8, height, fill: colour(fraction) }, hint(about(index))));
      });
      const last = node.length - 1;
      const longest = Math.max(...answer().labels.map((label) => label.length));
      const fits = width > 8 * longest;
      const parts = all > 700 ? 4 : 2;
      const shown = fits ? node.keys() : new Set(Array.from({ length: parts }, (_, part) => Math.round((part * last) / (parts - 1))));
      for (const index of shown) {
        const anchor = fits || (index && index < last) ? "middle" : index ? "end" : "start";
        const edge = { start: 10, middle: x(index), end: all - 10 }[anchor];
        root.append(text(edge, top + 202, shorten(named(index), 28), anchor));
      }
      return root;
    },
    molecule() {
      const { node, of } = scaled();
      const { x, y, aspect } = data.points;
      const height = Math.max(100, Math.min(480, (state.width - 60) / aspect));
      const left = (state.width - height * aspect) / 2;
      const at = Array.from(x, (value, index) => [left + value * height * aspect, 30 + (1 - y[index]) * height]);
      const root = picture(state.width, height + 60, "molecule, atoms and bonds coloured by effect");
      const ends = Array.from(data.read(data.bonds));
      const count = ends.length / 2;
      const bonds = new Set(ends.slice(0, count).flatMap((atom, bond) => [`${atom}-${ends[count + bond]}`, `${ends[count + bond]}-${atom}`]));
      const length = count ? Math.hypot(at[ends[0]][0] - at[ends[count]][0], at[ends[0]][1] - at[ends[count]][1]) : 60;
      const unit = Math.max(9, Math.min(26, length / 3.2));
      for (const [first, second, value] of method().edges) {
        if (!bonds.has(`${answer().members[first]}-${answer().members[second]}`)) continue; // attention between other atoms
        const [[x1, y1], [x2, y2]] = [at[answer().members[first]], at[answer().members[second]]];
        root.append(svg("line", { x1, y1, x2, y2, stroke: colour(value), "stroke-opacity": alpha(of(value)), "stroke-width": unit * 1.1, "stroke-linecap": "round" }, hint(`${named(first)}-${named(second)}: ${rounded(value)}`)));
      }
      for (let bond = 0; bond < count; bond++) {
        const order = data.orders?.[bond] ?? 1;
        bondLines(at[ends[bond]], at[ends[count + bond]], order, unit).forEach(([x1, y1, x2, y2], line) => root.append(svg("line", { x1, y1, x2, y2, class: order === 1.5 && line ? "bond aromatic" : "bond" })));
      }
      answer().members.forEach((atom, index) => {
        const [cx, cy] = at[atom];
        const own = answer().own.includes(index);
        root.append(
          svg("circle", { cx, cy, r: unit, class: own ? "atom own" : "atom" }),
          svg("circle", { cx, cy, r: unit, fill: colour(node[index]), "fill-opacity": own ? 0 : alpha(node[index]) }, hint(own ? named(index) : about(index))),
          text(cx, cy + unit * 0.3, named(index), "middle", unit * 0.8),
        );
      });
      return root;
    },
    image() {
      const { node } = scaled();
      const { size, extent, patch } = data.image;
      const bitmap = document.createElement("canvas");
      [bitmap.width, bitmap.height] = size;
      bitmap.getContext("2d").putImageData(new ImageData(new Uint8ClampedArray(data.read(data.image.place)), ...size), 0, 0);
      const side = Math.min(420, state.width / 2 - 10, (500 * size[0]) / size[1]);
      const tall = (side * size[1]) / size[0];
      const root = picture(2 * side + 20, tall + 26, "image, and its patches coloured by effect");
      root.style.maxWidth = `${2 * side + 20}px`;
      const [wide, deep] = [extent[1] - extent[0], extent[3] - extent[2]];
      const first = data.points.x.length - node.length; // after a class token
      for (const x of [0, side + 20]) root.append(svg("image", { href: bitmap.toDataURL(), x, y: 0, width: side, height: tall, preserveAspectRatio: "none", style: "image-rendering:pixelated", opacity: x ? 0.12 : 1 }));
      node.forEach((fraction, index) => {
        const [px, py] = [data.points.x[first + index] - patch[0] / 2 - extent[0], extent[3] - data.points.y[first + index] - patch[1] / 2];
        root.append(svg("rect", { x: side + 20 + (side * px) / wide, y: (tall * py) / deep, width: (side * patch[0]) / wide, height: (tall * patch[1]) / deep, fill: colour(fraction), "fill-opacity": alpha(fraction) }, hint(about(index))));
      });
      root.append(text(side / 2, tall + 20, "input", "middle"), text(1.5 * side + 20, tall + 20, "effect of each patch", "middle"));
      return root;
    },
    graph() {
      const { node, of } = scaled();
      const at = places();
      const shown = strongest();
      const radius = radiusOf([...shown].map((index) => at[index]));
      const root = picture(state.width, tallness(), "graph, nodes and edges coloured by effect");
      const { edges } = method();
      for (const [first, second, value] of edges) {
        if (!shown.has(first) || !shown.has(second)) continue;
        const [[x1, y1], [x2, y2]] = [at[first], at[second]];
        root.append(svg("line", { x1, y1, x2, y2, class: "edge", opacity: edges.length > 150 ? 0.3 : 1 }));
        if (value) root.append(svg("line", { x1, y1, x2, y2, stroke: colour(value), "stroke-opacity": alpha(of(value)), "stroke-width": 2 + 7 * Math.abs(of(value)) }, hint(`${named(first)}-${named(second)}: ${rounded(value)}`)));
      }
      const numbers = data.classes && (data.classes.numbers ??= data.read(data.classes.of));
      const prefix = prefixOf(answer().labels);
      const taken = []; // left, right and baseline of each name
      const fits = (label) => {
        const [x, y, font] = ["x", "y", "font-size"].map((name) => Number(label.getAttribute(name)));
        const length = 0.6 * font * label.firstChild.data.length;
        const ahead = { start: 0, middle: 0.5, end: 1 }[label.getAttribute("text-anchor")] * length;
        const left = Math.max(0, Math.min(state.width - length, x - ahead)); // inside the drawing
        label.setAttribute("x", left + ahead);
        if (taken.some(([from, to, at]) => left < to && from < left + length && Math.abs(at - y) < 0.9 * font)) return false;
        taken.push([left, left + length, y]);
        return true;
      };
      const size = sizes();
      const labels = [];
      const inside = !numbers && answer().labels.every((label) => label.length - prefix <= 3);
      const centre = tallness() / 2 - 10;
      const order = [...shown].sort((a, b) => answer().own.includes(b) - answer().own.includes(a) || size[b] - size[a]);
      for (const index of order) {
        const label = named(index);
        const [cx, cy] = at[index];
        const own = answer().own.includes(index);
        const number = numbers?.[data.sides[0].indexOf(label)];
        const fill = number === undefined ? "var(--panel)" : CLASSES[number % CLASSES.length];
        root.append(svg("circle", { cx, cy, r: own ? 17 : radius, fill, class: own ? "node own" : "node" }));
        if (!own) root.append(svg("circle", { cx, cy, r: 1.25 * radius, fill: number === undefined ? colour(node[index]) : "none", "fill-opacity": alpha(node[index]), stroke: colour(node[index]), "stroke-opacity": alpha(node[index]), "stroke-width": radius / 2 }, hint(`${about(index)}${number === undefined ? "" : `, predicted ${data.classes.names[number]}`}`)));
        const short = brief(label.slice(prefix));
        if (inside) root.append(text(cx, cy + radius / 3, short, "middle", own ? 14 : 0.9 * radius, label));
        else if (own && answer().own.length > 1) labels.push(text(cx + (answer().own[0] === index ? 12 : -12), cy + 34, shorten(short, 18), answer().own[0] === index ? "end" : "start", 17, label));
        else if ((shown.size > 12 || answer().own.length > 1) && !own) labels.push(outside([cx, cy], [state.width / 2, centre], shorten(short, 18), label));
        else labels.push(text(cx, cy + (cy < centre && !own ? -20 : own ? 34 : 30), shorten(short, 18), "middle", own ? 17 : 14, label));
      }
      const free = labels.filter(fits);
      root.append(...free);
      state.unnamed = free.length < labels.length;
      return root;
    },
  };

  // The name of a node, on the side away from the centre.
  function outside([x, y], [middle, centre], short, label) {
    const [dx, dy] = [(x - middle) / middle, (y - centre) / centre];
    const length = Math.hypot(dx, dy) || 1;
    const anchor = Math.abs(dx) < 0.35 * length ? "middle" : dx < 0 ? "end" : "start";
    return text(x + (18 * dx) / length, y + (22 * dy) / length + 5, short, anchor, 14, label);
  }

  function text(x, y, content, anchor, size = 14, full = content) {
    return svg("text", { x, y, "text-anchor": anchor, "font-size": size }, document.createTextNode(content), hint(full));
  }

  // Number of first letters that the names of all nodes share, such as "node ".
  function prefixOf(labels) {
    const prefix = /^\D* /.exec(labels[0] ?? "")?.[0] ?? "";
    return labels.every((label) => label.startsWith(prefix) && label.length > prefix.length) ? prefix.length : 0;
  }

  // Half of the distance between near nodes, so that few overlap.
  function radiusOf(at) {
    const nearest = at.map(([x, y], index) => Math.min(...at.map(([x2, y2], other) => (other === index ? Infinity : Math.hypot(x2 - x, y2 - y)))));
    const near = nearest.sort((a, b) => a - b)[Math.floor(nearest.length / 4)];
    return Math.max(6, Math.min(12, 0.45 * (near || 0)));
  }

  const tallness = () => Math.max(360, Math.min(560, 0.62 * state.width, window.innerHeight - 230));

  // The size of a node in a drawing, by its effect and those of its edges.
  function sizes() {
    const { effects, edges } = answer().methods[0];
    const size = effects.map(Math.abs);
    for (const [a, b, value] of edges) for (const index of [a, b]) size[index] = Math.max(size[index], Math.abs(value));
    return size;
  }

  // The nodes that fit the drawing: a narrow one has the explained nodes and the strongest others.
  function strongest() {
    const { labels, own } = answer();
    const all = labels.map((_, index) => index);
    if (!own.length || state.width >= NARROW) return new Set(all);
    const size = sizes();
    const others = all.filter((index) => !own.includes(index)).sort((a, b) => size[b] - size[a]);
    return new Set([...own, ...others.slice(0, 16)]);
  }

  // The explained node in the middle, its neighbours around it, and other nodes further out.
  function places() {
    const { labels, own, members } = answer();
    const [middle, centre] = [state.width / 2, tallness() / 2 - 10];
    const [reach, rise] = [middle - (state.width < NARROW ? 50 : 72), centre - 35]; // for labels beside nodes
    if (!own.length && data.points?.x.length >= labels.length)
      return members.map((node) => [middle + reach * (2 * data.points.x[node] - 1), centre + rise * (1 - 2 * data.points.y[node])]);
    const hop = labels.map((_, index) => (own.includes(index) ? 0 : 2));
    for (const [a, b] of answer().methods[0].edges) {
      if (own.includes(a) && hop[b]) hop[b] = 1;
      if (own.includes(b) && hop[a]) hop[a] = 1;
    }
    const [size, shown] = [sizes(), strongest()];
    const at = [];
    own.forEach((index, k) => (at[index] = own.length === 1 ? [middle, centre] : [middle + (k ? 0.18 : -0.18) * reach, centre]));
    for (const ring of [1, 2]) {
      const nodes = labels.map((_, index) => index).filter((index) => hop[index] === ring && shown.has(index)).sort((a, b) => size[b] - size[a]);
      const outer = !hop.includes(1) || ring === 2 ? 1 : hop.includes(2) ? 0.58 : 0.85;
      nodes.forEach((index, k) => {
        const angle = (2 * Math.PI * (k + 0.15 * ring)) / nodes.length - Math.PI / 2;
        at[index] = [middle + reach * outer * Math.cos(angle), centre + rise * outer * Math.sin(angle)];
      });
    }
    return at;
  }

  // ------------------------------------------------------------------ lists and choices

  function list(title, rows, largest) {
    const items = rows.map(([part, value]) => {
      const bar = html("i");
      bar.style.width = `${(100 * Math.abs(value)) / largest}%`;
      bar.style.background = signed() ? colour(value) : "var(--edge)";
      const item = html("li", { title: part }, bar, html("span", { textContent: reasons.drawing === "graph" ? brief(part) : part }), html("span", { textContent: rounded(value) }));
      return item;
    });
    const section = html("section", {}, html("h3", { textContent: title }), items.length ? html("ol", {}, ...items) : html("p", { textContent: "none" }));
    if (items.length > LISTED) {
      const more = html("button", { textContent: `show all ${items.length}` });
      const hide = (hidden) => items.slice(LISTED).forEach((item) => (item.hidden = hidden));
      more.onclick = () => (hide(false), more.remove());
      hide(true);
      section.append(more);
    }
    return section;
  }

  function lists() {
    const { reasons: rows, omitted } = method();
    const largest = largestOf(rows.map(([, value]) => value));
    const [positive, negative] = [rows.filter(([, value]) => value >= 0), rows.filter(([, value]) => value < 0)];
    const isClass = answer().odds;
    const [name, quantity] = [shorten(claim(), 60), answer().claim?.score ?? "value"];
    by("evidence").replaceChildren(
      ...(signed()
        ? [
            list(isClass ? `Evidence for ${name}` : `Raises the ${quantity}`, positive, largest),
            list(isClass ? `Evidence against ${name}` : `Lowers the ${quantity}`, negative, largest),
          ]
        : [list(`Largest ${method().name}`, rows, largest)]),
    );
    const more = omitted ? ` ${omitted.toLocaleString("en")} parts with smaller effects are left out.` : "";
    const small = isSmall() ? ` No single part changes the log-odds by ${SMALL} or more.` : "";
    by("meaning").textContent = `${method().name}: ${method().meaning}.${small}${more}`;
  }

  function parts() {
    const bar = html("div", { className: "bar" });
    const rows = answer().parts.map(([name, value, fraction], index) => {
      const piece = html("i", { title: name });
      piece.style.width = `${100 * fraction}%`;
      piece.style.background = CLASSES[index];
      bar.append(piece);
      const swatch = html("i", { className: "swatch" });
      swatch.style.background = CLASSES[index];
      return html("span", {}, swatch, `${name} ${rounded(value)} (${Math.round(100 * fraction)} %)`);
    });
    by("parts").hidden = !rows.length;
    by("parts").replaceChildren(html("b", { textContent: "Parts of this prediction" }), bar, ...rows);
  }

  function legend() {
    const swatch = (background, words) => html("span", {}, Object.assign(html("i", { className: "swatch" }), { style: `background:${background}` }), words);
    const isClass = answer().odds;
    const [name, quantity] = [shorten(claim(), 40), answer().claim?.score ?? "value"];
    const more = reasons.drawing === "bars" ? "higher" : "stronger colour";
    const items = signed()
      ? [swatch("var(--for)", isClass ? `for ${name}` : `raises the ${quantity}`), swatch("var(--against)", isClass ? `against ${name}` : `lowers the ${quantity}`), `${more}: larger effect`]
      : [swatch("var(--for)", `${more}: larger ${method().name}`)];
    if (reasons.drawing === "graph" && data.classes) {
      const { names, numbers } = data.classes;
      const shown = [...new Set([...strongest()].map((index) => numbers[data.sides[0].indexOf(named(index))]))].filter((number) => number !== undefined).sort((a, b) => a - b);
      items.unshift("ring and line:");
      items.push("inside, the predicted class:", ...shown.map((number) => swatch(CLASSES[number % CLASSES.length], shorten(names[number], 24))));
    }
    if (state.unnamed) items.push("some nodes have no room for a name: point at them");
    if (answer().own.length) items.push("framed: the explained part, whose own effect is not computed");
    by("colours").replaceChildren(...items.map((item) => (typeof item === "string" ? html("span", { textContent: item }) : item)));
  }

  function choose(number, chosen) {
    Object.assign(state, { answer: number, method: chosen });
    for (const [index, button] of [...by("answers").querySelectorAll("button")].entries()) button.setAttribute("aria-pressed", index === number);
    const { methods, recipe } = reasons.fidelity;
    const options = answer().methods.map(({ name }, index) => {
      const measured = methods[name] === undefined ? "" : `, fidelity ${methods[name].toFixed(3)}`;
      return html("option", { value: index, textContent: `${name.replaceAll("_", " ")}${measured}` });
    });
    by("method").replaceChildren(...options);
    by("method").value = Math.min(chosen, options.length - 1);
    by("measured").textContent = recipe ? `Fidelity: fall of the prediction without the strongest fifth of the parts, minus its fall without all others; mean over predictions of ${recipe} (random parts: ${(methods.random ?? 0).toFixed(3)}).` : "";
    const quantity = answer().claim?.score ?? (answer().odds ? "probability" : "");
    by("verdict").textContent = reasons.answers.length > 1 ? `${claim()}${quantity && `, ${quantity} ${rounded(answer().score, "")}`}` : "";
    parts();
    draw();
    legend();
    lists();
  }

  // Drawings have the width of the page, so that texts have their size.
  function draw() {
    state.width = Math.max(300, by("input").clientWidth);
    by("input").replaceChildren(drawings[reasons.drawing]());
  }
  new ResizeObserver(() => by("input").clientWidth && by("input").clientWidth !== state.width && draw()).observe(by("input"));

  const many = reasons.answers.length;
  by("method").onchange = (event) => choose(state.answer, Number(event.target.value));
  by("answers").hidden = many < 2;
  if (many > BUTTONS) {
    const select = html("select", {}, ...reasons.answers.map((one, index) => html("option", { value: index, textContent: one.answer })));
    select.onchange = () => choose(Number(select.value), state.method);
    by("answers").append(select);
  } else if (many > 1) by("answers").append(...reasons.answers.map((one, index) => html("button", { textContent: shorten(one.answer, 24), title: one.answer, onclick: () => choose(index, state.method) })));
  choose(0, 0);
}
