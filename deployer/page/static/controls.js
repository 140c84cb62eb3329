// What can be done to a sweep from its page; what cannot be undone is asked for once more.
import { Unanswered, act, isLive } from "./data.js";
import { button, el } from "./parts.js";

const WORDS = {
  pause: ["Pause", null],
  resume: ["Resume", null],
  stop: ["Stop", "No new runs; those that run now finish. This cannot be undone."],
  cancel: ["Cancel", "No new runs; those that run now are asked to stop, and killed after 45 s. This cannot be undone."],
};

export class Controls {
  constructor(address, title, onDone) {
    Object.assign(this, { address, title, onDone });
    this.buttons = el("div", { class: "controls", role: "group", "aria-label": "Control the sweep" });
    this.trouble = el("p", { class: "error", role: "alert" });
    this.dialog = el("dialog", { "aria-labelledby": "confirm-title" });
    this.element = el("div", { class: "control-box" }, this.buttons, this.trouble, this.dialog);
  }

  update({ actions }) {
    const text = isLive ? actions.join() : "";
    if (text === this.text) return;
    this.text = text;
    this.buttons.replaceChildren(...(isLive ? actions : []).map((action) =>
      button(WORDS[action][0], () => this.#choose(action), { class: action === "cancel" ? "quiet danger" : "quiet" })));
  }

  #choose(action) {
    const [word, warning] = WORDS[action];
    if (!warning) return this.#act(action);
    const yes = button(`${word} the sweep`, () => { this.dialog.close(); this.#act(action); }, { class: "danger" });
    const no = button("Leave it", () => this.dialog.close(), { class: "quiet" });
    this.dialog.replaceChildren(el("h2", { id: "confirm-title" }, `${word} ${this.title}?`), el("p", {}, warning),
      el("div", { class: "controls" }, no, yes));
    return this.dialog.showModal();
  }

  async #act(action) {
    try {
      await act(this.address, action);
      this.trouble.textContent = "";
      this.onDone();
    } catch (error) {
      this.trouble.textContent = `${WORDS[action][0]} failed: ${error.message}`;
      this.unanswered = error instanceof Unanswered;
    }
  }

  /** The server answers: that it did not is no news any more. */
  calm() {
    if (this.unanswered) this.trouble.textContent = "";
    this.unanswered = false;
  }
}
