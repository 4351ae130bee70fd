// The whole state is in the address, for permalinks: filters, query, open hit, overlays.
const PLAIN = {
  text: "", page: 1, sort: "id",
  slide: "", patch: "", site: "", region: "", engine: "", vs: "", k: 10, mode: "horizontal", same: false, apart: false, stains: false, where: "",
  hit: "", by: "", at: "", beside: "", heat: false, boxes: true, alpha: 55, sync: true,
};
const listeners = [];
let current = read();

export function read() {
  const given = new URLSearchParams(location.search);
  const state = { ...PLAIN, facet: given.getAll("facet") };
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
  for (const pick of state.facet) given.append("facet", pick);
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

// The state after a click on a slide. Filters stay in the address, for going back.
export function toQuery(changes) {
  return { region: "", patch: "", site: "", slide: "", hit: "", by: "", at: "", beside: "", where: "", ...changes };
}
export const toBrowse = toQuery({});
export const noHit = { hit: "", by: "", beside: "" };

export function listen(listener) {
  listeners.push(listener);
}

function move(next) {
  const before = current;
  current = next;
  for (const listener of listeners) listener(current, before);
}

window.addEventListener("popstate", () => move(read()));
