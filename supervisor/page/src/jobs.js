// The list of jobs, newest first: asked for again and again while somebody looks, and changed only where it differs.

import { call, json, sleep } from "./api.js";
import { fill, h, say } from "./dom.js";
import { ago, percent, words } from "./format.js";
import { viewsOf } from "./inputs.js";
import { doing, failed } from "./labels.js";
import { thumb } from "./thumbs.js";
import { isOver } from "./timeline.js";

const PAGE = 50;
/** Between two looks, while something happens and while nothing does. */
const [BUSY_MS, IDLE_MS, HIDDEN_MS] = [1000, 3000, 15_000];
/** Positions in the queue are known job by job; more are not asked for. */
const POSITIONS = 8;

/** A word with a shape of its own, not a colour alone. @param {string} state */
export function badge(state) {
    return h("span", { class: "badge", "data-state": state }, words(state));
}

/** What a job is called: its name, or its mesh's. @param {any} job */
export function nameOf(job) {
    const file = job.spec?.mesh?.main ?? job.spec?.mesh?.path?.split("/").pop();
    return job.name || file || `Job ${job.id.slice(0, 8)}`;
}

/** Small pictures by job, once drawn: they outlive the list. @type {Map<string, HTMLCanvasElement>} */
const pictures = new Map();

/**
 * The first view of a job, or else its contact sheet; the job is asked for only where somebody looks.
 * @param {string} id @param {(job: any) => void} tell what a list does not say of it
 */
function pictureOf(id, tell) {
    const known = pictures.get(id);
    if (known && !known.classList.contains("broken")) return known;
    const canvas = thumb(async () => {
        const job = await json(`/v1/jobs/${id}`);
        tell(job);
        const views = await viewsOf(job);
        if (views && views.length > 0) return views[0].picture();
        const sheet = job.artifacts.find((/** @type {any} */ entry) => entry.name === "preview.png");
        if (!sheet) throw new Error("it has no picture");
        return (await call(sheet.href)).blob();
    }, 48);
    pictures.set(id, canvas);
    return canvas;
}

/** @param {AbortSignal} signal */
export function jobList(signal) {
    const list = h("ol", { class: "jobs" });
    const empty = h("p", { class: "hint", hidden: true }, "No jobs yet.");
    const more = h("button", { type: "button", class: "plain", hidden: true, onclick: () => {
        limit += PAGE;
        look();
    } }, "Older jobs"); // prettier-ignore
    const element = h("section", { "aria-labelledby": "jobs-title" }, h("h2", { id: "jobs-title" }, "Jobs"), empty, list, more);
    /** @type {Map<string, ReturnType<typeof row>>} */
    const rows = new Map();
    /** @type {Map<string, {tag: string, position: number | null}>} */
    const positions = new Map();
    let limit = PAGE;
    let busy = false;

    async function look() {
        /** @type {any[]} */
        const jobs = [];
        let cursor = null;
        do {
            const page = await json(`/v1/jobs?limit=${PAGE}${cursor ? `&cursor=${cursor}` : ""}`, { signal });
            jobs.push(...page.jobs);
            cursor = page.cursor;
        } while (cursor && jobs.length < limit);
        busy = jobs.some((job) => !isOver(job.state));
        // The oldest of those that wait are next.
        const waiting = jobs.filter((job) => job.state === "queued").slice(-POSITIONS);
        await Promise.all(waiting.map((job) => position(job.id)));
        show(jobs);
        more.hidden = !cursor;
    }

    /** @param {string} id */
    async function position(id) {
        const known = positions.get(id);
        const headers = known ? { "If-None-Match": known.tag } : {};
        const response = await call(`/v1/jobs/${id}`, { headers, signal, accept: [304, 404, 410] });
        if (response.ok) positions.set(id, { tag: response.headers.get("etag") ?? "", position: (await response.json()).position ?? null });
    }

    /** @param {any[]} jobs */
    function show(jobs) {
        empty.hidden = jobs.length > 0;
        const ids = new Set(jobs.map((job) => job.id));
        for (const [id, known] of rows) {
            if (ids.has(id)) continue;
            known.element.remove();
            rows.delete(id);
        }
        let before = null;
        for (const job of jobs) {
            const known = rows.get(job.id) ?? row(job);
            rows.set(job.id, known);
            known.update(job, positions.get(job.id)?.position ?? null);
            const place = before ? /** @type {Element} */ (before).nextSibling : list.firstChild;
            if (place !== known.element) list.insertBefore(known.element, place);
            before = known.element;
        }
    }

    (async () => {
        while (!signal.aborted) {
            try {
                await look();
            } catch {
                // The banner says it; the list stays as it was.
            }
            await sleep(document.hidden ? HIDDEN_MS : busy ? BUSY_MS : IDLE_MS, signal).catch(() => {});
        }
    })();
    return element;
}

/** @param {any} job */
function row(job) {
    const [state, note, age] = [h("span"), h("span", { class: "note" }), h("time", { datetime: job.created_at })];
    const meter = h("progress", { max: 1, value: 0, "aria-label": "Progress" });
    const link = h("a", { href: `#/jobs/${job.id}`, class: "name" }, nameOf(job));
    const draw = () => pictureOf(job.id, (whole) => say(link, nameOf(whole)));
    let picture = draw();
    const element = h("li", null, picture, link, age, h("span", { class: "what" }, state, note), meter);
    let shown = "";
    return {
        element,
        /** @param {any} job @param {number | null} position */
        update(job, position) {
            if (shown !== job.state) fill(state, badge(job.state));
            // Of splats there is a picture only now.
            if (shown !== job.state && job.state === "succeeded" && picture.classList.contains("broken")) {
                const fresh = draw();
                picture.replaceWith(fresh);
                picture = fresh;
            }
            shown = job.state;
            meter.hidden = isOver(job.state) || job.state === "queued";
            meter.value = job.progress;
            say(age, ago(job.created_at));
            let text = "";
            if (job.state === "queued" && position !== null) text = position === 0 ? "next" : `${position} before it`;
            else if (!meter.hidden) text = `${percent(job.progress)} ${doing(job.phase)}`;
            else if (job.state === "failed") text = failed(job.error?.code);
            say(note, text);
        },
    };
}
