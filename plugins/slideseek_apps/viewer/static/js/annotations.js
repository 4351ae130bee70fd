// Annotations of a slide: rectangles and polygons, kept in the archive and saved as GeoJSON.
import { getAnnotations, putAnnotations } from "./api.js";
import { el, toast } from "./dom.js";
import { startDrawing } from "./drawing.js";
import { label, stroke } from "./heat.js";
import { tool } from "./pane.js";

const COLOUR = "#c2185b";

export class Annotations {
  constructor(pane, writable) {
    this.pane = pane;
    this.shapes = [];
    this.revision = 0;
    this.key = "";
    const make = (icon, title, kind) => tool(icon, title, (event) => this.draw(kind, event.currentTarget));
    this.buttons = writable ? [make("rectangle", "Annotate a rectangle", "rectangle"), make("polygon", "Annotate a polygon", "polygon")] : [];
    this.list = el("button", { class: "button", type: "button", hidden: true, onclick: () => this.show() });
    this.dialog = el("dialog", { "aria-label": "Annotations" });
    document.body.append(this.dialog);
  }

  async load(key, signal) {
    this.clear();
    const { revision, features } = await getAnnotations(key, signal);
    this.key = key;
    this.take(revision, features);
  }

  clear() {
    this.key = "";
    this.take(0, []);
  }

  take(revision, features) {
    this.revision = revision;
    this.shapes = features.map(({ geometry, properties }) => ({ kind: properties.slideseek, name: properties.name, corners: geometry.coordinates[0].slice(0, -1) }));
    this.features = features;
    this.list.hidden = !this.shapes.length;
    this.list.textContent = `${this.shapes.length} annotation${this.shapes.length === 1 ? "" : "s"}`;
    this.pane.redraw();
    this.onchange?.();
  }

  draw(kind, button) {
    if (!this.key) return;
    button.setAttribute("aria-pressed", "true");
    startDrawing(this.pane, kind, (corners) => {
      button.setAttribute("aria-pressed", "false");
      button.focus();
      if (corners) this.save([...this.shapes, { kind, name: "", corners }]);
    });
  }

  async save(shapes) {
    try {
      const { revision, features } = await putAnnotations(this.key, { revision: this.revision, shapes });
      this.take(revision, features);
    } catch (error) {
      toast([error.message, error.fix].filter(Boolean).join(": "));
    }
  }

  // The list, to name, look at and delete annotations.
  show() {
    const rows = this.shapes.map((shape, at) => el("li", {},
      el("label", {}, el("span", { class: "hidden" }, `Name of annotation ${at + 1}`), el("input", { type: "text", value: shape.name, maxlength: 200, placeholder: shape.kind,
        onchange: (event) => this.save(this.shapes.map((one, other) => (other === at ? { ...one, name: event.target.value } : one))) })),
      el("button", { class: "button", type: "button", onclick: () => { this.dialog.close(); this.look(shape); } }, "Show"),
      el("button", { class: "button", type: "button", onclick: () => { this.save(this.shapes.filter((_, other) => other !== at)); this.dialog.close(); } }, "Delete")));
    this.dialog.replaceChildren(el("h2", {}, "Annotations"), el("ul", { class: "rows" }, ...rows),
      el("form", { method: "dialog" }, el("button", { class: "button primary" }, "Close")));
    this.dialog.showModal();
  }

  look({ corners }) {
    const [xs, ys] = [0, 1].map((axis) => corners.map((one) => one[axis]));
    const [x, y] = [Math.min(...xs), Math.min(...ys)];
    this.pane.fit([x, y, Math.max(...xs) - x, Math.max(...ys) - y], 1.4);
  }

  geojson() {
    return JSON.stringify({ type: "FeatureCollection", features: this.features });
  }

  paint(context) {
    for (const { name, corners } of this.shapes) {
      const spots = corners.map((one) => this.pane.spot(one));
      stroke(context, spots, COLOUR);
      if (name) label(context, name, spots[0], COLOUR);
    }
  }
}
