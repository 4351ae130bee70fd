// Why a hit was found: the controls below the panes, and the patches that matter most.
import { fieldAddress, patchAddress } from "./api.js";
import { el, problem, round } from "./dom.js";
import { PAIR_COLOURS, SIDE_COLOURS, colourScale, drawBoxes, drawHeat, drawLegend } from "./heat.js";
import { evidencePlot } from "./plot.js";
import { go, state } from "./state.js";

export class EvidenceBar {
  // onlook: called with the boxes of the query patch and the hit patch to look at.
  constructor(query, hit, onlook) {
    this.panes = { query, hit };
    this.onlook = onlook;
    this.heat = toggle("Heat map", "h", () => go({ heat: !state().heat }, { replace: true }));
    this.boxes = toggle("Boxes", "e", () => go({ boxes: !state().boxes }, { replace: true }));
    this.plot = toggle("Plot", "p", () => go({ plot: !state().plot }, { replace: true }));
    this.sync = toggle("Move together", "s", () => go({ sync: !state().sync }, { replace: true }));
    this.alpha = el("input", { type: "range", min: 5, max: 100, step: 5, "aria-label": "Opacity of the heat map", title: "Opacity of the heat map ([ and ])", oninput: () => go({ alpha: Number(this.alpha.value) }, { replace: true }) });
    this.legend = el("span", { class: "legend", hidden: true });
    this.sum = el("span", { class: "sum", id: "sum", role: "status" });
    this.pairs = el("div", { class: "pairs", tabindex: "0", role: "region", "aria-label": "Matching patches" });
    this.element = el("div", { class: "evidence", hidden: true },
      el("div", { class: "evidence-row" }, this.heat, this.alpha, this.boxes, this.plot, this.sync, this.legend, this.sum), this.pairs);
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

  // marked: the search was for more like the marked slides, and its distances are not those of the query alone.
  set(evidence, marked = false) {
    this.evidence = evidence;
    this.scale = colourScale([...evidence.query.parts, ...evidence.hit.parts]);
    const { parts } = evidence.query.parts.length ? evidence.query : evidence.hit; // text has no patches
    const sum = parts.reduce((total, part) => total + part, 0);
    this.sum.dataset.sum = String(sum);
    this.sum.dataset.value = String(evidence.value);
    const value = el("strong", {}, round(evidence.value, evidence.unit));
    if (evidence.kind === "pairs") {
      this.sum.replaceChildren("distance ", value, evidence.pairs.length === 1 ? " = distance of the only pair" : `, from ${evidence.pairs.length} nearest pairs`);
      const first = evidence.pairs.slice(0, PAIR_COLOURS.length);
      const mark = (box, at) => ({ box, name: String(at + 1), colour: PAIR_COLOURS[at] });
      this.marks = {
        query: !evidence.query.boxes.length ? [] : first.map((pair, at) => ({ ...mark(evidence.query.boxes[pair.query], at), slide: evidence.query.slides[pair.query] })),
        hit: first.map((pair, at) => mark(evidence.hit.boxes[pair.hit], at)),
      };
    } else {
      const count = parts.length;
      if (evidence.kind === "removals") this.sum.replaceChildren("distance ", value, "; patches by how much it grows without them");
      else this.sum.replaceChildren("similarity ", value, ` = ${count === 1 ? "its only patch" : `sum of ${count} patches`}`);
      this.marks = { query: best(evidence.query, "query"), hit: best(evidence.hit, "hit") };
    }
    if (marked) this.sum.append(" (of the query alone: the hits are ranked with the marked slides)");
    this.drawPairs();
    this.update();
  }

  // Show what the address says.
  update() {
    const now = state();
    for (const [button, on] of [[this.heat, now.heat], [this.boxes, now.boxes], [this.plot, now.plot], [this.sync, now.sync]]) button.setAttribute("aria-pressed", String(on));
    this.alpha.value = String(now.alpha);
    this.alpha.disabled = !now.heat;
    const coloured = this.scale && (now.heat || this.calm);
    this.legend.hidden = !coloured;
    if (coloured) {
      const canvas = el("canvas", { role: "img", "aria-label": "Colours of the heat map" });
      drawLegend(canvas, this.scale);
      const unit = this.evidence.kind === "pairs" ? this.evidence.unit : "";
      const [from, to] = this.evidence.kind === "pairs" ? [-this.scale.from, -this.scale.to] : [this.scale.from, this.scale.to];
      this.legend.replaceChildren(el("span", {}, round(from)), canvas, el("span", {}, round(to, unit)), el("span", {}, "more similar →"));
    }
    for (const pane of Object.values(this.panes)) pane.redraw();
  }

  paint(side, context, outline) {
    const now = state();
    if (!this.evidence) return;
    const here = this.here(side);
    if (now.heat || this.calm) drawHeat(context, here, this.scale, this.calm && !now.heat ? 0.9 : now.alpha / 100, outline);
    if (now.boxes) drawBoxes(context, this.marks[side].filter(({ slide }) => !slide || slide === this.panes[side].detail?.slide.key), outline);
  }

  // The patches of the slide that is open: a case has several.
  here(side) {
    const { boxes, parts, slides } = this.evidence[side];
    if (!slides.length) return { boxes, parts };
    const on = slides.map((key, at) => (key === this.panes[side].detail?.slide.key ? at : -1)).filter((at) => at >= 0);
    return { boxes: on.map((at) => boxes[at]), parts: on.map((at) => parts[at]) };
  }

  // Without pictures there is nothing to crop: the numbers are plotted, and the heat map lies on the map of patches.
  get calm() { return ["query", "hit"].some((side) => { const { detail, patch } = this.panes[side]; return !patch && detail && !detail.slide.pixels; }); }

  drawPairs() {
    const { kind, pairs, unit } = this.evidence;
    if (this.calm || state().plot) return void this.pairs.replaceChildren(evidencePlot(this.evidence));
    if (kind !== "pairs") return void this.pairs.replaceChildren(this.ranking("query", "Query"), this.ranking("hit", "Hit"));
    this.pairs.replaceChildren(...this.marks.query.map((mine, at) => {
      const other = this.marks.hit[at];
      return this.button([this.crop(this.panes.query, mine), this.crop(this.panes.hit, other)], mine, round(pairs[at].distance, unit), () => this.onlook(this.seen(mine), other.box));
    }));
  }

  // The patches of one slide that count most. The two slides are ranked each for itself: nothing pairs their patches.
  ranking(side, name) {
    const parts = this.evidence[side].parts;
    const title = `${name} patches, ranked for this slide alone`;
    return el("section", { class: "ranking", "aria-label": title }, el("h3", {}, title),
      el("div", { class: "pairs-row" }, ...this.marks[side].map((one) => this.button([this.crop(this.panes[side], one)], one, signed(parts[one.patch]),
        () => (side === "query" ? this.onlook(this.seen(one), null) : this.onlook(null, one.box))))));
  }

  button(images, { name, colour }, value, onclick) {
    const number = el("span", { class: "number" }, name);
    number.style.borderColor = colour;
    return el("button", { class: "pair", type: "button", title: images.length > 1 ? "Zoom to these patches" : "Zoom to this patch", onclick },
      el("span", { class: "images" }, ...images), el("span", { class: "tally" }, number, value));
  }

  // The box of a query patch if its slide is the one in view.
  seen({ box, slide }) { return !slide || slide === this.panes.query.detail?.slide.key ? box : null; }

  crop(pane, { box, slide }) {
    if (pane.patch) return el("img", { alt: "", src: patchAddress(pane.patch) });
    if (!pane.detail?.slide) return null;
    const owner = slide && slide !== pane.detail.slide.key ? { key: slide, version: "" } : pane.detail.slide;
    return el("img", { alt: "", loading: "lazy", src: fieldAddress(owner, box, 136) });
  }
}

function toggle(text, key, onclick) {
  return el("button", { class: "button", type: "button", "aria-pressed": "false", title: `${text} (${key})`, "data-toggle": key, onclick }, text);
}

function best(side, name) {
  const order = side.parts.map((_, at) => at).sort((a, b) => side.parts[b] - side.parts[a]).slice(0, PAIR_COLOURS.length);
  return order.map((patch, at) => ({ box: side.boxes[patch], name: `${name[0].toUpperCase()}${at + 1}`, colour: SIDE_COLOURS[name], patch, slide: side.slides[patch] }));
}

const signed = (part) => `${part > 0 ? "+" : ""}${round(part)}`.replace("-", "−");
