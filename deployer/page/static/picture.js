// A chart as a picture that can be read alone: what it shows stands above it, whose lines below.
import { el } from "./parts.js";

const SCALE = 2; // pixels of the picture for one on the screen
const [MARGIN, LINE, SAMPLE, GAP] = [16, 20, 22, 18];

/** A PNG file of a chart; `words` stand above it, and below a piece of each line with its name. */
export async function makePicture(chart, words, ink) {
  const drawn = chart.renderToCanvas({ pixelRatio: SCALE, backgroundColor: ink.card });
  const [width, height] = [drawn.width / SCALE, drawn.height / SCALE];
  const canvas = el("canvas");
  const pen = canvas.getContext("2d");
  const font = (weight, size) => `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
  pen.font = font(400, 12);
  const rows = layOut(linesOf(chart), width - 2 * MARGIN, (name) => pen.measureText(name).width);
  const top = MARGIN + LINE * words.length;
  Object.assign(canvas, { width: drawn.width, height: SCALE * (top + height + LINE * rows.length + (rows.length ? MARGIN : 0)) });
  pen.fillStyle = ink.card;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(drawn, 0, SCALE * top);
  pen.scale(SCALE, SCALE);
  words.forEach((text, at) => {
    pen.font = at ? font(400, 12) : font(600, 14);
    pen.fillStyle = at ? ink.muted : ink.text;
    pen.fillText(text, MARGIN, MARGIN + LINE * at + 12, width - 2 * MARGIN);
  });
  pen.font = font(400, 12);
  rows.forEach((row, at) => row.forEach((line) => drawName(pen, line, top + height + LINE * at + 10, ink)));
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

/** The lines of a chart that have a name and a colour of their own. */
function linesOf(chart) {
  const lines = chart.getOption().series.filter(({ type, name, id }) => type === "line" && name && !String(id).endsWith(" raw"));
  return lines.length > 1 && new Set(lines.map(({ itemStyle }) => itemStyle.color)).size > 1 ? lines : [];
}

/** Names beside each other, as many as a row has room for. */
function layOut(lines, width, measure) {
  const rows = [];
  let x = Infinity;
  for (const { name, itemStyle, lineStyle } of lines) {
    const long = SAMPLE + measure(name) + GAP;
    if (x + long > width) [x] = [0, rows.push([])];
    rows.at(-1).push({ name, x, colour: itemStyle.color, dash: lineStyle.type });
    x += long;
  }
  return rows;
}

const DASHES = { dashed: [6, 3], dotted: [2, 2] };

function drawName(pen, { name, x, colour, dash }, y, ink) {
  Object.assign(pen, { strokeStyle: colour, lineWidth: 2, fillStyle: ink.text });
  pen.setLineDash(Array.isArray(dash) ? dash : DASHES[dash] ?? []);
  pen.beginPath();
  pen.moveTo(MARGIN + x, y - 4);
  pen.lineTo(MARGIN + x + SAMPLE - 6, y - 4);
  pen.stroke();
  pen.fillText(name, MARGIN + x + SAMPLE, y);
}
