// The search view: the query, its hits, and one hit next to the query.
import { explain, search } from "./api.js";
import { el, problem, toast } from "./dom.js";
import { EvidenceBar } from "./evidence.js";
import { Pane, Together, tool } from "./pane.js";
import { drawResults } from "./results.js";
import { go, noHit, note, state, toBrowse, toQuery } from "./state.js";

const QUERY = ["slide", "patch", "site", "region"];
const SEARCH = [...QUERY, "engine", "vs", "k", "mode", "same", "apart", "stains", "where"];
const EXPLAIN = [...QUERY, "hit", "by"];
const narrow = () => matchMedia("(max-width: 720px)").matches;
const changed = (names, now, before) => !before || names.some((name) => now[name] !== before[name]);

export class Work {
  constructor(archive) {
    this.archive = archive;
    this.draw = tool("▭", "Search with a region: draw a rectangle (r)", () => this.drawRegion());
    this.draw.id = "draw";
    this.query = new Pane("Query", { actions: [this.draw], onmove: (pane) => this.together.moved(pane), onrest: () => this.noteViews() });
    this.hit = new Pane("Hit", { onmove: (pane) => this.together.moved(pane), onrest: () => this.noteViews() });
    this.together = new Together(this.query, this.hit);
    this.evidence = new EvidenceBar(this.query, this.hit, (mine, other) => this.lookAt(mine, other));
    this.query.paint = (context, rectangle) => { this.evidence.paint("query", context, rectangle); this.paintRegion(context, rectangle); };
    this.hit.paint = (context, rectangle) => this.evidence.paint("hit", context, rectangle);
    this.answers = [];
    this.ask = el("div", { class: "ask" });
    this.panes = el("div", { class: "panes" }, this.query.element);
    this.results = el("section", { class: "results", "aria-label": "Hits", id: "results" });
    this.stage = el("div", { class: "stage" }, el("div", { class: "look" }, this.panes, this.evidence.element), this.results);
    this.element = el("div", { class: "work" }, this.ask, this.stage);
  }

  get engine() { return state().engine || this.archive.engines.find((one) => !one.problem)?.name || this.archive.engines[0]?.name || ""; }

  show(before) {
    const now = state();
    if (changed(SEARCH, now, before)) { this.drawAsk(); this.search(); }
    if (changed(["slide", "patch"], now, before)) this.openQuery();
    else if (changed(["region"], now, before)) { this.query.drawn = null; this.drawQueryHead(); this.query.redraw(); }
    if (changed(["hit", "by"], now, before)) this.openHit();
    else if (changed(EXPLAIN, now, before)) this.explain();
    if (before && !changed([...QUERY, "hit"], now, before) && changed(["at", "beside"], now, before)) this.lookBack();
    if (changed(["sync"], now, before)) this.setTogether();
    this.evidence.update();
  }

  leave() {
    this.searching?.abort();
    this.explaining?.abort();
    this.opening?.abort();
    this.query.stopDrawing?.();
    this.query.close();
    this.hit.close();
  }

  // The query, as the API takes it.
  asked() {
    const { slide, patch, site, region } = state();
    if (patch) return { kind: "patch", patch, site };
    if (!region) return { kind: "slide", slide };
    const [x, y, width, height] = region.split(",").map(Number);
    return { kind: "region", slide, x, y, width, height };
  }

  drawAsk() {
    const now = state();
    const engines = this.archive.engines;
    const choice = (name, value, options, attributes = {}) => el("select", { ...attributes, onchange: (event) => go({ [name]: event.target.value, ...(name === "engine" ? noHit : {}) }) },
      ...options.map(([id, text, disabled]) => el("option", { value: id, selected: id === value, disabled: disabled || null }, text)));
    const named = engines.map((one) => [one.name, one.problem ? `${one.name} (not ready)` : one.name, Boolean(one.problem)]);
    // An old address may name an engine that no longer exists: show it, so the user can choose another.
    if (!engines.some((one) => one.name === this.engine)) named.unshift([this.engine, `${this.engine} (not available)`, true]);
    const others = named.filter(([name]) => name !== this.engine);
    this.ask.replaceChildren(
      el("button", { class: "button", type: "button", id: "back", title: "All slides (b)", onclick: () => go(toBrowse) }, "← Slides"),
      el("label", {}, "Engine", choice("engine", this.engine, named, { id: "engine" })),
      el("label", {}, "Compare with", choice("vs", now.vs, [["", "none"], ...others], { id: "versus", disabled: others.length ? null : true })),
      el("label", {}, "Search in", choice("mode", now.mode, [["horizontal", "all slides"], ["vertical", "slides of the same site"]], { id: "mode" })),
      now.patch ? el("label", {}, "Site of the image", choice("site", now.site, this.sites(now.site), { id: "site" })) : "",
      el("span", { class: "grow" }),
      this.more());
  }

