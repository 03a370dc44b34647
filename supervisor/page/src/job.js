// One job's page: what it does now, and what came of it.

import { call, json, Problem, sleep } from "./api.js";
import { ask } from "./ask.js";
import { fill, h, say, terms } from "./dom.js";
import { follow } from "./events.js";
import { adapter, attempts, failure } from "./failure.js";
import { saver } from "./files.js";
import { ago, count, decibel, percent, size, span, words } from "./format.js";
import { rememberAs } from "./inputs.js";
import { badge, nameOf } from "./jobs.js";
import { inWords } from "./labels.js";
import { showResult } from "./result.js";
import { stages } from "./stages.js";
import { apply, begin, isOver, settle } from "./timeline.js";

/** Between two looks at the place in the queue. */
const LOOK_MS = 1500;

/** @param {string} id @param {AbortSignal} signal @param {(text: string) => void} announce */
export async function jobPage(id, signal, announce) {
    const response = await call(`/v1/jobs/${id}`, { signal });
    let job = await response.json();
    /** How far this clock is ahead of the sidecar's, in ms. */
    const ahead = Date.now() - (Date.parse(response.headers.get("date") ?? "") || Date.now());
    let line = begin();
    const title = h("h1", { tabindex: -1 }, nameOf(job));
    const state = h("span", { class: "row" });
    const cancel = h("button", { type: "button", onclick: () => call(`/v1/jobs/${id}/cancel`, { method: "POST" }).catch(complain) }, "Cancel");
    const retry = h("button", { type: "button", onclick: () => again() }, "Try again");
    const other = h("a", { class: "button", href: `#/again/${id}` }, "Bake again with other options");
    const forget = h("button", { type: "button", onclick: remove }, "Delete");
    const wrong = h("p", { class: "error", role: "alert" });
    const course = stages();
    const warnings = h("ul", { class: "warnings" });
    const outcome = h("div");
    const facts = h("div", { class: "below" });
    const element = h("article", { class: "job" },
        h("p", null, h("a", { href: "#/" }, "All jobs")),
        h("div", { class: "head" }, title, state, h("div", { class: "row actions" }, cancel, retry, other, forget)),
        wrong, course.element, warnings, outcome, facts); // prettier-ignore

    async function remove() {
        if (!(await ask("Delete this job and its files? This cannot be undone.", "Delete"))) return;
        try {
            await call(`/v1/jobs/${id}`, { method: "DELETE" });
            location.hash = "#/";
        } catch (error) {
            complain(error);
        }
    }

    /** The same job once more, from the files that the sidecar has. */
    async function again() {
        retry.setAttribute("disabled", "");
        try {
            const headers = { "Idempotency-Key": crypto.randomUUID(), "Content-Type": "application/json" };
            const next = await json("/v1/jobs", { method: "POST", headers, body: JSON.stringify(job.spec), signal });
            rememberAs(id, next.id);
            location.hash = `#/jobs/${next.id}`;
        } catch (error) {
            const gone = error instanceof Problem && error.field === "files";
            complain(gone ? { message: "The sidecar has no longer all files of this job: drop them anew." } : error);
            retry.removeAttribute("disabled");
        }
    }

    /** @param {any} error */
    function complain(error) {
        say(wrong, inWords(error.message));
    }

    /** Seconds since the sidecar began the job. */
    const elapsed = () => (job.started_at ? (Date.now() - ahead - Date.parse(job.started_at)) / 1000 : null);

    function show() {
        const over = isOver(job.state);
        const waits = job.state === "queued" && typeof job.position === "number";
        const note = waits ? (job.position === 0 ? "next in the queue" : `${job.position} before it`) : ago(job.created_at);
        fill(state, badge(job.state), h("span", { class: "hint" }, note));
        cancel.hidden = over;
        forget.hidden = other.hidden = !over;
        retry.hidden = !over || job.state === "succeeded";
        const lines = line.log.filter(({ text }) => !text.startsWith("done in "));
        const told = over ? (job.warnings ?? []) : lines;
        fill(warnings, told.map((/** @type {any} */ warning) => h("li", null, h("strong", null, warning.role), " ", inWords(warning.text))));
        course.update(line, elapsed());
    }

    async function finish() {
        show();
        announce(`${nameOf(job)} has ${job.state === "succeeded" ? "succeeded" : words(job.state)}.`);
        fill(facts, about(job, null));
        if (job.state !== "succeeded") {
            course.element.hidden = line.stages.every((stage) => stage.phases.length === 0);
            fill(outcome, failure(job));
            return;
        }
        const known = job.artifacts.find((/** @type {any} */ entry) => entry.name === "report.json");
        const report = known ? json(known.href, { signal }).catch(() => null) : Promise.resolve(null);
        report.then((read) => {
            if (!read || signal.aborted) return;
            settle(line, read);
            course.update(line, elapsed());
            fill(facts, about(job, read));
        });
        // What came of it goes first; how long it took is for who asks.
        facts.before(course.element);
        await showResult(outcome, job, report, signal);
    }

    show();
    (async () => {
        // The place in the queue is in no event.
        while (!signal.aborted && job.state === "queued" && line.state === "queued") {
            await sleep(LOOK_MS, signal);
            if (line.state === "queued") job = await json(`/v1/jobs/${id}`, { signal }).catch(() => job);
            if (!isOver(job.state)) show();
        }
    })().catch(() => {});
    follow(id, signal, {
        event(name, data) {
            apply(line, name, data);
            if (name === "done") job = data;
            else if (line.state !== job.state) job = { ...job, state: line.state, started_at: job.started_at ?? new Date(Date.now() - ahead).toISOString() };
            show();
        },
        async again() {
            const fresh = await json(`/v1/jobs/${id}`, { signal });
            const anew = fresh.starts !== job.starts;
            job = fresh;
            if (anew) line = begin();
            show();
            return anew;
        },
    })
        .then(async () => {
            if (signal.aborted) return;
            if (!isOver(job.state)) job = await json(`/v1/jobs/${id}`, { signal });
            await finish();
        })
        .catch((error) => signal.aborted || complain(error instanceof Problem && error.status === 404 ? { message: "This job was forgotten." } : error));
    return { element, title };
}

