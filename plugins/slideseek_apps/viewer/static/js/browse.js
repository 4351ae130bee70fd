// The list of slides: filters at the side, pictures or a table in pages.
import { getFile, getSlides } from "./api.js";
import { Facets, chips } from "./facets.js";
import { download, el, problem, redraw, thumbnail } from "./dom.js";
import { saveMenu } from "./save.js";
import { address, go, narrowed, noFilters, state, toQuery } from "./state.js";
import { slideTable } from "./table.js";

const PAGE = 48;
const ARTEFACTS = ["blurred", "debris", "folds", "pen"]; // shares, nearly always 0: not worth a column

export class Browse {
  constructor(archive, collections) {
    this.archive = archive;
    this.collections = collections;
    collections.onchange = () => this.show();
    this.facets = new Facets(collections);
    this.facetsBox = el("details", {}, el("summary", {}, "Filter slides"), this.facets.element);
    this.facetsBox.open = !matchMedia("(max-width: 720px)").matches;
    this.head = el("div", { class: "slides-head" });
    this.list = el("div", { id: "slides" });
    this.pager = el("nav", { class: "pager", "aria-label": "Pages" });
    this.element = el("div", { class: "browse" },
      el("aside", { class: "facets", "aria-label": "Filters" }, this.facetsBox),
      el("section", { class: "slides", "aria-label": "Slides" }, this.head, this.list, this.pager));
  }

  // Slides without pictures are easier to read in a table.
  get view() { return state().view || (this.archive.with_pixels ? "grid" : "table"); }

  async show() {
    const now = state();
    this.asked?.abort();
    this.asked = new AbortController();
    const { signal } = this.asked;
    const paged = narrowed();
    paged.set("sort", now.sort);
    if (now.falling) paged.set("falling", "true");
    paged.set("offset", String((now.page - 1) * PAGE));
    paged.set("limit", String(PAGE));
    const waiting = setTimeout(() => { if (this.view === "grid") this.list.replaceChildren(el("div", { class: "grid" }, ...Array.from({ length: 12 }, () => el("div", { class: "card skeleton" })))); }, 150);
    try {
      const [page] = await Promise.all([getSlides(paged, signal), this.collections.load().then(() => this.facets.show(signal))]);
      clearTimeout(waiting);
      this.drawSlides(page);
    } catch (error) {
      clearTimeout(waiting);
      if (error.name === "AbortError") return;
      this.list.replaceChildren();
      // A facet may have disappeared with its slides: then a retry cannot help.
      const unknown = error.status === 400 && narrowed().size;
      redraw(this.head, problem(error, unknown ? null : () => this.show()), unknown ? this.clearing() : "");
      this.pager.replaceChildren();
    }
  }

  drawSlides(page) {
    const now = state();
    const sort = el("select", { id: "sort", "aria-label": "Sort by", onchange: (event) => go({ sort: event.target.value, falling: false, page: 1 }) },
      ...[["id", "Id"], ["label", "Diagnosis"], ["site", "Site"], ["center", "Centre"], ["patient", "Patient"], ...this.archive.fields.map((name) => [name, name])].map(([name, text]) => el("option", { value: name, selected: now.sort === name }, text)));
    const count = page.total === 1 ? "1 slide" : `${page.total.toLocaleString("en")} slides`;
    const shown = chips(this.collections.name(now.collection));
    const toggle = (name, text) => el("button", { class: "button", type: "button", id: `view-${name}`, "aria-pressed": String(this.view === name), onclick: () => go({ view: name }, { replace: true }) }, text);
    redraw(this.head, el("h2", {}, el("span", { role: "status" }, now.collection ? `${this.collections.name(now.collection)}: ${count}` : count)),
      this.view === "grid" ? el("label", {}, "Sort", sort) : null,
      el("span", { class: "choice", role: "group", "aria-label": "View" }, toggle("grid", "Pictures"), toggle("table", "Table")),
      saveMenu([["Table of these slides (CSV)", (identified) => this.saveTable(identified)]]),
      now.collection ? this.collections.actions(now.collection) : null,
      shown.length ? el("div", { class: "picked" }, ...shown) : null);
    if (page.total && !page.slides.length) return void go({ page: Math.ceil(page.total / PAGE) }, { replace: true });
    if (!page.total) {
      this.list.replaceChildren();
      this.pager.replaceChildren(narrowed().size
        ? el("div", { class: "empty" }, el("p", {}, "No slides match these filters."), this.clearing())
        : el("div", { class: "empty" }, el("p", {}, "This archive has no slides yet."), el("p", {}, "Add slides with ‘slideseek add’, then run ‘slideseek build’.")));
      return;
    }
    redraw(this.list, this.view === "table" ? slideTable(page.slides, this.archive.fields.filter((name) => !ARTEFACTS.includes(name)), page.notes)
      : el("div", { class: "grid" }, ...page.slides.map((slide) => card(slide, page.notes[slide.key]))));
    this.drawPager(Math.ceil(page.total / PAGE), now.page);
  }

  async saveTable(identified) {
    const { sort, falling } = state();
    const asked = narrowed();
    asked.set("sort", sort);
    if (falling) asked.set("falling", "true");
    if (identified) asked.set("identified", "true");
    download(await getFile(`table?${asked}`), "slides.csv");
  }

  clearing() {
    return el("button", { class: "button", type: "button", onclick: () => go({ ...noFilters, page: 1 }) }, "Clear filters");
  }

  drawPager(pages, page) {
    if (pages < 2) { this.step = null; return void this.pager.replaceChildren(); }
    const to = (number) => { go({ page: Math.min(Math.max(number, 1), pages) }); this.element.querySelector(".slides").scrollTop = 0; };
    this.step = (by) => to(page + by);
    redraw(this.pager,
      el("button", { class: "button", type: "button", id: "previous", disabled: page <= 1, onclick: () => to(page - 1) }, "Previous"),
      "Page", el("input", { type: "number", id: "page", value: page, min: 1, max: pages, "aria-label": "Page", onchange: (event) => to(parseInt(event.target.value, 10) || 1) }),
      `of ${pages.toLocaleString("en")}`,
      el("button", { class: "button", type: "button", id: "next", disabled: page >= pages, onclick: () => to(page + 1) }, "Next"));
  }
}

function card(slide, note) {
  const changes = toQuery({ slide: slide.key });
  const open = (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    go(changes);
  };
  return el("a", { class: "card", href: address({ ...state(), ...changes }), "data-key": slide.key, "data-focus": `slide ${slide.key}`, onclick: open },
    thumbnail(slide, 384, ""),
    el("div", { class: "words" },
      el("span", { class: "label" }, slide.label || "No diagnosis"),
      el("span", { class: "sub" }, [slide.site, slide.center].filter(Boolean).join(" · ") || " "),
      el("span", { class: "id", title: slide.id }, slide.id),
      note ? el("span", { class: "sub", title: note }, note) : null));
}
