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
