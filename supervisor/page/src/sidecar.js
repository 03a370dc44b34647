// The sidecar's own state: asked for again and again, shown in the bar, and in full where somebody opens it.

import { call, isReachable, json, link, sleep } from "./api.js";
import { by, fill, h, say, terms } from "./dom.js";
import { count, size, span } from "./format.js";

const [LOOK_MS, HIDDEN_MS] = [2000, 10_000];
/** While it is away: the first attempts come fast. */
const LONGEST_MS = 4000;

/** @type {any} */
let abilities = null;
/** What the sidecar can, once known: /v1/capabilities, and the properties of a spec. @returns {{abilities: any, schema: Record<string, any>} | null} */
export const known = () => abilities && { abilities, schema };
/** @type {Record<string, any>} */
let schema = {};
/** Tells `abilities` when they are known, and anew when the sidecar is back. */
export const sidecar = new EventTarget();

/** Numbers of the OpenMetrics text by name; those with labels are added up. @param {string} text */
export function metrics(text) {
    /** @type {Record<string, number>} */
    const found = {};
    for (const line of text.split("\n")) {
        const read = /^([a-z_]+)(?:\{[^}]*\})? ([-+.\deE]+)$/.exec(line);
        if (read) found[read[1]] = (found[read[1]] ?? 0) + Number(read[2]);
    }
    return found;
}

export async function watch() {
    let wait = 250;
    for (;;) {
        try {
            await look();
            wait = 250;
            await sleep(document.hidden ? HIDDEN_MS : LOOK_MS);
        } catch {
            if (isReachable()) bar("wait", "no entry");
            else bar("away", "away");
            await sleep(wait);
            wait = Math.min(LONGEST_MS, wait * 2);
        }
    }
}

async function look() {
    const [response, text] = await Promise.all([
        call("/readyz?verbose", { accept: [503] }),
        call("/metrics", { accept: [503] }).then((response) => response.text()),
    ]);
    const ready = await response.json();
    const numbers = metrics(text);
    if (!abilities) {
        const [able, document] = await Promise.all([json("/v1/capabilities"), json("/openapi.json")]);
        [abilities, schema] = [able, document.components.schemas.Spec.properties];
        say(by("build"), `Kiln ${abilities.kiln}`);
        sidecar.dispatchEvent(new Event("abilities"));
    }
    const [queued, running] = [numbers.kiln_queue_jobs ?? 0, numbers.kiln_running_jobs ?? 0];
    const work = `${count(running)} running, ${count(queued)} queued`;
    const testing = ready.self_test?.passed === null;
    const leaving = ready.reasons?.some((/** @type {string} */ why) => why.includes("about to leave"));
    banner(leaving ? "The sidecar is about to leave: it takes no new jobs. Those that it has are kept." : "");
    bar(ready.ready ? "ready" : testing ? "wait" : "bad", `${ready.ready ? "ready" : testing ? "testing itself" : "not ready"} · ${work}`);
    details(ready, numbers);
}

/** @param {"ready" | "wait" | "bad" | "away"} state @param {string} text */
function bar(state, text) {
    by("status").dataset.state = state;
    say(by("status-text"), text);
}

/** @param {string} text */
function banner(text) {
    by("banner").hidden = text === "";
    say(by("banner"), text);
}

/** @param {any} ready @param {Record<string, number>} numbers */
function details(ready, numbers) {
    const place = by("sidecar");
    if (place.hidden) return;
    const test = ready.self_test ?? {};
    const tested = test.passed === true ? `passed ${span(test.age_s)} ago in ${span(test.ms / 1000)}` : (test.error ?? "under way");
    const adapters = abilities.adapters.map((/** @type {any} */ adapter) => adapter.name).join(", ");
    fill(place,
        ...(ready.reasons ?? []).map((/** @type {string} */ why) => h("p", { class: "error" }, `Not ready: ${why}.`)),
        terms([
            ["Self-test", tested], ["Adapters", adapters || test.adapter],
            ["Resting after failures", ready.breakers?.length ? ready.breakers.map(resting).join("; ") : null],
            ["Jobs at once", `${abilities.parallel}, of which ${abilities.bakes} bake`], ["Spare processes", abilities.spares],
            ["Queue", `${count(numbers.kiln_queue_jobs ?? 0)} of ${count(abilities.queue_jobs)} jobs, ${size(numbers.kiln_queue_bytes ?? 0)} of ${size(abilities.queue_bytes)}`],
            ["Sandbox", ready.sandbox ? "in force" : "off"], ["Resident", numbers.process_resident_memory_bytes && size(numbers.process_resident_memory_bytes)],
            ["API", h("a", { href: "openapi.json", onclick: api }, "openapi.json")],
        ])); // prettier-ignore
}

/** @param {any} breaker what failed again and again */
function resting(breaker) {
    return `${breaker.what}, tried again in ${span(breaker.rests_s)}: ${breaker.last}`;
}

/** A link cannot show the token. @param {Event} event */
async function api(event) {
    event.preventDefault();
    const text = await (await call("/openapi.json")).blob();
    window.open(URL.createObjectURL(new Blob([text], { type: "application/json" })));
}

/** The button of the bar opens the rest. */
export function prepare() {
    const [button, place] = [by("status"), by("sidecar")];
    button.addEventListener("click", () => {
        place.hidden = !place.hidden;
        button.setAttribute("aria-expanded", String(!place.hidden));
        if (!place.hidden) look().catch(() => {});
    });
    link.addEventListener("offline", () => {
        bar("away", "away");
        banner("The sidecar does not answer. This page goes on by itself when it is back; jobs that it took are kept.");
    });
    link.addEventListener("online", () => {
        banner("");
        // Another may have taken its place.
        abilities = null;
    });
}
