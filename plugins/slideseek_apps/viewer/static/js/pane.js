// One slide in deep zoom, with an overlay, a scale bar and a navigator; a slide of imported features as a map.
import { getPatchMap, getSlide, patchAddress, tileAddress } from "./api.js";
import { el, icon, problem } from "./dom.js";
import { trace } from "./heat.js";

const OSD = () => window.OpenSeadragon;
const BLANK = "data:image/gif;base64,R0lGODlhAQABAIAAAP///wAAACH5BAEAAAAALAAAAAABAAEAAAICRAEAOw==";
const SLOW = 1200; // milliseconds until a view that is not sharp yet says so

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
    this.tools = el("div", { class: "tools", role: "toolbar", "aria-label": `Tools of the ${role.toLowerCase()}` },
      tool("zoom in", "Zoom in (+)", () => this.zoom(1.6)), tool("zoom out", "Zoom out (−)", () => this.zoom(1 / 1.6)), tool("whole", "Whole slide (0)", () => this.viewer && this.goHome()),
      tool("turn", "Turn by 90° (o)", () => this.turn(90)), tool("screen", "Full screen (f)", () => this.fullScreen()), ...actions);
    this.badge = el("div", { class: "badge", role: "status" });
    this.glass = el("div", { class: "glass" }, this.osd, this.layer, this.tools, this.scale, this.badge, this.over);
    this.element = el("section", { class: "pane", "aria-label": role }, this.head, this.glass);
    this.failed = new Map();
    this.resized = new ResizeObserver(() => this.redraw());
    this.resized.observe(this.glass);
  }

  async openSlide(key, signal, engine) {
    this.over.replaceChildren(el("span", { class: "spinner", role: "status", "aria-label": "Opening the slide" }));
    const detail = await getSlide(key, signal);
    this.detail = detail;
    this.patch = "";
    this.over.replaceChildren();
    if (!detail.image && !detail.problem) return this.openMap(key, detail, engine, signal);
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

  // A slide without a slide file: its patches by their places, on an empty ground.
  async openMap(key, detail, engine, signal) {
    let map;
    try {
      map = await getPatchMap(key, engine, signal);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      this.close();
      this.detail = detail;
      this.over.replaceChildren(el("div", { class: "calm" }, el("p", {}, "This slide has features and no picture."), el("p", { class: "sub" }, `${error.message}.`)));
      return detail;
    }
    const { width, height } = map;
    detail.image = { width, height, stretch: [1, 1], mpp: map.mpp ?? 1, objective: null, notes: [] };
    detail.map = map;
    await this.open({ width, height, tileSize: Math.max(width, height), tileOverlap: 0, minLevel: 0, maxLevel: 0, getTileUrl: () => BLANK });
    if (this.item) this.goHome();
    return detail;
  }

  paintMap(context) {
    context.fillStyle = "rgb(102 113 128 / .28)";
    context.strokeStyle = "rgb(102 113 128 / .6)";
    context.lineWidth = 0.6;
    for (const box of this.detail.map.boxes) {
      trace(context, this.outline(box));
      context.fill();
      context.stroke();
    }
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
      animationTime: 0.35, springStiffness: 9, visibilityRatio: 0.4, minZoomImageRatio: 0.5, maxZoomPixelRatio: this.detail?.map ? 50 : 1,
      gestureSettingsMouse: { clickToZoom: false, dblClickToZoom: true }, tileRetryMax: 2, tileRetryDelay: 800, imageLoaderLimit: 6,
      zoomPerScroll: 1.35, preserveImageSizeOnResize: true, immediateRender: false,
      showNavigator: Boolean(this.detail && !this.detail.map) && matchMedia("(min-width: 721px)").matches, navigatorPosition: "BOTTOM_RIGHT", navigatorSizeRatio: 0.18, navigatorAutoFade: false, navigatorOpacity: 1, navigatorRotate: true,
    });
    this.failed.clear();
    this.viewer.addHandler("tile-load-failed", ({ tile }) => { this.failed.set(`${tile.level}/${tile.x}/${tile.y}`, tile); this.showState(); this.redraw(); });
    this.viewer.addHandler("tile-loaded", ({ tile }) => { if (this.failed.delete(`${tile.level}/${tile.x}/${tile.y}`)) this.showState(); });
    this.viewer.world.addHandler("add-item", ({ item }) => { item.addHandler("fully-loaded-change", () => this.showState()); this.showState(); });
    this.viewer.canvas.setAttribute("role", "application");
    this.viewer.canvas.setAttribute("aria-label", `${this.element.getAttribute("aria-label")}: arrow keys move, + and − zoom`);
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

  // Say when the picture is not what it should be: tiles that failed, or that are still on their way.
  showState() {
    clearTimeout(this.waiting);
    const item = this.item;
    if (this.failed.size) {
      const what = this.failed.size === 1 ? "1 tile did not load" : `${this.failed.size} tiles did not load`;
      return void this.badge.replaceChildren(el("span", {}, `${what} (hatched)`), el("button", { class: "button", type: "button", onclick: () => this.retry() }, "Try again"));
    }
    if (!item || item.getFullyLoaded()) return void this.badge.replaceChildren();
    this.waiting = setTimeout(() => {
      if (this.item && !this.item.getFullyLoaded() && !this.failed.size) this.badge.replaceChildren(el("span", { class: "spinner" }), el("span", {}, "Loading: not sharp yet"));
    }, SLOW);
  }

  retry() {
    this.failed.clear();
    this.item?.reset();
    this.viewer?.forceRedraw();
    this.showState();
  }

  turn(by) {
    if (!this.item) return;
    this.viewer.viewport.setRotation((this.viewer.viewport.getRotation() + by + 360) % 360, true);
    this.redraw();
    this.onrest(this);
  }

  fullScreen() {
    if (document.fullscreenElement) document.exitFullscreen();
    else this.element.requestFullscreen?.();
  }

  // Move by a share of the view.
  pan(across, down) {
    if (!this.item) return;
    this.untouched = false;
    const viewport = this.viewer.viewport, { width, height } = viewport.getBoundsNoRotate();
    viewport.panBy(new (OSD().Point)(across * width, down * height).rotate(-viewport.getRotation()));
    viewport.applyConstraints();
  }

  // Whether the whole slide is in view. It then stays in view when the pane is resized.
  get home() {
    if (!this.item) return false;
    const viewport = this.viewer.viewport;
    return this.untouched || viewport.getZoom() <= viewport.getHomeZoom() * 1.02;
  }

  goHome() {
    this.viewer.viewport.resize({ x: this.glass.clientWidth, y: this.glass.clientHeight }, true);
    if (this.detail?.map) this.viewer.viewport.fitBounds(this.extent(), true);
    else this.viewer.viewport.goHome(true);
    this.untouched = true;
    this.onrest(this);
  }

  // The part of a map that has patches, with a margin.
  extent() {
    const { boxes } = this.detail.map;
    const least = (axis) => boxes.reduce((low, box) => Math.min(low, box[axis]), Infinity), most = (axis) => boxes.reduce((high, box) => Math.max(high, box[axis] + box[2]), -Infinity);
    const [x, y, width, height] = [least(0), least(1), most(0) - least(0), most(1) - least(1)];
    return this.item.imageToViewportRectangle(x - width * 0.1, y - height * 0.1, width * 1.2, height * 1.2);
  }

  close() {
    this.viewer?.destroy();
    this.viewer = null;
    this.detail = null;
    this.patch = "";
    this.over.replaceChildren();
    this.badge.replaceChildren();
    clearTimeout(this.waiting);
    this.scale.hidden = true;
    this.redraw();
  }

  zoom(by) {
    this.untouched = false;
    this.viewer?.viewport.zoomBy(by);
    this.viewer?.viewport.applyConstraints();
  }

  get item() { return this.viewer?.world.getItemAt(0); }

  // A rectangle of level-0 pixels as its four corners on the layer, also when the slide is turned.
  outline([x, y, width, height = width]) {
    return [[x, y], [x + width, y], [x + width, y + height], [x, y + height]].map((point) => this.spot(point));
  }

  // A point of level-0 pixels on the layer.
  spot([x, y]) {
    const [across, down] = this.detail.image.stretch;
    return this.viewer.viewport.viewportToViewerElementCoordinates(this.item.imageToViewportCoordinates(x * across, y * down));
  }

  // A point on the layer in level-0 pixels.
  pixel(x, y) {
    const [across, down] = this.detail.image.stretch;
    const point = this.item.viewerElementToImageCoordinates(new (OSD().Point)(x, y));
    return [point.x / across, point.y / down];
  }

  fit([x, y, width, height = width], around = 3) {
    const [across, down] = this.detail.image.stretch;
    const [wide, high] = [width * around, height * around];
    const box = this.item.imageToViewportRectangle((x - (wide - width) / 2) * across, (y - (high - height) / 2) * down, wide * across, high * down);
    this.untouched = false;
    this.viewer.viewport.fitBounds(box, true);
    this.cap();
    this.onrest(this);
  }

  // Not beyond the scan's own magnification: more would be pixels, not tissue.
  cap() {
    const viewport = this.viewer.viewport, most = Math.max(viewport.getMaxZoom(), viewport.getHomeZoom());
    if (viewport.getZoom(true) > most) viewport.zoomTo(most, null, true);
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
    this.cap();
  }

  // The view as the address keeps it, "" while the whole slide is in view.
  get place() {
    const view = this.home ? null : this.view;
    const turned = this.item ? this.viewer.viewport.getRotation() : 0;
    if (!view && !turned) return "";
    const { x, y, mpp } = view ?? this.view;
    return [Math.round(x), Math.round(y), Number(mpp.toPrecision(4)), ...(turned ? [turned] : [])].join();
  }

  // Show the view in an address. An invalid one leaves the whole slide in view.
  look(place) {
    const [x, y, mpp, turned = 0] = place.split(",").map(Number);
    if (!this.item || !(mpp > 0) || !Number.isFinite(x + y + mpp + turned)) return;
    this.untouched = false;
    this.viewer.viewport.setRotation(turned, true);
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
    if (!this.item || !this.detail?.image) {
      this.scale.hidden = true;
      return;
    }
    if (this.detail.map) this.paintMap(context);
    for (const tile of this.failed.values()) this.hatch(context, tile);
    this.paint(context, (box) => this.outline(box));
    this.tool?.paint(context);
    this.drawScale();
  }

  hatch(context, tile) {
    const { x, y, width, height } = tile.bounds;
    const corners = [[x, y], [x + width, y], [x + width, y + height], [x, y + height]].map(([a, b]) => this.viewer.viewport.viewportToViewerElementCoordinates(new (OSD().Point)(a, b)));
    context.save();
    trace(context, corners);
    context.clip();
    context.fillStyle = "rgb(236 238 241 / .85)";
    context.fill();
    context.strokeStyle = "#b3261e";
    context.lineWidth = 1;
    const [left, right] = [Math.min(...corners.map((one) => one.x)), Math.max(...corners.map((one) => one.x))];
    const [top, bottom] = [Math.min(...corners.map((one) => one.y)), Math.max(...corners.map((one) => one.y))];
    for (let at = left - (bottom - top); at < right; at += 14) {
      trace(context, [{ x: at, y: bottom }, { x: at + bottom - top, y: top }], false);
      context.stroke();
    }
    context.restore();
  }

  drawScale() {
    if (this.detail.map && this.detail.map.mpp === null) {
      this.scale.hidden = true;
      return;
    }
    const { mpp } = this.view;
    const room = 130 * mpp;
    const decade = 10 ** Math.floor(Math.log10(room));
    const length = decade * [5, 2, 1].find((step) => step * decade <= room);
    const text = length >= 1000 ? `${length / 1000} mm` : `${Number(length.toPrecision(3))} µm`;
    const power = 10 / mpp;
    this.scale.hidden = false;
    const rule = el("div", { class: "rule" });
    rule.style.width = `${length / mpp}px`;
    this.bar = { text, pixels: length / mpp };
    this.scale.replaceChildren(el("span", {}, this.detail.map ? text : `${text} · ${power >= 10 ? power.toFixed(0) : power.toFixed(1)}×`), rule);
  }

  // The view as a picture with its overlays and a scale bar, as a PNG blob.
  picture() {
    const { clientWidth: width, clientHeight: height } = this.glass;
    const dense = window.devicePixelRatio || 1;
    const sheet = el("canvas", { width: Math.round(width * dense), height: Math.round(height * dense) });
    const context = sheet.getContext("2d");
    context.fillStyle = "#fff";
    context.fillRect(0, 0, sheet.width, sheet.height);
    context.drawImage(this.viewer.drawer.canvas, 0, 0, sheet.width, sheet.height);
    context.drawImage(this.layer, 0, 0, sheet.width, sheet.height);
    if (!this.scale.hidden) {
      context.setTransform(dense, 0, 0, dense, 0, 0);
      const { text, pixels } = this.bar;
      context.fillStyle = "rgb(255 255 255 / .88)";
      context.fillRect(12, height - 44, pixels + 20, 34);
      context.fillStyle = "#14181d";
      context.font = "600 13px system-ui, sans-serif";
      context.fillText(text, 22, height - 26);
      context.fillRect(22, height - 19, pixels, 3);
    }
    return new Promise((done) => sheet.toBlob(done, "image/png"));
  }

  // Width and height in level-0 pixels.
  limits() {
    const { width, height, stretch } = this.detail.image;
    return { width: Math.floor(width / stretch[0]), height: Math.floor(height / stretch[1]) };
  }
}

export function tool(name, title, onclick, attributes = {}) {
  return el("button", { class: "icon-button", type: "button", title, "aria-label": title, onclick, ...attributes }, icon(name));
}
