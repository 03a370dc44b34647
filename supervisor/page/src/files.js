// A file that a job made → a button that saves it.

import { call } from "./api.js";
import { h, save, say } from "./dom.js";

/** @param {any} artifact @param {string} label @param {string} kind of button @returns {HTMLElement[]} the button, and what went wrong */
export function saver(artifact, label, kind = "plain") {
    const wrong = h("span", { class: "error", role: "alert" });
    const button = h("button", { type: "button", class: kind, onclick: async () => {
        say(wrong, "");
        try {
            save(await (await call(artifact.href)).blob(), artifact.name);
        } catch (error) {
            say(wrong, /** @type {Error} */ (error).message);
        }
    } }, label); // prettier-ignore
    return [button, wrong];
}