/** Figures and files. @param {any} job @param {any} report */
function about(job, report) {
    const { prepare, bake, encode } = report ?? {};
    const device = job.device ?? report?.device;
    const edge = prepare?.texture?.size ?? report?.options.texture_size;
    const pages = report?.options.pages ?? 1;
    const rows = /** @type {[string, any][]} */ ([
        ["Baked by", device && adapter(device)],
        ["Time", report && span(report.ms / 1000)],
        ["PSNR of the fit", report?.psnr?.train_db != null ? decibel(report.psnr.train_db) : null],
        ["PSNR held out", report?.psnr?.holdout_db != null ? decibel(report.psnr.holdout_db) : null],
        ["Triangles", prepare && count(prepare.triangles)],
        ["Unwrap", prepare && `${words(typeof prepare.unwrap === "string" ? prepare.unwrap : Object.keys(prepare.unwrap)[0])}, ${count(prepare.charts)} charts, ${percent(prepare.atlas_utilisation)} of the atlas`],
        ["Texels seen", bake && `${percent(bake.observed_texels / Math.max(1, bake.chart_texels))} of ${count(bake.chart_texels)}`],
        ["Seams", bake && `${(bake.seam_residual * 255).toFixed(2)} / 255`],
        ["Views", prepare && `${prepare.views}${prepare.holdout_views ? ` and ${prepare.holdout_views} held out` : ""}`],
        ["Texture", encode && `${pages > 1 ? `${pages} of ` : ""}${edge} × ${edge}, ${size(encode.png_bytes)}`],
        ["Memory", report && size(1024 * Math.max(report.peak.prepare_rss_kib ?? 0, report.peak.bake_rss_kib ?? 0, report.peak.encode_rss_kib ?? 0))],
        ["Tried again", (job.attempts ?? []).filter((/** @type {any} */ attempt) => attempt.number > 1).map((/** @type {any} */ attempt) => attempt.role).join(", ")],
        ["Begun", job.starts > 1 ? `${job.starts} times` : null],
        ["Expires", job.expires_at && new Date(job.expires_at).toLocaleString()],
        ["Job", h("code", null, job.id)],
    ]); // prettier-ignore
    return [
        h("section", { "aria-labelledby": "files-title" }, h("h2", { id: "files-title" }, "Files"),
            job.artifacts.length > 0 ? h("ul", { class: "files" }, job.artifacts.map(download)) : h("p", { class: "hint" }, "None.")),
        h("section", { "aria-labelledby": "facts-title" }, h("h2", { id: "facts-title" }, "Figures"), terms(rows.filter(([, value]) => value))),
        job.state === "succeeded" && h("details", null, h("summary", null, "Processes and options"), attempts(job.attempts ?? []),
            h("pre", { tabindex: 0, "aria-label": "Options" }, JSON.stringify(brief(job.spec), null, 1))),
    ]; // prettier-ignore
}

/** The options without a hundred digests. @param {any} spec */
function brief(spec) {
    const source = (/** @type {any} */ from) => (from?.files ? { main: from.main, files: Object.keys(from.files).length } : from);
    return { ...spec, mesh: source(spec.mesh), views: source(spec.views), original: source(spec.original) };
}

/** @param {any} artifact */
function download(artifact) {
    return h("li", null, saver(artifact, artifact.name), " ", h("span", { class: "hint" }, size(artifact.bytes)));
}
