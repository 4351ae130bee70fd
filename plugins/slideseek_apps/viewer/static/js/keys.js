// Keyboard shortcuts, and the dialog that lists them.
import { el } from "./dom.js";
import { go, noHit, state, toBrowse } from "./state.js";

const LIST = [
  ["/", "Find slides by text"], ["b", "Back to all slides"], ["n  p", "Next or previous page"],
  ["1 … 9", "Open the hit of that rank beside the query"], ["j  k", "Next or previous hit"], ["r", "Draw a region to search with"],
  ["h", "Heat map on or off"], ["[  ]", "Heat map opacity down or up"], ["e", "Evidence boxes on or off"], ["s", "Move both slides together or separately"],
  ["u", "Search with a patch image"], ["t", "Light or dark"], ["Esc", "Cancel drawing, or close the hit"], ["?", "This list"],
];

export function startKeys({ work, browse, theme }) {
  const help = document.getElementById("help");
  const show = () => { if (!help.open) help.showModal(); };
  help.append(el("h2", { id: "help-title" }, "Keyboard shortcuts"),
    el("table", {}, el("tbody", {}, ...LIST.map(([keys, what]) => el("tr", {}, el("td", {}, ...keys.split("  ").flatMap((key, at) => [at ? " " : "", el("kbd", {}, key)])), el("td", {}, what))))),
    el("form", { method: "dialog" }, el("button", { class: "button primary" }, "Close")));
  document.getElementById("help-button").addEventListener("click", show);
  const actions = {
    "?": show, "/": () => document.getElementById("text").focus(), b: () => go(toBrowse), t: theme,
    u: () => document.getElementById("upload").click(),
  };
  const working = {
    j: () => work.step(1), k: () => work.step(-1), r: () => work.drawRegion(),
    h: () => flip("heat"), e: () => flip("boxes"), s: () => flip("sync"), "[": () => fade(-10), "]": () => fade(10),
    Escape: () => (work.query.stopDrawing ? work.query.stopDrawing() : go(noHit)),
  };
  const browsing = { n: () => browse.step?.(1), p: () => browse.step?.(-1) };
  // Captured, because the deep zoom viewer has its own keys.
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input:not([type=range]):not([type=checkbox]):not([type=file]), select, textarea, dialog");
    if (event.ctrlKey || event.metaKey || event.altKey || (typing && event.key !== "Escape")) return;
    if (typing) return void event.target.blur();
    const inWork = Boolean(state().slide || state().patch);
    const action = actions[event.key] || (inWork ? working[event.key] : browsing[event.key]);
    if (action) { event.preventDefault(); event.stopPropagation(); action(); }
    else if (inWork && /^[1-9]$/.test(event.key)) { event.preventDefault(); work.openRank(Number(event.key)); }
  }, { capture: true });
}

const flip = (name) => go({ [name]: !state()[name] }, { replace: true });
const fade = (by) => go({ alpha: Math.min(Math.max(state().alpha + by, 5), 100), heat: true }, { replace: true });
