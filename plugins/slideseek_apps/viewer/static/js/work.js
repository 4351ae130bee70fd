// The query with its hits, and a hit next to the query.
import { Annotations } from "./annotations.js";
import { explain, getFile, getPlaces, getReadiness, search } from "./api.js";
import { AskBar } from "./ask.js";
import { explainVote } from "./confidence.js";
import { download, el, problem, redraw } from "./dom.js";
import { startDrawing } from "./drawing.js";
import { EvidenceBar } from "./evidence.js";
import { stroke } from "./heat.js";
import { Pane, tool } from "./pane.js";
import { drawResults } from "./results.js";
import { among, go, keys, noHit, noMarks, note, state, toQuery } from "./state.js";
import { Together } from "./together.js";
import { saying } from "./words.js";

const QUERY = ["slide", "patch", "words", "site", "region", "case"];
const FILTERS = ["text", "facet", "range", "collection"];
const SEARCH = [...QUERY, ...FILTERS, "engine", "vs", "k", "mode", "same", "apart", "stains", "where", "more", "less"];
const EXPLAIN = [...QUERY, "hit", "by"];
const narrow = () => matchMedia("(max-width: 720px)").matches;
const changed = (names, now, before) => !before || names.some((name) => String(now[name]) !== String(before[name]));

export class Work {
  constructor(archive, collections, ontitle) {
    this.archive = archive;
    this.collections = collections;
    this.ontitle = ontitle;
    this.draw = tool("region", "Search with a region: draw a rectangle (r)", () => this.drawRegion());
    this.draw.id = "draw";
    const moved = { onmove: (pane) => this.together.moved(pane), onrest: () => this.noteViews() };
    const measure = (pane) => tool("ruler", "Measure a length (m)", () => startDrawing(pane(), "measure", () => {}));
    this.query = new Pane("Query", { actions: [measure(() => this.query)], ...moved });
    this.hit = new Pane("Hit", { actions: [measure(() => this.hit)], ...moved });
    this.active = this.query;
    for (const pane of [this.query, this.hit]) {
      pane.annotations = new Annotations(pane, archive.writable);
      pane.tools.append(...pane.annotations.buttons);
      for (const name of ["pointerdown", "focusin"]) pane.element.addEventListener(name, () => { this.active = pane; });
    }
    this.query.tools.prepend(this.draw);
    this.together = new Together(this.query, this.hit);
    this.evidence = new EvidenceBar(this.query, this.hit, (mine, other) => this.lookAt(mine, other));
    this.query.paint = (context, outline) => { this.evidence.paint("query", context, outline); this.query.annotations.paint(context); this.paintRegion(context, outline); };
    this.hit.paint = (context, outline) => { this.evidence.paint("hit", context, outline); this.hit.annotations.paint(context); };
    this.answers = [];
    this.ask = new AskBar(this);
    this.query.annotations.onchange = () => { if (this.element.isConnected) this.ask.draw(); };
    this.panes = el("div", { class: "panes" }, this.query.element);
    this.results = el("section", { class: "results", "aria-label": "Hits", id: "results", tabindex: "-1" });
    this.stage = el("div", { class: "stage" }, el("div", { class: "look" }, this.panes, this.evidence.element), this.results);
    this.element = el("div", { class: "work" }, this.ask.element, this.stage);
  }

  get engine() { return state().engine || this.archive.engines.find((one) => !one.problem)?.name || this.archive.engines[0]?.name || ""; }
  get view() { return state().view || (this.archive.with_pixels ? "grid" : "table"); }
  get engines() { return [...new Set([this.engine, ...keys(state().vs)])]; }

