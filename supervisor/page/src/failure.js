// The error of a job → the report of how it died, for people and for the clipboard.

import { fill, h, terms } from "./dom.js";
import { span, words } from "./format.js";
import { doing, failed, inWords } from "./labels.js";

/** @param {any} job @returns {HTMLElement} */
export function failure(job) {
    const error = job.error ?? { message: "no reason was kept", code: "internal" };
    const copied = h("span", { class: "hint", role: "status" });
    const copy = h("button", { type: "button", onclick: async () => {
        try {
            await navigator.clipboard.writeText(asText(job));
            fill(copied, "Copied.");
        } catch {
            fill(copied, "The browser does not allow it.");
        }
    } }, "Copy the report"); // prettier-ignore
    const log = error.log_tail ?? [];
    return h("section", { class: "failure", "aria-labelledby": "failure-title" },
        h("h2", { id: "failure-title" }, job.state === "cancelled" ? "Cancelled" : "Why it failed"),
        h("p", { class: "message" }, h("strong", null, `${failed(error.code)}.`), " ", inWords(error.message)),
        error.hint && h("p", { class: "mend" }, inWords(error.hint)),
        terms([
            ["Code", h("code", null, error.code)], ["Process", error.role], ["Phase", doing(error.phase)],
            ["Signal", error.signal], ["Exit code", error.exit ?? null], ["Class", words(error.class)],
            ["Device", error.device ? adapter(error.device) : null], ["Kept for kiln replay", error.crash_folder],
        ]),
        attempts(job.attempts ?? error.attempts ?? []),
        log.length > 0 && h("div", null, h("h3", null, "Last lines of its log"), h("pre", { tabindex: 0, "aria-label": "Log" }, log.join("\n"))),
        h("div", { class: "row" }, copy, copied)); // prettier-ignore
}

/** @param {any} device */
export function adapter(device) {
    const more = [device.backend, device.kind, device.driver].filter((part) => part && part !== "native");
    return more.length > 0 ? `${device.name} (${more.join(", ")})` : device.name;
}

/** Every process that ran. @param {any[]} list */
export function attempts(list) {
    if (list.length === 0) return null;
    const heads = ["Process", "Attempt", "Ended", "Phase", "Time", "Code", "Device"];
    return h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Attempts" },
        h("table", null, h("caption", null, "Attempts"),
            h("thead", null, h("tr", null, heads.map((head) => h("th", { scope: "col" }, head)))),
            h("tbody", null, list.map((attempt) => h("tr", null,
                h("th", { scope: "row" }, attempt.role), h("td", null, attempt.number), h("td", null, attempt.ended),
                h("td", null, doing(attempt.phase)), h("td", null, span(attempt.ms / 1000)), h("td", null, words(attempt.code)),
                h("td", null, attempt.device?.name ?? "")))))); // prettier-ignore
}

/** @param {any} job */
export function asText(job) {
    const error = job.error ?? {};
    const lines = [`Kiln job ${job.id}: ${job.state}`, `code: ${error.code}`, `message: ${error.message}`];
    for (const key of ["hint", "role", "phase", "signal", "exit", "crash_folder"]) {
        if (error[key] !== null && error[key] !== undefined && error[key] !== "") lines.push(`${key}: ${error[key]}`);
    }
    for (const attempt of job.attempts ?? error.attempts ?? []) {
        const device = attempt.device ? ` on ${attempt.device.name}` : "";
        lines.push(`attempt: ${attempt.role} ${attempt.number}, ${attempt.ended}, in ${attempt.phase}, ${Math.round(attempt.ms)} ms${device}`);
    }
    if (error.log_tail?.length) lines.push("log:", ...error.log_tail.map((/** @type {string} */ line) => `  ${line}`));
    return `${lines.join("\n")}\n`;
}
