// Slides as a table that can be sorted by any column.
import { el, fieldName } from "./dom.js";
import { address, go, state, toQuery } from "./state.js";

const NAMED = ["id", "label", "site", "center", "patient"];

export function slideTable(slides, fields, notes = {}) {
  const now = state();
  const noted = Object.keys(notes).length > 0;
  const columns = [...NAMED, ...fields].filter((name, at) => at < 2 || name === now.sort || slides.some((slide) => cell(slide, name)));
  const heading = (name) => {
    const sorted = now.sort === name;
    return el("th", { scope: "col", "aria-sort": sorted ? (now.falling ? "descending" : "ascending") : "none" },
      el("button", { type: "button", "data-focus": `sort ${name}`, onclick: () => go({ sort: name, falling: sorted && !now.falling, page: 1 }) }, `${fieldName(name)}${sorted ? (now.falling ? " ↓" : " ↑") : ""}`));
  };
  return el("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": "Table of slides" },
    el("table", { class: "slide-table" },
      el("thead", {}, el("tr", {}, ...columns.map(heading), noted ? el("th", { scope: "col" }, "Note") : null)),
      el("tbody", {}, ...slides.map((slide) => el("tr", { class: "card-row", "data-key": slide.key },
        ...columns.map((name, at) => (at ? el("td", {}, cell(slide, name)) : el("th", { scope: "row" }, link(slide)))),
        noted ? el("td", { class: "note-cell" }, notes[slide.key] ?? "") : null)))));
}

function link(slide) {
  const changes = toQuery({ slide: slide.key });
  return el("a", { href: address({ ...state(), ...changes }), "data-focus": `slide ${slide.key}`, onclick: (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    go(changes);
  } }, slide.id);
}

const cell = (slide, name) => (NAMED.includes(name) ? slide[name] : slide.fields[name] || slide.measured[name] || "");