  show(before) {
    const now = state();
    if (changed(SEARCH, now, before)) { this.ask.draw(); this.search(); }
    else if (changed(["good", "bad", "view"], now, before)) { this.ask.draw(); this.drawResults(); }
    if (changed(["slide", "patch", "words"], now, before)) this.openQuery();
    else if (changed(["region", "case"], now, before)) { this.drawQueryHead(); this.query.redraw(); }
    if (changed(["hit", "by"], now, before)) this.openHit(before?.hit);
    else if (changed(EXPLAIN, now, before)) this.explain();
    if (before && !changed([...QUERY, "hit"], now, before) && changed(["at", "beside"], now, before)) this.lookBack();
    if (changed(["sync"], now, before)) this.setTogether();
    if (changed(["plot"], now, before) && this.evidence.evidence) this.evidence.drawPairs();
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
    const { slide, patch, words, site, region, case: whole } = state();
    if (words) return { kind: "text", text: words, site };
    if (patch) return { kind: "patch", patch, site };
    if (whole) return { kind: "case", slide };
    if (!region) return { kind: "slide", slide };
    const [x, y, width, height] = region.split(",").map(Number);
    return { kind: "region", slide, x, y, width, height };
  }

  // The search, as the API takes it.
  body(engine = this.engine) {
    const now = state();
    return { engine, query: this.asked(), k: now.k, mode: now.mode, include_same_patient: now.same, exclude_center: now.apart, any_stain: now.stains,
      where: now.where ? [now.where] : [], relevant: keys(now.more), rejected: keys(now.less), among: among() };
  }

  async search() {
    const now = state();
    this.searching?.abort();
    this.searching = new AbortController();
    const { signal } = this.searching;
    const placed = Boolean(now.region || now.patch);
    const waiting = now.region ? "Reading the region …" : now.patch ? "Reading the patch …" : "";
    this.answers = this.engines.map((engine) => ({ engine, waiting }));
    this.drawResults();
    if (placed) this.watchLoading(signal);
    await Promise.all(this.answers.map(async (one) => {
      try {
        one.answer = await search(this.body(one.engine), signal);
      } catch (error) {
        if (error.name === "AbortError") return;
        one.error = error;
      }
      if (signal.aborted) return;
      this.drawResults();
      this.drawHitHead();
      if (placed && one.answer?.hits.length) this.findPlaces(one, signal);
    }));
  }

  // Engines load their networks when the server starts: say so while a region waits for that.
  async watchLoading(signal) {
    while (!signal.aborted && this.answers.some((one) => !one.answer && !one.error)) {
      const { ready, engines } = await getReadiness().catch(() => ({ ready: 0, engines: 0 }));
      if (signal.aborted || ready >= engines) return;
      for (const one of this.answers) one.waiting = `Loading the engines: ${ready} of ${engines} ready …`;
      this.drawResults();
      await new Promise((done) => setTimeout(done, 700));
    }
  }

  // The hits of regions and patches show the place that matches.
  async findPlaces(one, signal) {
    const hits = one.answer.hits.filter(({ slide }) => slide.pixels).map(({ slide }) => slide.key);
    if (!hits.length) return;
    try {
      const found = await getPlaces({ engine: one.engine, query: this.asked(), hits }, signal);
      one.places = Object.fromEntries(found.map(({ slide, x, y, side }) => [slide, [x, y, side]]));
    } catch {
      return; // whole slides stay
    }
    if (!signal.aborted) this.drawResults();
  }

  drawResults() {
    const { hit, by, good, bad } = state();
    this.stage.classList.toggle("versus", this.answers.length > 1);
    this.stage.classList.toggle("tabled", this.view === "table");
    this.stage.style.setProperty("--engines", String(this.answers.length));
    const marks = new Map([...keys(good).map((key) => [key, true]), ...keys(bad).map((key) => [key, false])]);
    const actions = {
      open: (key, engine) => this.openBeside(key, engine), retry: () => this.search(), mark: (key, verdict) => this.mark(key, verdict),
      marksBar: () => this.marksBar(), explainVote: (field, vote, engine) => explainVote(field, vote, this.body(engine)),
    };
    drawResults(this.results, { answers: this.answers, marks, view: this.view, hit, by: by || this.engine, actions });
  }

  // verdict: true for relevant, false for not, null to take the mark away.
  mark(key, verdict) {
    const { good, bad } = state();
    const without = (text) => keys(text).filter((one) => one !== key);
    go({ good: [...without(good), ...(verdict === true ? [key] : [])].join(), bad: [...without(bad), ...(verdict === false ? [key] : [])].join() }, { replace: true });
  }

