// The whole state is in the address, for permalinks: filters, query, marks, open hit, overlays.
const PLAIN = {
  text: "", page: 1, sort: "id", falling: false, view: "", collection: "",
  slide: "", patch: "", words: "", site: "", region: "", case: false, engine: "", vs: "", k: 10, mode: "horizontal", same: false, apart: false, stains: false, where: "",
  good: "", bad: "", more: "", less: "",
  hit: "", by: "", at: "", beside: "", heat: false, boxes: true, plot: false, alpha: 55, sync: true,
};
const LISTS = ["facet", "range"];
const listeners = [];
let current = read();

export function read() {
  const given = new URLSearchParams(location.search);
  const state = { ...PLAIN };
  for (const name of LISTS) state[name] = given.getAll(name);
  for (const [name, plain] of Object.entries(PLAIN)) {
    const value = given.get(name);
    if (value === null) continue;
    if (typeof plain === "number") state[name] = Math.max(1, parseInt(value, 10) || plain);
    else if (typeof plain === "boolean") state[name] = value === "1";
    else state[name] = value;
  }
  state.k = Math.min(state.k, 100);
  state.alpha = Math.min(state.alpha, 100);
  return state;
}

export function address(state) {
  const given = new URLSearchParams();
  for (const [name, plain] of Object.entries(PLAIN)) {
    if (state[name] === plain) continue;
    given.set(name, typeof plain === "boolean" ? (state[name] ? "1" : "0") : String(state[name]));
  }
  for (const name of LISTS) for (const pick of state[name]) given.append(name, pick);
  const text = given.toString();
  return text ? `${location.pathname}?${text}` : location.pathname;
}

export const state = () => current;

export function go(changes, { replace = false } = {}) {
  const next = { ...current, ...changes };
  const to = address(next);
  if (to === address(current)) return;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  move(next);
}

// Record the current views (at: query, beside: hit) without a new history entry.
export function note(changes) {
  const next = { ...current, ...changes };
  if (address(next) === address(current)) return;
  history.replaceState(null, "", address(next));
  current = next;
}

// The state after a click on a slide. Filters stay in the address: they narrow the search, and serve for going back.
export const noMarks = { good: "", bad: "", more: "", less: "" };
export function toQuery(changes) {
  return { region: "", patch: "", words: "", site: "", slide: "", case: false, hit: "", by: "", at: "", beside: "", where: "", ...noMarks, ...changes };
}
export const toBrowse = toQuery({});
export const noHit = { hit: "", by: "", beside: "" };
export const noFilters = { facet: [], range: [], text: "", collection: "" };
export const keys = (text) => text.split(",").filter(Boolean);

// The filters of the list of slides, as the API takes them in an address.
export function narrowed({ text, facet, range, collection } = current) {
  const given = new URLSearchParams();
  if (text) given.set("text", text);
  for (const pick of facet) given.append("facet", pick);
  for (const pick of range) given.append("range", pick);
  if (collection) given.set("collection", collection);
  return given;
}

// The same for a search, null without filters.
export function among({ text, facet, range, collection } = current) {
  if (!text && !facet.length && !range.length && !collection) return null;
  return { text, facet, range, collection: collection ? Number(collection) : null };
}

export function listen(listener) {
  listeners.push(listener);
}

function move(next) {
  const before = current;
  current = next;
  for (const listener of listeners) listener(current, before);
}

window.addEventListener("popstate", () => move(read()));
