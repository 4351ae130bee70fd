// Evidence as a plot: the patches in their order, and how much each adds, or how far the pairs are.
import { drawn as node } from "./dom.js";

const WIDTH = 420, HEIGHT = 132, LEFT = 52, BOTTOM = 26, TOP = 10, RIGHT = 8;
const COLOURS = { query: "var(--accent)", hit: "#8a3ffc" };

export function evidencePlot(evidence) {
  const pairs = evidence.kind === "pairs";
  const series = pairs ? [{ name: "query", values: evidence.pairs.map((one) => one.distance) }]
    : ["query", "hit"].map((name) => ({ name, values: [...evidence[name].parts].sort((a, b) => b - a) }));
  const every = series.flatMap(({ values }) => values);
  const low = Math.min(0, ...every), high = Math.max(...every, pairs ? evidence.value : 0) || 1;
  const most = Math.max(...series.map(({ values }) => values.length));
  const x = (at) => LEFT + ((WIDTH - LEFT - RIGHT) * at) / Math.max(most, 1);
  const y = (value) => TOP + ((HEIGHT - TOP - BOTTOM) * (high - value)) / (high - low);
  const what = pairs ? `distance${evidence.unit ? ` (${evidence.unit})` : ""}` : evidence.kind === "removals" ? "distance grows by" : "adds to the similarity";
  const title = pairs ? `Distances of ${most} pairs of patches, nearest first` : "Contributions of the patches of each slide, largest first";
  const svg = node("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", "aria-label": title, class: "plot" });
  for (const value of new Set([low, 0, high])) {
    svg.append(node("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value), class: "axis" }), text(LEFT - 6, y(value) + 4, short(value), "end"));
  }
  for (const [number, { name, values }] of series.entries()) {
    const thick = Math.max((x(1) - x(0)) / series.length - 0.6, 0.6);
    for (const [at, value] of values.entries()) {
      const [top, bottom] = [Math.min(y(value), y(0)), Math.max(y(value), y(0))];
      svg.append(node("rect", { x: x(at) + number * thick, y: top, width: thick, height: Math.max(bottom - top, 0.8), fill: COLOURS[name] }));
    }
  }
  if (pairs) svg.append(node("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(evidence.value), y2: y(evidence.value), class: "level" }), text(LEFT + 4, Math.max(y(evidence.value) - 4, TOP + 8), `distance of the slides ${short(evidence.value)}`, "start"));
  else svg.append(text(WIDTH - RIGHT, TOP + 8, "query: green, hit: violet", "end"));
  svg.append(text(LEFT, HEIGHT - 6, `${pairs ? "pairs, nearest first" : "patches, largest first"} · ${what}`, "start"));
  return svg;
}

function text(x, y, words, anchor) {
  const made = node("text", { x, y, "text-anchor": anchor });
  made.textContent = words;
  return made;
}

const short = (value) => (Number.isInteger(value) ? String(value) : value.toPrecision(3)).replace("-", "−");