  marksBar() {
    const { good, bad, more, less } = state();
    const count = (text) => keys(text).length;
    if (!good && !bad && !more && !less) return null;
    const used = more === good && less === bad;
    return el("div", { class: "marks-bar", role: "group", "aria-label": "Marked hits" },
      el("span", { id: "marked", role: "status" }, used ? `More like ${count(more)} relevant, unlike ${count(less)}` : `${count(good)} relevant, ${count(bad)} not`),
      used ? null : el("button", { class: "button primary", type: "button", id: "more-like", onclick: () => go({ more: good, less: bad, ...noHit }) }, "More like these"),
      more || less ? el("button", { class: "button", type: "button", id: "first-hits", onclick: () => go({ more: "", less: "", ...noHit }) }, "First hits") : null,
      el("button", { class: "button", type: "button", id: "clear-marks", onclick: () => go({ ...noMarks, ...noHit }) }, "Clear marks"));
  }

  saveItems() {
    const { hit, by } = state();
    const engine = by || this.engine;
    const seen = (pane) => pane.item && pane.detail?.image;
    const geojson = (side) => async () => download(await getFile("geojson", { engine, query: this.asked(), hit, side }), `${side}.geojson`);
    return [
      ["Report (HTML)", async (identified) => download(await getFile("report", { ...this.body(), identified }), "report.html")],
      ["Hits (CSV)", async (identified) => download(await getFile("hits", { ...this.body(), identified }), "hits.csv")],
      seen(this.query) ? ["Picture of the query (PNG)", async () => download(await this.query.picture(), "query.png")] : null,
      hit && seen(this.hit) ? ["Picture of the hit (PNG)", async () => download(await this.hit.picture(), "hit.png")] : null,
      hit ? ["Evidence on the query (GeoJSON for QuPath)", geojson("query")] : null,
      hit ? ["Evidence on the hit (GeoJSON for QuPath)", geojson("hit")] : null,
      this.query.annotations.shapes.length ? ["Annotations of the query (GeoJSON)", async () => download(new Blob([this.query.annotations.geojson()], { type: "application/geo+json" }), "annotations.geojson")] : null,
    ];
  }

  openBeside(key, engine) {
    const now = state();
    const again = now.hit === key && (now.by || this.engine) === engine;
    go(again ? noHit : { hit: key, by: engine === this.engine ? "" : engine, beside: "" });
  }

  async openQuery() {
    const { slide, patch, words } = state();
    this.opening?.abort();
    this.opening = new AbortController();
    const { signal } = this.opening;
    this.draw.hidden = Boolean(patch || words);
    this.query.annotations.clear();
    try {
      if (words) { this.query.close(); this.query.over.replaceChildren(saying(words)); } else if (patch) await this.query.openPatch(patch);
      else await this.query.openSlide(slide, signal, this.engine);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.query.close();
      this.query.over.replaceChildren(problem(error, () => this.openQuery()));
    }
    if (this.query.item && state().at) this.query.look(state().at);
    else if (this.query.detail?.image && state().region) this.query.fit(state().region.split(",").map(Number), 2);
    this.drawQueryHead();
    this.ask.draw();
    this.setTogether();
    if (this.evidence.evidence) this.evidence.drawPairs();
    if (this.query.detail?.image) await this.query.annotations.load(slide, signal).catch(() => {});
  }

  drawQueryHead() {
    const { patch, region, words: said, case: whole } = state();
    const slide = this.query.detail?.slide;
    this.ontitle(said || (patch ? "uploaded image" : slide?.id ?? ""));
    const role = el("span", { class: "role" }, said ? "Query in words" : whole ? "Query case" : region ? "Query region" : patch ? "Query patch" : "Query");
    const action = (id, text, changes) => el("button", { class: "button", type: "button", id, onclick: () => go({ ...changes, ...noMarks, ...noHit }) }, text);
    redraw(this.query.head, role, ...(slide ? words(slide) : [el("span", { class: "title" }, patch ? "uploaded image" : ""), el("span", { class: "chips" })]),
      this.query.annotations.list,
      region || whole ? action("whole", "Use the whole slide", { region: "", case: false }) : null,
      slide?.patient && !whole && !region ? action("case", "Search with the case", { case: true }) : null,
      this.collections.button(slide));
  }

