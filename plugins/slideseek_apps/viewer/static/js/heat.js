// Heat map colours. Both slides share one scale, so a colour means the same on both.
const RISING = [[52, 44, 138], [41, 110, 187], [31, 161, 135], [139, 211, 70], [253, 231, 37]];
const PARTED = [[33, 88, 196], [150, 186, 236], [240, 240, 240], [245, 178, 96], [214, 84, 12]];
export const PAIR_COLOURS = ["#e6194b", "#0082c8", "#f58231", "#911eb4", "#008f6b", "#b08900"];

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

// rectangle: places a square of level-0 pixels on the canvas.
export function drawHeat(context, side, scale, alpha, rectangle) {
  const order = side.parts.map((_, at) => at).sort((a, b) => side.parts[a] - side.parts[b]);
  context.globalAlpha = alpha;
  for (const at of order) {
    const { x, y, width, height } = rectangle(side.boxes[at]);
    context.fillStyle = scale.colour(side.parts[at]);
    context.fillRect(x, y, width, height);
  }
  context.globalAlpha = 1;
}

export function drawBoxes(context, marks, rectangle) {
  context.font = "600 12px system-ui, sans-serif";
  // Several patches of one slide may match the same patch of the other: its box then shows all numbers.
  const boxes = new Map();
  for (const { box, number, colour } of marks) {
    const name = box.join();
    boxes.set(name, { box, colour: boxes.get(name)?.colour ?? colour, numbers: [...(boxes.get(name)?.numbers ?? []), number] });
  }
  for (const { box, numbers, colour } of [...boxes.values()].reverse()) {
    const { x, y, width, height } = rectangle(box);
    context.lineWidth = 4;
    context.strokeStyle = "rgb(255 255 255 / .9)";
    context.strokeRect(x, y, width, height);
    context.lineWidth = 2.2;
    context.strokeStyle = colour;
    context.strokeRect(x, y, width, height);
    if (width < 16) continue;
    const text = numbers.join(" "), room = context.measureText(text).width + 8;
    context.fillStyle = colour;
    context.fillRect(x - 1, y - 1, room, 17);
    context.fillStyle = "#fff";
    context.fillText(text, x + 3, y + 12);
  }
}
