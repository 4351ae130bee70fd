// Tools that draw on a pane: a rectangle, a polygon or a line, with a pointer or from the keyboard.
import { el } from "./dom.js";
import { label, stroke } from "./heat.js";

const BANNER = {
  region: "Drag a rectangle to search with it, or move it with the arrow keys (Shift: size) and press Enter",
  rectangle: "Drag a rectangle, or use the arrow keys (Shift: size) and Enter",
  polygon: "Click the corners, then double-click or press Enter",
  measure: "Drag from one end to the other",
};

// Start a tool. kind: region, rectangle, polygon or measure. done: gets the corners in level-0 pixels, or null.
export function startDrawing(pane, kind, done) {
  pane.stopDrawing?.();
  if (!pane.detail?.image) return;
  const { width, height } = pane.limits();
  const boxed = kind === "region" || kind === "rectangle";
  let corners = [], from = null;
  pane.glass.classList.add("drawing");
  const text = el("span", { role: "status" }, BANNER[kind]);
  const banner = el("div", { class: "banner" }, text, el("button", { class: "button", type: "button", onclick: () => stop(null) }, kind === "measure" ? "Done" : "Cancel"));
  pane.glass.append(banner);
  const inside = ([x, y]) => [Math.min(Math.max(x, 0), width), Math.min(Math.max(y, 0), height)].map(Math.round);
  const spot = (event) => {
    const area = pane.layer.getBoundingClientRect();
    return inside(pane.pixel(event.clientX - area.left, event.clientY - area.top));
  };
  const boxOf = ([ax, ay], [bx, by]) => [[Math.min(ax, bx), Math.min(ay, by)], [Math.max(ax, bx), Math.min(ay, by)], [Math.max(ax, bx), Math.max(ay, by)], [Math.min(ax, bx), Math.max(ay, by)]];
  const large = (points) => points.length > 2 && Math.max(...points.map((one) => one[0])) - Math.min(...points.map((one) => one[0])) > 4 && Math.max(...points.map((one) => one[1])) - Math.min(...points.map((one) => one[1])) > 4;
  const length = () => Math.hypot(corners[1][0] - corners[0][0], corners[1][1] - corners[0][1]) * pane.detail.image.mpp;
  const micrometres = (um) => (um >= 1000 ? `${(um / 1000).toFixed(2)} mm` : `${um.toFixed(1)} µm`);
  const say = () => { if (kind === "measure" && corners.length === 2) text.textContent = `Length ${micrometres(length())}`; pane.redraw(); };
  const down = (event) => {
    event.preventDefault();
    if (kind === "polygon") {
      const at = spot(event), last = corners.at(-1);
      if (!last || last[0] !== at[0] || last[1] !== at[1]) corners.push(at);
      return say();
    }
    from = spot(event);
    pane.layer.setPointerCapture(event.pointerId);
  };
  const move = (event) => {
    if (!from) return;
    corners = boxed ? boxOf(from, spot(event)) : [from, spot(event)];
    say();
  };
  const up = (event) => {
    if (!from) return;
    move(event);
    from = null;
    if (boxed) stop(large(corners) ? corners : null);
  };
  const finish = () => stop(boxed || kind === "polygon" ? (large(corners) ? corners : null) : null);
  // From the keyboard a box starts in the middle of the view and moves by a twentieth of it.
  const key = (event) => {
    if (event.key === "Enter") { event.preventDefault(); event.stopPropagation(); return finish(); }
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0, 0];
    if (!boxed || (!dx && !dy)) return;
    event.preventDefault();
    event.stopPropagation();
    const [left, top] = pane.pixel(0, 0), [right, bottom] = pane.pixel(pane.glass.clientWidth, pane.glass.clientHeight);
    const step = [Math.abs(right - left) / 20, Math.abs(bottom - top) / 20];
    if (!corners.length) {
      const [x, y] = inside([(left + right) / 2, (top + bottom) / 2]);
      corners = boxOf(inside([x - 4 * step[0], y - 4 * step[0]]), inside([x + 4 * step[0], y + 4 * step[0]]));
    } else if (event.shiftKey) corners = boxOf(corners[0], inside([Math.max(corners[2][0] + dx * step[0], corners[0][0] + 8), Math.max(corners[2][1] + dy * step[1], corners[0][1] + 8)]));
    else corners = boxOf(...[corners[0], corners[2]].map(([x, y]) => inside([x + dx * step[0], y + dy * step[1]])));
    say();
  };
  const stop = (made) => {
    for (const [name, handler] of handlers) pane.layer.removeEventListener(name, handler);
    document.removeEventListener("keydown", key, { capture: true });
    pane.glass.classList.remove("drawing");
    banner.remove();
    pane.stopDrawing = null;
    pane.tool = null;
    pane.redraw();
    done(made);
  };
  const handlers = [["pointerdown", down], ["pointermove", move], ["pointerup", up], ["pointercancel", () => stop(null)], ["dblclick", finish]];
  for (const [name, handler] of handlers) pane.layer.addEventListener(name, handler);
  document.addEventListener("keydown", key, { capture: true });
  pane.tool = {
    paint(context) {
      if (corners.length < 2) return;
      const spots = corners.map((one) => pane.spot(one));
      stroke(context, spots, "#0b6e75", { close: boxed, dash: kind === "measure" ? [] : [7, 4] });
      if (kind === "measure") label(context, micrometres(length()), { x: (spots[0].x + spots[1].x) / 2 + 8, y: (spots[0].y + spots[1].y) / 2 + 8 }, "#0b6e75");
    },
  };
  pane.stopDrawing = () => stop(null);
}