  drawHitHead() {
    const { hit, by } = state();
    if (!hit) return;
    const slide = this.hit.detail?.slide;
    const found = this.answers.find((one) => one.engine === (by || this.engine))?.answer?.hits.find((one) => one.slide.key === hit);
    redraw(this.hit.head,
      el("span", { class: "role" }, found ? `Hit ${found.rank}` : "Hit"), ...(slide ? words(slide) : [el("span", { class: "chips" })]),
      this.hit.annotations.list, this.collections.button(slide),
      el("button", { class: "button", type: "button", id: "use-hit", title: "Search with this slide", onclick: () => go(toQuery({ slide: hit })) }, "Search with this"),
      tool("close", "Close the hit (Esc)", () => go(noHit), { id: "close-hit" }));
  }

  async openHit(before = "") {
    const { hit } = state();
    this.stage.classList.toggle("open", Boolean(hit));
    this.evidence.element.hidden = !hit;
    const lost = !hit && (this.hit.element.contains(document.activeElement) || this.evidence.element.contains(document.activeElement));
    this.drawResults();
    this.ask.draw();
    if (!hit) {
      this.explaining?.abort();
      this.evidence.clear();
      this.hit.close();
      this.hit.element.remove();
      this.together.stop();
      if (this.query.home) requestAnimationFrame(() => this.query.item && this.query.goHome());
      // The focus goes back to the hit that was open.
      if (lost || document.activeElement === document.body) (this.results.querySelector(`.hit[data-key="${CSS.escape(before)}"] .open`) ?? this.results).focus({ preventScroll: true });
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
    const { signal } = this.openingHit;
    this.hit.annotations.clear();
    try {
      await this.hit.openSlide(hit, signal, state().by || this.engine);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.hit.close();
      this.hit.over.replaceChildren(problem(error, () => this.openHit()));
    }
    this.drawHitHead();
    this.ask.draw();
    this.showPlace();
    if (this.evidence.evidence) this.evidence.drawPairs();
    if (this.hit.detail?.image) await this.hit.annotations.load(hit, signal).catch(() => {});
  }

  // A hit opens where the address says, else at the place that matches a region or a patch, else as a whole.
  showPlace() {
    const { beside, hit, by, region } = state();
    if (!this.hit.detail?.image) return;
    const place = this.answers.find((one) => one.engine === (by || this.engine))?.places?.[hit];
    if (beside) this.hit.look(beside);
    else if (place) return this.lookAt(region && this.query.detail?.image ? region.split(",").map(Number) : null, place);
    else if (this.query.home) this.query.goHome();
    this.setTogether(!beside);
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
      if (!signal.aborted) this.evidence.set(evidence, Boolean(state().more || state().less));
    } catch (error) {
      if (error.name !== "AbortError") this.evidence.failed(error);
    }
  }

  lookAt(mine, other) {
    this.together.stop();
    if (mine && this.query.detail?.image) this.query.fit(mine, mine.length > 3 ? 1.5 : 3);
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
    if (this.draw.hidden) return;
    this.draw.setAttribute("aria-pressed", "true");
    startDrawing(this.query, "region", (corners) => {
      this.draw.setAttribute("aria-pressed", "false");
      this.draw.focus();
      if (corners) go({ region: [...corners[0], corners[2][0] - corners[0][0], corners[2][1] - corners[0][1]].join(","), case: false, ...noMarks, ...noHit });
    });
  }

  paintRegion(context, outline) {
    const { region } = state();
    if (region) stroke(context, outline(region.split(",").map(Number)), "#0b6e75", { dash: [7, 4], width: 2 });
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
