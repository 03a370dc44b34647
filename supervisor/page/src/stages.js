// A timeline → three columns, one for each process, with its phases as they come and go.

import { fill, h, say } from "./dom.js";
import { left, percent, span } from "./format.js";
import { doing } from "./labels.js";
import { isOver, timeLeft } from "./timeline.js";

const TITLES = { prepare: "Prepare", bake: "Bake", encode: "Encode" };
const MEANING = { waiting: "waits", working: "at work", done: "done", failed: "failed" };

export function stages() {
    const meter = h("progress", { class: "whole", max: 1, value: 0, "aria-label": "Progress of the job" });
    const share = h("span", { class: "share" });
    const columns = h("ol", { class: "stages", "aria-label": "Stages" });
    const element = h("section", { "aria-label": "Progress" }, h("div", { class: "row" }, meter, share), columns);
    /** @type {Map<string, {column: HTMLElement, state: HTMLElement, phases: HTMLElement}>} */
    const known = new Map();

    /** @param {import("./timeline.js").Timeline} line @param {number | null} elapsed seconds since it began */
    function update(line, elapsed) {
        meter.value = line.progress;
        meter.hidden = share.hidden = line.state === "queued" || isOver(line.state);
        const rest = timeLeft(line, elapsed);
        say(share, percent(line.progress) + (rest === null ? "" : `, ${left(rest)}`));
        for (const stage of line.stages) {
            let entry = known.get(stage.role);
            if (!entry) {
                const [state, phases] = [h("span", { class: "state" }), h("ul")];
                const column = h("li", null, h("h2", null, TITLES[stage.role], " ", state), phases);
                entry = { column, state, phases };
                known.set(stage.role, entry);
                columns.append(column);
            }
            entry.column.dataset.state = stage.state;
            const missed = isOver(line.state) && stage.state === "waiting";
            say(entry.state, stage.took ?? (missed ? "not done" : MEANING[stage.state]));
            fill(entry.phases, stage.phases.map((phase) => {
                const { ms } = /** @type {any} */ (phase);
                let figure = phase.done ? (ms === undefined ? "✓" : span(ms / 1000)) : isOver(line.state) ? "" : "…";
                if (!phase.done && phase.fraction !== null) {
                    figure = percent(phase.fraction) + (phase.eta ? `, ${span(phase.eta)} left` : "");
                }
                return h("li", { class: phase.done ? "done" : "now" }, h("span", null, doing(phase.name)), h("span", { class: "figure" }, figure));
            })); // prettier-ignore
        }
    }
    return { element, update };
}
