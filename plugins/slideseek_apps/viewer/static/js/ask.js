// The bar above a search: engine, comparison, filters, what to save, and more.
import { getCompletions } from "./api.js";
import { Facets, chips } from "./facets.js";
import { el, redraw, toast } from "./dom.js";
import { saveMenu } from "./save.js";
import { among, go, keys, noHit, state, toBrowse } from "./state.js";

export class AskBar {
  constructor(work) {
    this.work = work;
    this.element = el("div", { class: "ask" });
    this.facets = new Facets(work.collections);
    this.values = el("datalist", { id: "where-values" });
  }

  draw() {
    const now = state(), { work } = this, { engines } = work.archive;
    const open = new Set([...this.element.querySelectorAll("details[open]")].map((one) => one.id));
    const choice = (name, value, options, attributes = {}) => el("select", { ...attributes, onchange: (event) => go({ [name]: event.target.value, ...noHit }) },
      ...options.map(([id, text, disabled]) => el("option", { value: id, selected: id === value, disabled: disabled || null }, text)));
    const named = engines.map((one) => [one.name, one.problem ? `${one.name} (not ready)` : one.name, Boolean(one.problem)]);
    // An old address may name an engine that no longer exists: show it, so the user can choose another.
    if (!engines.some((one) => one.name === work.engine)) named.unshift([work.engine, `${work.engine} (not available)`, true]);
    redraw(this.element,
      el("button", { class: "button", type: "button", id: "back", title: "All slides (b)", onclick: () => go(toBrowse) }, "← Slides"),
      el("label", {}, "Engine", choice("engine", work.engine, named, { id: "engine" })),
      this.compare(named.filter(([name]) => name !== work.engine)),
      el("label", {}, "Search in", choice("mode", now.mode, [["horizontal", "all slides"], ["vertical", "slides of the same site"]], { id: "mode" })),
      now.patch || now.words ? el("label", {}, now.words ? "Site" : "Site of the image", choice("site", now.site, this.sites(now.site), { id: "site" })) : "",
      this.filter(),
      el("span", { class: "grow" }),
      saveMenu(work.saveItems()),
      this.more(),
      among() ? el("div", { class: "picked" }, el("span", { class: "sub" }, "Only among:"), ...chips(work.collections.name(now.collection))) : null);
    for (const menu of this.element.querySelectorAll("details")) menu.open = open.has(menu.id);
    if (open.has("filter")) this.facets.show().catch(() => {});
  }

  // The engines whose hits are shown beside.
  compare(others) {
    const chosen = keys(state().vs);
    const change = (name, on) => go({ vs: [...chosen.filter((one) => one !== name), ...(on ? [name] : [])].join(), ...noHit });
    const count = chosen.filter((name) => name !== this.work.engine).length;
    return el("details", { class: "menu", id: "versus" }, el("summary", { class: "button" }, count ? `Compare with ${count}` : "Compare with"),
      el("div", { role: "group", "aria-label": "Compare with" }, ...(others.length ? others.map(([name, text, disabled]) => el("label", {}, text, el("input", { type: "checkbox", checked: chosen.includes(name), disabled: disabled || null, "data-focus": `versus ${name}`, onchange: (event) => change(name, event.target.checked) })))
        : [el("p", { class: "sub" }, "The archive has no other engine.")])));
  }

  filter() {
    const menu = el("details", { class: "menu wide", id: "filter" }, el("summary", { class: "button" }, "Filter"), el("div", {}, this.facets.element));
    menu.addEventListener("toggle", () => { if (menu.open) this.facets.show().catch((error) => toast(error.message)); });
    return menu;
  }

  // An uploaded image has no metadata; an old address may name a site that no longer exists.
  sites(site) {
    const known = this.work.archive.sites.map((one) => [one, one]);
    if (site && !this.work.archive.sites.includes(site)) known.unshift([site, `${site} (not in the archive)`]);
    return [["", "unknown"], ...known];
  }

  more() {
    const now = state();
    const where = el("input", { type: "text", id: "where", value: now.where, list: "where-values", placeholder: "age>=60", maxlength: 300, autocomplete: "off",
      oninput: (event) => this.complete(event.target.value), onchange: (event) => go({ where: event.target.value.trim(), ...noHit }) });
    const box = (id, text, name) => el("label", {}, text, el("input", { type: "checkbox", id, checked: now[name], onchange: (event) => go({ [name]: event.target.checked, ...noHit }) }));
    const view = (name, text) => el("button", { class: "button", type: "button", id: `hits-${name}`, "aria-pressed": String(this.work.view === name), onclick: () => go({ view: name }, { replace: true }) }, text);
    return el("details", { class: "menu", id: "more" },
      el("summary", { class: "button" }, "More"),
      el("div", {},
        el("label", {}, "Hits", el("select", { id: "k", onchange: (event) => go({ k: Number(event.target.value), ...noHit }) }, ...[5, 10, 20, 50, 100].map((k) => el("option", { value: String(k), selected: k === now.k }, String(k))))),
        el("div", { class: "line" }, "Show hits as", el("span", { class: "choice", role: "group", "aria-label": "Show hits as" }, view("grid", "Pictures"), view("table", "Table"))),
        box("same", "Include the query’s own patient", "same"),
        box("apart", "Leave out the query’s centre", "apart"),
        box("stains", "Find slides of any stain", "stains"),
        el("label", { class: "where" }, "Condition", where), this.values,
        el("button", { class: "button", type: "button", id: "copy", onclick: () => navigator.clipboard?.writeText(location.href).then(() => toast("Link copied")) }, "Copy link to this view")));
  }

  async complete(text) {
    this.completing?.abort();
    this.completing = new AbortController();
    const found = await getCompletions(text, this.completing.signal).catch(() => []);
    const fields = this.work.archive.fields.filter((name) => text && name.toLowerCase().startsWith(text.toLowerCase()));
    this.values.replaceChildren(...fields.map((name) => el("option", { value: `${name}=` })), ...found.map(({ field, value, slides }) => el("option", { value: `${field}=${value}` }, `${slides} slides`)));
  }
}
