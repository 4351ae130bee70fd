// Heat map colours. Both slides share one scale, so a colour means the same on both.
const RISING = [[52, 44, 138], [41, 110, 187], [31, 161, 135], [139, 211, 70], [253, 231, 37]];
const PARTED = [[33, 88, 196], [150, 186, 236], [240, 240, 240], [245, 178, 96], [214, 84, 12]];
export const PAIR_COLOURS = ["#e6194b", "#0082c8", "#f58231", "#911eb4", "#008f6b", "#b08900"];
// Patches that are ranked for each slide alone have one colour per slide: a shared one would suggest pairs.
export const SIDE_COLOURS = { query: "#0b6e75", hit: "#8a3ffc" };

export function colourScale(values) {
  const low = Math.min(...values), high = Math.max(...values);
  // Parts of both signs: a negative part must not look like a small positive one.
  const parted = low < 0 && high > 0;
  const reach = Math.max(Math.abs(low), Math.abs(high)) || 1;
  const place = parted ? (value) => (value / reach + 1) / 2 : (value) => (high > low ? (value - low) / (high - low) : 1);
  return { colour: (value) => between(parted ? PARTED : RISING, place(value)), from: parted ? -reach : low, to: parted ? reach : high, parted };
}

function between(stops, at) {
  const place = Math.min(Math.max(at, 0), 1) * (stops.length - 1);
  const first = Math.min(Math.floor(place), stops.length - 2);
  const mixed = stops[first].map((part, channel) => Math.round(part + (stops[first + 1][channel] - part) * (place - first)));
  return `rgb(${mixed.join(" ")})`;
}

export function drawLegend(canvas, scale) {
  canvas.width = 90;
  canvas.height = 10;
  const context = canvas.getContext("2d");
  for (let x = 0; x < 90; x += 1) {
    context.fillStyle = scale.colour(scale.from + ((scale.to - scale.from) * x) / 89);
    context.fillRect(x, 0, 1, 10);
  }
}

// outline: places a square of level-0 pixels on the canvas, as its four corners.
export function drawHeat(context, side, scale, alpha, outline) {
  const order = side.parts.map((_, at) => at).sort((a, b) => side.parts[a] - side.parts[b]);
  context.globalAlpha = alpha;
  for (const at of order) {
    trace(context, outline(side.boxes[at]));
    context.fillStyle = scale.colour(side.parts[at]);
    context.fill();
  }
  context.globalAlpha = 1;
}

export function trace(context, corners, close = true) {
  context.beginPath();
  for (const [at, { x, y }] of corners.entries()) context[at ? "lineTo" : "moveTo"](x, y);
  if (close) context.closePath();
}

// Draw a line that is seen on any ground: white below, the colour on top.
export function stroke(context, corners, colour, { close = true, dash = [], width = 2.2 } = {}) {
  trace(context, corners, close);
  context.lineWidth = width + 1.8;
  context.strokeStyle = "rgb(255 255 255 / .9)";
  context.stroke();
  context.lineWidth = width;
  context.strokeStyle = colour;
  context.setLineDash(dash);
  context.stroke();
  context.setLineDash([]);
}

export function label(context, text, { x, y }, colour) {
  context.font = "600 12px system-ui, sans-serif";
  const room = context.measureText(text).width + 8;
  context.fillStyle = colour;
  context.fillRect(x - 1, y - 1, room, 17);
  context.fillStyle = "#fff";
  context.fillText(text, x + 3, y + 12);
}

export function drawBoxes(context, marks, outline) {
  // Several patches of one slide may match the same patch of the other: its box then shows all numbers.
  const boxes = new Map();
  for (const { box, name, colour } of marks) {
    const place = box.join();
    boxes.set(place, { box, colour: boxes.get(place)?.colour ?? colour, names: [...(boxes.get(place)?.names ?? []), name] });
  }
  for (const { box, names, colour } of [...boxes.values()].reverse()) {
    const corners = outline(box);
    stroke(context, corners, colour);
    if (Math.hypot(corners[1].x - corners[0].x, corners[1].y - corners[0].y) >= 16) label(context, names.join(" "), corners[0], colour);
  }
}
