// Why a hit was found: the controls below the panes, and the patches that matter most.
import { fieldAddress, patchAddress } from "./api.js";
import { el, problem, round } from "./dom.js";
import { PAIR_COLOURS, colourScale, drawBoxes, drawHeat, drawLegend } from "./heat.js";
import { go, state } from "./state.js";

export class EvidenceBar {
  // onlook: called with the boxes of the query patch and the hit patch to look at.
  constructor(query, hit, onlook) {
    this.panes = { query, hit };
    this.onlook = onlook;
    this.heat = toggle("Heat map", "h", () => go({ heat: !state().heat }, { replace: true }));
    this.boxes = toggle("Boxes", "e", () => go({ boxes: !state().boxes }, { replace: true }));
    this.sync = toggle("Move together", "s", () => go({ sync: !state().sync }, { replace: true }));
    this.alpha = el("input", { type: "range", min: 5, max: 100, step: 5, "aria-label": "Opacity of the heat map", title: "Opacity of the heat map ([ and ])", oninput: () => go({ alpha: Number(this.alpha.value) }, { replace: true }) });
    this.legend = el("span", { class: "legend", hidden: true });
    this.sum = el("span", { class: "sum", id: "sum", role: "status" });
    this.pairs = el("div", { class: "pairs" });
    this.element = el("div", { class: "evidence", hidden: true },
      el("div", { class: "evidence-row" }, this.heat, this.alpha, this.boxes, this.sync, this.legend, this.sum), this.pairs);
    this.clear();
  }

  clear() {
    this.evidence = null;
    this.marks = { query: [], hit: [] };
    this.scale = null;
    this.pairs.replaceChildren();
    this.sum.replaceChildren();
  }

  waiting() {
    this.clear();
    this.sum.replaceChildren(el("span", { class: "spinner" }), " Finding the matching patches …");
  }

  failed(error) {
    this.clear();
    this.pairs.replaceChildren(problem(error));
  }

  set(evidence) {
    this.evidence = evidence;
    this.scale = colourScale([...evidence.query.parts, ...evidence.hit.parts]);
    const sum = evidence.query.parts.reduce((total, part) => total + part, 0);
    this.sum.dataset.sum = String(sum);
    this.sum.dataset.value = String(evidence.value);
    if (evidence.kind !== "pairs") {
      this.sum.replaceChildren("similarity ", el("strong", {}, round(evidence.value)), ` = ${evidence.query.parts.length === 1 ? "its only patch" : `sum of ${evidence.query.parts.length} patches`}`);
      this.marks = { query: best(evidence.query), hit: best(evidence.hit) };
    } else {
      this.sum.replaceChildren("distance ", el("strong", {}, round(evidence.value, evidence.unit)), evidence.pairs.length === 1 ? " = distance of the only pair" : `, from ${evidence.pairs.length} nearest pairs`);
      const first = evidence.pairs.slice(0, PAIR_COLOURS.length);
      this.marks = {
        query: first.map((pair, at) => mark(evidence.query.boxes[pair.query], at)),
        hit: first.map((pair, at) => mark(evidence.hit.boxes[pair.hit], at)),
      };
    }
    this.drawPairs();
    this.update();
  }

  // Show what the address says.
  update() {
    const now = state();
    for (const [button, on] of [[this.heat, now.heat], [this.boxes, now.boxes], [this.sync, now.sync]]) button.setAttribute("aria-pressed", String(on));
    this.alpha.value = String(now.alpha);
    this.alpha.disabled = !now.heat;
    this.legend.hidden = !(now.heat && this.scale);
    if (this.scale && now.heat) {
      const canvas = el("canvas", { role: "img", "aria-label": "Colours of the heat map" });
      drawLegend(canvas, this.scale);
      const unit = this.evidence.kind === "pairs" ? this.evidence.unit : "";
      const [from, to] = this.evidence.kind === "pairs" ? [-this.scale.from, -this.scale.to] : [this.scale.from, this.scale.to];
      this.legend.replaceChildren(el("span", {}, round(from)), canvas, el("span", {}, round(to, unit)), el("span", {}, "more similar →"));
    }
    for (const pane of Object.values(this.panes)) pane.redraw();
  }

  paint(side, context, rectangle) {
    const now = state();
    if (!this.evidence) return;
    if (now.heat) drawHeat(context, this.evidence[side], this.scale, now.alpha / 100, rectangle);
    if (now.boxes) drawBoxes(context, this.marks[side], rectangle);
  }

  drawPairs() {
    const { kind, pairs, unit, query, hit } = this.evidence;
    const count = Math.max(this.marks.query.length, this.marks.hit.length);
    this.pairs.replaceChildren(...Array.from({ length: count }, (_, at) => {
      const [mine, other] = [this.marks.query[at], this.marks.hit[at]];
      const value = kind === "pairs" ? round(pairs[at].distance, unit) : [mine && share(mine, query), other && share(other, hit)].filter(Boolean).join(" | ");
      const number = el("span", { class: "number" }, String(at + 1));
      number.style.borderColor = PAIR_COLOURS[at];
      return el("button", { class: "pair", type: "button", title: "Zoom to these patches", onclick: () => this.onlook(mine?.box, other?.box) },
        el("span", { class: "images" }, mine && this.crop(this.panes.query, mine), other && this.crop(this.panes.hit, other)),
        el("span", { class: "tally" }, number, value));
    }));
  }

  crop(pane, { box }) {
    if (pane.patch) return el("img", { alt: "", src: patchAddress(pane.patch) });
    if (!pane.detail?.slide) return null;
    return el("img", { alt: "", loading: "lazy", src: fieldAddress(pane.detail.slide, box, 136) });
  }
}

function toggle(text, key, onclick) {
  return el("button", { class: "button", type: "button", "aria-pressed": "false", title: `${text} (${key})`, "data-toggle": key, onclick }, text);
}

const mark = (box, at) => ({ box, number: at + 1, colour: PAIR_COLOURS[at] });

function best(side) {
  const order = side.parts.map((_, at) => at).sort((a, b) => side.parts[b] - side.parts[a]).slice(0, PAIR_COLOURS.length);
  return order.map((patch, at) => ({ ...mark(side.boxes[patch], at), patch }));
}

const share = ({ patch }, side) => `+${round(side.parts[patch])}`.replace("+-", "−");
