// Search with words: a box in the bar, only if an engine of the archive reads text.
import { el } from "./dom.js";
import { go, state, toQuery } from "./state.js";

export const reads = (archive, name) => archive.engines.some((one) => one.name === name && one.text && !one.problem);

export function startWords(archive) {
  const able = archive.engines.find((one) => one.text && !one.problem);
  if (!able) return;
  const box = el("input", { id: "words", type: "search", placeholder: "Describe what to find …", "aria-label": "Search with words", title: "Search with words", autocomplete: "off", maxlength: 2000, value: state().words });
  const form = el("form", { class: "find", id: "describe", role: "search", onsubmit: (event) => {
    event.preventDefault();
    const words = box.value.trim();
    if (words) go(toQuery({ words, engine: reads(archive, state().engine) ? state().engine : able.name }));
  } }, box);
  document.getElementById("find").after(form);
}

// What the query pane shows in place of a slide.
export const saying = (words) => el("p", { class: "words-query" }, `“${words}”`);