  // An uploaded image has no metadata; an old address may name a site that no longer exists.
  sites(site) {
    const known = this.archive.sites.map((one) => [one, one]);
    if (site && !this.archive.sites.includes(site)) known.unshift([site, `${site} (not in the archive)`]);
    return [["", "unknown"], ...known];
  }

  more() {
    const now = state();
    const where = el("input", { type: "text", id: "where", value: now.where, placeholder: "center=centre-a", maxlength: 300, onchange: (event) => { event.target.closest("details").open = false; go({ where: event.target.value.trim() }); } });
    const open = this.ask.querySelector("details")?.open;
    return el("details", { open },
      el("summary", { class: "button" }, "More"),
      el("div", {},
        el("label", {}, "Hits", el("select", { onchange: (event) => go({ k: Number(event.target.value) }) }, ...[5, 10, 20, 50].map((k) => el("option", { value: String(k), selected: k === now.k }, String(k))))),
        el("label", {}, "Include the query’s own patient", el("input", { type: "checkbox", id: "same", checked: now.same, onchange: (event) => go({ same: event.target.checked }) })),
        el("label", {}, "Leave out the query’s centre", el("input", { type: "checkbox", id: "apart", checked: now.apart, onchange: (event) => go({ apart: event.target.checked }) })),
        el("label", {}, "Find slides of any stain", el("input", { type: "checkbox", id: "stains", checked: now.stains, onchange: (event) => go({ stains: event.target.checked }) })),
        el("label", { class: "where" }, "Filter", where),
        el("button", { class: "button", type: "button", onclick: () => navigator.clipboard?.writeText(location.href).then(() => toast("Link copied")) }, "Copy link to this view")));
  }

  async search() {
    const now = state();
    this.searching?.abort();
    this.searching = new AbortController();
    const { signal } = this.searching;
    const waiting = now.region ? "Reading the region …" : now.patch ? "Reading the patch …" : "";
    this.answers = [...new Set([this.engine, now.vs].filter(Boolean))].map((engine) => ({ engine, waiting }));
    this.drawResults();
    const where = now.where ? [now.where] : [];
    await Promise.all(this.answers.map(async (one) => {
      try {
        one.answer = await search({ engine: one.engine, query: this.asked(), k: now.k, mode: now.mode, include_same_patient: now.same, exclude_center: now.apart, any_stain: now.stains, where }, signal);
      } catch (error) {
        if (error.name === "AbortError") return;
        one.error = error;
      }
      if (!signal.aborted) { this.drawResults(); this.drawHitHead(); }
    }));
  }

  drawResults() {
    const { hit, by } = state();
    this.stage.classList.toggle("versus", this.answers.length > 1);
    drawResults(this.results, { answers: this.answers, hit, by: by || this.engine, open: (key, engine) => this.openBeside(key, engine), retry: () => this.search() });
  }

  openBeside(key, engine) {
    const now = state();
    const again = now.hit === key && (now.by || this.engine) === engine;
    go(again ? noHit : { hit: key, by: engine === this.engine ? "" : engine, beside: "" });
  }

