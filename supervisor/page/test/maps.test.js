// Codes of maps → words, against what the map's own description says; palettes of indexed PNGs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { meaning, paletteOf } from "../src/maps.js";

test("codes mean what the files say of them", () => {
    assert.equal(meaning("coverage", 0), "outside every chart");
    assert.equal(meaning("coverage", 1), "seen by no view, filled in");
    assert.equal(meaning("coverage", 66), "seen by 1 pixel");
    assert.equal(meaning("coverage", 66 + 64), "seen by 16 pixels");
    assert.equal(meaning("coverage", 50), "seen by 0.5 pixels");
    assert.equal(meaning("residual", 2), "0.0 of 255 apart");
    assert.equal(meaning("residual", 255), "63.8 of 255 apart");
});

test("a palette is found among the chunks of a PNG", () => {
    const chunk = (/** @type {string} */ name, /** @type {number[]} */ data) => {
        const length = [0, 0, data.length >> 8, data.length & 255];
        return [...length, ...new TextEncoder().encode(name), ...data, 0, 0, 0, 0];
    };
    const bytes = [137, 80, 78, 71, 13, 10, 26, 10, ...chunk("IHDR", Array(13).fill(0)), ...chunk("PLTE", [1, 2, 3, 9, 9, 9, 1, 2, 3])];
    const codes = paletteOf(new Uint8Array([...bytes, ...chunk("IEND", [])]).buffer);
    assert.deepEqual([...codes], [[0x010203, 0], [0x090909, 1]]); // prettier-ignore
});
