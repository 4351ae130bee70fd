// The list of slides: facets at the side, pictures in pages.
import { getFacets, getSlides } from "./api.js";
import { el, fieldName, problem, thumbnail } from "./dom.js";
import { address, go, state, toQuery } from "./state.js";

const PAGE = 48;
const SHOWN_VALUES = 12;

export class Browse {
  constructor() {
    this.facets = el("div", {});
    this.facetsBox = el("details", {}, el("summary", {}, "Filter slides"), this.facets);
    this.facetsBox.open = !matchMedia("(max-width: 720px)").matches;
    this.head = el("div", { class: "slides-head" });
    this.grid = el("div", { class: "grid", id: "slides" });
    this.pager = el("nav", { class: "pager", "aria-label": "Pages" });
    this.opened = new Set();
    this.element = el("div", { class: "browse" },
      el("aside", { class: "facets", "aria-label": "Facets" }, this.facetsBox),
      el("section", { class: "slides", "aria-label": "Slides" }, this.head, this.grid, this.pager));
  }

  async show() {
    const now = state();
    this.asked?.abort();
    this.asked = new AbortController();
    const { signal } = this.asked;
    const narrowed = new URLSearchParams();
    if (now.text) narrowed.set("text", now.text);
    for (const pick of now.facet) narrowed.append("facet", pick);
    const paged = new URLSearchParams(narrowed);
    paged.set("sort", now.sort);
    paged.set("offset", String((now.page - 1) * PAGE));
    paged.set("limit", String(PAGE));
    const waiting = setTimeout(() => this.grid.replaceChildren(...Array.from({ length: 12 }, () => el("div", { class: "card skeleton" }))), 150);
    try {
      const [page, facets] = await Promise.all([getSlides(paged, signal), getFacets(narrowed, signal)]);
      clearTimeout(waiting);
      this.drawFacets(facets);
      this.drawSlides(page);
    } catch (error) {
      clearTimeout(waiting);
      if (error.name === "AbortError") return;
      this.grid.replaceChildren();
      // A facet may have disappeared with its slides: then a retry cannot help.
      const unknown = error.status === 400 && now.facet.length;
      this.head.replaceChildren(problem(error, unknown ? null : () => this.show()), unknown ? this.clearing() : "");
      this.pager.replaceChildren();
    }
  }

  drawFacets(facets) {
    const picked = new Set(state().facet);
    this.facets.replaceChildren(...facets.map(({ name, values }) => {
      const all = this.opened.has(name);
      const shown = all ? values : values.filter((one, at) => at < SHOWN_VALUES || picked.has(`${name}=${one.value}`));
      const rest = values.length - shown.length;
      return el("div", { class: "facet", role: "group", "aria-label": fieldName(name) },
        el("h3", {}, fieldName(name)),
        ...shown.map((one) => this.value(name, one, picked)),
        rest > 0 ? el("button", { class: "more", type: "button", onclick: () => { this.opened.add(name); this.drawFacets(facets); } }, `${rest} more`) : null);
    }));
    if (!facets.length) this.facets.replaceChildren(el("p", { class: "sub" }, "The slides have no fields to filter by."));
  }

  value(name, { value, slides }, picked) {
    const pick = `${name}=${value}`;
    const toggle = (event) => {
      const others = state().facet.filter((one) => one !== pick);
      go({ facet: event.target.checked ? [...others, pick] : others, page: 1 });
    };
    return el("label", {},
      el("input", { type: "checkbox", checked: picked.has(pick), onchange: toggle }),
      el("span", { class: "value", title: value || "unknown" }, value || "unknown"),
      el("span", { class: "count" }, slides.toLocaleString("en")));
  }

  drawSlides(page) {
    const now = state();
    const sort = el("select", { "aria-label": "Sort by", onchange: (event) => go({ sort: event.target.value, page: 1 }) },
      ...[["id", "Id"], ["label", "Diagnosis"], ["site", "Site"], ["center", "Centre"], ["patient", "Patient"]].map(([name, text]) => el("option", { value: name, selected: now.sort === name }, text)));
    const picked = now.facet.map((pick) => el("button", { class: "chip", type: "button", title: "Remove this filter",
      onclick: () => go({ facet: now.facet.filter((one) => one !== pick), page: 1 }) }, `${pick.replace(/^[^=]*=/, "") || "unknown"} ×`));
    const count = page.total === 1 ? "1 slide" : `${page.total.toLocaleString("en")} slides`;
    this.head.replaceChildren(el("h2", { role: "status" }, count), el("label", {}, "Sort", sort),
      picked.length || now.text ? el("div", { class: "picked" }, ...picked, now.text ? el("button", { class: "chip", type: "button", onclick: () => go({ text: "", page: 1 }) }, `“${now.text}” ×`) : null) : "");
    if (page.total && !page.slides.length) return void go({ page: Math.ceil(page.total / PAGE) }, { replace: true });
    if (!page.total) {
      const filtered = now.facet.length || now.text;
      this.grid.replaceChildren();
      this.pager.replaceChildren(filtered
        ? el("div", { class: "empty" }, el("p", {}, "No slides match these filters."), this.clearing())
        : el("div", { class: "empty" }, el("p", {}, "This archive has no slides yet."), el("p", {}, "Add slides with ‘slideseek add’, then run ‘slideseek build’.")));
      return;
    }
    this.grid.replaceChildren(...page.slides.map((slide) => card(slide)));
    this.drawPager(Math.ceil(page.total / PAGE), now.page);
  }

  clearing() {
    return el("button", { class: "button", type: "button", onclick: () => go({ facet: [], text: "", page: 1 }) }, "Clear filters");
  }

  drawPager(pages, page) {
    if (pages < 2) return void this.pager.replaceChildren();
    const to = (number) => go({ page: Math.min(Math.max(number, 1), pages) });
    this.step = (by) => to(page + by);
    this.pager.replaceChildren(
      el("button", { class: "button", type: "button", disabled: page <= 1, onclick: () => to(page - 1) }, "Previous"),
      "Page", el("input", { type: "number", min: 1, max: pages, value: page, "aria-label": "Page", onchange: (event) => to(parseInt(event.target.value, 10) || 1) }),
      `of ${pages.toLocaleString("en")}`,
      el("button", { class: "button", type: "button", disabled: page >= pages, onclick: () => to(page + 1) }, "Next"));
  }
}

function card(slide) {
  const changes = toQuery({ slide: slide.key });
  const open = (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    go(changes);
  };
  return el("a", { class: "card", href: address({ ...state(), ...changes }), "data-key": slide.key, onclick: open },
    thumbnail(slide, 384, ""),
    el("div", { class: "words" },
      el("span", { class: "label" }, slide.label || "No diagnosis"),
      el("span", { class: "sub" }, [slide.site, slide.center].filter(Boolean).join(" · ") || " "),
      el("span", { class: "id", title: slide.id }, slide.id)));
}
