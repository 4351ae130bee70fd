// One slide in deep zoom, with an overlay, a scale bar, and a tool to draw a rectangle.
import { getSlide, patchAddress, tileAddress } from "./api.js";
import { el, problem } from "./dom.js";

const OSD = () => window.OpenSeadragon;

export class Pane {
  constructor(role, { actions = [], onmove = () => {}, onrest = () => {} } = {}) {
    this.onmove = onmove;
    this.onrest = onrest;
    this.paint = () => {};
    this.head = el("div", { class: "pane-head" });
    this.osd = el("div", { class: "osd" });
    this.layer = el("canvas", { class: "layer", "aria-hidden": "true" });
    this.scale = el("div", { class: "scale", hidden: true });
    this.over = el("div", { class: "over" });
    this.tools = el("div", { class: "tools" },
      ...actions,
      tool("+", "Zoom in", () => this.zoom(1.6)), tool("−", "Zoom out", () => this.zoom(1 / 1.6)), tool("⤢", "Whole slide", () => this.viewer && this.goHome()));
    this.glass = el("div", { class: "glass" }, this.osd, this.layer, this.tools, this.scale, this.over);
    this.element = el("section", { class: "pane", "aria-label": role }, this.head, this.glass);
    this.resized = new ResizeObserver(() => this.redraw());
    this.resized.observe(this.glass);
  }

  async openSlide(key, signal) {
    this.over.replaceChildren(el("span", { class: "spinner", role: "status", "aria-label": "Opening the slide" }));
    const detail = await getSlide(key, signal);
    this.detail = detail;
    this.patch = "";
    this.over.replaceChildren();
    if (!detail.image) {
      this.close();
      this.detail = detail;
      this.over.replaceChildren(problem(Object.assign(new Error(detail.problem.error), { fix: detail.problem.fix })));
      return detail;
    }
    const { width, height, levels, tile } = detail.image;
    await this.open({
      width, height, tileSize: tile, tileOverlap: 0, maxLevel: levels - 1, minLevel: Math.max(0, Math.min(levels - 1, 7)),
      getTileUrl: (level, column, row) => tileAddress(detail.slide, level, column, row),
    });
    return detail;
  }

  async openPatch(key) {
    this.detail = null;
    this.over.replaceChildren();
    this.patch = key;
    if (await this.open({ type: "image", url: patchAddress(key) })) return;
    this.close();
    throw Object.assign(new Error("This patch is no longer stored"), { fix: "Upload it again. The server keeps the latest 32 patches while it runs." });
  }

  open(source) {
    this.viewer?.destroy();
    this.viewer = OSD()({
      element: this.osd, tileSources: source, drawer: "canvas", showNavigationControl: false, crossOriginPolicy: false,
      animationTime: 0.35, springStiffness: 9, visibilityRatio: 0.4, minZoomImageRatio: 0.5, maxZoomPixelRatio: 4,
      gestureSettingsMouse: { clickToZoom: false, dblClickToZoom: true }, tileRetryMax: 2, tileRetryDelay: 800, imageLoaderLimit: 6,
      zoomPerScroll: 1.35, preserveImageSizeOnResize: true, immediateRender: false,
    });
    this.viewer.addHandler("canvas-key", (event) => { event.preventDefaultAction = true; });
    this.viewer.addHandler("update-viewport", () => this.redraw());
    this.untouched = true;
    for (const name of ["canvas-drag", "canvas-scroll", "canvas-pinch", "canvas-double-click"]) this.viewer.addHandler(name, () => { this.untouched = false; });
    this.viewer.addHandler("viewport-change", () => this.onmove(this));
    this.viewer.addHandler("animation-finish", () => this.onrest(this));
    return new Promise((done) => {
      this.viewer.addOnceHandler("open", () => { this.redraw(); done(true); });
      this.viewer.addOnceHandler("open-failed", () => done(false));
    });
  }

  // Whether the whole slide is in view. It then stays in view when the pane is resized.
  get home() {
    if (!this.item) return false;
    const viewport = this.viewer.viewport;
    return this.untouched || viewport.getZoom() <= viewport.getHomeZoom() * 1.02;
  }

