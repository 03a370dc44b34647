// A job's events → what its three processes have done so far: pure, so that a stream told twice gives the same picture.

/** @typedef {"prepare" | "bake" | "encode"} Role */
/** @typedef {{name: string, fraction: number | null, eta: number | null, done: boolean}} Phase */
/** @typedef {{role: Role, phases: Phase[], state: "waiting" | "working" | "done" | "failed", took: string | null}} Stage */
/** @typedef {{state: string, progress: number, stages: Stage[], log: {role: string, text: string}[], retries: number}} Timeline */

/** Lines of the log that are kept. */
const LINES = 200;

/** Nothing follows. @param {string} state */
export const isOver = (state) => ["succeeded", "failed", "cancelled"].includes(state);

/** @returns {Timeline} */
export function begin() {
    const roles = /** @type {Role[]} */ (["prepare", "bake", "encode"]);
    const stages = roles.map((role) => ({ role, phases: [], state: /** @type {const} */ ("waiting"), took: null }));
    return { state: "queued", progress: 0, stages, log: [], retries: 0 };
}

/** @param {Timeline} line @param {string} name @param {any} data what the event told */
export function apply(line, name, data) {
    if (name === "state") {
        if (data.requeued || (data.state === "queued" && line.state !== "queued")) Object.assign(line, begin());
        line.state = data.state;
        if (data.state === "retrying") line.retries += 1;
    } else if (name === "progress") {
        line.progress = Math.max(line.progress, data.progress);
        const stage = line.stages.find(({ role }) => role === data.role);
        if (!stage) return;
        stage.state = "working";
        stage.took = null;
        let phase = stage.phases.find((known) => known.name === data.phase);
        if (!phase) {
            for (const known of stage.phases) known.done = true;
            phase = { name: data.phase, fraction: null, eta: null, done: false };
            stage.phases.push(phase);
        }
        Object.assign(phase, { fraction: data.fraction, eta: data.eta_s, done: data.fraction === 1 });
    } else if (name === "log") {
        line.log.push({ role: data.role, text: data.text });
        if (line.log.length > LINES) line.log.shift();
        const stage = line.stages.find(({ role }) => role === data.role);
        const took = /^done in (.*)$/.exec(data.text);
        if (stage && took) {
            stage.state = "done";
            stage.took = took[1];
            for (const phase of stage.phases) phase.done = true;
        } else if (stage && data.text.includes(": trying again")) {
            stage.phases = [];
            stage.state = "working";
        }
    } else if (name === "done") {
        line.state = data.state;
        line.progress = data.state === "succeeded" ? 1 : line.progress;
        for (const stage of line.stages) {
            if (data.state === "succeeded") stage.state = "done";
            else if (data.error?.role === stage.role) stage.state = "failed";
            else if (stage.state === "working") stage.state = "waiting";
        }
    }
}

/**
 * Seconds until the job is done: in proportion to what is done, and no less than what is at work asks for.
 * @param {Timeline} line @param {number | null} elapsed seconds since it began @returns {number | null} none where nobody can say yet
 */
export function timeLeft(line, elapsed) {
    const etas = line.stages.flatMap(({ phases }) => phases.flatMap(({ done, eta }) => (done || eta === null ? [] : [eta])));
    const asked = Math.max(0, ...etas);
    const known = elapsed !== null && elapsed > 0 && line.progress >= 0.05;
    const rest = known ? (elapsed * (1 - line.progress)) / line.progress : 0;
    return known || asked > 0 ? Math.max(asked, rest) : null;
}

/** The true times, once the report has them. @param {Timeline} line @param {any} report */
export function settle(line, report) {
    for (const stage of line.stages) {
        const role = report.roles?.find((/** @type {any} */ entry) => entry.role === stage.role);
        if (role) stage.took = `${(role.ms / 1000).toFixed(role.ms < 10_000 ? 2 : 1)} s`;
        const phases = (report.stages ?? []).filter((/** @type {any} */ entry) => entry.role === stage.role);
        if (phases.length > 0) {
            stage.phases = phases.map((/** @type {any} */ entry) => {
                return { name: entry.phase, fraction: 1, eta: null, done: true, ms: entry.ms };
            });
        }
    }
}
