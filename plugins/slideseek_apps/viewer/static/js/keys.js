// Keyboard shortcuts, and the dialog that lists them.
import { el } from "./dom.js";
import { startDrawing } from "./drawing.js";
import { go, noHit, state, toBrowse } from "./state.js";

const LIST = [
  ["/", "Find slides by text"], ["b", "Back to all slides"], ["n  p", "Next or previous page"],
  ["1 … 9", "Open the hit of that rank beside the query"], ["j  k", "Next or previous hit"], ["r", "Draw a region to search with"],
  ["← → ↑ ↓", "Move the slide; with a rectangle, move it (Shift: size)"], ["+  −  0", "Zoom in, out, whole slide"], ["o", "Turn by 90°"], ["f", "Full screen"], ["m", "Measure a length"],
  ["h", "Heat map on or off"], ["[  ]", "Heat map opacity down or up"], ["e", "Evidence boxes on or off"], ["p", "Plot of the evidence"], ["s", "Move both slides together or separately"],
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
    "+": () => work.active.zoom(1.6), "=": () => work.active.zoom(1.6), "-": () => work.active.zoom(1 / 1.6), "−": () => work.active.zoom(1 / 1.6), 0: () => work.active.viewer && work.active.goHome(),
    ArrowLeft: () => work.active.pan(-0.15, 0), ArrowRight: () => work.active.pan(0.15, 0), ArrowUp: () => work.active.pan(0, -0.15), ArrowDown: () => work.active.pan(0, 0.15),
    o: () => work.active.turn(90), f: () => work.active.fullScreen(), m: () => startDrawing(work.active, "measure", () => {}), p: () => flip("plot"),
    h: () => flip("heat"), e: () => flip("boxes"), s: () => flip("sync"), "[": () => fade(-10), "]": () => fade(10),
    Escape: () => (work.query.stopDrawing ?? work.hit.stopDrawing ?? (() => go(noHit)))(),
  };
  const browsing = { n: () => browse.step?.(1), p: () => browse.step?.(-1) };
  // Captured, because the deep zoom viewer has its own keys.
  document.addEventListener("keydown", (event) => {
    if (document.querySelector("dialog[open]")) return;
    const typing = event.target.closest?.("input:not([type=range]):not([type=checkbox]):not([type=file]), select, textarea");
    if (event.ctrlKey || event.metaKey || event.altKey || (typing && event.key !== "Escape")) return;
    if (typing) return void event.target.blur();
    const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
    if (menu) { menu.open = false; return void menu.querySelector("summary").focus(); }
    // A list, a table or a slider has its own use for the arrow keys.
    if (event.key.startsWith("Arrow") && event.target.closest?.("[type=range], .results, .evidence, details, .table-box")) return;
    const inWork = Boolean(state().slide || state().patch || state().words);
    const action = actions[event.key] || (inWork ? working[event.key] : browsing[event.key]);
    if (action) { event.preventDefault(); event.stopPropagation(); action(); }
    else if (inWork && /^[1-9]$/.test(event.key)) { event.preventDefault(); work.openRank(Number(event.key)); }
  }, { capture: true });
}

const flip = (name) => go({ [name]: !state()[name] }, { replace: true });
const fade = (by) => go({ alpha: Math.min(Math.max(state().alpha + by, 5), 100), heat: true }, { replace: true });
