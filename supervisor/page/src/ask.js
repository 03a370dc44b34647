// A question before something that cannot be undone.

import { by, say } from "./dom.js";

/** @param {string} text @param {string} yes @returns {Promise<boolean>} */
export function ask(text, yes) {
    const dialog = /** @type {HTMLDialogElement} */ (by("ask"));
    say(by("ask-text"), text);
    say(by("ask-yes"), yes);
    dialog.returnValue = "no";
    dialog.showModal();
    return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}