  goHome() {
    this.viewer.viewport.resize({ x: this.glass.clientWidth, y: this.glass.clientHeight }, true);
    this.viewer.viewport.goHome(true);
    this.untouched = true;
    this.onrest(this);
  }

  close() {
    this.viewer?.destroy();
    this.viewer = null;
    this.detail = null;
    this.patch = "";
    this.over.replaceChildren();
    this.scale.hidden = true;
  }

  zoom(by) {
    this.untouched = false;
    this.viewer?.viewport.zoomBy(by);
    this.viewer?.viewport.applyConstraints();
  }

  get item() { return this.viewer?.world.getItemAt(0); }

  // A square of level-0 pixels as a rectangle on the layer.
  rectangle([x, y, width, height = width]) {
    const [across, down] = this.detail.image.stretch;
    const item = this.item;
    const viewport = item.imageToViewportRectangle(x * across, y * down, width * across, height * down);
    return this.viewer.viewport.viewportToViewerElementRectangle(viewport);
  }

  // A point on the layer in level-0 pixels.
  pixel(x, y) {
    const [across, down] = this.detail.image.stretch;
    const point = this.item.viewerElementToImageCoordinates(new (OSD().Point)(x, y));
    return [point.x / across, point.y / down];
  }

  fit([x, y, side], around = 3) {
    const [across, down] = this.detail.image.stretch;
    const more = (side * (around - 1)) / 2;
    const box = this.item.imageToViewportRectangle((x - more) * across, (y - more) * down, side * around * across, side * around * down);
    this.untouched = false;
    this.viewer.viewport.fitBounds(box, true);
    this.onrest(this);
  }

  // µm per pixel of the screen, and the centre in µm.
  get view() {
    if (!this.item || !this.detail?.image) return null;
    const viewport = this.viewer.viewport, { mpp } = this.detail.image;
    const centre = this.item.viewportToImageCoordinates(viewport.getCenter(true));
    return { mpp: mpp / this.item.viewportToImageZoom(viewport.getZoom(true)), x: centre.x * mpp, y: centre.y * mpp };
  }

  setView({ mpp, x, y }) {
    if (!this.item || !this.detail?.image) return;
    const own = this.detail.image.mpp, viewport = this.viewer.viewport;
    viewport.zoomTo(this.item.imageToViewportZoom(own / mpp), null, true);
    viewport.panTo(this.item.imageToViewportCoordinates(x / own, y / own), true);
  }

  // The view as the address keeps it, "" while the whole slide is in view.
  get place() {
    const view = this.home ? null : this.view;
    return view ? [Math.round(view.x), Math.round(view.y), Number(view.mpp.toPrecision(4))].join() : "";
  }

  // Show the view in an address. An invalid one leaves the whole slide in view.
  look(place) {
    const [x, y, mpp] = place.split(",").map(Number);
    if (!this.item || !(mpp > 0) || !Number.isFinite(x + y + mpp)) return;
    this.untouched = false;
    this.setView({ x, y, mpp });
  }

  redraw() {
    const { clientWidth: width, clientHeight: height } = this.glass;
    const dense = window.devicePixelRatio || 1;
    if (this.layer.width !== Math.round(width * dense) || this.layer.height !== Math.round(height * dense)) {
      this.layer.width = Math.round(width * dense);
      this.layer.height = Math.round(height * dense);
    }
    const context = this.layer.getContext("2d");
    context.setTransform(dense, 0, 0, dense, 0, 0);
    context.clearRect(0, 0, width, height);
    if (!this.item || !this.detail?.image) return void (this.scale.hidden = true);
    this.paint(context, (box) => this.rectangle(box));
    this.drawScale();
  }

  drawScale() {
    const { mpp } = this.view;
    const room = 130 * mpp;
    const decade = 10 ** Math.floor(Math.log10(room));
    const length = decade * [5, 2, 1].find((step) => step * decade <= room);
    const text = length >= 1000 ? `${length / 1000} mm` : `${Number(length.toPrecision(3))} µm`;
    const power = 10 / mpp;
    this.scale.hidden = false;
    const rule = el("div", { class: "rule" });
    rule.style.width = `${length / mpp}px`;
    this.scale.replaceChildren(el("span", {}, `${text} · ${power >= 10 ? power.toFixed(0) : power.toFixed(1)}×`), rule);
  }

