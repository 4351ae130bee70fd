// The filters of the list of slides and of the search: values of fields, ranges of numbers, collections.
import { getFacets } from "./api.js";
import { el, fieldName, redraw } from "./dom.js";
import { go, narrowed, noFilters, noHit, state } from "./state.js";

const SHOWN_VALUES = 12;

export class Facets {
  // collections: the component that lists them, or null.
  constructor(collections = null) {
    this.element = el("div", { class: "facet-list" });
    this.collections = collections;
    this.opened = new Set();
  }

  async show(signal) {
    this.draw(await getFacets(narrowed(), signal));
  }

  draw(facets) {
    const picked = new Set(state().facet);
    const parts = facets.map((one) => (one.low === null ? this.values(one, picked, facets) : range(one)));
    redraw(this.element, this.collections?.facet() ?? null, ...(parts.length ? parts : [el("p", { class: "sub" }, "The slides have no fields to filter by.")]));
  }

  values({ name, values }, picked, facets) {
    const shown = this.opened.has(name) ? values : values.filter((one, at) => at < SHOWN_VALUES || picked.has(`${name}=${one.value}`));
    const rest = values.length - shown.length;
    return el("div", { class: "facet", role: "group", "aria-label": fieldName(name) },
      el("h2", {}, fieldName(name)),
      ...shown.map((one) => value(name, one, picked)),
      rest > 0 ? el("button", { class: "more", type: "button", onclick: () => { this.opened.add(name); this.draw(facets); } }, `${rest} more`) : null);
  }
}

function value(name, { value, slides }, picked) {
  const pick = `${name}=${value}`;
  const toggle = (event) => {
    const others = state().facet.filter((one) => one !== pick);
    go({ facet: event.target.checked ? [...others, pick] : others, page: 1, ...noHit });
  };
  return el("label", {},
    el("input", { type: "checkbox", checked: picked.has(pick), onchange: toggle, "data-focus": pick }),
    el("span", { class: "value", title: value || "unknown" }, value || "unknown"),
    el("span", { class: "count" }, slides.toLocaleString("en")));
}

// A numeric field: its lowest and highest value.
function range({ name, low, high }) {
  const current = state().range.find((one) => one.startsWith(`${name}=`))?.slice(name.length + 1) ?? "..";
  const [from, to] = current.split("..");
  const change = () => {
    const others = state().range.filter((one) => !one.startsWith(`${name}=`));
    const chosen = `${least.value}..${most.value}`;
    go({ range: chosen === ".." ? others : [...others, `${name}=${chosen}`], page: 1, ...noHit });
  };
  const end = (which, value, hint) => el("input", { type: "number", step: "any", value, placeholder: String(Number(hint.toPrecision(4))), "aria-label": `${fieldName(name)}, ${which}`, onchange: change, "data-focus": `${name} ${which}` });
  const least = end("at least", from, low), most = end("at most", to, high);
  return el("div", { class: "facet", role: "group", "aria-label": fieldName(name) }, el("h2", {}, fieldName(name)), el("div", { class: "range" }, least, el("span", {}, "to"), most));
}

// What is filtered, as chips that can be removed.
export function chips(collectionName = "") {
  const now = state();
  const chip = (text, changes) => el("button", { class: "chip", type: "button", title: "Remove this filter", "data-focus": `chip ${text}`, onclick: () => go({ ...changes, page: 1, ...noHit }) }, `${text} ×`);
  const found = [
    ...now.facet.map((pick) => chip(pick.replace(/^[^=]*=/, "") || "unknown", { facet: now.facet.filter((one) => one !== pick) })),
    ...now.range.map((pick) => chip(pick.replace("=", " ").replace("..", " to "), { range: now.range.filter((one) => one !== pick) })),
    ...(now.text ? [chip(`“${now.text}”`, { text: "" })] : []),
    ...(now.collection ? [chip(collectionName || "a collection", { collection: "" })] : []),
  ];
  if (found.length > 1) found.push(el("button", { class: "chip plain", type: "button", onclick: () => go({ ...noFilters, page: 1, ...noHit }) }, "Clear all"));
  return found;
}
