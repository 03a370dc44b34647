// The page: which part of it is shown, by the address behind `#`, and what all parts have in common.

import { json, link, setToken, shareToken, takeToken } from "./api.js";
import { compose } from "./compose.js";
import { by, fill, h, say } from "./dom.js";
import { jobPage } from "./job.js";
import { jobList } from "./jobs.js";
import { known, prepare, sidecar, watch } from "./sidecar.js";

const main = by("main");
/** Ends what the part that is shown has under way. */
let showing = new AbortController();
/** @type {ReturnType<typeof compose> | null} */
let form = null;

/** @param {string} text */
const announce = (text) => say(by("told"), text);

async function route() {
    showing.abort(new Error("another part is shown"));
    showing = new AbortController();
    const { signal } = showing;
    const id = /^#\/jobs\/([0-9a-f]{32})$/.exec(location.hash)?.[1];
    if (!id) return home(signal);
    document.title = "Job · Kiln";
    fill(main, h("p", { class: "hint" }, "Loading …"));
    try {
        const { element, title } = await jobPage(id, signal, announce);
        if (signal.aborted) return;
        fill(main, element);
        document.title = `${title.textContent} · Kiln`;
        title.focus();
    } catch (error) {
        if (signal.aborted) return;
        const { message, status } = /** @type {any} */ (error);
        fill(main, h("h1", { tabindex: -1 }, "This job cannot be shown"), h("p", { class: "error" }, message), h("p", null, h("a", { href: "#/" }, "All jobs")));
        // It is asked for again when the sidecar is back, or the token is there.
        if (status === 0 || status === 401) link.addEventListener("online", route, { once: true, signal });
    }
}

/** @param {AbortSignal} signal */
function home(signal) {
    document.title = "Kiln";
    // What was dropped stays while a job is looked at.
    const able = known();
    form ??= able && compose(able.abilities, able.schema);
    if (!form) {
        sidecar.addEventListener("abilities", route, { once: true, signal });
        fill(main, h("p", { class: "hint" }, "Asking the sidecar …"));
        return;
    }
    const again = /^#\/again\/([0-9a-f]{32})$/.exec(location.hash)?.[1];
    if (again) form.reuse(again, signal);
    fill(main, h("h1", { class: "unseen", tabindex: -1 }, "Kiln"), h("div", { class: "home" }, form.element, jobList(signal)));
}

/** The form that asks for the token. */
function signIn() {
    const dialog = /** @type {HTMLDialogElement} */ (by("sign-in"));
    const input = /** @type {HTMLInputElement} */ (by("token"));
    link.addEventListener("unauthorized", () => {
        if (dialog.open) return;
        if (sessionStorage.getItem("kiln-token")) say(by("token-error"), "This token is not the sidecar’s.");
        dialog.showModal();
    });
    // By what was typed here, or in another tab.
    link.addEventListener("authorized", () => {
        say(by("token-error"), "");
        dialog.close();
        route();
    });
    // Without the token there is nothing behind it.
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    by("sign-in-form").addEventListener("submit", async (event) => {
        event.preventDefault();
        setToken(input.value);
        try {
            await json("/v1/capabilities");
            input.value = "";
            link.dispatchEvent(new Event("authorized"));
        } catch (error) {
            const { status, message } = /** @type {any} */ (error);
            say(by("token-error"), status === 401 ? "This token is not the sidecar’s." : message);
            input.select();
        }
    });
}

/** Files may be dropped anywhere; elsewhere than at home, they lead there. */
function drops() {
    const over = (/** @type {boolean} */ on) => document.body.classList.toggle("over", on);
    window.addEventListener("dragover", (event) => {
        event.preventDefault();
        over(true);
    });
    window.addEventListener("dragleave", (event) => event.relatedTarget === null && over(false));
    window.addEventListener("drop", (event) => {
        event.preventDefault();
        over(false);
        if (!event.dataTransfer || !form) return;
        form.drop(event.dataTransfer);
        if (location.hash.startsWith("#/")) location.hash = "#/";
    });
}

takeToken();
shareToken();
signIn();
drops();
prepare();
by("skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
});
window.addEventListener("hashchange", () => {
    if (location.hash.startsWith("#token=")) takeToken();
    route();
});
watch();
route();
