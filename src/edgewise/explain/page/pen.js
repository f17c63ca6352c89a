// The same strokes on a canvas and in an SVG file.

export class CanvasPen {
  constructor(context) {
    this.context = context;
  }

  // `ends` holds x1, y1, x2, y2 of each line.
  lines(ends, { colour, alpha = 1, width = 1 }) {
    const { context } = this;
    context.globalAlpha = alpha;
    context.strokeStyle = colour;
    context.lineWidth = width;
    for (let i = 0; i < ends.length; i += 4) {
      context.beginPath();
      context.moveTo(ends[i], ends[i + 1]);
      context.lineTo(ends[i + 2], ends[i + 3]);
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  polygon(points, { colour, alpha = 1 }) {
    const { context } = this;
    context.globalAlpha = alpha;
    context.fillStyle = colour;
    context.beginPath();
    for (let i = 0; i < points.length; i += 2) context.lineTo(points[i], points[i + 1]);
    context.fill();
    context.globalAlpha = 1;
  }

  rectangle(x, y, width, height, { colour, alpha = 1 }) {
    this.context.globalAlpha = alpha;
    this.context.fillStyle = colour;
    this.context.fillRect(x, y, width, height);
    this.context.globalAlpha = 1;
  }

  // Squares of one size, at x1, y1, x2, y2, …
  dots(places, side, { colour, alpha = 1 }) {
    const { context } = this;
    context.globalAlpha = alpha;
    context.fillStyle = colour;
    for (let i = 0; i < places.length; i += 2) context.fillRect(places[i] - side / 2, places[i + 1] - side / 2, side, side);
    context.globalAlpha = 1;
  }

  frame(x, y, width, height, { colour, width: line = 2 }) {
    this.context.strokeStyle = colour;
    this.context.lineWidth = line;
    this.context.strokeRect(x, y, width, height);
  }

  circle(x, y, radius, { fill, stroke, width = 1, alpha = 1 }) {
    const { context } = this;
    context.globalAlpha = alpha;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    if (fill) {
      context.fillStyle = fill;
      context.fill();
    }
    if (stroke) {
      context.strokeStyle = stroke;
      context.lineWidth = width;
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  text(x, y, text, { colour, size = 12, anchor = "start", bold = false, turn = 0 }) {
    const { context } = this;
    context.save();
    context.translate(x, y);
    context.rotate(turn);
    context.fillStyle = colour;
    context.font = `${bold ? "bold " : ""}${size}px system-ui, sans-serif`;
    context.textAlign = anchor === "middle" ? "center" : anchor;
    context.textBaseline = "middle";
    context.fillText(text, 0, 0);
    context.restore();
  }

  image(bitmap, x, y, width, height, smooth = false) {
    this.context.imageSmoothingEnabled = smooth;
    this.context.drawImage(bitmap, x, y, width, height);
  }
}

const escaped = (text) => text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const r = (number) => Math.round(number * 100) / 100;

export class SvgPen {
  constructor(width, height, background) {
    this.parts = [
      `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`,
      `<rect width="100%" height="100%" fill="${background}"/>`,
    ];
  }

  lines(ends, { colour, alpha = 1, width = 1 }) {
    let path = "";
    for (let i = 0; i < ends.length; i += 4)
      path += `M${r(ends[i])} ${r(ends[i + 1])}L${r(ends[i + 2])} ${r(ends[i + 3])}`;
    if (path)
      this.parts.push(`<path d="${path}" fill="none" stroke="${colour}" stroke-opacity="${r(alpha)}" stroke-width="${r(width)}"/>`);
  }

  polygon(points, { colour, alpha = 1 }) {
    this.parts.push(`<polygon points="${Array.from(points, r).join(" ")}" fill="${colour}" fill-opacity="${r(alpha)}"/>`);
  }

  rectangle(x, y, width, height, { colour, alpha = 1 }) {
    this.parts.push(`<rect x="${r(x)}" y="${r(y)}" width="${r(width)}" height="${r(height)}" fill="${colour}" fill-opacity="${r(alpha)}"/>`);
  }

  dots(places, side, { colour, alpha = 1 }) {
    let path = "";
    for (let i = 0; i < places.length; i += 2) path += `M${r(places[i] - side / 2)} ${r(places[i + 1])}h${r(side)}`;
    if (path) this.parts.push(`<path d="${path}" stroke="${colour}" stroke-opacity="${r(alpha)}" stroke-width="${r(side)}"/>`);
  }

  frame(x, y, width, height, { colour, width: line = 2 }) {
    this.parts.push(`<rect x="${r(x)}" y="${r(y)}" width="${r(width)}" height="${r(height)}" fill="none" stroke="${colour}" stroke-width="${line}"/>`);
  }

  circle(x, y, radius, { fill = "none", stroke = "none", width = 1, alpha = 1 }) {
    this.parts.push(`<circle cx="${r(x)}" cy="${r(y)}" r="${r(radius)}" fill="${fill}" stroke="${stroke}" stroke-width="${width}" opacity="${r(alpha)}"/>`);
  }

  text(x, y, text, { colour, size = 12, anchor = "start", bold = false, turn = 0 }) {
    this.parts.push(
      `<text transform="translate(${r(x)} ${r(y)}) rotate(${r((turn * 180) / Math.PI)})" fill="${colour}" font-size="${size}" ` +
        `font-family="system-ui, sans-serif" text-anchor="${anchor}" dominant-baseline="central"${bold ? ' font-weight="bold"' : ""}>${escaped(text)}</text>`,
    );
  }

  image(bitmap, x, y, width, height, smooth = false) {
    this.parts.push(
      `<image href="${bitmap.toDataURL()}" x="${r(x)}" y="${r(y)}" width="${r(width)}" height="${r(height)}" preserveAspectRatio="none"${smooth ? "" : ' style="image-rendering:pixelated"'}/>`,
    );
  }

  toString() {
    return `${this.parts.join("\n")}\n</svg>\n`;
  }
}