  async openQuery() {
    const { slide, patch } = state();
    this.opening?.abort();
    this.opening = new AbortController();
    this.query.drawn = null;
    this.draw.hidden = Boolean(patch);
    try {
      if (patch) await this.query.openPatch(patch);
      else await this.query.openSlide(slide, this.opening.signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.query.close();
      this.query.over.replaceChildren(problem(error, () => this.openQuery()));
    }
    if (this.query.item && state().at) this.query.look(state().at);
    this.drawQueryHead();
    this.setTogether();
    if (this.evidence.evidence) this.evidence.drawPairs();
  }

  drawQueryHead() {
    const { patch, region } = state();
    const slide = this.query.detail?.slide;
    const role = el("span", { class: "role" }, region ? "Query region" : patch ? "Query patch" : "Query");
    const whole = region ? el("button", { class: "button", type: "button", id: "whole", onclick: () => go({ region: "", ...noHit }) }, "Search with the whole slide") : null;
    this.query.head.replaceChildren(role, ...(slide ? words(slide) : [el("span", { class: "title" }, patch ? "uploaded image" : ""), el("span", { class: "chips" })]), whole ?? "");
  }

  drawHitHead() {
    const { hit, by } = state();
    if (!hit) return;
    const slide = this.hit.detail?.slide;
    const found = this.answers.find((one) => one.engine === (by || this.engine))?.answer?.hits.find((one) => one.slide.key === hit);
    this.hit.head.replaceChildren(
      el("span", { class: "role" }, found ? `Hit ${found.rank}` : "Hit"), ...(slide ? words(slide) : [el("span", { class: "chips" })]),
      el("button", { class: "button", type: "button", id: "use-hit", title: "Search with this slide", onclick: () => go(toQuery({ slide: hit })) }, "Search with this"),
      tool("×", "Close the hit (Esc)", () => go(noHit)));
  }

  async openHit() {
    const { hit } = state();
    this.stage.classList.toggle("open", Boolean(hit));
    this.evidence.element.hidden = !hit;
    this.drawResults();
    if (!hit) {
      this.explaining?.abort();
      this.evidence.clear();
      this.hit.close();
      this.hit.element.remove();
      this.together.stop();
      return;
    }
    if (!this.hit.element.isConnected) this.panes.append(this.hit.element);
    // On a narrow page the panes are above the list: scroll to the opened hit.
    if (narrow()) this.hit.element.scrollIntoView({ block: "start" });
    else this.results.querySelector('.hit[aria-current="true"]')?.scrollIntoView({ block: "nearest" });
    this.drawHitHead();
    this.explain();
    this.openingHit?.abort();
    this.openingHit = new AbortController();
    try {
      await this.hit.openSlide(hit, this.openingHit.signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.hit.close();
      this.hit.over.replaceChildren(problem(error, () => this.openHit()));
    }
    this.drawHitHead();
    if (state().beside) this.hit.look(state().beside);
    else if (this.query.home) this.query.goHome();
    this.setTogether(!state().beside);
    if (this.evidence.evidence) this.evidence.drawPairs();
  }

  async explain() {
    const { hit, by } = state();
    this.explaining?.abort();
    if (!hit) return;
    this.explaining = new AbortController();
    const { signal } = this.explaining;
    this.evidence.waiting();
    try {
      const evidence = await explain({ engine: by || this.engine, query: this.asked(), hit }, signal);
      if (!signal.aborted) this.evidence.set(evidence);
    } catch (error) {
      if (error.name !== "AbortError") this.evidence.failed(error);
    }
  }

  lookAt(mine, other) {
    this.together.stop();
    if (mine && this.query.detail?.image) this.query.fit(mine);
    if (other && this.hit.detail?.image) this.hit.fit(other);
    this.setTogether();
  }

  // Record the views in the address. Slides that are still opening have none yet.
  noteViews() {
    const ready = (pane, name) => (pane.detail?.image && pane.item ? { [name]: pane.place } : {});
    note({ ...ready(this.query, "at"), ...(state().hit ? ready(this.hit, "beside") : {}) });
  }

  // Restore the views of an earlier history entry.
  lookBack() {
    const { at, beside } = state();
    this.together.stop();
    for (const [pane, place] of [[this.query, at], [this.hit, beside]]) {
      if (place) pane.look(place);
      else if (pane.item) pane.goHome();
    }
    this.setTogether();
  }

  setTogether(fresh = false) {
    if (state().sync && state().hit) this.together.start(fresh);
    else this.together.stop();
  }

  drawRegion() {
    this.draw.setAttribute("aria-pressed", "true");
    this.query.draw((box) => {
      this.draw.setAttribute("aria-pressed", "false");
      if (box) go({ region: box.join(","), ...noHit });
    });
  }

  paintRegion(context, rectangle) {
    const { region } = state();
    const box = this.query.drawn || (region ? region.split(",").map(Number) : null);
    if (!box) return;
    const { x, y, width, height } = rectangle(box);
    context.lineWidth = 4;
    context.strokeStyle = "rgb(255 255 255 / .9)";
    context.strokeRect(x, y, width, height);
    context.lineWidth = 2;
    context.strokeStyle = "#0b6e75";
    context.setLineDash([7, 4]);
    context.strokeRect(x, y, width, height);
    context.setLineDash([]);
  }

  // Open the hit `by` ranks from the open one, or the first.
  step(by) {
    const now = state();
    const engine = now.by || this.engine;
    const hits = this.answers.find((one) => one.engine === engine)?.answer?.hits ?? [];
    const at = hits.findIndex((one) => one.slide.key === now.hit);
    const next = hits[at < 0 ? 0 : Math.min(Math.max(at + by, 0), hits.length - 1)];
    if (next && next.slide.key !== now.hit) this.openBeside(next.slide.key, engine);
  }

  openRank(rank) {
    const engine = state().by || this.engine;
    const found = this.answers.find((one) => one.engine === engine)?.answer?.hits.find((one) => one.rank === rank);
    if (found && found.slide.key !== state().hit) this.openBeside(found.slide.key, engine);
  }
}

// What was found on the pixels; the manifest may state the stain itself, and artefacts below 1 % are not worth a chip.
function measured({ fields, measured }) {
  const shares = ["blurred", "pen", "folds", "debris"].filter((name) => Number(measured[name]) >= 0.01);
  return [measured.stain && !fields.stain && `stain: ${measured.stain}`, measured.blur_um && `blur: ${measured.blur_um} µm`,
    ...shares.map((name) => `${name}: ${Math.round(100 * measured[name])} %`)];
}

function words(slide) {
  const chips = [slide.label, slide.site, slide.center, slide.patient, ...Object.entries(slide.fields).map(([name, value]) => value && `${name}: ${value}`), ...measured(slide)].filter(Boolean);
  return [el("span", { class: "title", title: slide.id }, slide.id), el("span", { class: "chips" }, ...chips.map((text) => el("span", { class: "chip" }, text)))];
}
