// A job's events, once and twice and with retries → stages; metrics; words.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ago, size, span } from "../src/format.js";
import { apply, begin, settle } from "../src/timeline.js";

const progress = (role, phase, fraction, whole) => ["progress", { role, phase, fraction, eta_s: null, progress: whole }];
const EVENTS = [
    ["state", { state: "queued" }],
    ["state", { state: "preparing" }],
    progress("prepare", "load_mesh", 1, 0.02),
    progress("bake", "open_device", 0.5, 0.02),
    progress("prepare", "unwrap", 0.5, 0.1),
    ["log", { role: "prepare", text: "done in 2.5 s" }],
    ["state", { state: "baking" }],
    progress("bake", "fit", 0.25, 0.5),
    ["state", { state: "retrying" }],
    ["log", { role: "bake", text: "SIGSEGV in fit: trying again with the same plan" }],
    ["state", { state: "baking" }],
    progress("bake", "fit", 0.1, 0.5),
];

const play = (events) => {
    const line = begin();
    for (const [name, data] of events) apply(line, name, data);
    return line;
};

test("stages follow the events", () => {
    const line = play(EVENTS);
    const [prepare, bake, encode] = line.stages;
    assert.deepEqual([prepare.state, prepare.took, prepare.phases.map(({ done }) => done)], ["done", "2.5 s", [true, true]]);
    assert.deepEqual([bake.state, bake.phases], ["working", [{ name: "fit", fraction: 0.1, eta: null, done: false }]]);
    assert.deepEqual([encode.state, line.state, line.progress, line.retries], ["waiting", "baking", 0.5, 1]);
});

test("a job that the sidecar begins anew starts from nothing", () => {
    const line = play([...EVENTS, ["state", { state: "queued", requeued: true }]]);
    assert.deepEqual(line, begin());
    assert.deepEqual(play([...EVENTS, ["state", { state: "queued", requeued: true }], ...EVENTS]), play(EVENTS));
});

test("the end says which process was at fault, and the report gives true times", () => {
    const failed = play([...EVENTS, ["done", { state: "failed", error: { role: "bake" } }]]);
    assert.deepEqual(failed.stages.map(({ state }) => state), ["done", "failed", "waiting"]); // prettier-ignore
    const done = play([...EVENTS, ["done", { state: "succeeded" }]]);
    settle(done, { roles: [{ role: "bake", ms: 1234 }], stages: [{ role: "bake", phase: "fit", ms: 1000 }] });
    assert.deepEqual([done.stages[1].took, done.stages[1].phases[0].ms, done.progress], ["1.23 s", 1000, 1]);
});

test("numbers read as people write them", () => {
    assert.deepEqual([0, 1023, 1536, 20 << 20, 3 * 2 ** 30].map(size), ["0 B", "1023 B", "1.5 KiB", "20 MiB", "3.0 GiB"]);
    assert.deepEqual([0.04, 9.96, 75, 3700].map(span), ["0.0 s", "10 s", "1 min 15 s", "1 h 01 min"]);
    assert.deepEqual([0, 15, 90, 7200].map((s) => ago(0, s * 1000)), ["just now", "15 s ago", "1 min ago", "2 h ago"]); // prettier-ignore
});
