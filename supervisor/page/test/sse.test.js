// The parser of event streams, against the rules of the HTML standard and against cuts anywhere.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SseParser } from "../src/sse.js";

const STREAM = [
    "\uFEFF: a comment\r\n", "retry: 1000\r\n", "id: 1\r\n", "event: state\r\n", 'data: {"state":"queued"}\r\n', "\r\n",
    "id: 2\n", "data:first\n", "data: second\n", "data\n", "\n", "event: nothing\n", "\n", "id: bad\0id\rdata:  x\r\r",
    "retry: soon\n", "unknown: y\n", "data: last\n", "\n",
].join(""); // prettier-ignore
const WANTED = [
    { event: "state", data: '{"state":"queued"}', id: "1" },
    { event: "message", data: "first\nsecond\n", id: "2" },
    { event: "message", data: " x", id: "2" },
    { event: "message", data: "last", id: "2" },
];

test("an event stream is read as the standard says", () => {
    const parser = new SseParser();
    assert.deepEqual(parser.push(STREAM), WANTED);
    assert.equal(parser.retry, 1000);
    assert.equal(parser.id, "2");
});

test("pieces may be cut anywhere", () => {
    for (let size = 1; size < 12; size++) {
        const parser = new SseParser();
        const events = [];
        for (let at = 0; at < STREAM.length; at += size) events.push(...parser.push(STREAM.slice(at, at + size)));
        assert.deepEqual(events, WANTED, `pieces of ${size}`);
    }
});

test("an event that the stream breaks off in is not told", () => {
    const parser = new SseParser();
    assert.deepEqual(parser.push("data: half"), []);
    assert.deepEqual(parser.push("\n"), []);
    assert.equal(parser.push("\n").length, 1);
});