  // Let the user draw a rectangle; `done` gets x, y, width, height in level-0 pixels, or null if cancelled.
  draw(done) {
    this.stopDrawing?.();
    if (!this.detail?.image) return;
    let from = null;
    this.glass.classList.add("drawing");
    const banner = el("div", { class: "banner" }, "Drag a rectangle over the tissue to search with", el("button", { class: "button", type: "button", onclick: () => stop(null) }, "Cancel"));
    this.glass.append(banner);
    const spot = (event) => {
      const area = this.layer.getBoundingClientRect();
      return [event.clientX - area.left, event.clientY - area.top];
    };
    const region = (event) => {
      const { width, height } = this.limits();
      const [a, b] = [this.pixel(...from), this.pixel(...spot(event))];
      const inside = (value, most) => Math.round(Math.min(Math.max(value, 0), most));
      const [left, right] = [a[0], b[0]].sort((p, q) => p - q).map((value) => inside(value, width));
      const [top, bottom] = [a[1], b[1]].sort((p, q) => p - q).map((value) => inside(value, height));
      return [left, top, right - left, bottom - top];
    };
    const down = (event) => { from = spot(event); this.layer.setPointerCapture(event.pointerId); event.preventDefault(); };
    const move = (event) => { if (from) { this.drawn = region(event); this.redraw(); } };
    const up = (event) => { if (!from) return; const box = region(event); stop(box[2] > 4 && box[3] > 4 ? box : null); };
    const stop = (box) => {
      for (const [name, handler] of handlers) this.layer.removeEventListener(name, handler);
      this.glass.classList.remove("drawing");
      banner.remove();
      this.stopDrawing = null;
      if (!box) this.drawn = null;
      this.redraw();
      done(box);
    };
    const handlers = [["pointerdown", down], ["pointermove", move], ["pointerup", up], ["pointercancel", () => stop(null)]];
    for (const [name, handler] of handlers) this.layer.addEventListener(name, handler);
    this.stopDrawing = () => stop(null);
  }

  // Width and height in level-0 pixels.
  limits() {
    const { width, height, stretch } = this.detail.image;
    return { width: Math.floor(width / stretch[0]), height: Math.floor(height / stretch[1]) };
  }
}

export function tool(text, title, onclick, attributes = {}) {
  return el("button", { class: "icon-button", type: "button", title, "aria-label": title, onclick, ...attributes }, text);
}

// Keep two panes at the same magnification and move them together. Only movements are copied, not positions: the user
// chooses what to compare.
export class Together {
  constructor(first, second) {
    this.panes = [first, second];
    this.on = false;
  }

  // fresh: both slides were just opened side by side, so use the scale that shows both as a whole.
  start(fresh = false) {
    this.on = true;
    const [query, hit] = this.panes.map((pane) => pane.view);
    if (query && hit) {
      if (!this.panes[0].home) this.panes[1].untouched = false; // the hit gets the query's zoom
      const mpp = fresh && this.panes[0].home ? Math.max(query.mpp, hit.mpp) : query.mpp;
      this.follow(0, { ...query, mpp });
      this.follow(1, { ...hit, mpp });
    }
    this.last = this.panes.map((pane) => pane.view);
  }

  stop() { this.on = false; }

  moved(pane) {
    if (!this.on || this.busy || !this.last) return;
    const at = this.panes.indexOf(pane), view = pane.view, other = this.panes[1 - at].view;
    if (!view || !other || !this.last[at]) return;
    const from = this.last[at];
    // The following pane reports its own movement too: reacting to it would stop the leading pane.
    const still = Math.hypot(view.x - from.x, view.y - from.y) < view.mpp * 0.05 && Math.abs(view.mpp / from.mpp - 1) < 1e-4;
    if (still) return;
    this.panes[1 - at].untouched = false;
    this.follow(1 - at, { mpp: view.mpp, x: other.x + view.x - from.x, y: other.y + view.y - from.y });
    this.last = this.panes.map((one) => one.view);
  }

  follow(at, view) {
    this.busy = true;
    this.panes[at].setView(view);
    this.busy = false;
  }
}
